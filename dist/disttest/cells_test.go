package disttest

import (
	"fmt"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
)

// meetings returns the pairs or triples of properties that occur together in the cells.
func meetings(cells []cell, together int) map[[3]any]bool {
	type (
		count     int
		root      int
		chunked   bool
		symmetric bool
		inPlace   bool
	)
	met := map[[3]any]bool{}
	for _, c := range cells {
		list := []any{c.dtype, c.reduction, count(c.count), c.algorithm, root(c.root), chunked(c.chunk > 0),
			symmetric(c.symmetric), inPlace(c.inPlace)}
		for i := range list {
			for j := range i {
				if together == 2 {
					met[[3]any{list[i], list[j]}] = true
					continue
				}
				for k := range j {
					met[[3]any{list[i], list[j], list[k]}] = true
				}
			}
		}
	}
	return met
}

// Any three properties that can occur together in a call do so in some cell (any two in the short suite and in large
// groups), although most calls are left out.
func TestCellsCover(t *testing.T) {
	caps := dist.Capabilities{DTypes: []dist.DType{dist.F32, dist.BF16, dist.I64, dist.U8},
		Reductions: dtype.Reductions(), Algorithms: map[dist.Collective][]string{},
		Features: []dist.Feature{dist.SymmetricMemory, dist.ScheduleSteps}}
	for _, op := range dist.Collectives() {
		caps.Algorithms[op] = schedule.Names(string(op))
	}
	for _, c := range []struct {
		suite          Suite
		size, together int
	}{{Suite{}, 3, 3}, {Suite{}, 6, 2}, {Suite{Short: true}, 3, 2}} {
		for _, op := range []dist.Collective{dist.AllReduce, dist.Scatter, dist.AllToAll} {
			t.Run(fmt.Sprintf("%s/%d/%v", op, c.size, c.suite.Short), func(t *testing.T) {
				cells, all := c.suite.cells(caps, op, c.size), product(c.suite, caps, op, c.size)
				met := meetings(cells, c.together)
				for set := range meetings(all, c.together) {
					if !met[set] {
						t.Errorf("%v never meet", set)
					}
				}
				t.Logf("%d of %d cells", len(cells), len(all))
			})
		}
	}
}

// product returns all combinations, for operations that reduce, are rooted, or neither.
func product(s Suite, caps dist.Capabilities, op dist.Collective, size int) (list []cell) {
	algorithms := []string{"auto"}
	for _, a := range caps.Algorithms[op] {
		algorithms = append(algorithms, a, tuning.StepsPrefix+a)
	}
	for _, d := range caps.DTypes {
		for _, r := range caps.Reductions {
			for _, count := range s.counts(size) {
				for _, algorithm := range algorithms {
					for form := range 16 {
						c := cell{d, r, count, algorithm, form & 1 * (size - 1), form >> 1 & 1 * (count/3 + 1), form&4 != 0,
							form&8 != 0, nil}
						if !op.Reduces() && r != dist.Sum || !op.Rooted() && c.root > 0 ||
							c.chunk > 0 && (op != dist.AllReduce || count < 1000) ||
							op == dist.AllToAll && c.inPlace {
							continue
						}
						list = append(list, c)
					}
				}
			}
		}
	}
	return list
}
