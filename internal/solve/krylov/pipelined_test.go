package krylov

import (
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// drifting is a problem in which the recurrences lose the residual: its coefficients jump, and it needs many
// iterations.
func drifting(t *testing.T, rtol float64, start func(c *Core) func()) team {
	t.Helper()
	p := must.Get(sparse.New("variable", sparse.Params{Rows: 2500, Seed: 2}))(t)
	return team{problem: p, method: "cg-pipelined", layout: whole(p.Size()), ranks: 1, rhs: noise, start: start,
		cfg: Config{RTol: rtol, MaxIter: 5000}}
}

// Replacement makes the pipelined method reach a small residual. Without it the residual of the recurrences differs
// from the residual of x, and the scalar products get wrong signs.
func TestReplacementReachesTheResidual(t *testing.T) {
	const rtol = 1e-12
	with, without := drifting(t, rtol, nil), drifting(t, rtol, func(c *Core) func() { return startPipelined(c, false) })
	x, r := with.solve(t)
	if res := trueResidual(with.problem, x, noise); r.Status != Converged || res > 1.01*rtol {
		t.Errorf("with replacement: %v after %d iterations, true residual %g", r.Status, r.Iterations, res)
	}
	if got, want := r.Residual, r.History[len(r.History)-1]; got != want || len(r.History) != r.Iterations+1 {
		t.Errorf("residual %g, the last of %d in the history %g, after %d iterations", got, len(r.History), want,
			r.Iterations)
	}
	x, r = without.solve(t)
	if res := trueResidual(without.problem, x, noise); res < 100*rtol || res < 2*r.Residual {
		t.Errorf("without replacement: %v, true residual %g, the method says %g: no drift to be mended", r.Status, res,
			r.Residual)
	}
}

// The pipelined method needs about as many iterations as cg.
func TestPipelinedConvergesAsCG(t *testing.T) {
	for name, p := range problems(t) {
		if !p.Traits().Definite {
			continue
		}
		for _, precondition := range []bool{false, true} {
			count := map[string]int{}
			for _, method := range []string{"cg", "cg-pipelined"} {
				tm := team{problem: p, method: method, layout: stripes{p.Size(), 3, 23}, ranks: 3, rhs: noise,
					cfg: Config{RTol: 1e-10, MaxIter: 3000, Precondition: precondition}}
				_, r := tm.solve(t)
				count[method] = r.Iterations
			}
			if cg, got := count["cg"], count["cg-pipelined"]; math.Abs(float64(got-cg)) > 3+0.06*float64(cg) {
				t.Errorf("%s, preconditioned %v: %d iterations, cg takes %d", name, precondition, got, cg)
			}
		}
	}
}

// An overlapping stage hands over its sums before the preconditioner and the product.
func TestOverlapBeginsBeforeTheProduct(t *testing.T) {
	p, _ := sparse.New("poisson", sparse.Params{Rows: 2000})
	plan := sparse.NewPlan(p, whole(p.Size()), 0)
	m, err := plan.Matrix(p, sparse.Compressed)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := New("cg-pipelined", p.Traits(), Config{RTol: 1e-8, MaxIter: 10, Precondition: true, Stored: true})
	e := NewEngine(m, plan, unfused{jacobiOf(plan, p)}, s.Vectors())
	e.Vector(B)[0] = 1
	var seen []Phase
	var begun []float64
	e.Trace = func(p Phase) { seen = append(seen, p) }
	e.Begin = func(sums []float64) error {
		begun = append([]float64(nil), sums...)
		for _, p := range seen {
			if p == Precond || p == SpMV {
				t.Errorf("%v comes before the reduction", p)
			}
		}
		return nil
	}
	overlapped := 0
	must.Get(s.Run(func(stage *Stage) ([]float64, error) {
		seen, begun = seen[:0], nil
		sums := must.Get(e.Run(stage, NoHalo{}))(t)
		if stage.overlaps != (begun != nil) {
			t.Errorf("a stage that overlaps (%v) began %v", stage.overlaps, begun)
		}
		for i, v := range begun {
			if v != sums[i] {
				t.Errorf("began with %v, ended with %v", begun, sums)
			}
		}
		if stage.overlaps {
			overlapped++
		}
		return sums, nil
	}))(t)
	if overlapped < 10 {
		t.Errorf("%d stages overlap", overlapped)
	}
}
