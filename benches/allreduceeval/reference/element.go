package reference

import (
	"math"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
)

// References are computed in float64, which holds every value of the matrix's types
// and rounds no sum of two of a narrower one, and round to the type where the
// algorithm does. These are the ways in and out.

// Types are the element types that references exist for.
var Types = []dist.DType{dist.BF16, dist.F16, dist.F32, dist.F64, dist.I32}

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

// Accumulator is the type in which sums of a type are made where it is not
// rounded at every step.
func Accumulator(d dist.DType) dist.DType {
	if d == dist.F16 || d == dist.BF16 {
		return dist.F32
	}
	return d
}

// same tells whether two numbers are the same value with the same sign; one NaN
// is as good as another, since IEEE 754 leaves its bits open.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// Aligned is memory that any element type may lie in.
func Aligned(bytes int) []byte {
	words := make([]uint64, (bytes+7)/8)
	if len(words) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), bytes)
}
