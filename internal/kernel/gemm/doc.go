// Package gemm multiplies matrices on the CPUs of this machine: C = A x B in f64 and f32, with f16 or bf16 operands and
// an f32 result, and with i8 operands and an i32 result.
//
// A Provider is an implementation: this package's own ("builtin") or a library that is opened at run time ("openblas",
// "onednn"). Its Engine has a fixed number of threads and keeps them and its buffers between calls, so that a call
// starts and allocates nothing. To compute a part of C, pass views: c.RowRange(i, j) with a.RowRange(i, j), or columns
// of c with the same columns of b.
//
// The package knows nothing of ranks, devices or time. It is not a BLAS: there is no alpha, no beta and no other
// routine.
//
// # Precision
//
// Every element is a sum of products in the precision of C. Providers, levels and shapes may differ in the order of
// additions and in intermediate rounding. One engine gives the same bits for the same shape at any number of threads.
// bf16 instructions treat subnormal operands as zero.
//
// # How the built-in provider works
//
// C is cut into tiles that stay in registers (package tile). B is copied into panels as wide as a tile, in blocks that
// all threads pack together and share. Threads take blocks of rows of A on demand, copy them to a private buffer, and
// multiply them with the panels (builtin.go, pack.go). The sizes of the blocks follow from the sizes of the caches
// (blocks.go). Products that are too small to be worth copying are computed in place (inplace.go). With the tile
// registers of AMX, the arithmetic is so fast that another order of the same steps moves less data (strips.go,
// across.go, fewrows.go, addrows.go).
package gemm
