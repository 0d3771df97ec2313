package vec

import (
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// portable has every kernel in plain Go. It is what the others must equal, and
// all there is on processors without assembly. It never streams.
var portable = table{
	dtype.F64:  scalable(same[float64], same[float64]),
	dtype.F32:  scalable(same[float32], same[float32]),
	dtype.F16:  scalable(widen[dtype.Float16], narrowF16),
	dtype.BF16: scalable(widen[dtype.BFloat16], narrowBF16),
	dtype.I64:  loops(same[int64], same[int64]),
	dtype.I32:  loops(same[int32], same[int32]),
	dtype.U8:   loops(same[uint8], same[uint8]),
}

// number is what elements are combined as.
type number interface {
	float64 | float32 | int64 | int32 | uint8
}

// loops gives the kernels of a type whose elements T lie in memory and are
// combined as N, with the conversions of a block of them.
func loops[T any, N number](load func([]N, []T), store func([]T, []N)) (ops [numOps]loop) {
	for op := Sum; op <= Max; op++ {
		ops[op] = blockwise(op, load, store)
	}
	return ops
}

func scalable[T any, N number](load func([]N, []T), store func([]T, []N)) [numOps]loop {
	ops := loops(load, store)
	ops[scaledSum] = blockwise(scaledSum, load, store)
	return ops
}

// blockwise goes over the arrays in blocks that stay in the first cache, so that
// choosing the operation costs nothing. The destination is written only when
// every source of the block was read, since it may be one of them.
func blockwise[T any, N number](op Op, load func([]N, []T), store func([]T, []N)) loop {
	const count = 256
	size := int(unsafe.Sizeof(*new(T)))
	return func(dst []byte, srcs [][]byte, scale float64, from, to int, _ bool) {
		var a, b [count]N
		for from < to {
			end := min(from+count*size, to)
			acc, next := unescaped(a[:(end-from)/size]), unescaped(b[:(end-from)/size])
			load(acc, view[T](srcs[0][from:end]))
			if op == scaledSum {
				for i := range acc {
					acc[i] *= N(scale)
				}
			}
			for _, src := range srcs[1:] {
				load(next, view[T](src[from:end]))
				combine(op, acc, next)
			}
			store(view[T](dst[from:end]), acc)
			from = end
		}
	}
}

// combine is acc = acc op next, element by element.
func combine[N number](op Op, acc, next []N) {
	next = next[:len(acc)] // once, instead of a bounds check per element
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

// view reads bytes as elements of the machine's byte order. They may lie at any
// address: the processors this runs on load unaligned words, and Go asks for
// alignment only of types that hold pointers.
func view[T any](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

func same[N number](to, from []N) { copy(to, from) }

func widen[H interface{ Float32() float32 }](to []float32, from []H) {
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
