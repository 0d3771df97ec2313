package reference

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// References are computed in float64, which represents every value of the types below
// and adds two values of a narrower type without rounding. They are rounded to the
// type wherever the algorithm rounds.

// Types are the element types that references exist for.
var Types = []dist.DType{dist.BF16, dist.F16, dist.F32, dist.F64, dist.I32}

// typeLimits describes the numbers of an element type.
type typeLimits struct {
	unit     float64 // largest relative error of a rounding: half the spacing of values near 1
	largest  float64
	smallest float64 // smallest positive (subnormal) value
}

func limitsOf(d dist.DType) typeLimits {
	switch d {
	case dist.F64:
		return typeLimits{0x1p-53, math.MaxFloat64, 0x1p-1074}
	case dist.F32:
		return typeLimits{0x1p-24, math.MaxFloat32, 0x1p-149}
	case dist.F16:
		return typeLimits{0x1p-11, 65504, 0x1p-24}
	case dist.BF16:
		return typeLimits{0x1p-8, 0x1.fep127, 0x1p-133}
	}
	return typeLimits{0, math.MaxInt32, 1}
}

// Accumulator returns the type in which "wide" algorithms add up values of type d.
func Accumulator(d dist.DType) dist.DType {
	if d == dist.F16 || d == dist.BF16 {
		return dist.F32
	}
	return d
}

// sameValue reports whether two numbers are equal, including the sign of zero. All NaNs count as equal,
// because IEEE 754 does not define which NaN an operation returns.
func sameValue(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b
}

// evaluator holds the numbers of one chunk of at most chunkElems elements.
type evaluator struct {
	in    Inputs
	ranks [][]float64 // each rank's inputs
	out   []float64   // the algorithm's result
	exact []float64
	bound []float64 // largest allowed distance of out from exact
}

func newEvaluator(in Inputs) *evaluator {
	o := &evaluator{in: in, out: make([]float64, chunkElems), exact: make([]float64, chunkElems),
		bound: make([]float64, chunkElems)}
	for range in.ranks {
		o.ranks = append(o.ranks, make([]float64, chunkElems))
	}
	return o
}

func (o *evaluator) load(first, n int) {
	for r := range o.ranks {
		o.in.fill(o.ranks[r][:n], r, first)
	}
}

// evaluate computes a sum with the roundings that the algorithm makes.
func (o *evaluator) evaluate(to []float64, s *schedule.Sum, d dist.DType) {
	if len(s.Terms) == 0 {
		copy(to, o.ranks[s.Rank])
		return
	}
	step := d
	if s.Wide {
		step = Accumulator(d)
	}
	o.evaluate(to, s.Terms[0], d)
	term := make([]float64, len(to))
	for _, t := range s.Terms[1:] {
		o.evaluate(term, t, d)
		for i, v := range term {
			to[i] += v
		}
		step.Round(to)
	}
	if step != d {
		d.Round(to)
	}
}

// bounds computes the exact sums, by Neumaier's compensated summation, and the
// largest allowed error of each: c times the sum of the magnitudes.
func (o *evaluator) bounds(c float64, n int) {
	largest := limitsOf(o.in.d).largest
	for i := range n {
		sum, rest, all, finite := 0.0, 0.0, 0.0, true
		for _, v := range o.ranks {
			x := v[i]
			finite = finite && math.Abs(x) <= math.MaxFloat64
			next := sum + x
			if back := next - sum; math.Abs(sum) >= math.Abs(x) {
				rest += x - back
			} else {
				rest += sum - (next - x)
			}
			sum = next
			all += math.Abs(x)
		}
		o.exact[i], o.bound[i] = sum+rest, c*all
		switch {
		case !finite: // infinities and NaN have no error to bound
			o.exact[i] = sum
		case all > largest && o.in.d.Float(): // some order may overflow
			o.bound[i] = math.Inf(1)
		case o.in.d == dist.F64: // storing the exact sum as float64 rounds it too
			o.bound[i] += limitsOf(dist.F64).unit * math.Abs(sum)
		case !o.in.d.Float():
			o.exact[i] = float64(int32(int64(sum)))
		}
	}
}

// maxMagnitude returns the largest magnitude, or NaN if there is a NaN. It compares
// the bits, in which magnitudes are ordered and NaN lies above infinity.
func maxMagnitude(v []float64) float64 {
	m := uint64(0)
	for _, x := range v {
		m = max(m, math.Float64bits(x)&^(1<<63))
	}
	return math.Float64frombits(m)
}

// checkReference checks the reference itself: the result of its order of additions
// must lie within the bound, which is derived independently of the steps.
func (o *evaluator) checkReference(e *Expectation, off, n int) error {
	for i, got := range o.out[:n] {
		exact, bound := o.exact[i], o.bound[i]
		fraction, ok := inBound(got, exact, bound)
		if !ok {
			return fmt.Errorf("the reference itself is wrong: element %d is %v, but the exact sum is %v and "+
				"the largest allowed error is %v", off+i, got, exact, bound)
		}
		e.worst = max(e.worst, fraction)
	}
	return nil
}

// inBound reports whether a result is within bound of the exact one. fraction is its
// error divided by the bound.
func inBound(got, exact, bound float64) (fraction float64, ok bool) {
	switch {
	case math.IsInf(bound, 1):
		return 0, true
	case math.IsNaN(exact) || math.IsInf(exact, 0):
		return 0, sameValue(got, exact)
	}
	diff := math.Abs(got - exact)
	if diff == 0 {
		return 0, true
	}
	return diff / bound, diff <= bound
}
