package system

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
)

// reducer adds up a few numbers over all ranks.
type reducer struct {
	team
	in, out []float64
	ops     []*dist.Op // prepared all-reduces, by the number of values; made when first needed

	begun *dist.Op // the sum in flight, nil for none
	ready bool     // the sum in flight has arrived
}

// newReducer makes a reducer for at most limit numbers at a time.
func (t team) newReducer(limit int) *reducer {
	return &reducer{team: t, in: make([]float64, limit), out: make([]float64, limit), ops: make([]*dist.Op, limit+1)}
}

// op returns the prepared all-reduce of n numbers.
func (a *reducer) op(n int) (*dist.Op, error) {
	if a.ops[n] == nil {
		op, err := a.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of(a.in[:n]), Out: dist.Of(a.out[:n]),
			Reduction: dist.Sum})
		if err != nil {
			return nil, fmt.Errorf("preparing the sum of %d scalar products: %w", n, err)
		}
		a.ops[n] = op
	}
	return a.ops[n], nil
}

// begin starts a sum without waiting for other ranks. The next call of sum finishes it.
func (a *reducer) begin(local []float64) error {
	if a.Size() == 1 || len(local) == 0 {
		return nil
	}
	op, err := a.op(len(local))
	if err != nil {
		return err
	}
	defer a.meter.add(&a.meter.reduce, a.meter.clock.Now())
	copy(a.in, local)
	if err := op.Begin(); err != nil {
		return fmt.Errorf("beginning to add up scalar products: %w", err)
	}
	a.begun, a.ready = op, false
	return nil
}

// underway reports whether the sum that begin started has not arrived yet.
func (a *reducer) underway() bool { return a.begun != nil && !a.ready && !a.begun.Arrived() }

// wait waits for the sum that begin started.
func (a *reducer) wait() error {
	if a.begun == nil || a.ready {
		return nil
	}
	a.ready = true
	if err := a.begun.Wait(); err != nil {
		return fmt.Errorf("adding up scalar products: %w", err)
	}
	return nil
}

// sum returns the sums over the ranks, with the same bits on each. The slice is valid until the next call. If begin has
// started this sum, local must have the same values, and sum only waits.
func (a *reducer) sum(local []float64) ([]float64, error) {
	n := len(local)
	if a.Size() == 1 || n == 0 {
		return local, nil
	}
	defer a.meter.add(&a.meter.reduce, a.meter.clock.Now())
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
