// Package reference computes what an all-reduce must give: the very bits where
// the order of additions is known, which it reads off the algorithm's registered
// steps, and otherwise the exact sums and a bound on the error. It makes the
// inputs too, exact and adversarial ones, and compares. It calls no backend.
//
// docs/correctness.md derives it.
package reference

import (
	"github.com/kernbench/kernbench/dist"
)

// An Expectation is what an all-reduce must leave of a window of the inputs:
// the very bits where the order of additions is known, and otherwise the exact
// sums and how far from them a result may be. docs/correctness.md derives it.
type Expectation struct {
	d     dist.DType
	kind  string    // of the inputs
	bits  []byte    // nil when the order is not known
	tail  []byte    // what follows bits, where they are part of a longer vector
	exact []float64 // sums, then with the epilogue
	bound []float64 // of the error; +Inf where a partial sum may overflow
	worst float64   // the largest error of the bits, as a share of its bound
}

// Window is the elements of the vectors from a position on.
type Window struct{ First, Count int }

// chunkElems is how many elements are worked on at a time: all ranks' numbers
// stay in the second cache.
const chunkElems = 4096

// expect computes the expectation of a call on a window. With an order that is
// not known, order is nil.
func expect(in Inputs, w Window, order []segment, format *Format) (*Expectation, error) {
	e := &Expectation{d: in.d, kind: in.kind}
	known := order != nil || format != nil || w.Count == 0
	if known {
		e.bits = make([]byte, w.Count*in.d.Size())
	} else {
		order = []segment{{n: w.Count, sum: anyOrder(in.ranks)}}
		e.exact, e.bound = make([]float64, w.Count), make([]float64, w.Count)
	}
	if format != nil {
		order = []segment{{n: w.Count}}
	}
	o := newEvaluator(in)
	for _, x := range order {
		step, n, computed := chunkElems, x.n, x.n
		if in.kind == Adversarial {
			step = adversarialPeriod
			computed = min(n, step)
		}
		if format != nil { // a last group that is short is one of its own
			whole := x.n / Group * Group
			if err := o.chunk(e, w, x, format, whole, x.n-whole); err != nil {
				return nil, err
			}
			n, computed = whole, min(whole, computed)
		}
		for off := x.off; off < x.off+computed; off += step {
			if err := o.chunk(e, w, x, format, off, min(step, x.off+computed-off)); err != nil {
				return nil, err
			}
		}
		if known {
			size := in.d.Size()
			repeat(e.bits[x.off*size:(x.off+n)*size], computed*size)
		} else {
			repeat(e.exact[x.off:x.off+n], computed)
			repeat(e.bound[x.off:x.off+n], computed)
		}
	}
	return e, nil
}

// chunk computes the expectation of n elements from off on.
func (o *evaluator) chunk(e *Expectation, w Window, x segment, format *Format, off, n int) error {
	if o.in.kind == Exact && format == nil { // any order gives this
		o.in.sums(o.out[:n], w.First+off, 0, o.in.ranks)
		e.d.Encode(e.bits[off*e.d.Size():(off+n)*e.d.Size()], o.out[:n])
		return nil
	}
	o.load(w.First+off, n)
	if format != nil {
		o.quantised(*format, n)
	} else {
		o.bounds(coefficient(x.sum, e.d), n)
	}
	if e.bits == nil {
		copy(e.exact[off:], o.exact[:n])
		copy(e.bound[off:], o.bound[:n])
		return nil
	}
	if format == nil {
		o.evaluate(o.out[:n], x.sum, e.d)
	}
	if err := o.judge(e, off, n); err != nil {
		return err
	}
	e.d.Encode(e.bits[off*e.d.Size():(off+n)*e.d.Size()], o.out[:n])
	return nil
}

// anyOrder is the worst of all orders for the bound: every hop rounds, one
// after the other.
func anyOrder(ranks int) *sum {
	s := &sum{}
	for r := range ranks {
		if r > 0 {
			s = &sum{terms: []*sum{s, {rank: r}}}
		}
	}
	return s
}

// coefficient bounds the relative error of a sum: the result differs from the
// exact one by at most so much of the sum of the magnitudes. By induction, k
// terms that are each within c give, after k-1 roundings of unit u, one that is
// within (1+c)(1+u)^(k-1) - 1; what was added up in a wider type is rounded once
// more.
func coefficient(s *sum, d dist.DType) float64 {
	if len(s.terms) == 0 || !d.Float() {
		return 0
	}
	c := 0.0
	for _, t := range s.terms {
		c = max(c, coefficient(t, d))
	}
	u := numbersOf(d).unit
	if s.wide {
		wide := numbersOf(Accumulator(d)).unit
		c = roundings(c, wide, len(s.terms)-1)
		if Accumulator(d) != d {
			c = roundings(c, u, 1)
		}
		return c
	}
	return roundings(c, u, len(s.terms)-1)
}

// roundings bounds (1+c)(1+u)^k - 1, by (1+u)^k - 1 <= ku/(1-ku) and without
// adding 1 to what is smaller than the spacing there.
func roundings(c, u float64, k int) float64 {
	ku := float64(k) * u
	g := ku / (1 - ku)
	return c + g + c*g
}
