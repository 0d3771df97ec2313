package quant

import "github.com/kernbench/kernbench/internal/base/dtype"

// excess is what float32 arithmetic adds to the half step of rounding, in
// steps: the quotient is off by at most 3 roundings of up to 127 steps, and the
// product of decoding by one more, 4 x 127 x 2^-24 in all.
const excess = 0x1p-14

// Step is the most that encoding and decoding moves an element of a group whose
// largest magnitude is most: half a step of the integers, and for groups so
// small that they become zeros the whole magnitude.
func (c Codec) Step(most float64) float64 {
	top := float64(c.Max())
	if most < top*leastScale*2 {
		return most
	}
	return most / top * (0.5 + excess)
}

// Bound is the most that an element of the quantised all-reduce may differ from
// the exact sum. Mosts are the largest magnitudes of the ranks' groups, sum is
// the largest magnitude of the exact sums of the group; each rank's input is
// encoded once, the sum once more.
func (c Codec) Bound(d dtype.DType, mosts []float64, sum float64) float64 {
	inputs, all := 0.0, 0.0
	for _, m := range mosts {
		inputs += c.Step(m)
		all += m
	}
	// The sum is made in float32 and stored in the element type, where the
	// encoder reads it, and stored once more when it has been decoded.
	adding := float64(len(mosts)) * 0x1p-24 * all
	storing := unit(d)*(sum+inputs+adding) + least(d)
	before := inputs + adding + storing
	encoding := c.Step(sum + before)
	return before + encoding + unit(d)*(sum+before+encoding) + least(d)
}

// unit is half the spacing of the type's values relative to them.
func unit(d dtype.DType) float64 {
	switch d {
	case dtype.F16:
		return 0x1p-11
	case dtype.BF16:
		return 0x1p-8
	}
	return 0x1p-24
}

// least is half the smallest subnormal: the rounding of what lies below the
// type's normal numbers.
func least(d dtype.DType) float64 {
	switch d {
	case dtype.F16:
		return 0x1p-25
	case dtype.BF16:
		return 0x1p-134
	}
	return 0x1p-150
}
