// Package vec combines, scales and copies arrays element by element at the speed of memory. It is the inner loop of the
// shared-memory collectives and of vector updates.
//
// Arrays are bytes with a separate element type, like a shared-memory buffer, and may start at any address. The package
// knows nothing of ranks, threads or devices, and never starts a goroutine.
//
// # Results are independent of the machine
//
// Sources are combined from first to last. The portable Go code defines the results, and the AVX2 and AVX-512 kernels
// give the same bits. In particular:
//
//   - f16 and bf16 are widened to float32, combined there, and rounded once at the end, to nearest even.
//     Subnormals are kept.
//   - Integers wrap around.
//   - Min and Max are Go's: any NaN makes the result a NaN, and -0 is less than +0.
//   - If a result is a NaN, it is one on every machine, but its sign and payload are undefined, as in IEEE 754.
//   - A single source is copied bit by bit.
//
// # Overlap
//
// The destination may be exactly one or several of the sources. Any other overlap gives undefined contents.
//
// Different lengths, a length that is not a whole number of elements, and an empty list of sources are bugs of the
// caller and panic.
package vec

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Level is an instruction set that kernels are written for.
type Level uint8

// The levels, from slow to fast.
const (
	Portable   Level = iota // Go only
	AVX2                    // with F16C
	AVX512                  // F, BW, DQ and VL
	AVX512FP16              // AVX512 and FP16
)

// String returns the name of the level in records.
func (l Level) String() string {
	if l > AVX512FP16 {
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
	return [...]string{"portable", "avx2", "avx512", "avx512-fp16"}[l]
}

// Best returns the fastest level of this machine, which this package uses.
func Best() Level { return best }

// Op is the operation that combines two elements.
type Op uint8

// The operations. An average is a Sum followed by a ScaledSum of one source.
const (
	Sum Op = iota
	Prod
	Min
	Max

	scaledSum // the first source times a number, plus the others
	sumOfTwo  // a Sum for exactly two sources
	numOps
)

// Combining returns the operation of a reduction. An average begins as a sum.
func Combining(r dtype.Reduction) Op {
	return [...]Op{dtype.Sum: Sum, dtype.Prod: Prod, dtype.Min: Min, dtype.Max: Max, dtype.Avg: Sum}[r]
}

// String returns the name of the operation in lower case.
func (op Op) String() string {
	if op >= numOps {
		return fmt.Sprintf("Op(%d)", uint8(op))
	}
	return [...]string{"sum", "prod", "min", "max", "scaled sum", "sum of two"}[op]
}

// A loop combines the bytes [from, to) of the sources into the same bytes of the destination. Only scaled sums read
// scale. If stream is set, it writes past the caches; dst must then be aligned to a cache line at from. No loop keeps
// its arguments.
type loop func(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool)

// table holds the loops of one level, nil where it has none.
type table [dtype.U8 + 1][numOps]loop

// Kernel is the code for one element type and operation on this machine. Callers look it up once, so that hot paths
// need not choose again.
type Kernel struct {
	main loop // processes multiples of unit bytes
	two  loop // replaces main for two sources, or nil
	rest loop // processes the rest
	unit int  // unit and size are powers of two, because a division takes longer than a short sum
	size int  // of an element
}

// Lookup returns the fastest kernel of this machine.
func Lookup(d dtype.DType, op Op) Kernel {
	if op > Max {
		panic(fmt.Sprintf("vec: looking up %v: not an operation", op))
	}
	return lookup(best, d, op)
}

// lookup returns the kernel of a level. Portable loops process the rest of an array, and all of it if the level has no
// loop for this type and operation.
func lookup(level Level, d dtype.DType, op Op) Kernel {
	size := d.Size() // panics unless d is a type
	rest := portable[d][op]
	if rest == nil {
		panic(fmt.Sprintf("vec: %v of %v: want a floating-point type", op, d))
	}
	k := Kernel{main: rest, rest: rest, unit: 1, size: size}
	if fast, unit := loopsOf(level); fast[d][op] != nil {
		k.main, k.unit = fast[d][op], unit
		if op == Sum {
			k.two = fast[d][sumOfTwo]
		}
	}
	return k
}

// Reduce sets dst to srcs[0] op srcs[1] op ... in one pass over memory. It allocates nothing.
func (k Kernel) Reduce(dst []byte, srcs [][]byte) {
	k.reduce(dst, srcs, false)
}

// ReduceNT is Reduce with streaming stores, which save reading the destination from memory. Use it for a destination
// that is much larger than the caches and not read again soon. The data is visible to other processors before any store
// after ReduceNT returns.
func (k Kernel) ReduceNT(dst []byte, srcs [][]byte) {
	k.reduce(dst, srcs, true)
}

func (k Kernel) reduce(dst []byte, srcs [][]byte, stream bool) {
	k.check(dst, srcs)
	if len(srcs) == 1 {
		copyAt(best, dst, srcs[0], stream)
		return
	}
	k.run(dst, srcs, 1, stream)
}

// check panics if the arguments would make a kernel leave its arrays.
func (k Kernel) check(dst []byte, srcs [][]byte) {
	if len(srcs) == 0 {
		panic("vec: no sources")
	}
	if len(dst)&(k.size-1) != 0 {
		panic(fmt.Sprintf("vec: %d bytes are not a multiple of the element size %d", len(dst), k.size))
	}
	for i, src := range srcs {
		if len(src) != len(dst) {
			panic(fmt.Sprintf("vec: source %d has %d bytes, the destination has %d", i, len(src), len(dst)))
		}
	}
}

const (
	cacheLine = 64
	// alignFrom is the length from which it pays to align the stores: a store that crosses a cache line takes twice as
	// long.
	alignFrom = 1024
)

// run aligns the destination to a cache line with a short first piece, then processes the rest. A destination whose
// elements cross cache lines cannot be aligned, and thus not streamed to.
func (k Kernel) run(dst []byte, srcs [][]byte, scale float64, stream bool) {
	from := 0
	if stream || len(dst) >= alignFrom {
		skew := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % cacheLine)
		if skew&(k.size-1) == 0 {
			from = min(skew, len(dst))
		} else {
			stream = false
		}
	}
	k.piece(dst, srcs, scale, 0, from, false)
	k.piece(dst, srcs, scale, from, len(dst), stream)
	if stream {
		Fence()
	}
}

