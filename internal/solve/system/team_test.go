package system

import (
	"fmt"
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// hangGuard is the time limit of a group's calls. It only ends tests that hang.
const hangGuard = 2 * time.Minute

// onRanks calls fn on every rank of a group. The ranks are goroutines.
func onRanks(_ *testing.T, size int, fn func(g *dist.Group) error) []error {
	return disttest.Ranks(size, dist.Config{Backend: "cpu", Timeout: hangGuard}, fn)
}

func must(t *testing.T, errs []error) {
	t.Helper()
	for r, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
}

func noise(i int) float64 { return sparse.Noise(11, i) }

// solveOn solves on the given number of ranks. If want is not nil, it compares the solution with want.
func solveOn(t *testing.T, ranks int, spec Spec, want *mat.VecDense) Outcome {
	t.Helper()
	outs := make([]Outcome, ranks)
	must(t, onRanks(t, ranks, func(g *dist.Group) error {
		sys, err := New(g, spec)
		if err != nil {
			return err
		}
		if want != nil {
			defer func() { near(t, fmt.Sprintf("%s, %s, %d ranks", spec.Method, spec.Partitioner, ranks), sys, want) }()
		}
		outs[g.Rank()], err = solved(sys)
		return err
	}))
	for r, o := range outs {
		if o.Iterations != outs[0].Iterations || o.TrueResidual != outs[0].TrueResidual {
			t.Errorf("rank %d: %d iterations to %g, rank 0 says %d to %g", r, o.Iterations, o.TrueResidual, outs[0].Iterations,
				outs[0].TrueResidual)
		}
	}
	return outs[0]
}

// solved solves and checks.
func solved(sys *System) (Outcome, error) {
	out, err := sys.Solve(0)
	if err == nil {
		err = sys.Check(&out)
	}
	return out, err
}

// direct solves by elimination.
func direct(t *testing.T, p sparse.Problem) *mat.VecDense {
	t.Helper()
	m, b := mat.NewDense(p.Size(), p.Size(), nil), mat.NewVecDense(p.Size(), nil)
	var r sparse.Row
	for i := range p.Size() {
		p.Row(i, &r)
		for k, c := range r.Cols {
			m.Set(i, c, r.Vals[k])
		}
		b.SetVec(i, noise(i))
	}
	if p.Traits().Singular { // project constants out of b, and choose the solution that adds up to zero
		m.Apply(func(_, _ int, v float64) float64 { return v + 1 }, m)
		mean := mat.Sum(b) / float64(p.Size())
		for i := range p.Size() {
			b.SetVec(i, b.AtVec(i)-mean)
		}
	}
	var x mat.VecDense
	if err := x.SolveVec(m, b); err != nil {
		t.Fatal(err)
	}
	return &x
}

// near compares a rank's part of the solution with elimination, row by row.
func near(t *testing.T, what string, sys *System, want *mat.VecDense) {
	t.Helper()
	scale := mat.Norm(want, 2)
	for i, v := range sys.Solution() {
		if w := want.AtVec(sys.Plan.Global(i)); !(math.Abs(v-w) <= 1e-7*scale) {
			t.Errorf("%s: x[%d] = %g, want %g", what, sys.Plan.Global(i), v, w)
			return
		}
	}
}

func generated(t *testing.T, name string, p sparse.Params) sparse.Problem {
	t.Helper()
	made, err := sparse.New(name, p)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// usable reports whether a method can work on a problem.
func usable(m krylov.Method, t sparse.Traits) bool {
	return m.Check(t) == nil && (m.Needs != krylov.SymmetricDefinite || t.Definite)
}

// preconditioners lists the preconditioners that can work on a problem.
func preconditioners(problem sparse.Problem) (names []string) {
	for _, p := range precondition.Preconditioners.All() {
		if p.Check(problem, problem.Traits()) == nil {
			names = append(names, p.Name)
		}
	}
	return names
}

// preconditioner returns jacobi if wanted, else the default, none.
func preconditioner(wanted bool) string {
	if wanted {
		return "jacobi"
	}
	return ""
}
