package krylov

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func dense(p sparse.Problem) *mat.Dense {
	m := mat.NewDense(p.Size(), p.Size(), nil)
	var r sparse.Row
	for i := range p.Size() {
		p.Row(i, &r)
		for k, c := range r.Cols {
			m.Set(i, c, r.Vals[k])
		}
	}
	return m
}

// direct solves by Gaussian elimination.
func direct(t *testing.T, p sparse.Problem, rhs func(int) float64) *mat.VecDense {
	t.Helper()
	b := mat.NewVecDense(p.Size(), nil)
	for i := range p.Size() {
		b.SetVec(i, rhs(i))
	}
	var x mat.VecDense
	must.Do(t, x.SolveVec(dense(p), b))
	return &x
}

// trueResidual returns ||b - A x|| / ||b||.
func trueResidual(p sparse.Problem, x []float64, rhs func(int) float64) float64 {
	var r sparse.Row
	rr, bb := 0.0, 0.0
	for i := range x {
		p.Row(i, &r)
		d := rhs(i)
		bb += d * d
		for k, c := range r.Cols {
			d -= r.Vals[k] * x[c]
		}
		rr += d * d
	}
	return math.Sqrt(rr / bb)
}

func noise(i int) float64 { return sparse.Noise(11, i) }

// indefinite is a Poisson problem minus a shift: symmetric, with eigenvalues of both signs.
type indefinite struct{ sparse.Problem }

func (p indefinite) Traits() sparse.Traits { return sparse.Traits{Symmetric: true} }

func (p indefinite) Row(i int, r *sparse.Row) {
	p.Problem.Row(i, r)
	for k, c := range r.Cols {
		if c == i {
			r.Vals[k] -= 1.3
		}
	}
}

func problems(t *testing.T) map[string]sparse.Problem {
	out := map[string]sparse.Problem{}
	for _, v := range []struct {
		name string
		sparse.Params
	}{
		{"poisson", sparse.Params{Rows: 400}},
		{"poisson", sparse.Params{Rows: 343, Dim: 3, Stencil: 27}},
		{"anisotropic", sparse.Params{Rows: 343, Dim: 3}},
		{"variable", sparse.Params{Rows: 400, Seed: 2}},
		{"advection", sparse.Params{Rows: 343, Dim: 3}},
		{"mesh", sparse.Params{Rows: 400, Seed: 2}},
	} {
		p := must.Get(sparse.New(v.name, v.Params))(t)
		out[fmt.Sprintf("%s-%d-%d", v.name, v.Dim, v.Stencil)] = p
	}
	small, _ := sparse.New("poisson", sparse.Params{Rows: 150})
	out["indefinite"] = indefinite{small}
	return out
}

// usable reports whether a method can work on a problem.
func usable(m Method, t sparse.Traits) bool {
	return m.Check(t) == nil && (m.Needs != SymmetricDefinite || t.Definite)
}

func TestSolutionsMatchElimination(t *testing.T) {
	const rtol = 1e-10
	for name, p := range problems(t) {
		want := direct(t, p, noise)
		for _, info := range Methods.All() {
			if !usable(info, p.Traits()) {
				continue // refused, or breaks down: see the tests below
			}
			for _, precondition := range []bool{false, true} {
				iterations := 0
				for _, ranks := range []int{1, 3, 7} {
					what := fmt.Sprintf("%s, %s, preconditioned %v, %d ranks", name, info.Name, precondition, ranks)
					format := sparse.Format(ranks % 2)
					tm := team{problem: p, method: info.Name, format: format, layout: stripes{p.Size(), ranks, 23}, ranks: ranks,
						rhs: noise,
						cfg: Config{RTol: rtol, MaxIter: 3000, Restart: 60, Precondition: precondition}}
					x, result := tm.solve(t)
					if result.Status != Converged || result.Residual > rtol {
						t.Errorf("%s: %v after %d iterations, residual %g %s", what, result.Status, result.Iterations, result.Residual,
							result.Reason)
						continue
					}
					if res := trueResidual(p, x, noise); res > 10*rtol {
						t.Errorf("%s: true residual %g, the method says %g", what, res, result.Residual)
					}
					for i, v := range x {
						if math.Abs(v-want.AtVec(i)) > 1e-6*mat.Norm(want, 2) {
							t.Errorf("%s: x[%d] = %g, want %g", what, i, v, want.AtVec(i))
							break
						}
					}
					if len(result.History) != result.Iterations+1 || result.History[0] != 1 {
						t.Errorf("%s: history of %d for %d iterations", what, len(result.History), result.Iterations)
					}
					// The order of summation depends on the number of ranks. bicgstab, and methods that need about as many iterations
					// as there are rows, are sensitive to it.
					calm := info.Name != "bicgstab" && 2*iterations < p.Size()
					if off := math.Abs(float64(result.Iterations - iterations)); iterations > 0 && calm && off > 1+
						0.01*float64(iterations) {
						t.Errorf("%s: %d iterations, %d on one rank", what, result.Iterations, iterations)
					}
					if ranks == 1 {
						iterations = result.Iterations
					}
				}
			}
		}
	}
}