func (k Kernel) piece(dst []byte, srcs [][]byte, scale float64, from, to int, stream bool) {
	whole := to - (to-from)&(k.unit-1)
	main := k.main
	if len(srcs) == 2 && k.two != nil {
		main = k.two
	}
	if from < whole {
		main(unescaped(dst), unescaped(srcs), scale, from, whole, stream)
	}
	if whole < to {
		k.rest(unescaped(dst), unescaped(srcs), scale, whole, to, false)
	}
}

// unescaped hides a slice from escape analysis, which cannot see that a function value does not keep it. Without this
// every call would allocate the list of sources. The address is an integer only between two instructions, without a
// call in which the stack could move.
func unescaped[T any](s []T) []T {
	address := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	return unsafe.Slice(*(**T)(unsafe.Pointer(&address)), len(s))
}

// Reduce2 sets dst to a op b.
func Reduce2(dst, a, b []byte, d dtype.DType, op Op) {
	srcs := [2][]byte{a, b}
	Lookup(d, op).Reduce(dst, srcs[:])
}

// ReduceN combines Lookup and Kernel.Reduce.
func ReduceN(dst []byte, srcs [][]byte, d dtype.DType, op Op) {
	Lookup(d, op).Reduce(dst, srcs)
}

// ScaledSum sets dst to alpha*srcs[0] + srcs[1] + ... With one more source this is an axpy, with two a bias and a
// residual. The product is rounded before the sum and never fused. f16 and bf16 stay in float32 until the end.
func ScaledSum(dst []byte, srcs [][]byte, d dtype.DType, alpha float64) {
	scaledSumAt(best, dst, srcs, d, alpha)
}

func scaledSumAt(level Level, dst []byte, srcs [][]byte, d dtype.DType, alpha float64) {
	k := lookup(level, d, scaledSum)
	k.check(dst, srcs)
	if math.IsNaN(alpha) {
		alpha = math.NaN() // a NaN without payload in the bits that bf16 rounds off
	}
	k.run(dst, srcs, alpha, false)
}

// streamsItself is the length from which Go's copy uses streaming stores.
const streamsItself = 1 << 20

// Copy copies src to dst, which must have the same length. Unlike Go's copy, which streams long arrays past the caches,
// it leaves dst in the caches at any length, for a reader that comes soon.
func Copy(dst, src []byte) { copyAt(best, dst, src, false) }

// CopyNT copies src to dst, which must have the same length, with streaming stores. Use it for arrays much larger than
// the caches. The data is visible to other processors before any store after CopyNT returns.
func CopyNT(dst, src []byte) { copyAt(best, dst, src, true) }

// copyAt needs no kernel of its own: reducing a single source of bytes is a copy.
func copyAt(level Level, dst, src []byte, stream bool) {
	k := lookup(level, dtype.U8, Sum)
	srcs := [1][]byte{src}
	k.check(dst, srcs[:])
	if level == Portable || (!stream && len(dst) < streamsItself) {
		copy(dst, src)
		return
	}
	k.run(dst, srcs[:], 1, stream)
}
