// Package gemm multiplies matrices on this machine's processors: C = A x B in
// f64 and f32, and with f16 or bf16 operands and an f32 result.
//
// A Provider is an implementation: the one written here ("builtin") or a
// library that is opened at run time ("openblas"). Its Engine has a fixed
// number of threads and keeps them and its buffers between calls, so that a
// call starts nothing and allocates nothing. A part of C is multiplied by
// giving views: c.RowRange(i, j) with a.RowRange(i, j), or the columns of c
// with those of b.
//
// The package knows nothing of ranks, devices or time. It is not a BLAS: there
// is no alpha, no beta and no other routine.
//
// # What the result is
//
// Every element is a sum of products in the precision of C. Providers, levels
// of instructions and shapes may add in different orders and with or without
// rounding in between; one engine gives the same bits for the same shape at any
// number of threads. bf16 instructions treat subnormal operands as zero.
//
// # How the built-in one works
//
// C is cut into tiles that stay in registers (kernel.go). B is copied into
// panels as wide as a tile, in blocks that all threads pack together and share;
// blocks of A's rows are given out to the threads as they ask, copied next to
// the thread, and run along the panels (builtin.go, pack.go). The sizes of the
// blocks follow from the caches (blocks.go). What is so small that copying
// would not pay is multiplied in place (inplace.go).
package gemm
