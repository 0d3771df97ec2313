package reference

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/dist"
)

// evaluator is the numbers of one chunk.
type evaluator struct {
	in    Inputs
	ranks [][]float64 // inputs
	out   []float64   // as the algorithm gives it
	exact []float64
	bound []float64
	spare [][]float64
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

// take lends a chunk of memory until it is given back.
func (o *evaluator) take(n int) []float64 {
	if k := len(o.spare); k > 0 {
		v := o.spare[k-1]
		o.spare = o.spare[:k-1]
		return v[:n]
	}
	return make([]float64, n, chunkElems)
}

func (o *evaluator) give(v []float64) { o.spare = append(o.spare, v) }

// evaluate computes a sum with the roundings that the algorithm makes.
func (o *evaluator) evaluate(to []float64, s *sum, d dist.DType) {
	if len(s.terms) == 0 {
		copy(to, o.ranks[s.rank])
		return
	}
	step := d
	if s.wide {
		step = Accumulator(d)
	}
	o.evaluate(to, s.terms[0], d)
	term := o.take(len(to))
	for _, t := range s.terms[1:] {
		o.evaluate(term, t, d)
		for i, v := range term {
			to[i] += v
		}
		step.Round(to)
	}
	o.give(term)
	if step != d {
		d.Round(to)
	}
}

// bounds computes exact sums, by adding up what each addition rounds off, and
// how far a result may be from them.
func (o *evaluator) bounds(c float64, n int) {
	most := numbersOf(o.in.d).largest
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
		case all > most && o.in.d.Float(): // some order may overflow
			o.bound[i] = math.Inf(1)
		case o.in.d == dist.F64: // the exact sum itself is rounded to be stored here
			o.bound[i] += numbersOf(dist.F64).unit * math.Abs(sum)
		case !o.in.d.Float():
			o.exact[i] = float64(int32(int64(sum)))
		}
	}
}

// sums computes exact sums alone.
func (o *evaluator) sums(n int) {
	if o.in.kind != Exact {
		o.bounds(0, n)
		return
	}
	clear(o.exact[:n])
	for _, v := range o.ranks { // integers: no order rounds
		for i, x := range v[:n] {
			o.exact[i] += x
		}
	}
}

// maxMagnitude is the largest magnitude, NaN if there is one. Magnitudes compare as
// their bits do, and NaN is above infinity.
func maxMagnitude(v []float64) float64 {
	m := uint64(0)
	for _, x := range v {
		m = max(m, math.Float64bits(x)&^(1<<63))
	}
	return math.Float64frombits(m)
}

// judge holds what the order gives against what it may be at most: the reference
// answers for itself, by an argument that knows nothing of its steps.
func (o *evaluator) judge(e *Expectation, off, n int) error {
	for i, got := range o.out[:n] {
		exact, bound := o.exact[i], o.bound[i]
		if share, ok := within(got, exact, bound); !ok {
			return fmt.Errorf("the reference itself: element %d is %v, but the exact sum is %v and the bound of its error %v",
				off+i, got, exact, bound)
		} else {
			e.worst = max(e.worst, share)
		}
	}
	return nil
}

// within tells whether a result is as near the exact one as the bound asks, and
// which share of the bound its error is.
func within(got, exact, bound float64) (share float64, ok bool) {
	switch {
	case math.IsInf(bound, 1):
		return 0, true
	case math.IsNaN(exact) || math.IsInf(exact, 0):
		return 0, same(got, exact)
	}
	diff := math.Abs(got - exact)
	if diff == 0 {
		return 0, true
	}
	return diff / bound, diff <= bound
}
