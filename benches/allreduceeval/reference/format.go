package reference

import (
	"math"

	"github.com/kernbench/kernbench/dist"
)

// Format is the encoding of a quantised all-reduce, as docs/correctness.md specifies it. Expected bits
// and bounds are computed from that specification alone. The codecs of package quant are under test
// and must not be used here.
type Format struct{ bits int }

// Group is the number of elements that share a scale.
const Group = 32

// FormatOf returns the format that the codec of that name must have, or nil.
func FormatOf(codec string) *Format {
	if bits, ok := map[string]int{"int8": 8, "int6": 6, "int4": 4}[codec]; ok {
		return &Format{bits}
	}
	return nil
}

// maxLevel returns the largest encoded integer: 127, 31 or 7.
func (f Format) maxLevel() float32 { return float32(int(1)<<(f.bits-1) - 1) }

// minScale is the smallest normal float32. A group with a smaller scale decodes to zeros.
const minScale = 0x1p-126

// roundTrip encodes and decodes a group in place, which leaves integer multiples of its scale. The
// scale, its reciprocal and the products are rounded to float32.
func (f Format) roundTrip(group []float64) {
	peak := float32(maxMagnitude(group))
	scale := peak / f.maxLevel()
	inverse := 1 / scale
	for i, x := range group {
		switch {
		case peak != peak || math.IsInf(float64(peak), 0):
			group[i] = math.NaN()
		case scale < minScale:
			group[i] = 0
		default:
			q := int(math.RoundToEven(float64(float32(x) * inverse)))
			group[i] = float64(float32(q) * scale)
		}
	}
}

// excess bounds the error that float32 arithmetic adds to the half step of rounding, in steps: three
// roundings of the quotient, which is at most 127 steps, and one of the decoded product, 4 x 127 x
// 2^-24 in all.
const excess = 0x1p-14

// step returns the largest error of encoding and decoding an element of a group with maximum magnitude
// peak: half a step of the integers, or the whole magnitude if the group is so small that it decodes
// to zeros.
func (f Format) step(peak float64) float64 {
	top := float64(f.maxLevel())
	if peak < top*minScale*2 {
		return peak
	}
	return peak / top * (0.5 + excess)
}

// bound returns the largest allowed error of an element of the quantised all-reduce. peaks are the
// maximum magnitudes of each rank's group, and sum is the maximum magnitude of the group's exact sums.
// Each rank's input is encoded once, and then the sum is encoded.
func (f Format) bound(d dist.DType, peaks []float64, sum float64) float64 {
	inputs, all := 0.0, 0.0
	for _, m := range peaks {
		inputs += f.step(m)
		all += m
	}
	// The sum is computed in float32. It is rounded to the element type before it is encoded, and
	// again after it is decoded.
	unit, underflow := limitsOf(d).unit, limitsOf(d).smallest/2
	adding := float64(len(peaks)) * 0x1p-24 * all
	storing := unit*(sum+inputs+adding) + underflow
	before := inputs + adding + storing
	encoding := f.step(sum + before)
	return before + encoding + unit*(sum+before+encoding) + underflow
}

// evaluateQuantised computes the result of the quantised all-reduce group by group: it encodes and
// decodes each rank's input, adds them up, and encodes and decodes the sum. The bound depends only on
// the magnitudes of the inputs.
func (o *evaluator) evaluateQuantised(f Format, n int) {
	d := o.in.d
	stored := func(group []float64) { // rounds to the element type
		var b [Group * 8]byte
		d.Encode(b[:len(group)*d.Size()], group)
		d.Decode(group, b[:len(group)*d.Size()])
	}
	o.bounds(0, n) // for the exact sums
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
			f.roundTrip(group)
			for i, x := range group {
				if r > 0 {
					x = float64(float32(out[i]) + float32(x))
				}
				out[i] = x
			}
		}
		stored(out)
		f.roundTrip(out)
		stored(out)
		bound := f.bound(d, mosts, maxMagnitude(o.exact[from:to]))
		// A group with a value that is not finite, or that could overflow, may become NaN as a whole.
		if !(all <= limitsOf(d).largest/2) {
			bound = math.Inf(1)
		}
		for i := from; i < to; i++ {
			o.bound[i] = bound
		}
	}
}
