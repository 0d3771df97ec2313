package multigrid

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// combinations calls fn with every combination of settings that a preconditioner has.
func combinations(p precondition.Preconditioner, fn func(m precondition.Multigrid)) {
	for _, smoother := range precondition.Smoothers {
		for _, sweeps := range []int{1, 2} {
			for _, cycle := range precondition.Cycles {
				for _, coarsening := range precondition.Coarsenings {
					for _, aggressive := range []int{0, 1} {
						for _, coarsest := range precondition.CoarsestSolvers {
							m := precondition.Multigrid{Smoother: smoother, Sweeps: sweeps, Cycle: cycle, Coarsening: coarsening,
								Aggressive: aggressive, Coarsest: coarsest}
							if precondition.CheckMultigrid(p, m) == nil {
								fn(m)
							}
						}
					}
				}
			}
		}
	}
}

// solvedWith returns the iterations of cg on a problem with the given settings, or an error text.
func solvedWith(t *testing.T, ranks int, p sparse.Problem, pre precondition.Preconditioner,
	m precondition.Multigrid) (iterations int, asymmetry float64) {
	t.Helper()
	onRanks(t, ranks, (p.Size()+ranks-1)/ranks, p, func(l *precondition.Local) {
		l.Multigrid = m
		op, err := pre.New(l)
		if err != nil {
			t.Errorf("%s %+v: %v", pre.Name, m, err)
			return
		}
		n := l.Plan.Owned
		vectors := make([][]float64, 4) // u, v, Mu, Mv
		for k := range vectors {
			vectors[k] = make([]float64, l.Matrix.Columns())
			for i := range n {
				vectors[k][i] = sparse.Noise(uint64(k), l.Plan.Global(i))
			}
		}
		for k := range 2 {
			must.Do(t, op.Apply(vectors[2+k], vectors[k]))
		}
		dot := func(a, b int) float64 { return sparse.Dot(vectors[a][:n], vectors[b][:n]) }
		dots := must.Get(l.Team.Sum([]float64{dot(1, 2), dot(0, 3), dot(0, 2)}))(t)
		s := must.Get(krylov.New("cg", l.Traits, krylov.Config{RTol: 1e-10, MaxIter: 300, Precondition: true, Stored: true,
			Flexible: m.Flexible()}))(t)
		e := krylov.NewEngine(l.Matrix, l.Plan, op, s.Vectors())
		for i := range e.Vector(krylov.B) {
			e.Vector(krylov.B)[i] = 1
		}
		r := must.Get(s.Run(func(stage *krylov.Stage) ([]float64, error) {
			return l.Team.Sum(must.Get(e.Run(stage, l.Halo))(t))
		}))(t)
		if r.Status != krylov.Converged {
			t.Errorf("%s %+v on %d ranks: %+v", pre.Name, m, ranks, r.Status)
		}
		if l.Team.Rank() == 0 {
			iterations, asymmetry = r.Iterations, max(dots[0]-dots[1], dots[1]-dots[0])/dots[2]
		}
	})
	return iterations, asymmetry
}

// Every combination of settings solves a problem, and is symmetric unless its cycle needs a flexible method.
func TestEveryCombination(t *testing.T) {
	problems := map[string]sparse.Problem{
		"gmg": problem(t, "anisotropic", sparse.Params{Rows: 13 * 13, Contrast: 1000}),
		"amg": problem(t, "variable", sparse.Params{Rows: 13 * 13, Contrast: 1e6, Seed: 1}),
	}
	for name, p := range problems {
		pre := must.Get(precondition.Preconditioners.Lookup(name))(t)
		count := 0
		combinations(pre, func(m precondition.Multigrid) {
			count++
			ranks := 1 + count%2
			if _, asymmetry := solvedWith(t, ranks, p, pre, m); asymmetry > 1e-10 && !m.Flexible() {
				t.Errorf("%s %+v on %d ranks: asymmetry %.2g", name, m, ranks, asymmetry)
			}
		})
		if want := map[string]int{"gmg": 48, "amg": 192}[name]; count != want {
			t.Errorf("%s: %d combinations, want %d", name, count, want)
		}
	}
}

// An F-cycle is not symmetric, so the check of symmetry can fail.
func TestFCycleIsNotSymmetric(t *testing.T) {
	p := problem(t, "anisotropic", sparse.Params{Rows: 40 * 40})
	pre := must.Get(precondition.Preconditioners.Lookup("amg"))(t)
	if _, asymmetry := solvedWith(t, 1, p, pre, precondition.Multigrid{Cycle: "f"}); asymmetry < 1e-10 {
		t.Errorf("asymmetry %.2g", asymmetry)
	}
}

// The iterations of cg to 1e-10 for ones, on problems that are hard for multigrid. The counts are exact: they change
// only with the algorithm.
func TestIterations(t *testing.T) {
	last, few := lastRows, fewRows
	lastRows, fewRows = 300, 256
	defer func() { lastRows, fewRows = last, few }()
	var got []string
	for _, c := range []struct {
		kind     string
		contrast float64
		name     string
		settings precondition.Multigrid
	}{
		{"variable", 1e6, "amg", precondition.Multigrid{}},
		{"variable", 1e6, "amg", precondition.Multigrid{Cycle: "k"}},
		{"variable", 1e6, "amg", precondition.Multigrid{Coarsening: "aggregation"}},
		{"variable", 10, "amg", precondition.Multigrid{}},
		{"anisotropic", 1e3, "amg", precondition.Multigrid{}},
		{"anisotropic", 1e3, "amg", precondition.Multigrid{Cycle: "w"}},
		{"anisotropic", 1e3, "amg", precondition.Multigrid{Smoother: "gauss-seidel"}},
		{"anisotropic", 1e3, "gmg", precondition.Multigrid{}},
		{"poisson", 0, "amg", precondition.Multigrid{}},
		{"poisson", 0, "amg", precondition.Multigrid{Smoother: "jacobi"}},
		{"poisson", 0, "amg", precondition.Multigrid{Coarsening: "aggregation", Aggressive: 1}},
		{"variable", 1e6, "amg-f32", precondition.Multigrid{}},
		{"variable", 1e6, "amg-bf16", precondition.Multigrid{}},
		{"variable", 10, "gmg-bf16", precondition.Multigrid{}},
		{"anisotropic", 1e3, "amg-bf16", precondition.Multigrid{}},
		{"mesh", 0, "amg-bf16", precondition.Multigrid{}},
	} {
		p := problem(t, c.kind, sparse.Params{Rows: 100 * 100, Contrast: c.contrast})
		pre := must.Get(precondition.Preconditioners.Lookup(c.name))(t)
		n, _ := solvedWith(t, 1, p, pre, c.settings)
		got = append(got, fmt.Sprint(n))
	}
	if got, want := strings.Join(got, " "), "11 11 31 13 8 8 8 7 10 12 36 11 11 10 8 14"; got != want {
		t.Errorf("iterations\n%s, want\n%s", got, want)
	}
}
