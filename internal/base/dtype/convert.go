package dtype

import (
	"fmt"
	"unsafe"
)

// View reads bytes as elements of the machine's byte order. They may lie at any
// address: the processors this runs on load unaligned words, and Go asks for
// alignment only of types that hold pointers.
func View[E Element](b []byte) []E {
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(E))))
}

// Bytes is the inverse of View: the memory of elements.
func Bytes[E Element](elements []E) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements)*int(unsafe.Sizeof(*new(E))))
}

// Get is the value of element i. Integers beyond 2^53 are rounded.
func (d DType) Get(b []byte, i int) float64 {
	var v [1]float64
	d.Decode(v[:], b[i*d.Size():(i+1)*d.Size()])
	return v[0]
}

// Put rounds a value to element i, as Encode does.
func (d DType) Put(b []byte, i int, v float64) {
	d.Encode(b[i*d.Size():(i+1)*d.Size()], []float64{v})
}

// convert sets the elements of dst to those of src, each as another type has it.
func convert[To, From any](dst []To, src []From, as func(From) To) {
	for i, v := range src {
		dst[i] = as(v)
	}
}

// Decode gives the values of all elements of src; dst has room for them.
func (d DType) Decode(dst []float64, src []byte) {
	switch d {
	case F64:
		copy(dst, View[float64](src))
	case F32, TF32:
		convert(dst, View[float32](src), func(v float32) float64 { return float64(v) })
	case F16:
		convert(dst, View[Float16](src), func(v Float16) float64 { return float64(v.Float32()) })
	case BF16:
		convert(dst, View[BFloat16](src), func(v BFloat16) float64 { return float64(v.Float32()) })
	case I64:
		convert(dst, View[int64](src), func(v int64) float64 { return float64(v) })
	case I32:
		convert(dst, View[int32](src), func(v int32) float64 { return float64(v) })
	case U8:
		convert(dst, src, func(v uint8) float64 { return float64(v) })
	case E4M3:
		convert(dst, src, func(v uint8) float64 { return float64(Float8(v).Float32()) })
	default:
		panic(fmt.Sprintf("dtype: values of %v", d))
	}
}

// Encode rounds the values to elements, to nearest, ties to even. A value is
// rounded to float32 first, then to 16 bits, as in the kernels; integers are truncated and wrap
// around.
func (d DType) Encode(dst []byte, src []float64) {
	switch d {
	case F64:
		copy(View[float64](dst), src)
	case F32:
		convert(View[float32](dst), src, func(v float64) float32 { return float32(v) })
	case F16:
		convert(View[Float16](dst), src, func(v float64) Float16 { return Float16From(float32(v)) })
	case BF16:
		convert(View[BFloat16](dst), src, func(v float64) BFloat16 { return BFloat16From(float32(v)) })
	case I64:
		convert(View[int64](dst), src, func(v float64) int64 { return int64(v) })
	case I32:
		convert(View[int32](dst), src, func(v float64) int32 { return int32(int64(v)) })
	case U8:
		convert(dst, src, func(v float64) uint8 { return uint8(int64(v)) })
	case TF32:
		convert(View[float32](dst), src, func(v float64) float32 { return tensorFloat(float32(v)) })
	case E4M3:
		convert(dst, src, func(v float64) uint8 { return uint8(Float8From(float32(v))) })
	default:
		panic(fmt.Sprintf("dtype: elements of %v", d))
	}
}

// Round makes each value what an element holds of it.
func (d DType) Round(v []float64) {
	switch d {
	case F64:
	case F32:
		convert(v, v, func(x float64) float64 { return float64(float32(x)) })
	case F16:
		convert(v, v, func(x float64) float64 { return float64(Float16From(float32(x)).Float32()) })
	case BF16:
		convert(v, v, func(x float64) float64 { return float64(BFloat16From(float32(x)).Float32()) })
	case I64:
		convert(v, v, func(x float64) float64 { return float64(int64(x)) })
	case I32:
		convert(v, v, func(x float64) float64 { return float64(int32(int64(x))) })
	case U8:
		convert(v, v, func(x float64) float64 { return float64(uint8(int64(x))) })
	case TF32:
		convert(v, v, func(x float64) float64 { return float64(tensorFloat(float32(x))) })
	case E4M3:
		convert(v, v, func(x float64) float64 { return float64(Float8From(float32(x)).Float32()) })
	default:
		panic(fmt.Sprintf("dtype: values of %v", d))
	}
}
