//go:build !race

package system

import (
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// An iteration allocates nothing.
func TestIterationsDoNotAllocate(t *testing.T) {
	problem := generated(t, "poisson", sparse.Params{Rows: 2500})
	for _, info := range krylov.Methods.All() {
		must(t, onRanks(t, 1, func(g *dist.Group) error {
			sys, err := New(g, Spec{Problem: problem, Partitioner: "simple", Method: info.Name, RHS: noise, RTol: 1e-300,
				MaxIter: 1 << 30})
			if err != nil {
				return err
			}
			cost := func(iterations int) float64 {
				return testing.AllocsPerRun(3, func() {
					if _, err := sys.Solve(iterations); err != nil {
						t.Error(err)
					}
				})
			}
			// The residual history grows by doubling, and gmres allocates a small vector per restart cycle.
			if few, many := cost(200), cost(800); many-few > 150 {
				t.Errorf("%s: 600 more iterations make %v allocations more", info.Name, many-few)
			}
			return nil
		}))
	}
}