func TestReductionsPerIteration(t *testing.T) {
	p := problems(t)["variable-0-0"]
	for _, info := range Methods.All() {
		for _, precondition := range []bool{false, true} {
			tm := team{problem: p, method: info.Name, layout: whole(p.Size()), ranks: 1, rhs: noise,
				cfg: Config{RTol: 1e-12, MaxIter: 2000, Restart: 2000, Precondition: precondition}}
			_, r := tm.solve(t)
			if extra := r.Reductions - info.Reductions*r.Iterations; extra < 0 || extra > 3 {
				t.Errorf("%s: %d reductions in %d iterations, want %d each", info.Name, r.Reductions, r.Iterations, info.Reductions)
			}
		}
	}
}

// A wrong ghost on one rank must change the true residual.
func TestWrongGhostShowsInTheTrueResidual(t *testing.T) {
	p := problems(t)["poisson-0-0"]
	for _, info := range Methods.All() {
		tm := team{problem: p, method: info.Name, layout: stripes{p.Size(), 4, 100}, ranks: 4, spoil: true, rhs: noise,
			cfg: Config{RTol: 1e-8, MaxIter: 300, Restart: 30}}
		x, result := tm.solve(t)
		if res := trueResidual(p, x, noise); res < 1e-7 {
			t.Errorf("%s: true residual %g in spite of a wrong ghost (%v)", info.Name, res, result.Status)
		}
	}
}

// The solution does not depend on the partition.
func TestEveryPartitioner(t *testing.T) {
	for name, p := range map[string]sparse.Problem{"mesh": problems(t)["mesh-0-0"],
		"advection": problems(t)["advection-3-0"]} {
		want := direct(t, p, noise)
		for _, part := range partition.Partitioners.All() {
			for _, ranks := range []int{2, 3, 5, 7, 8} {
				if part.Library != nil || part.Check(p) != nil {
					continue
				}
				layout := must.Get(part.Partition(p, partition.Options{Ranks: ranks}))(t)
				for _, info := range Methods.All() {
					if !usable(info, p.Traits()) {
						continue
					}
					tm := team{problem: p, method: info.Name, layout: layout, ranks: ranks, rhs: noise,
						cfg: Config{RTol: 1e-10, MaxIter: 1000, Restart: 50}}
					x, r := tm.solve(t)
					for i, v := range x {
						if math.Abs(v-want.AtVec(i)) > 1e-7*mat.Norm(want, 2) {
							t.Errorf("%s, %s, %s, %d ranks: %v, x[%d] = %g, want %g", name, part.Name, info.Name, ranks, r.Status, i, v,
								want.AtVec(i))
							break
						}
					}
				}
			}
		}
	}
}

func TestMoreRanksThanRows(t *testing.T) {
	p, _ := sparse.New("poisson", sparse.Params{Rows: 4})
	for _, info := range Methods.All() {
		tm := team{problem: p, method: info.Name, layout: stripes{p.Size(), 6, 1}, ranks: 6, rhs: noise,
			cfg: Config{RTol: 1e-12, MaxIter: 20}}
		x, r := tm.solve(t)
		if res := trueResidual(p, x, noise); r.Status != Converged || res > 1e-11 {
			t.Errorf("%s: %v, true residual %g", info.Name, r.Status, res)
		}
	}
}

