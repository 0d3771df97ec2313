package system

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// meter adds up the picoseconds that a solve spends in messages, reductions and the preconditioner. It reads the clock
// only where a rank communicates or preconditions: a few times per iteration and not at all on one rank without a
// preconditioner. So every timed solve can carry it.
type meter struct {
	clock              dist.Clock
	pack, wait, reduce int64
	precond            int64 // without the communication of the preconditioner
}

// add adds the time since began to a part.
func (m *meter) add(part *int64, began int64) { *part += m.clock.Now() - began }

// reset starts a new solve.
func (m *meter) reset() { *m = meter{clock: m.clock} }

// timed returns the parts of a solve that took total picoseconds.
func (m *meter) timed(total int64) Timed {
	return Timed{Total: seconds(total), Pack: seconds(m.pack), Wait: seconds(m.wait), Reduce: seconds(m.reduce),
		Precond: seconds(m.precond), Work: seconds(total - m.pack - m.wait - m.reduce - m.precond)}
}

// meteredOperator times a preconditioner.
type meteredOperator struct {
	krylov.Operator
	meter *meter
}

// Apply implements krylov.Operator.
func (o *meteredOperator) Apply(dst, src []float64) error {
	m := o.meter
	began, communicated := m.clock.Now(), m.pack+m.wait+m.reduce
	err := o.Operator.Apply(dst, src)
	m.precond += m.clock.Now() - began - (m.pack + m.wait + m.reduce - communicated)
	return err
}

// metered returns an operator that times itself. A diagonal stays as it is, because the engine fuses it.
func (m *meter) metered(o krylov.Operator) krylov.Operator {
	if _, diagonal := o.(krylov.Diagonal); diagonal || o == nil {
		return o
	}
	return &meteredOperator{o, m}
}
