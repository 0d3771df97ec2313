package solve

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
)

// adder adds up a few numbers over all ranks.
type adder struct {
	group   *dist.Group
	in, out []float64
	ops     []*dist.Op // by how many numbers; made when first needed
}

// newAdder makes room for the most numbers of one stage.
func newAdder(g *dist.Group, most int) *adder {
	return &adder{group: g, in: make([]float64, most), out: make([]float64, most), ops: make([]*dist.Op, most+1)}
}

// add gives the sums over the ranks, the same bits on each; they are valid until
// the next call.
func (a *adder) add(local []float64) ([]float64, error) {
	n := len(local)
	if a.group.Size() == 1 || n == 0 {
		return local, nil
	}
	if a.ops[n] == nil {
		op, err := a.group.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of(a.in[:n]), Out: dist.Of(a.out[:n]), Reduction: dist.Sum})
		if err != nil {
			return nil, fmt.Errorf("preparing the sum of %d scalar products: %w", n, err)
		}
		a.ops[n] = op
	}
	copy(a.in, local)
	if err := a.ops[n].Run(); err != nil {
		return nil, fmt.Errorf("adding up scalar products: %w", err)
	}
	return a.out[:n], nil
}
