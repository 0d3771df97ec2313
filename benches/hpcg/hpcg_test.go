package hpcg

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// The formula, computed by hand for two levels of 100 and 10 entries, 8 rows, and one set of 50 iterations.
func TestFormula(t *testing.T) {
	w := work{sets: 1, iterations: 50, rows: 8, entries: []float64{100, 10}}
	want := 151*16.0 + 151*16 + 51*200 + 50*(400+200+400) + 50*40
	if got := w.flops(); got != want {
		t.Errorf("%g operations, want %g", got, want)
	}
	// Twice the iterations for the same residual: the additional operations are not counted, but their time is.
	more := work{sets: 1, iterations: 100, rows: 8, entries: []float64{100, 10}}
	if got := more.rating(2, 0) / w.rating(1, 0); math.Abs(got-0.5) > 0.01 {
		t.Errorf("with twice the iterations %g of the rating", got)
	}
	if got := w.rating(1, 10) / w.rating(1, 0); math.Abs(got-0.5) > 1e-12 {
		t.Errorf("a set-up of ten times the set leaves %g of the rating", got)
	}
}

func TestChecksRefuse(t *testing.T) {
	good := check{"departure", 0.5, 1}
	for _, c := range []check{{"departure", 2, 1}, {"variance", math.NaN(), 1e-6}, {"iterations", math.Inf(1), 12}} {
		if err := invalid([]check{good, c}); err == nil || !strings.Contains(err.Error(), c.name) ||
			strings.Contains(err.Error(), "0.5") {
			t.Errorf("%v: %v", c, err)
		}
	}
	if err := invalid([]check{good}); err != nil {
		t.Error(err)
	}
	long := make([]float64, 71)
	for i := range long {
		long[i] = math.Pow(0.9, float64(i))
	}
	// A method gets no credit for needing fewer iterations than the reference.
	for n, target := range map[int]float64{referenceIterations: 0.5, 60: long[60]} {
		if got := iterationsNeeded(long, target); got != n {
			t.Errorf("%d iterations to %g, want %d", got, target, n)
		}
	}
	if n := iterationsNeeded([]float64{1, 0.1}, 0.01); n <= maxIterations {
		t.Errorf("%d iterations to what is never reached", n)
	}
	if v := variance([]float64{1e-9, 1e-9}); v > 1e-20 {
		t.Errorf("variance %g of equal values", v)
	}
	if v := variance([]float64{1e-9, 1.01e-9}); v < maxVariance {
		t.Errorf("a difference of 1 %% has a variance of %g", v)
	}
	for ranks, want := range map[int][3]int{1: {1, 1, 1}, 2: {1, 1, 2}, 6: {1, 2, 3}, 7: {1, 1, 7}, 8: {2, 2, 2},
		12: {2, 2, 3}} {
		if got := processes(ranks); got != want {
			t.Errorf("%d ranks: %v", ranks, got)
		}
	}
}

// planted is HPCG's preconditioner with a planted error.
type planted struct {
	solve.Operator
	spoil func(dst, src []float64)
}

func (p planted) Apply(dst, src []float64) error {
	err := p.Operator.Apply(dst, src)
	p.spoil(dst, src)
	return err
}

func init() {
	for _, p := range solve.Preconditioners() {
		if p.Name != preconditioner {
			continue
		}
		make := p.New
		for name, spoil := range map[string]func(dst, src []float64){
			"planted-asymmetry": func(dst, src []float64) { dst[0] += 1e-3 * src[1] }, // in one entry
			"planted-weakness": func(dst, src []float64) { // symmetric, but no longer close to the inverse
				for i := range dst[:len(dst)/2] {
					dst[i] = src[i] / 26e6 * float64(1+i%7)
				}
			},
		} {
			q := p
			q.Name = name
			q.New = func(l *solve.Local) (solve.Operator, error) {
				o, err := make(l)
				return planted{o, spoil}, err
			}
			solve.RegisterPreconditioner(q)
		}
	}
}