func TestEndings(t *testing.T) {
	all := problems(t)
	base := team{layout: whole(400), ranks: 1, rhs: noise}
	for _, tc := range []struct {
		name    string
		methods string // "" means all
		change  func(*team)
		status  Status
		reason  string
	}{
		{"zero right-hand side", "", func(tm *team) { tm.rhs = func(int) float64 { return 0 } }, Converged, ""},
		{"absolute tolerance", "", func(tm *team) { tm.cfg.ATol = 1e9 }, Converged, ""},
		{"few iterations", "", func(tm *team) { tm.cfg.MaxIter = 3 }, TooManyIterations, ""},
		{"not finite", "", func(tm *team) { tm.rhs = func(int) float64 { return math.NaN() } }, Breakdown, "not finite"},
		{"indefinite", "cg cg-single cg-pipelined",
			func(tm *team) { tm.problem = all["indefinite"]; tm.layout = whole(tm.problem.Size()) }, Breakdown, "minres"},
		{"eigenvector", "", func(tm *team) {
			tm.rhs = func(i int) float64 {
				h := math.Pi / 21
				return math.Sin(float64(i%20+1)*h) * math.Sin(float64(i/20+1)*h)
			}
		}, Converged, ""},
	} {
		for _, info := range Methods.All() {
			if tc.methods != "" && !strings.Contains(" "+tc.methods+" ", " "+info.Name+" ") {
				continue
			}
			tm := base
			tm.problem, tm.method, tm.cfg = all["poisson-0-0"], info.Name, Config{RTol: 1e-8, MaxIter: 500}
			tc.change(&tm)
			_, r := tm.solve(t)
			if r.Status != tc.status || !strings.Contains(r.Reason, tc.reason) {
				t.Errorf("%s, %s: %v (%s), want %v (%s)", tc.name, info.Name, r.Status, r.Reason, tc.status, tc.reason)
			}
			if tc.name == "eigenvector" && r.Iterations > 2 {
				t.Errorf("%s: %d iterations for an eigenvector", info.Name, r.Iterations)
			}
			if r.Iterations > tm.cfg.MaxIter {
				t.Errorf("%s, %s: %d iterations", tc.name, info.Name, r.Iterations)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	good := Config{RTol: 1e-8, MaxIter: 10}
	for _, tc := range []struct {
		method string
		traits sparse.Traits
		cfg    Config
		want   string
	}{
		{"cg", sparse.Traits{}, good, "needs a symmetric positive definite matrix"},
		{"cg-single", sparse.Traits{}, good, "needs a symmetric"},
		{"minres", sparse.Traits{}, good, "needs a symmetric matrix"},
		{"lu", sparse.Traits{}, good, "known: bicgstab, cg, cg-pipelined, cg-single, gmres, minres"},
		{"gmres", sparse.Traits{}, Config{MaxIter: 10}, "want one positive"},
		{"gmres", sparse.Traits{}, Config{RTol: math.NaN(), MaxIter: 10}, "tolerances"},
		{"gmres", sparse.Traits{}, Config{RTol: 1}, "at least 1"},
		{"gmres", sparse.Traits{}, Config{RTol: 1, MaxIter: 1, Restart: -1}, "restart"},
	} {
		if _, err := New(tc.method, tc.traits, tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%s, %+v, %+v): error %v, want one with %q", tc.method, tc.traits, tc.cfg, err, tc.want)
		}
	}
}

// Until rounding matters, the residual that a method reports is the true residual of its x.
func TestRecursiveResidualIsTheTrueOne(t *testing.T) {
	for name, p := range problems(t) {
		for _, info := range Methods.All() {
			if !usable(info, p.Traits()) {
				continue
			}
			for _, precondition := range []bool{false, true} {
				tm := team{problem: p, method: info.Name, layout: whole(p.Size()), ranks: 1, rhs: noise,
					cfg: Config{RTol: 1e-3, MaxIter: 2000, Restart: 200, Precondition: precondition}}
				x, r := tm.solve(t)
				if res := trueResidual(p, x, noise); r.Status != Converged || math.Abs(res-r.Residual) > 1e-6*res {
					t.Errorf("%s, %s, preconditioned %v: residual %g, true one %g (%v)", name, info.Name, precondition, r.Residual,
						res, r.Status)
				}
			}
		}
	}
}
