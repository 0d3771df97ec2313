package allreduceeval

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

// The oracles compute in float64, which holds every value of the matrix's types
// and rounds no sum of two of a narrower one, and round to the type where the
// algorithm does. These are the ways in and out.

// matrixTypes are the element types that cells exist for.
var matrixTypes = []dist.DType{dist.BF16, dist.F16, dist.F32, dist.F64, dist.I32}

// numbers is what is particular to an element type.
type numbers struct {
	unit     float64 // half the spacing of values near 1: the relative error of a rounding
	largest  float64
	smallest float64 // subnormal
}

func numbersOf(d dist.DType) numbers {
	switch d {
	case dist.F64:
		return numbers{0x1p-53, math.MaxFloat64, 0x1p-1074}
	case dist.F32:
		return numbers{0x1p-24, math.MaxFloat32, 0x1p-149}
	case dist.F16:
		return numbers{0x1p-11, 65504, 0x1p-24}
	case dist.BF16:
		return numbers{0x1p-8, 0x1.fep127, 0x1p-133}
	}
	return numbers{0, math.MaxInt32, 1}
}

// accumulator is the type in which sums of a type are made where it is not
// rounded at every step.
func accumulator(d dist.DType) dist.DType {
	if d == dist.F16 || d == dist.BF16 {
		return dist.F32
	}
	return d
}

// view is bytes as elements.
func view[E dtype.Element](b []byte) []E {
	if len(b) == 0 {
		return nil
	}
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(e)))
}

// decode widens elements.
func decode(dst []float64, b []byte, d dist.DType) {
	switch d {
	case dist.F64:
		copy(dst, view[float64](b))
	case dist.F32:
		for i, v := range view[float32](b) {
			dst[i] = float64(v)
		}
	case dist.F16:
		for i, v := range view[dtype.Float16](b) {
			dst[i] = float64(v.Float32())
		}
	case dist.BF16:
		for i, v := range view[dtype.BFloat16](b) {
			dst[i] = float64(v.Float32())
		}
	case dist.I32:
		for i, v := range view[int32](b) {
			dst[i] = float64(v)
		}
	default:
		panic(fmt.Sprintf("allreduceeval: no cells of %v", d))
	}
}

// encode rounds numbers to elements, to nearest even; integers wrap around. A
// number on its way to 16 bits is a float32 first, as in the kernels.
func encode(b []byte, src []float64, d dist.DType) {
	switch d {
	case dist.F64:
		copy(view[float64](b), src)
	case dist.F32:
		to := view[float32](b)
		for i, v := range src {
			to[i] = float32(v)
		}
	case dist.F16:
		to := view[dtype.Float16](b)
		for i, v := range src {
			to[i] = dtype.Float16From(float32(v))
		}
	case dist.BF16:
		to := view[dtype.BFloat16](b)
		for i, v := range src {
			to[i] = dtype.BFloat16From(float32(v))
		}
	case dist.I32:
		to := view[int32](b)
		for i, v := range src {
			to[i] = int32(int64(v))
		}
	default:
		panic(fmt.Sprintf("allreduceeval: no cells of %v", d))
	}
}

// roundTo makes numbers what the type holds of them.
func roundTo(v []float64, d dist.DType) {
	switch d {
	case dist.F32:
		for i, x := range v {
			v[i] = float64(float32(x))
		}
	case dist.F16:
		for i, x := range v {
			v[i] = float64(dtype.Float16From(float32(x)).Float32())
		}
	case dist.BF16:
		for i, x := range v {
			v[i] = float64(dtype.BFloat16From(float32(x)).Float32())
		}
	case dist.I32:
		for i, x := range v {
			v[i] = float64(int32(int64(x)))
		}
	}
}

// same tells whether two numbers are the same value with the same sign; one NaN
// is as good as another, since IEEE 754 leaves its bits open.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}