// onRanks calls fn on every rank of a group. The ranks are goroutines.
func onRanks(t *testing.T, size int, fn func(g *dist.Group) error) {
	t.Helper()
	for r, err := range disttest.Ranks(size, dist.Config{Backend: "cpu", Timeout: time.Minute}, fn) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// summed adds up over a group.
func summed(g *dist.Group) summing {
	return func(mine ...float64) ([]float64, error) {
		out := make([]float64, len(mine))
		return out, g.AllReduce(dist.Of(out), dist.Of(mine), dist.Sum)
	}
}

// The preconditioner passes the checks on one rank and on several. Preconditioners with planted errors fail.
func TestValidity(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		grid := processes(ranks)
		for axis := range grid {
			grid[axis] *= 16
		}
		made := must.Get(sparse.NewGridPoisson(grid, 27))(t)
		p := problem{made}
		onRanks(t, ranks, func(g *dist.Group) error {
			system := func(p solve.Problem, rhs func(int) float64, precond string, rtol float64) (*system.System, error) {
				return system.New(g, solve.Spec{Problem: p, RHS: rhs, Partitioner: "block",
					Uncompressed: true,
					Method:       "cg", Preconditioner: precond, RTol: rtol, MaxIter: maxIterations})
			}
			for _, c := range []struct {
				precond string
				limit   float64
				valid   bool
				faults  string
			}{
				{preconditioner, maxPreconditioned, true, ""},
				{"planted-asymmetry", maxPreconditioned, false, "symmetry of the preconditioner"},
				{"planted-weakness", maxPreconditioned, false, "exaggerated"},
			} {
				sys, err := system(p, p.rhs, c.precond, unreachable)
				if err != nil {
					return err
				}
				checks, err := symmetry(sys, 1, summed(g))
				if err != nil {
					return err
				}
				huge := exaggerated{p}
				if sys, err = system(huge, huge.rhs, c.precond, spectralTolerance); err != nil {
					return err
				}
				n, err := spectral(sys)
				if err != nil {
					return err
				}
				checks = append(checks, check{"iterations on the exaggerated diagonal", n, c.limit})
				if err := invalid(checks); (err == nil) != c.valid || err != nil && !strings.Contains(err.Error(), c.faults) {
					t.Errorf("%s on %d ranks: %v (%v)", c.precond, ranks, err, checks)
				}
			}
			return converges(t, p, system)
		})
	}
}

// converges checks the known number of iterations of the preconditioner, and the solution, which is 1 everywhere.
func converges(t *testing.T, p problem,
	system func(p solve.Problem, rhs func(int) float64, precond string, rtol float64) (*system.System, error)) error {
	iterations := map[string]int{}
	for _, precond := range []string{"none", preconditioner} {
		sys, err := system(p, p.rhs, precond, 1e-10)
		if err != nil {
			return err
		}
		out, err := sys.Solve(0)
		if err != nil {
			return err
		}
		iterations[precond] = out.Iterations
		for i, v := range sys.Solution() {
			if math.Abs(v-1) > 1e-7 {
				t.Errorf("%s: x[%d] is %g, want 1", precond, sys.Plan.Global(i), v)
				break
			}
		}
	}
	if 3*iterations[preconditioner] > 2*iterations["none"] {
		t.Errorf("%d iterations with the preconditioner, %d without", iterations[preconditioner], iterations["none"])
	}
	return nil
}

// Every set must reach the residual of the reference, not only the last one. One set says nothing about repeatability.
func TestSetsRepeat(t *testing.T) {
	for _, c := range []struct {
		residuals []float64
		checks    int
		valid     bool
	}{
		{[]float64{1, 1, 1}, 2, true}, {[]float64{0.5}, 1, true},
		{[]float64{1.0005, 1, 1}, 2, false}, {[]float64{1, math.NaN(), 1}, 2, false}, {[]float64{1, 0.9}, 2, false},
	} {
		if checks := setChecks(c.residuals, 1); len(checks) != c.checks || (invalid(checks) == nil) != c.valid {
			t.Errorf("%v: %v", c.residuals, checks)
		}
	}
}
