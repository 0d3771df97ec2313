package system

import (
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// With multigrid, a hundred times the unknowns need less than 1.5 times the iterations, and all levels
// together have less than 1.8 times the entries of the finest.
func TestMultigridDoesNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while, and the race detector has nothing to find on one rank")
	}
	for _, c := range []struct {
		kind, pre string
		dim       int
	}{{"poisson", "gmg", 2}, {"poisson", "amg", 3}, {"mesh", "amg", 2}, {"neumann", "gmg", 2}} {
		first := 0
		for _, rows := range []int{1000, 100000} {
			problem := generated(t, c.kind, sparse.Params{Rows: rows, Dim: c.dim, Seed: 1})
			must(t, onRanks(t, 1, func(g *dist.Group) error {
				sys, err := New(g, Spec{Problem: problem, Preconditioner: c.pre, RHS: noise, RTol: 1e-8})
				if err != nil {
					return err
				}
				out, err := sys.Solve(0)
				if err != nil {
					return err
				}
				if first == 0 {
					first = out.Iterations
				}
				operator, _ := sys.Operator.(Hierarchy).Complexities()
				t.Logf("%s %d-D, %s, %d rows: %d iterations, operator complexity %.2f", c.kind, c.dim, c.pre, rows, out.Iterations,
					operator)
				if 2*out.Iterations >= 3*first && rows > 1000 || operator >= 1.8 || out.Status != krylov.Converged {
					t.Errorf("%s %d-D, %s, %d rows: %v after %d iterations, %d of the smallest, operator complexity %.2f", c.kind,
						c.dim, c.pre, rows, out.Status, out.Iterations, first, operator)
				}
				return nil
			}))
		}
	}
}
