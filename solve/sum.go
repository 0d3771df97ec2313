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

	begun *dist.Op // the sum that is on its way; nil: none
	ready bool     // it has come
}

// newAdder makes room for the most numbers of one stage.
func newAdder(g *dist.Group, most int) *adder {
	return &adder{group: g, in: make([]float64, most), out: make([]float64, most), ops: make([]*dist.Op, most+1)}
}

// op is the sum of n numbers.
func (a *adder) op(n int) (*dist.Op, error) {
	if a.ops[n] == nil {
		op, err := a.group.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of(a.in[:n]), Out: dist.Of(a.out[:n]),
			Reduction: dist.Sum})
		if err != nil {
			return nil, fmt.Errorf("preparing the sum of %d scalar products: %w", n, err)
		}
		a.ops[n] = op
	}
	return a.ops[n], nil
}

// begin starts a sum, which add then waits for instead of making one. It waits for nobody.
func (a *adder) begin(local []float64) error {
	if a.group.Size() == 1 || len(local) == 0 {
		return nil
	}
	op, err := a.op(len(local))
	if err != nil {
		return err
	}
	copy(a.in, local)
	if err := op.Begin(); err != nil {
		return fmt.Errorf("beginning to add up scalar products: %w", err)
	}
	a.begun, a.ready = op, false
	return nil
}

// underway reports whether what begin has started may still need time.
func (a *adder) underway() bool { return a.begun != nil && !a.ready && !a.begun.Arrived() }

// wait ends what begin has started.
func (a *adder) wait() error {
	if a.begun == nil || a.ready {
		return nil
	}
	a.ready = true
	if err := a.begun.Finish(); err != nil {
		return fmt.Errorf("adding up scalar products: %w", err)
	}
	return nil
}

// add gives the sums over the ranks, the same bits on each; they are valid until
// the next call.
func (a *adder) add(local []float64) ([]float64, error) {
	n := len(local)
	if a.group.Size() == 1 || n == 0 {
		return local, nil
	}
	if a.begun != nil {
		err := a.wait()
		a.begun = nil
		return a.out[:n], err
	}
	op, err := a.op(n)
	if err != nil {
		return nil, err
	}
	copy(a.in, local)
	if err := op.Run(); err != nil {
		return nil, fmt.Errorf("adding up scalar products: %w", err)
	}
	return a.out[:n], nil
}
