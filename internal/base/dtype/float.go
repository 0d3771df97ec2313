package dtype

import "math"

// Float16 is an IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
type Float16 uint16

// BFloat16 is the upper half of a float32: 1 sign, 8 exponent and 7 fraction bits.
type BFloat16 uint16

// Bits of a float32.
const (
	sign32     = 1 << 31
	infinity32 = 0xff << 23
)

// Conversion between float32 and Float16: the exponent biases are 127 and 15, the fractions have
// 23 and 10 bits.
const (
	rebias        = (127 - 15) << 23
	dropped       = 23 - 10
	firstNormal   = (127 - 14) << 23 // 2^-14, the smallest normal Float16
	firstTooLarge = (127 + 16) << 23 // 2^16; values that round up to it carry into the exponent of infinity
	infinity16    = 0x1f << 10
	quiet16       = 1 << 9
	fraction16    = 1<<10 - 1
)

// Float16From rounds to the nearest Float16, ties to even. Values from 65520 on become
// infinity. A NaN keeps the upper bits of its payload and becomes quiet, like in hardware.
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

// Float32 converts exactly. NaN payloads are kept.
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

// BFloat16From rounds to the nearest BFloat16, ties to even. It treats NaN like Float16From.
func BFloat16From(f float32) BFloat16 {
	bits := math.Float32bits(f)
	if bits&^sign32 > infinity32 {
		const quiet = 1 << 6
		return BFloat16(bits>>16) | quiet
	}
	return BFloat16(roundOff(bits, 16))
}

// Float32 converts exactly. NaN payloads are kept.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// roundOff drops the low bits, rounding to nearest, ties to even. A carry out of the fraction
// increments the exponent, which is correct: the value was rounded up to a power of two or to
// infinity.
func roundOff(bits uint32, low int) uint32 {
	odd := bits >> low & 1
	return (bits + 1<<(low-1) - 1 + odd) >> low
}

// Float8 is the E4M3 format of GPU matrix units (e4m3fn): 1 sign, 4 exponent and 3 fraction
// bits. It has no infinity and one NaN of each sign; the largest number is 448.
type Float8 uint8

// Conversion between float32 and Float8: the exponent biases are 127 and 7, the fractions have
// 23 and 3 bits.
const (
	rebias8      = (127 - 7) << 23
	dropped8     = 23 - 3
	firstNormal8 = (127 - 6) << 23 // 2^-6, the smallest normal Float8
	nan8         = 0x7f
)

// Float8From rounds to the nearest Float8, ties to even. Values above 464 become NaN.
func Float8From(f float32) Float8 {
	bits := math.Float32bits(f)
	sign := Float8(bits >> 24 & 0x80)
	size := bits &^ sign32
	switch {
	case size > infinity32:
		return sign | nan8
	case size < firstNormal8:
		// Subnormals are multiples of 2^-9, which is the spacing of float32 from 2^14 on: adding
		// 2^14 makes the hardware round to it.
		return sign | Float8(math.Float32bits(math.Float32frombits(size)+0x1p14)-math.Float32bits(0x1p14))
	}
	return sign | Float8(min(roundOff(size-rebias8, dropped8), nan8))
}

// Float32 converts exactly.
func (h Float8) Float32() float32 { return float8Values[h] }

var float8Values = func() (v [256]float32) {
	for i := range 128 {
		switch exponent, fraction := i>>3, float64(i&7); {
		case i == nan8:
			v[i] = float32(math.NaN())
		case exponent == 0:
			v[i] = float32(fraction * 0x1p-9)
		default:
			v[i] = float32(math.Ldexp(1+fraction/8, exponent-7))
		}
		v[i+128] = -v[i]
	}
	v[128] = float32(math.Copysign(0, -1))
	return v
}()

// tensorFloat rounds to 10 fraction bits, ties to even. A NaN stays a NaN.
func tensorFloat(f float32) float32 {
	const low = 23 - 10
	if f != f {
		return f
	}
	return math.Float32frombits(roundOff(math.Float32bits(f), low) << low)
}
