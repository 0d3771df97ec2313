package reference

import (
	"math"

	"github.com/kernbench/kernbench/dist"
)

// Format is how a quantised all-reduce encodes elements, as docs/correctness.md has it.
// The bits and the bound that follow are computed from that alone: the codec that a call
// uses (package quant) is what is tested, and none of it is used here.
type Format struct{ bits int }

// Group is the number of elements that share a scale.
const Group = 32

// FormatOf is the format that a codec of this name must have, nil if there is none.
func FormatOf(codec string) *Format {
	if bits, ok := map[string]int{"int8": 8, "int6": 6, "int4": 4}[codec]; ok {
		return &Format{bits}
	}
	return nil
}

// most is the largest integer: 127, 31 or 7.
func (f Format) most() float32 { return float32(int(1)<<(f.bits-1) - 1) }

// leastScale is the smallest normal float32: a group with a smaller one becomes zeros.
const leastScale = 0x1p-126

// coded replaces a group by what is left of it once it is encoded and decoded: whole
// multiples of its scale. The scale, its reciprocal and the products are float32.
func (f Format) coded(group []float64) {
	most := float32(maxMagnitude(group))
	scale := most / f.most()
	inverse := 1 / scale
	for i, x := range group {
		switch {
		case most != most || math.IsInf(float64(most), 0):
			group[i] = math.NaN()
		case scale < leastScale:
			group[i] = 0
		default:
			q := int(math.RoundToEven(float64(float32(x) * inverse)))
			group[i] = float64(float32(q) * scale)
		}
	}
}

// excess is what float32 arithmetic adds to the half step of rounding, in
// steps: the quotient is off by at most 3 roundings of up to 127 steps, and the
// product of decoding by one more, 4 x 127 x 2^-24 in all.
const excess = 0x1p-14

// step is the most that encoding and decoding moves an element of a group whose
// largest magnitude is most: half a step of the integers, and for groups so
// small that they become zeros the whole magnitude.
func (f Format) step(most float64) float64 {
	top := float64(f.most())
	if most < top*leastScale*2 {
		return most
	}
	return most / top * (0.5 + excess)
}

// bound is the most that an element of the quantised all-reduce may differ from
// the exact sum. Mosts are the largest magnitudes of the ranks' groups, sum is
// the largest magnitude of the exact sums of the group; each rank's input is
// encoded once, the sum once more.
func (f Format) bound(d dist.DType, mosts []float64, sum float64) float64 {
	inputs, all := 0.0, 0.0
	for _, m := range mosts {
		inputs += f.step(m)
		all += m
	}
	// The sum is made in float32 and stored in the element type, where the
	// encoder reads it, and stored once more when it has been decoded.
	unit, least := numbersOf(d).unit, numbersOf(d).smallest/2
	adding := float64(len(mosts)) * 0x1p-24 * all
	storing := unit*(sum+inputs+adding) + least
	before := inputs + adding + storing
	encoding := f.step(sum + before)
	return before + encoding + unit*(sum+before+encoding) + least
}

// quantised computes what the all-reduce gives, group by group: every rank's input is
// encoded, the sum of what they decode to is encoded again. The bound follows from the
// magnitudes of the inputs alone.
func (o *evaluator) quantised(f Format, n int) {
	d := o.in.d
	stored := func(group []float64) { // as the element type holds it
		var b [Group * 8]byte
		d.Encode(b[:len(group)*d.Size()], group)
		d.Decode(group, b[:len(group)*d.Size()])
	}
	o.sums(n)
	mosts := make([]float64, len(o.ranks))
	var memory [Group]float64
	for from := 0; from < n; from += Group {
		to, all := min(from+Group, n), 0.0
		group, out := memory[:to-from], o.out[from:to]
		for r, v := range o.ranks {
			copy(group, v[from:to])
			stored(group)
			mosts[r] = maxMagnitude(group)
			all += mosts[r]
			f.coded(group)
			for i, x := range group {
				if r > 0 {
					x = float64(float32(out[i]) + float32(x))
				}
				out[i] = x
			}
		}
		stored(out)
		f.coded(out)
		stored(out)
		bound := f.bound(d, mosts, maxMagnitude(o.exact[from:to]))
		// Where a value is not finite, or could overflow, the whole group may be NaN.
		if !(all <= numbersOf(d).largest/2) {
			bound = math.Inf(1)
		}
		for i := from; i < to; i++ {
			o.bound[i] = bound
		}
	}
}
