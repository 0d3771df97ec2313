// Package reference computes the result that an all-reduce must give. Where the
// order of additions is known, because it can be read off the algorithm's registered
// steps, that is the exact bit pattern. Otherwise it is the exact sums and a bound on
// the error. The package also generates the inputs, exact and adversarial ones, and
// compares results with the expectation. It calls no backend.
//
// docs/correctness.md derives the bounds.
package reference

import (
	"bytes"
	"fmt"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Expectation is the required result of an all-reduce over a window of the inputs.
// Either bits is set, or exact and bound.
type Expectation struct {
	d     dist.DType
	kind  string    // kind of the inputs
	bits  []byte    // the required bits, nil if the order of additions is not known
	exact []float64 // exact results
	bound []float64 // largest allowed error; +Inf where a partial sum may overflow
	worst float64   // largest error of bits, as a fraction of its bound
}

// Window is a range of elements of the inputs' endless vectors.
type Window struct{ First, Count int }

// chunkElems is the number of elements processed at a time. It is small enough that
// the chunks of all ranks stay in the L2 cache.
const chunkElems = 4096

// expect computes the expectation of a call on a window. order is nil if the order
// of additions is not known, and ignored if the call has a format.
func expect(in Inputs, w Window, order []schedule.SumRange, format *Format) (*Expectation, error) {
	e := &Expectation{d: in.d, kind: in.kind}
	known := order != nil || format != nil || w.Count == 0
	if known {
		e.bits = make([]byte, w.Count*in.d.Size())
	} else {
		order = []schedule.SumRange{{N: w.Count, Sum: worstOrder(in.ranks)}}
		e.exact, e.bound = make([]float64, w.Count), make([]float64, w.Count)
	}
	if format != nil { // an incomplete last group has its own scale, so it does not repeat
		whole := w.Count / Group * Group
		order = []schedule.SumRange{{N: whole}, {Off: whole, N: w.Count - whole}}
	}
	o := newEvaluator(in)
	for _, x := range order {
		step, computed := chunkElems, x.N
		if in.kind == Adversarial { // periodic: compute one period and repeat it
			step = adversarialPeriod
			computed = min(x.N, step)
		}
		for off := x.Off; off < x.Off+computed; off += step {
			if err := o.chunk(e, w, x, format, off, min(step, x.Off+computed-off)); err != nil {
				return nil, err
			}
		}
		if known {
			size := in.d.Size()
			repeat(e.bits[x.Off*size:(x.Off+x.N)*size], computed*size)
		} else {
			repeat(e.exact[x.Off:x.Off+x.N], computed)
			repeat(e.bound[x.Off:x.Off+x.N], computed)
		}
	}
	return e, nil
}

// chunk computes n elements of the expectation, starting at off.
func (o *evaluator) chunk(e *Expectation, w Window, x schedule.SumRange, format *Format, off, n int) error {
	store := func() { e.d.Encode(e.bits[off*e.d.Size():(off+n)*e.d.Size()], o.out[:n]) }
	if o.in.kind == Exact && format == nil { // the same in every order
		o.in.sums(o.out[:n], w.First+off, 0, o.in.ranks)
		store()
		return nil
	}
	o.load(w.First+off, n)
	if format != nil {
		o.evaluateQuantised(*format, n)
	} else {
		o.bounds(coefficient(x.Sum, e.d), n)
	}
	if e.bits == nil {
		copy(e.exact[off:], o.exact[:n])
		copy(e.bound[off:], o.bound[:n])
		return nil
	}
	if format == nil {
		o.evaluate(o.out[:n], x.Sum, e.d)
	}
	if err := o.checkReference(e, off, n); err != nil {
		return err
	}
	store()
	return nil
}

// additionOrder returns the additions that produce the output of an algorithm, in the order of its elements. They are
// read off the algorithm's own steps, so they are known for every registered algorithm.
func additionOrder(algorithm string, ranks, count int) ([]schedule.SumRange, error) {
	s, err := schedule.New(schedule.AllReduce, algorithm, schedule.Params{Ranks: ranks, Count: count})
	if err != nil {
		return nil, err
	}
	return schedule.Sums(s)
}

// worstOrder returns the order with the largest error bound: a chain in which every
// addition rounds.
func worstOrder(ranks int) *schedule.Sum {
	s := &schedule.Sum{}
	for r := 1; r < ranks; r++ {
		s = &schedule.Sum{Terms: []*schedule.Sum{s, {Rank: r}}}
	}
	return s
}

// coefficient bounds the error of a sum, as a fraction of the sum of the magnitudes.
// By induction: if each of k terms is within c, then k-1 roundings of unit u give a
// sum that is within (1+c)(1+u)^(k-1) - 1. A sum in a wider type is rounded once more.
func coefficient(s *schedule.Sum, d dist.DType) float64 {
	if len(s.Terms) == 0 || !d.Float() {
		return 0
	}
	c := 0.0
	for _, t := range s.Terms {
		c = max(c, coefficient(t, d))
	}
	u, additions := limitsOf(d).unit, len(s.Terms)-1
	wide := Accumulator(d)
	if !s.Wide || wide == d {
		return roundings(c, u, additions)
	}
	return roundings(roundings(c, limitsOf(wide).unit, additions), u, 1)
}

// roundings bounds (1+c)(1+u)^k - 1, using (1+u)^k - 1 <= ku/(1-ku). It avoids adding
// 1 to numbers that are smaller than the spacing of float64 at 1.
func roundings(c, u float64, k int) float64 {
	ku := float64(k) * u
	g := ku / (1 - ku)
	return c + g + c*g
}

// Compare checks every element of a call's output. It returns the largest error as a
// fraction of its bound, and an error that counts the wrong elements and describes
// the first.
func (e *Expectation) Compare(got []byte, w Window) (worst float64, err error) {
	worst = e.worst
	if e.bits != nil && bytes.Equal(got, e.bits) {
		return worst, nil
	}
	var wrong bench.Wrong
	have, want := make([]float64, chunkElems), make([]float64, chunkElems)
	for off := 0; off < w.Count; off += chunkElems {
		n := min(chunkElems, w.Count-off)
		from, to := off*e.d.Size(), (off+n)*e.d.Size()
		e.d.Decode(have[:n], got[from:to])
		if e.bits != nil {
			e.d.Decode(want[:n], e.bits[from:to])
		} else {
			copy(want[:n], e.exact[off:off+n])
		}
		for i, h := range have[:n] {
			bound := 0.0
			if e.bits == nil {
				bound = e.bound[off+i]
				if fraction, ok := inBound(h, want[i], bound); ok {
					worst = max(worst, fraction)
					continue
				}
			} else if sameValue(h, want[i]) {
				continue
			}
			if wrong.Count++; wrong.Count == 1 {
				wrong.Detail = e.describe(off+i, w, h, want[i], bound)
			}
		}
	}
	return worst, wrong.Err()
}

// describe describes what is wrong with element i of a window.
func (e *Expectation) describe(i int, w Window, got, want, bound float64) string {
	family := ""
	if e.kind != Exact {
		family = " (" + familyAt(w.First+i) + ")"
	}
	text := fmt.Sprintf("element %d%s is %v, want %v", i, family, got, want)
	if bound > 0 {
		text += fmt.Sprintf(" within %.3g", bound)
	}
	return text
}
