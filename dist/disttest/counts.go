package disttest

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// counts checks blocks of given lengths (growing, some of them empty, all elements in one block), with every algorithm,
// in place or not, in both kinds of memory.
func counts(g *dist.Group) error {
	caps, size, made := g.Capabilities(), g.Size(), new(vectors)
	space, err := newSpace(g, 4096*size*size) // the longest input and output, and a guard
	if err != nil {
		return err
	}
	for _, op := range []dist.Collective{dist.AllGather, dist.Gather, dist.Scatter, dist.ReduceScatter, dist.AllToAll} {
		if !caps.Can(op) {
			continue
		}
		blocks := lists.Range[int](size)
		if op == dist.AllToAll {
			blocks = lists.Range[int](size * size)
		}
		for i, pattern := range []func(block int) int{
			func(block int) int { return 3*block + 1 },
			func(block int) int { return block % 2 * 700 },
			func(block int) int { return max(0, 2-block) * 500 },
		} {
			c := cell{dtype: dist.F64, lengths: lists.Map(blocks, pattern)}
			if c.count = lists.Sum(c.lengths); c.count == 0 {
				continue // one rank, whose block is empty
			}
			if op.Rooted() {
				c.root = i % size
			}
			for k, algorithm := range append([]string{"auto"}, caps.Algorithms[op]...) {
				c.algorithm, c.symmetric = algorithm, (i+k)%2 == 0 && caps.Has(dist.SymmetricMemory)
				for _, c.inPlace = range slices.Compact([]bool{false, op != dist.AllToAll}) {
					if err := runAll(made.expectations(g, op, c), g, op, c, space); err != nil {
						return fmt.Errorf("%s of %v in blocks of %v: %w", op, c, c.lengths, err)
					}
				}
			}
		}
	}
	return nil
}
