package solve

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
)

// reducer adds up a few numbers over all ranks. It implements profile.Reducer.
type reducer struct {
	group   *dist.Group
	in, out []float64
	ops     []*dist.Op // prepared all-reduces, by the number of values; made when first needed

	meter *meter   // nil if nobody asks for times
	begun *dist.Op // the sum in flight, nil for none
	ready bool     // the sum in flight has arrived
}

// newReducer makes a reducer for at most limit numbers at a time.
func newReducer(g *dist.Group, limit int) *reducer {
	return &reducer{group: g, in: make([]float64, limit), out: make([]float64, limit), ops: make([]*dist.Op, limit+1)}
}

// op returns the prepared all-reduce of n numbers.
func (a *reducer) op(n int) (*dist.Op, error) {
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

// Begin starts a sum without waiting for other ranks. The next call of Sum finishes it.
func (a *reducer) Begin(local []float64) error {
	if a.group.Size() == 1 || len(local) == 0 {
		return nil
	}
	op, err := a.op(len(local))
	if err != nil {
		return err
	}
	began := a.meter.now()
	defer a.meter.reduced(began)
	copy(a.in, local)
	if err := op.Begin(); err != nil {
		return fmt.Errorf("beginning to add up scalar products: %w", err)
	}
	a.begun, a.ready = op, false
	return nil
}

// underway reports whether the sum that Begin started has not arrived yet.
func (a *reducer) underway() bool { return a.begun != nil && !a.ready && !a.begun.Arrived() }

// Wait waits for the sum that Begin started.
func (a *reducer) Wait() error {
	if a.begun == nil || a.ready {
		return nil
	}
	a.ready = true
	if err := a.begun.Wait(); err != nil {
		return fmt.Errorf("adding up scalar products: %w", err)
	}
	return nil
}

// Sum returns the sums over the ranks, with the same bits on each. The slice is valid until the next call. If Begin has
// started this sum, local must have the same values, and Sum only waits.
func (a *reducer) Sum(local []float64) ([]float64, error) {
	n := len(local)
	if a.group.Size() == 1 || n == 0 {
		return local, nil
	}
	began := a.meter.now()
	defer a.meter.reduced(began)
	if a.begun != nil {
		err := a.Wait()
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
