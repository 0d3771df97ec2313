package krylov

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// carryOut is the reference of Engine.Run: one operation after the other.
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
	if s.early {
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
	if !s.early {
		dots()
	}
	return sums
}

// Fusing changes the order of the work, not its results.
func TestEngineMatchesOneOperationAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"poisson", "variable", "mesh"}).Draw(t, "problem")
		p := must.Get(sparse.New(kind, sparse.Params{Rows: rapid.IntRange(1, 3000).Draw(t, "rows")}))(t)
		ranks := rapid.IntRange(1, 3).Draw(t, "ranks")
		plan := sparse.NewPlan(p, stripes{p.Size(), ranks, rapid.IntRange(1, 900).Draw(t, "each")}, 0)
		inverse := jacobiOf(plan, p)
		m := must.Get(plan.Matrix(p, sparse.Compressed))(t)
		method := rapid.SampledFrom(Methods()).Draw(t, "method").Name
		stored := rapid.Bool().Draw(t, "stored")
		s := must.Get(New(method, p.Traits(), Config{RTol: 1e-30, MaxIter: 3, Restart: 2, Precondition: rapid.Bool().Draw(t, "precondition"), Stored: stored}))(t)
		var operator Operator = inverse
		if stored {
			operator = unfused{inverse}
		}
		e := NewEngine(m, plan, operator, s.Vectors())
		reference := make([][]float64, s.Vectors())
		for k := range reference {
			for i := range e.vectors[k] {
				e.vectors[k][i] = sparse.Noise(uint64(k), i)
			}
			reference[k] = append([]float64(nil), e.vectors[k]...)
		}
		for stage := s.Next(nil); stage != nil; {
			want := carryOut(stage, m, inverse, reference)
			got, err := e.Run(stage, NoHalo{}) // ghosts stay as they are, in both
			if err != nil {
				t.Fatal(err)
			}
			for k := range reference {
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
			stage = s.Next(want)
		}
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
	must.Get(e.Run(s.Next(nil), NoHalo{}))(t)
	for p := Update; p < numPhases; p++ {
		if seen[p] == 0 {
			t.Errorf("phase %v was not seen", p)
		}
	}
	if last != Idle || seen[Exchange] != 1 || seen[Wait] != 1 {
		t.Errorf("phases %v, the last %v", seen, last)
	}
}

// A method that writes its own vector after reading others of it would get
// different results from different block sizes: that is refused.
func TestOwnVectorComesFirst(t *testing.T) {
	p, _ := sparse.New("poisson", sparse.Params{Rows: 9})
	plan := sparse.NewPlan(p, whole(9), 0)
	m, _ := plan.Matrix(p, sparse.Plain)
	e := NewEngine(m, plan, Diagonal(nil), 4)
	defer func() {
		if recover() == nil {
			t.Error("an own vector as third term was accepted")
		}
	}()
	s := new(Stage)
	_, _ = e.Run(s.Set(X, Term{1, B}, Term{1, 2}, Term{1, X}), NoHalo{})
}
