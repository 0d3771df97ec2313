package vec

import (
	"fmt"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// portable holds every kernel in plain Go. It defines the results, and it is all there is on processors without
// assembly. It never streams.
var portable = table{
	dtype.F64:  scalable(same[float64], same[float64]),
	dtype.F32:  scalable(same[float32], same[float32]),
	dtype.F16:  scalable(widenF16, narrowF16),
	dtype.BF16: scalable(widenBF16, narrowBF16),
	dtype.I64:  loops(same[int64], same[int64]),
	dtype.I32:  loops(same[int32], same[int32]),
	dtype.U8:   loops(same[uint8], same[uint8]),
}

// number is a type in which elements are combined.
type number interface {
	float64 | float32 | int64 | int32 | uint8
}

// loops returns the kernels of a type whose elements are stored as T and combined as N. load and store convert a block
// of elements.
func loops[T dtype.Element, N number](load func([]N, []T), store func([]T, []N)) (ops [numOps]loop) {
	for op := Sum; op <= Max; op++ {
		ops[op] = blockwise(op, load, store)
	}
	return ops
}

func scalable[T dtype.Element, N number](load func([]N, []T), store func([]T, []N)) [numOps]loop {
	ops := loops(load, store)
	ops[scaledSum] = blockwise(scaledSum, load, store)
	return ops
}

// blockwise processes the arrays in blocks that stay in the first-level cache, so that choosing the operation costs
// nothing. It writes a block of the destination only after it has read all sources, because the destination may be one
// of them.
func blockwise[T dtype.Element, N number](op Op, load func([]N, []T), store func([]T, []N)) loop {
	const count = 256
	size := int(unsafe.Sizeof(*new(T)))
	return func(dst []byte, srcs [][]byte, scale float64, from, to int, _ bool) {
		var a, b [count]N
		for from < to {
			end := min(from+count*size, to)
			acc, next := unescaped(a[:(end-from)/size]), unescaped(b[:(end-from)/size])
			load(acc, dtype.View[T](srcs[0][from:end]))
			if op == scaledSum {
				for i := range acc {
					acc[i] *= N(scale)
				}
			}
			for _, src := range srcs[1:] {
				load(next, dtype.View[T](src[from:end]))
				combine(op, acc, next)
			}
			store(dtype.View[T](dst[from:end]), acc)
			from = end
		}
	}
}

// combine sets acc = acc op next, element by element.
func combine[N number](op Op, acc, next []N) {
	next = next[:len(acc)] // one bounds check instead of one per element
	switch op {
	case Sum, scaledSum:
		for i := range acc {
			acc[i] += next[i]
		}
	case Prod:
		for i := range acc {
			acc[i] *= next[i]
		}
	case Min:
		for i := range acc {
			acc[i] = min(acc[i], next[i])
		}
	case Max:
		for i := range acc {
			acc[i] = max(acc[i], next[i])
		}
	}
}

func same[N number](to, from []N) { copy(to, from) }

func widenF16(to []float32, from []dtype.Float16) {
	for i, h := range from {
		to[i] = h.Float32()
	}
}

func widenBF16(to []float32, from []dtype.BFloat16) {
	for i, h := range from {
		to[i] = h.Float32()
	}
}

func narrowF16(to []dtype.Float16, from []float32) {
	for i, f := range from {
		to[i] = dtype.Float16From(f)
	}
}

func narrowBF16(to []dtype.BFloat16, from []float32) {
	for i, f := range from {
		to[i] = dtype.BFloat16From(f)
	}
}

// Widen converts elements of type F32, F16 or BF16 to float32, which is exact. The assembly may turn a signalling NaN
// into a quiet one.
func Widen(dst []float32, src []byte, d dtype.DType) {
	done := widenFast(dst, src, d)
	switch src = src[done*d.Size():]; d {
	case dtype.F32:
		copy(dst[done:], dtype.View[float32](src))
	case dtype.F16:
		widenF16(dst[done:], dtype.View[dtype.Float16](src))
	case dtype.BF16:
		widenBF16(dst[done:], dtype.View[dtype.BFloat16](src))
	default:
		panic(fmt.Sprintf("vec: widening %v", d))
	}
}

// Narrow rounds src to elements of type F32, F16 or BF16, to nearest, ties to even. A NaN stays a NaN.
func Narrow(dst []byte, src []float32, d dtype.DType) {
	done := narrowFast(dst, src, d)
	dst, src = dst[done*d.Size():], src[done:]
	switch d {
	case dtype.F32:
		copy(dtype.View[float32](dst), src)
	case dtype.F16:
		narrowF16(dtype.View[dtype.Float16](dst), src)
	case dtype.BF16:
		narrowBF16(dtype.View[dtype.BFloat16](dst), src)
	default:
		panic(fmt.Sprintf("vec: narrowing to %v", d))
	}
}
