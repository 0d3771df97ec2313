package sparse

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// reference executes the operations of a Sweep one after the other, each over all rows.
type reference struct {
	sum   []float64
	fresh bool // the next term starts a new sum
	dots  []float64
}

func (r *reference) add(coef float64, x, by []float64) {
	for i, v := range x {
		if by != nil {
			v *= by[i]
		}
		if v = float64(coef * v); !r.fresh {
			v += r.sum[i]
		}
		r.sum[i] = v
	}
	r.fresh = false
}

func (r *reference) dot(x, y, by []float64) {
	var lane [lanes]float64
	for i, v := range y {
		if by != nil {
			v *= by[i]
		}
		lane[i%lanes] += float64(v * x[i])
	}
	r.dots, r.fresh = append(r.dots, halves(lane[:])), true
}

// cut returns rows [lo, hi) of all vectors.
func cut(vs [][]float64, lo, hi int) (out [][]float64) {
	for _, v := range vs {
		out = append(out, v[lo:hi])
	}
	return out
}

// script adds random operations on vectors to a sweep, and returns the same operations for a reference.
func script(t *rapid.T, s *Sweep, vs [][]float64) (each []func(r *reference, vs [][]float64, block []float64)) {
	vector := func() int { return rapid.IntRange(0, len(vs)-1).Draw(t, "vector") }
	factor := func(vs [][]float64, k int) []float64 {
		if k < 0 {
			return nil
		}
		return vs[k]
	}
	coef := rapid.SampledFrom([]float64{1, -1, 0.3, -1.7})
	s.Reset()
	for range rapid.IntRange(1, 6).Draw(t, "assignments") {
		terms := rapid.IntRange(0, 4).Draw(t, "terms")
		if terms == 0 {
			s.Zero()
			each = append(each, func(r *reference, _ [][]float64, _ []float64) { clear(r.sum) })
		}
		for range terms {
			c, x, by := coef.Draw(t, "coef"), vector(), rapid.IntRange(-2, len(vs)-1).Draw(t, "by")
			if by == -2 {
				s.AddBlock(c)
				each = append(each, func(r *reference, _ [][]float64, block []float64) { r.add(c, block, nil) })
			} else {
				s.Add(c, vs[x], factor(vs, by))
				each = append(each, func(r *reference, vs [][]float64, _ []float64) { r.add(c, vs[x], factor(vs, by)) })
			}
		}
		dst := vector()
		s.Store(vs[dst])
		each = append(each, func(r *reference, vs [][]float64, _ []float64) { copy(vs[dst], r.sum); r.fresh = true })
		for range rapid.IntRange(0, 3).Draw(t, "dots") {
			x, y, by := vector(), vector(), rapid.IntRange(-1, len(vs)-1).Draw(t, "by")
			s.Dot(vs[x], vs[y], factor(vs, by))
			each = append(each, func(r *reference, vs [][]float64, _ []float64) { r.dot(vs[x], vs[y], factor(vs, by)) })
		}
	}
	return each
}

// A pass gives the same result as the operations one after the other, for every length and every first row.
func TestSweep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.IntRange(0, 20).Draw(t, "lo")
		n := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(100, 700)).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		vectors := func() (vs [][]float64) {
			for k := range 4 {
				v := make([]float64, lo+n+9)
				for i := range v {
					v[i] = Noise(seed+uint64(k), i)
				}
				vs = append(vs, v)
			}
			return vs
		}
		vs, want := vectors(), vectors()
		block := make([]float64, n)
		for i := range block {
			block[i] = Noise(seed+9, i)
		}
		var s Sweep
		each := script(t, &s, vs)
		r := &reference{sum: make([]float64, n), fresh: true}
		for _, do := range each {
			do(r, cut(want, lo, lo+n), block)
		}
		begun := vectors()
		bothKernels(func(kernels string) {
			for k := range vs {
				copy(vs[k], begun[k])
			}
			clear(s.sums)
			s.Run(lo, lo+n, block)
			for k := range vs {
				if i := sameBits(vs[k], want[k]); i >= 0 {
					t.Fatalf("%s: vector %d, rows [%d, %d): element %d is %v, want %v", kernels, k, lo, lo+n, i, vs[k][i], want[k][i])
				}
			}
			for k, want := range r.dots {
				if got := s.Sum(k); math.Float64bits(got) != math.Float64bits(want) {
					t.Fatalf("%s: scalar product %d of %d rows is %v, want %v", kernels, k, n, got, want)
				}
			}
		})
	})
}

// Scalar products add up over passes over parts of the rows.
func TestSweepInParts(t *testing.T) {
	x := make([]float64, 1000)
	for i := range x {
		x[i] = float64(i % 7)
	}
	var s Sweep
	s.Reset()
	s.Dot(x, x, nil)
	want := Dot(x, x) // small integers, so the sum is exact in every order
	for _, r := range []Range{{0, 3}, {3, 400}, {400, 400}, {400, 1000}} {
		s.Run(r.Lo, r.Hi, nil)
	}
	if got := s.Sum(0); got != want || got != s.Sum(0) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Values outside the rows of a pass do not enter a scalar product. An infinity times zero would show.
func TestSweepEndsWithItsRows(t *testing.T) {
	bothKernels(func(kernels string) {
		for n := 1; n < 150; n++ {
			x, y := make([]float64, n), make([]float64, n)
			for i := range x {
				x[i] = 1
			}
			var s Sweep
			s.Reset()
			s.Add(math.Inf(1), x, nil)
			s.Store(y)
			s.Dot(x, y, nil)
			s.Run(0, n, nil)
			if got := s.Sum(0); !math.IsInf(got, 1) {
				t.Errorf("%s: %d rows: %v", kernels, n, got)
			}
		}
	})
}

func TestSweepRefusesRowsThatAreNotThere(t *testing.T) {
	x := make([]float64, 10)
	var s Sweep
	for what, run := range map[string]func(){
		"rows beyond the end":   func() { s.Run(5, 11, x) },
		"rows before the first": func() { s.Run(-1, 2, x) },
		"a block too short":     func() { s.Run(0, 8, x[:7]) },
	} {
		s.Reset()
		s.Add(1, x, nil)
		s.AddBlock(2)
		s.Store(x)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", what)
				}
			}()
			run()
		}()
	}
}
