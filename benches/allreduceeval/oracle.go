package allreduceeval

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

// An expectation is what an all-reduce must leave of a window of the inputs:
// the very bits where the order of additions is known, and otherwise the exact
// sums and how far from them a result may be. docs/correctness.md derives it.
type expectation struct {
	d     dist.DType
	kind  string    // of the inputs
	bits  []byte    // nil when the order is not known
	tail  []byte    // what follows bits, where they are part of a longer vector
	exact []float64 // sums, then with the epilogue
	bound []float64 // of the error; +Inf where a partial sum may overflow
	worst float64   // the largest error of the bits, as a share of its bound
}

// window is the elements of the vectors from a position on.
type window struct{ first, count int }

// oracleChunk is how many elements are worked on at a time: all ranks' numbers
// stay in the second cache.
const oracleChunk = 4096

// expect computes the expectation of a call on a window. With an order that is
// not known, order is nil.
func expect(in inputs, w window, order []stretch, codec *quant.Codec) (*expectation, error) {
	e := &expectation{d: in.d, kind: in.kind}
	known := order != nil || codec != nil || w.count == 0
	if known {
		e.bits = make([]byte, w.count*in.d.Size())
	} else {
		order = []stretch{{n: w.count, sum: anyOrder(in.ranks)}}
		e.exact, e.bound = make([]float64, w.count), make([]float64, w.count)
	}
	if codec != nil {
		order = []stretch{{n: w.count}}
	}
	o := newOracle(in)
	for _, x := range order {
		step, n, computed := oracleChunk, x.n, x.n
		if in.kind == adversarialInput {
			step = adversarialPeriod
			computed = min(n, step)
		}
		if codec != nil { // a last group that is short is one of its own
			whole := x.n / quant.Group * quant.Group
			if err := o.chunk(e, w, x, codec, whole, x.n-whole); err != nil {
				return nil, err
			}
			n, computed = whole, min(whole, computed)
		}
		for off := x.off; off < x.off+computed; off += step {
			if err := o.chunk(e, w, x, codec, off, min(step, x.off+computed-off)); err != nil {
				return nil, err
			}
		}
		if known {
			size := in.d.Size()
			tile(e.bits[x.off*size:(x.off+n)*size], computed*size)
		} else {
			tile(e.exact[x.off:x.off+n], computed)
			tile(e.bound[x.off:x.off+n], computed)
		}
	}
	return e, nil
}

// chunk computes the expectation of n elements from off on.
func (o *oracle) chunk(e *expectation, w window, x stretch, codec *quant.Codec, off, n int) error {
	rounds := o.in.kind != exactInput || codec != nil
	if !rounds && e.bits != nil { // any order gives this
		o.in.sums(o.out[:n], w.first+off, 0, o.in.ranks)
		e.d.Encode(e.bits[off*e.d.Size():(off+n)*e.d.Size()], o.out[:n])
		return nil
	}
	o.load(w.first+off, n)
	switch {
	case codec != nil:
		o.quantised(*codec, n)
	case rounds:
		o.bounds(coefficient(x.sum, e.d), n)
	}
	if e.bits == nil {
		copy(e.exact[off:], o.exact[:n])
		copy(e.bound[off:], o.bound[:n])
		return nil
	}
	if codec == nil {
		o.evaluate(o.out[:n], x.sum, e.d)
	}
	if rounds {
		if err := o.judge(e, off, n); err != nil {
			return err
		}
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
		wide := numbersOf(accumulator(d)).unit
		c = roundings(c, wide, len(s.terms)-1)
		if accumulator(d) != d {
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

// oracle is the numbers of one chunk.
type oracle struct {
	in     inputs
	ranks  [][]float64 // inputs
	out    []float64   // as the algorithm gives it
	exact  []float64
	bound  []float64
	spare  [][]float64
	coded  [][]byte // of the quantised all-reduce
	buffer []byte
}

func newOracle(in inputs) *oracle {
	o := &oracle{in: in, out: make([]float64, oracleChunk), exact: make([]float64, oracleChunk), bound: make([]float64, oracleChunk)}
	for range in.ranks {
		o.ranks = append(o.ranks, make([]float64, oracleChunk))
	}
	return o
}

func (o *oracle) load(first, n int) {
	for r := range o.ranks {
		o.in.fill(o.ranks[r][:n], r, first)
	}
}

// take lends a chunk of memory until it is given back.
func (o *oracle) take(n int) []float64 {
	if k := len(o.spare); k > 0 {
		v := o.spare[k-1]
		o.spare = o.spare[:k-1]
		return v[:n]
	}
	return make([]float64, n, oracleChunk)
}

func (o *oracle) give(v []float64) { o.spare = append(o.spare, v) }

// evaluate computes a sum with the roundings that the algorithm makes.
func (o *oracle) evaluate(to []float64, s *sum, d dist.DType) {
	if len(s.terms) == 0 {
		copy(to, o.ranks[s.rank])
		return
	}
	step := d
	if s.wide {
		step = accumulator(d)
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
func (o *oracle) bounds(c float64, n int) {
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

// quantised computes the quantised all-reduce of a chunk, which begins at a
// group: every rank's input is encoded, the sum of the encodings is encoded
// again. The bound follows from the magnitudes of the inputs alone.
func (o *oracle) quantised(c quant.Codec, n int) {
	d, size := o.in.d, o.in.d.Size()
	if o.coded == nil {
		for range o.ranks {
			o.coded = append(o.coded, make([]byte, c.Size(d, oracleChunk)))
		}
		o.buffer = make([]byte, oracleChunk*size)
	}
	b := o.buffer[:n*size]
	for r, v := range o.ranks {
		d.Encode(b, v[:n])
		c.Encode(o.coded[r], b, d)
	}
	c.DecodeReduce(b, o.coded, d, dist.Sum)
	c.Encode(o.coded[0], b, d)
	c.DecodeReduce(b, o.coded[:1], d, dist.Sum)
	d.Decode(o.out[:n], b)
	o.sums(n)
	mosts := make([]float64, len(o.ranks))
	for from := 0; from < n; from += quant.Group {
		to, all := min(from+quant.Group, n), 0.0
		for r, v := range o.ranks {
			mosts[r] = most(v[from:to])
			all += mosts[r]
		}
		bound := c.Bound(d, mosts, most(o.exact[from:to]))
		// Where a value is not finite, or could overflow, the whole group may be NaN.
		if !(all <= numbersOf(d).largest/2) {
			bound = math.Inf(1)
		}
		for i := from; i < to; i++ {
			o.bound[i] = bound
		}
	}
}

// sums computes exact sums alone.
func (o *oracle) sums(n int) {
	if o.in.kind != exactInput {
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

// most is the largest magnitude, NaN if there is one. Magnitudes compare as
// their bits do, and NaN is above infinity.
func most(v []float64) float64 {
	m := uint64(0)
	for _, x := range v {
		m = max(m, math.Float64bits(x)&^(1<<63))
	}
	return math.Float64frombits(m)
}

// judge holds what the order gives against what it may be at most: the oracle
// answers for itself, by an argument that knows nothing of its steps.
func (o *oracle) judge(e *expectation, off, n int) error {
	for i, got := range o.out[:n] {
		exact, bound := o.exact[i], o.bound[i]
		if share, ok := within(got, exact, bound); !ok {
			return fmt.Errorf("the oracle: element %d is %v, but the exact sum is %v and the bound of its error %v", off+i, got, exact, bound)
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
