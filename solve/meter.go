package solve

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// meter adds up the picoseconds that a solve spends in messages, reductions and the preconditioner. It reads the clock
// only where a rank communicates or preconditions: a few times per iteration and not at all on one rank without a
// preconditioner. So every timed solve can carry it.
type meter struct {
	clock              dist.Clock
	pack, wait, reduce int64
	precond            int64 // without the communication of the preconditioner
}

// now reads the clock. A nil meter, as in tests of single parts, measures nothing.
func (m *meter) now() int64 {
	if m == nil {
		return 0
	}
	return m.clock.Now()
}

func (m *meter) packed(began int64) {
	if m != nil {
		m.pack += m.clock.Now() - began
	}
}

func (m *meter) waited(began int64) {
	if m != nil {
		m.wait += m.clock.Now() - began
	}
}

func (m *meter) reduced(began int64) {
	if m != nil {
		m.reduce += m.clock.Now() - began
	}
}

// reset starts a new solve.
func (m *meter) reset() { *m = meter{clock: m.clock} }

// timed returns the parts of a solve that took total picoseconds.
func (m *meter) timed(total int64) profile.Timed {
	seconds := func(ps int64) float64 { return float64(ps) / 1e12 }
	return profile.Timed{Total: seconds(total), Pack: seconds(m.pack), Wait: seconds(m.wait), Reduce: seconds(m.reduce),
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

// meteredTeam is a team whose halo exchanges are timed.
type meteredTeam struct {
	team
	meter *meter
}

var _ precondition.Team = meteredTeam{}

// Sum implements precondition.Team.
func (t meteredTeam) Sum(values []float64) ([]float64, error) {
	began := t.meter.now()
	defer t.meter.reduced(began)
	return t.team.Sum(values)
}

// Connect implements precondition.Team.
func (t meteredTeam) Connect(plan *sparse.Plan) (krylov.Halo, error) {
	h, err := t.team.connect(plan)
	if err != nil {
		return nil, err
	}
	h.meter = t.meter
	return h, nil
}
