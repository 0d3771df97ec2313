package krylov

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// carryOut is the reference for Engine.Run: it does one operation after the other.
func carryOut(s *Stage, m *sparse.Matrix, inverse []float64, v [][]float64) []float64 {
	vector := func(of Vec) []float64 {
		stored, inverted := of.of()
		out := append([]float64(nil), v[stored][:m.Rows()]...)
		for i := range out {
			if inverted {
				out[i] *= inverse[i]
			}
		}
		return out
	}
	for _, a := range s.assign {
		out := make([]float64, m.Rows())
		for k, term := range a.terms {
			for i, x := range vector(term.Vec) {
				if k == 0 {
					out[i] = term.Coef * x
				} else {
					out[i] += float64(term.Coef * x)
				}
			}
		}
		copy(v[a.dst], out)
	}
	var sums []float64
	dots := func() {
		for _, d := range s.dots {
			sums = append(sums, sparse.Dot(vector(d.a), vector(d.b)))
		}
	}
	if s.overlaps {
		dots()
	}
	if s.precondition != nil {
		for i := range m.Rows() {
			v[s.precondition.dst][i] = inverse[i] * v[s.precondition.src][i]
		}
	}
	if s.multiply != nil {
		m.Multiply(v[s.multiply.dst], v[s.multiply.src], 0, m.Rows())
	}
	if !s.overlaps {
		dots()
	}
	return sums
}

// Fusing changes the order of the work, but not its results.
func TestEngineMatchesOneOperationAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"poisson", "variable", "mesh"}).Draw(t, "problem")
		p := must.Get(sparse.New(kind, sparse.Params{Rows: rapid.IntRange(1, 3000).Draw(t, "rows")}))(t)
		ranks := rapid.IntRange(1, 3).Draw(t, "ranks")
		plan := sparse.NewPlan(p, stripes{p.Size(), ranks, rapid.IntRange(1, 900).Draw(t, "each")}, 0)
		inverse := jacobiOf(plan, p)
		m := must.Get(plan.Matrix(p, sparse.Compressed))(t)
		method := rapid.SampledFrom(Methods.All()).Draw(t, "method").Name
		stored := rapid.Bool().Draw(t, "stored")
		s := must.Get(New(method, p.Traits(),
			Config{RTol: 1e-30, MaxIter: 3, Restart: 2, Precondition: rapid.Bool().Draw(t, "precondition"), Stored: stored}))(t)
		var operator Operator = inverse
		if stored {
			operator = unfused{inverse}
		}
		e := NewEngine(m, plan, operator, s.Vectors())
		if rapid.Bool().Draw(t, "overlaps") { // a part of the product is computed before the next stage
			looks := 0
			e.Begin = func([]float64) error { looks = rapid.IntRange(0, 5).Draw(t, "looks"); return nil }
			e.Underway = func() bool { looks--; return looks >= 0 }
		}
		reference := make([][]float64, s.Vectors())
		for k := range reference {
			for i := range e.vectors[k] {
				e.vectors[k][i] = sparse.Noise(uint64(k), i)
			}
			reference[k] = append([]float64(nil), e.vectors[k]...)
		}
		left := Vec(-1)
		must.Get(s.Run(func(stage *Stage) ([]float64, error) {
			if stage.multiply != nil {
				if left = -1; stage.leaves() {
					left = stage.multiply.dst
				}
			}
			want := carryOut(stage, m, inverse, reference)
			got, err := e.Run(stage, NoHalo{}) // ghosts are unchanged in both
			if err != nil {
				t.Fatal(err)
			}
			for k := range reference {
				if Vec(k) == left { // its memory is undefined; the next stage shows whether it was right
					continue
				}
				for i, v := range e.vectors[k] {
					if v != reference[k][i] && !(math.IsNaN(v) && math.IsNaN(reference[k][i])) {
						t.Fatalf("%s: vector %d differs at row %d: %v, want %v", method, k, i, v, reference[k][i])
					}
				}
			}
			for i := range want {
				a, _ := stage.dots[i].a.of()
				b, _ := stage.dots[i].b.of()
				scale := math.Sqrt(sparse.Dot(reference[a], reference[a]) * sparse.Dot(reference[b], reference[b]))
				if math.Abs(got[i]-want[i]) > 1e-12*scale {
					t.Fatalf("%s: product %d is %v, want %v", method, i, got[i], want[i])
				}
			}
			return want, nil
		}))(t)
	})
}

func TestTraceNamesThePhases(t *testing.T) {
	p, _ := sparse.New("poisson", sparse.Params{Rows: 2000})
	plan := sparse.NewPlan(p, stripes{p.Size(), 2, 1000}, 0)
	m := must.Get(plan.Matrix(p, sparse.Compressed))(t)
	s, _ := New("cg-single", p.Traits(), Config{RTol: 1e-8, MaxIter: 10, Precondition: true, Stored: true})
	e := NewEngine(m, plan, unfused{jacobiOf(plan, p)}, s.Vectors())
	e.Vector(B)[0] = 1
	seen := map[Phase]int{}
	last := Phase(0)
	e.Trace = func(p Phase) { seen[p]++; last = p }
	first := errors.New("the first stage is enough")
	if _, err := s.Run(func(stage *Stage) ([]float64, error) {
		must.Get(e.Run(stage, NoHalo{}))(t)
		return nil, first
	}); err != first {
		t.Error(err)
	}
	for p := Updates; p < NumPhases; p++ {
		if seen[p] == 0 {
			t.Errorf("phase %v was not seen", p)
		}
	}
	if last != Other || seen[HaloPack] != 1 || seen[HaloWait] != 1 {
		t.Errorf("phases %v, the last %v", seen, last)
	}
}

