package block

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
	"github.com/kernbench/kernbench/solve"
)

const rtol = 1e-9

func noise(row, column int) float64 { return sparse.Noise(uint64(7+column), row) }

// onRanks sets up a system on some ranks, which are goroutines, and calls fn on each.
func onRanks(t *testing.T, ranks int, spec solve.Spec, columns int, fn func(sys *solve.System, s *System) error) {
	t.Helper()
	spec.RTol, spec.RHS = rtol, func(row int) float64 { return noise(row, 0) }
	for r, err := range disttest.Ranks(ranks, dist.Config{Backend: "cpu", Timeout: 2 * time.Minute},
		func(g *dist.Group) error {
			sys, err := solve.New(g, spec)
			if err != nil {
				return err
			}
			s, err := New(sys, columns, noise)
			if err != nil {
				return err
			}
			return fn(sys, s)
		}) {
		if err != nil {
			t.Errorf("rank %d of %d: %v", r, ranks, err)
		}
	}
}

// solved solves and returns the verdict of the gate.
func solved(s *System, limit int) (solve.Outcome, error) {
	out, err := s.Solve(limit)
	if err != nil {
		return out, err
	}
	if err := s.Check(&out); err != nil {
		return out, err
	}
	return out, s.Gate(out, rtol)
}

// Several columns solved at once agree with single solves, on any number of ranks, with preconditioners that are and
// that are not diagonal, and for a singular matrix. A halo of many columns takes several messages.
func TestColumnsAgreeWithSingleSolves(t *testing.T) {
	for _, c := range []struct {
		kind, precond string
		rows, columns int
		ranks         int
	}{
		{"poisson", "", 500, 3, 1}, {"poisson", "jacobi", 500, 16, 2}, {"variable", "gmg", 900, 5, 3},
		{"mesh", "bjacobi", 300, 4, 4}, {"neumann", "", 400, 2, 2}, {"poisson", "", 2500, 100, 2},
	} {
		problem := must.Get(solve.NewProblem(c.kind, solve.Params{Rows: c.rows}))(t)
		spec := solve.Spec{Problem: problem, Preconditioner: c.precond}
		onRanks(t, c.ranks, spec, c.columns, func(sys *solve.System, s *System) error {
			if _, err := solved(s, 0); err != nil {
				t.Errorf("%s %s: %v", c.kind, c.precond, err)
			}
			if c.rows > 1000 {
				return nil // the gate has compared
			}
			out, err := sys.Solve(0) // the first column
			if err != nil || out.Status != solve.Converged {
				return err
			}
			scale := 0.0
			for _, v := range sys.Solution() {
				scale = max(scale, math.Abs(v))
			}
			for i, want := range sys.Solution() {
				if got := s.Solutions()[i*c.columns]; math.Abs(got-want) > 1e-5*scale {
					t.Errorf("%s %s on %d ranks: row %d is %g, a single solve gives %g", c.kind, c.precond, c.ranks, i, got, want)
					break
				}
			}
			return nil
		})
	}
}

// The gate names the columns that are wrong: two that were exchanged, one that was left behind, and all columns of a
// solve that ended too early.
func TestGateNamesColumns(t *testing.T) {
	problem := must.Get(solve.NewProblem("poisson", solve.Params{Rows: 400}))(t)
	for _, c := range []struct {
		name  string
		limit int
		plant func(s *System)
		want  string
	}{
		{"exchanged", 0, func(s *System) {
			s.rhs = func(row, column int) float64 { return noise(row, []int{0, 3, 2, 1}[column]) }
		}, "columns 2, 4 of 4: the solution is wrong: its true relative residual is 1."},
		{"left behind", 0, func(s *System) {
			for i := 2; i < len(s.x); i += 4 {
				s.x[i] *= 0.999
			}
		}, "column 3 of 4: the solution is wrong: its true relative residual is 0.001, above 10 x 1e-09, though the " +
			"method says"},
		{"too early", 5, func(*System) {},
			"columns 1, 2, 3, 4 of 4 did not converge: too many iterations after 5 iterations"},
	} {
		onRanks(t, 2, solve.Spec{Problem: problem}, 4, func(_ *solve.System, s *System) error {
			out, err := s.Solve(c.limit)
			if err != nil {
				return err
			}
			c.plant(s)
			if err := s.Check(&out); err != nil {
				return err
			}
			if err := s.Gate(out, rtol); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			return nil
		})
	}
}
