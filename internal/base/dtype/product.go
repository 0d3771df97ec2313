package dtype

import "math"

// Float8 is an E4M3 as the matrix units read it (e4m3fn): 1 sign, 4 exponent and 3
// fraction bits. There is no infinity, and one NaN of each sign; 448 is the largest number.
type Float8 uint8

// Exponent biases are 127 and 7, fractions have 23 and 3 bits.
const (
	rebias8      = (127 - 7) << 23
	dropped8     = 23 - 3
	firstNormal8 = (127 - 6) << 23 // 2^-6, the smallest normal Float8
	nan8         = 0x7f
)

// Float8From rounds to the nearest Float8, ties to even. What is too large, above 464, is
// a NaN.
func Float8From(f float32) Float8 {
	bits := math.Float32bits(f)
	sign := Float8(bits >> 24 & 0x80)
	size := bits &^ sign32
	switch {
	case size > infinity32:
		return sign | nan8
	case size < firstNormal8:
		// Subnormals are multiples of 2^-9, the spacing of float32 from 2^14 on.
		return sign | Float8(math.Float32bits(math.Float32frombits(size)+0x1p14)-math.Float32bits(0x1p14))
	}
	return sign | Float8(min(roundOff(size-rebias8, dropped8), nan8))
}

// Float32 is exact.
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

// tensorFloat rounds to 10 bits of the fraction, ties to even; a NaN stays one.
func tensorFloat(f float32) float32 {
	const low = 23 - 10
	if f != f {
		return f
	}
	return math.Float32frombits(roundOff(math.Float32bits(f), low) << low)
}