// A product that was left may only be a term of the next stage. Any other use would read undefined memory and must
// panic.
func TestMisusedProductsAreRefused(t *testing.T) {
	p, _ := sparse.New("poisson", sparse.Params{Rows: 9})
	plan := sparse.NewPlan(p, whole(9), 0)
	m := must.Get(plan.Matrix(p, sparse.Plain))(t)
	const w, n, v = FirstOwn, FirstOwn + 1, FirstOwn + 2
	use := func(s *Stage) *Stage { return s.Add(v, 2, n) }
	for what, stages := range map[string][]func(s *Stage) *Stage{
		"":                            {use, func(s *Stage) *Stage { return s.Set(n, Term{1, w}).Dot(n, n) }},
		"a scalar product":            {func(s *Stage) *Stage { return s.Dot(w, n) }},
		"the first of one":            {func(s *Stage) *Stage { return s.Dot(n, w) }},
		"multiplied":                  {func(s *Stage) *Stage { return s.Multiply(v, n) }},
		"preconditioned":              {func(s *Stage) *Stage { return s.Precondition(v, n) }},
		"a preconditioned term":       {func(s *Stage) *Stage { return s.Add(v, 2, Inverted(n)) }},
		"used after the next stage":   {use, use},
		"assigned":                    {func(s *Stage) *Stage { return s.Set(n, Term{1, w}) }},
		"what was multiplied changed": {func(s *Stage) *Stage { return use(s.Set(w, Term{1, v})) }},
	} {
		e := NewEngine(m, plan, jacobiOf(plan, p), 5)
		s := new(Stage)
		must.Get(e.Run(s.Multiply(n, w).Overlap(), NoHalo{}))(t)
		refused := func() (refused bool) {
			defer func() { refused = recover() != nil }()
			for _, stage := range stages {
				must.Get(e.Run(stage(s.reset(false)), NoHalo{}))(t)
			}
			return false
		}()
		if refused != (what != "") {
			t.Errorf("%q: refused %v", what, refused)
		}
	}
}

// Computing a part of a product before the next stage changes no bit of the result, and no part is computed before its
// reduction begins.
func TestHowLongReductionsTakeChangesNothing(t *testing.T) {
	p, _ := sparse.New("variable", sparse.Params{Rows: 5000})
	plan := sparse.NewPlan(p, stripes{p.Size(), 2, 2500}, 0)
	m := must.Get(plan.Matrix(p, sparse.Compressed))(t)
	for _, precondition := range []bool{false, true} {
		var want []float64
		for _, looks := range []int{0, 1, 3, 1 << 30} {
			s, _ := New("cg-pipelined", p.Traits(), Config{RTol: 1e-8, MaxIter: 40, Precondition: precondition})
			e := NewEngine(m, plan, jacobiOf(plan, p), s.Vectors())
			for i := range e.Vector(B) {
				e.Vector(B)[i] = noise(i)
			}
			left, multiplied := 0, 0
			e.Begin = func([]float64) error { left, multiplied = looks, 0; return nil }
			e.Underway = func() bool { left--; return left >= 0 }
			e.Trace = func(p Phase) {
				if p == SpMV {
					multiplied++
				}
			}
			r := must.Get(s.Run(func(stage *Stage) ([]float64, error) {
				sums := must.Get(e.Run(stage, NoHalo{}))(t)
				if blocks := len(plan.Interior) * (plan.Owned/blockRows + 1); stage.overlaps &&
					(multiplied < min(looks, 4) || multiplied > min(looks+len(plan.Interior), blocks)) {
					t.Fatalf("%d blocks were multiplied in %d looks", multiplied, looks)
				}
				return sums, nil
			}))(t)
			if r.Iterations != 40 {
				t.Fatalf("%d iterations: %s", r.Iterations, r.Reason)
			}
			if want == nil {
				want = append(want, e.Vector(X)...)
			}
			for i, v := range e.Vector(X) {
				if v != want[i] {
					t.Fatalf("%d looks: row %d is %v, want %v", looks, i, v, want[i])
				}
			}
		}
	}
}

// The number of vectors that iterations move through memory, counted by hand.
func TestPasses(t *testing.T) {
	for _, tc := range []struct {
		method       string
		precondition bool
		want         []int // for the stages of two iterations
	}{
		{"cg", false, []int{6, 3, 6, 3}},    // reads x, p, r, writes x, p, q | reads r, q, writes r
		{"cg", true, []int{7, 4, 7, 4}},     // plus the diagonal
		{"cg-single", false, []int{10, 10}}, // reads and writes p, s, x, r, w
		// reads r, w, now and before, writes r, w; every other time also reads and writes x, p
		{"cg-pipelined", false, []int{6, 10}},
		{"cg-pipelined", true, []int{9, 13}}, // plus m, twice, and the diagonal
	} {
		s := must.Get(New(tc.method, sparse.Traits{Symmetric: true, Definite: true},
			Config{RTol: 1e-8, MaxIter: 5, Precondition: tc.precondition}))(t)
		var got []int
		residual := 1.0
		must.Get(s.Run(func(stage *Stage) ([]float64, error) {
			if s.Result().Iterations >= 2 {
				got = append(got, stage.passes())
			}
			residual /= 2
			return []float64{residual, 2 * residual, residual}[:len(stage.dots)], nil
		}))(t)
		if fmt.Sprint(got[:len(tc.want)]) != fmt.Sprint(tc.want) {
			t.Errorf("%s, preconditioned %v: %v, want %v", tc.method, tc.precondition, got, tc.want)
		}
	}
}
