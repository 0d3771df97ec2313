package system

import (
	"errors"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	mustget "github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// withSystem sets up a system on some ranks and calls fn on each.
func withSystem(t *testing.T, ranks int, spec Spec, fn func(sys *System) error) {
	t.Helper()
	if spec.RHS == nil {
		spec.RHS = func(row int) float64 { return sparse.Noise(3, row) }
	}
	must(t, onRanks(t, ranks, func(g *dist.Group) error {
		sys, err := New(g, spec)
		if err != nil {
			return err
		}
		return fn(sys)
	}))
}

// Solves in lower precision pass the gate of double precision, and take about as many iterations, even if the matrix
// cannot be represented in single precision and if the right-hand side is tiny.
func TestLowerPrecisionIsAccurate(t *testing.T) {
	for _, c := range []struct {
		kind, precond string
		rows, ranks   int
		rtol, size    float64
	}{
		{"poisson", "", 10000, 1, 1e-8, 1}, {"poisson", "jacobi", 2500, 3, 1e-12, 1e-30},
		{"variable", "jacobi", 2500, 2, 1e-10, 1},
		{"mesh", "", 1000, 4, 1e-9, 1e20},
	} {
		spec := Spec{Problem: generated(t, c.kind, sparse.Params{Rows: c.rows}),
			Preconditioner: c.precond, RTol: c.rtol, RHS: func(row int) float64 { return c.size * sparse.Noise(3, row) }}
		for _, precision := range []string{SingleMatrix, Single} {
			withSystem(t, c.ranks, spec, func(sys *System) error {
				double, err := sys.Solve(0)
				if err != nil {
					return err
				}
				s, err := NewRefined(sys, precision, c.kind == "mesh")
				if err != nil {
					return err
				}
				out, err := s.Solve(0)
				if err != nil {
					return err
				}
				if err := s.Check(&out); err != nil {
					return err
				}
				if out.Iterations > double.Iterations*13/10+10 || s.Updates < 2 {
					t.Errorf("%s, %s: %d iterations and %d updates, f64 takes %d", c.kind, precision, out.Iterations, s.Updates,
						double.Iterations)
				}
				return out.Gate(c.rtol)
			})
		}
	}
}

// The residual in double precision finds a matrix that was stored wrong: the solve ends without a
// solution, and says so.
func TestWrongMatrixIsFound(t *testing.T) {
	spec := Spec{Problem: generated(t, "poisson", sparse.Params{Rows: 400}), RTol: 1e-8}
	withSystem(t, 1, spec, func(sys *System) error {
		s, err := NewRefined(sys, Single, true)
		if err != nil {
			return err
		}
		wrong := generated(t, "anisotropic", sparse.Params{Rows: 400})
		s.inner.(*vectors[float32]).matrix = mustget.Get(sys.Plan.Matrix(wrong, sparse.PlainSingle))(t)
		out, err := s.Solve(300)
		if err != nil {
			return err
		}
		if err := s.Check(&out); err != nil {
			return err
		}
		if err := out.Gate(1e-8); err == nil || !strings.Contains(err.Error(), "did not converge") {
			t.Errorf("a wrong matrix passes: %v after %d iterations", err, out.Iterations)
		}
		return nil
	})
}

// Preconditioners without a form in lower precision are refused.
func TestLowerPrecisionRefuses(t *testing.T) {
	spec := Spec{Problem: generated(t, "poisson", sparse.Params{Rows: 400}), RTol: 1e-8,
		Preconditioner: "amg"}
	withSystem(t, 1, spec, func(sys *System) error {
		if _, err := NewRefined(sys, Single, true); err == nil || !errors.As(err, new(*krylov.Refusal)) {
			t.Errorf("amg is accepted: %v", err)
		}
		return nil
	})
}
