package dtype

import "math"

// Float16 is an IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
type Float16 uint16

// BFloat16 is the upper half of a float32: 1 sign, 8 exponent and 7 fraction bits.
type BFloat16 uint16

// The parts of a float32's bits.
const (
	sign32     = 1 << 31
	infinity32 = 0xff << 23
)

// Exponent biases are 127 and 15, fractions have 23 and 10 bits.
const (
	rebias        = (127 - 15) << 23
	dropped       = 23 - 10
	firstNormal   = (127 - 14) << 23 // 2^-14, the smallest normal Float16
	firstTooLarge = (127 + 16) << 23 // 2^16; what rounds up to it carries into infinity by itself
	infinity16    = 0x1f << 10
	quiet16       = 1 << 9
	fraction16    = 1<<10 - 1
)

// Float16From rounds to the nearest Float16, ties to even. From 65520 on that
// is infinity; a NaN stays a NaN with the upper bits of its payload, made quiet
// as hardware does.
func Float16From(f float32) Float16 {
	bits := math.Float32bits(f)
	sign := Float16(bits >> 16 & 0x8000)
	size := bits &^ sign32
	switch {
	case size > infinity32:
		return sign | infinity16 | quiet16 | Float16(size>>dropped&fraction16)
	case size >= firstTooLarge:
		return sign | infinity16
	case size < firstNormal:
		// Subnormals are multiples of 2^-24, which is the spacing of float32
		// between 0.5 and 1: adding 0.5 makes the hardware round to it.
		return sign | Float16(math.Float32bits(math.Float32frombits(size)+0.5)-math.Float32bits(0.5))
	}
	return sign | Float16(roundOff(size-rebias, dropped))
}

// Float32 is exact: every Float16 is a float32. NaN payloads are kept as they are.
func (h Float16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	size := uint32(h &^ 0x8000)
	switch {
	case size >= infinity16:
		return math.Float32frombits(sign | infinity32 | size&fraction16<<dropped)
	case size <= fraction16: // zero or subnormal
		return math.Float32frombits(sign | math.Float32bits(float32(size)*0x1p-24))
	}
	return math.Float32frombits(sign | (size<<dropped + rebias))
}

// BFloat16From rounds to the nearest BFloat16, ties to even; a NaN stays a NaN
// as in Float16From.
func BFloat16From(f float32) BFloat16 {
	bits := math.Float32bits(f)
	if bits&^sign32 > infinity32 {
		const quiet = 1 << 6
		return BFloat16(bits>>16) | quiet
	}
	return BFloat16(roundOff(bits, 16))
}

// Float32 is exact: every BFloat16 is a float32. NaN payloads are kept as they are.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// roundOff drops the low bits, rounding to nearest, ties to even. A carry out
// of the fraction steps to the next exponent, which is just what rounding up to
// a power of two, or to infinity, has to do.
func roundOff(bits uint32, low int) uint32 {
	odd := bits >> low & 1
	return (bits + 1<<(low-1) - 1 + odd) >> low
}
