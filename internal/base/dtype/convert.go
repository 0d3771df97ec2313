package dtype

import (
	"fmt"
	"unsafe"
)

// View returns the bytes as elements in the byte order of the machine, without copying. E must not contain pointers.
// The bytes may be at any address: all supported processors load unaligned words, and Go requires alignment only of
// types that contain pointers.
func View[E any](b []byte) []E {
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(E))))
}

// Bytes returns the memory of the elements. It is the inverse of View.
func Bytes[E any](elements []E) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements)*int(unsafe.Sizeof(*new(E))))
}

// Get returns the value of element i. Integers beyond 2^53 are rounded.
func (d DType) Get(b []byte, i int) float64 {
	var v [1]float64
	d.Decode(v[:], b[i*d.Size():(i+1)*d.Size()])
	return v[0]
}

// Put encodes a value as element i.
func (d DType) Put(b []byte, i int, v float64) {
	d.Encode(b[i*d.Size():(i+1)*d.Size()], []float64{v})
}

// convert applies a conversion to each element. The compiler inlines the calls below. A table of functions by type
// would prevent this and take three times as long.
func convert[To, From any](dst []To, src []From, as func(From) To) {
	for i, v := range src {
		dst[i] = as(v)
	}
}

// Decode converts all elements of src to dst, which must have room for them.
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
	case I8:
		convert(dst, src, func(v uint8) float64 { return float64(int8(v)) })
	default:
		panic(fmt.Sprintf("dtype: values of %v", d))
	}
}

// Encode converts the values to elements. Floats are rounded to nearest, ties to even: first
// to float32 and then to narrower types, like in the kernels. Integers are truncated and wrap
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
	case U8, I8:
		convert(dst, src, func(v float64) uint8 { return uint8(int64(v)) })
	case TF32:
		convert(View[float32](dst), src, func(v float64) float32 { return tensorFloat(float32(v)) })
	case E4M3:
		convert(dst, src, func(v float64) uint8 { return uint8(Float8From(float32(v))) })
	default:
		panic(fmt.Sprintf("dtype: elements of %v", d))
	}
}

// Round replaces each value by the nearest one that the type can represent.
func (d DType) Round(v []float64) {
	const batch = 256
	var elements [8 * batch]byte
	for len(v) > 0 {
		n := min(len(v), batch)
		b := elements[:n*d.Size()]
		d.Encode(b, v[:n])
		d.Decode(v[:n], b)
		v = v[n:]
	}
}
