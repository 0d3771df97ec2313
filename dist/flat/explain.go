package flat

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

var (
	_ instrument.FaultReader = backend{}
	_ instrument.Explainer   = (*engine)(nil)
)

// FaultOptions implements instrument.FaultReader.
func (backend) FaultOptions() (list [][2]string) {
	for _, kind := range loggp.FaultKinds() {
		list = append(list, [2]string{kind.Name, kind.Help})
	}
	return list
}

// Explain implements instrument.Explainer.
func (e *engine) Explain(p dist.Plan) (out instrument.Explanation, err error) {
	if !e.explains() {
		return out, nil
	}
	s, err := e.schedule(p)
	if err != nil {
		return out, err
	}
	run := func(n loggp.Network) (event.Time, *loggp.Machine, error) { return simulate(s, p, n) }
	last := e.last
	if last.of != nameOf(s, p) {
		if last.Time, last.Machine, err = run(e.network); err != nil {
			return out, err
		}
	}
	return instrument.ExplainNetwork(e.network, last.NetworkRun, run)
}

// explains reports whether there is more to say about a call than its time.
func (e *engine) explains() bool {
	n := &e.network
	return n.Graph != nil || n.Energy != (loggp.Energy{}) || len(n.Faults) > 0
}

// prepared is the outcome of the call that was prepared last. It is kept for Explain.
type prepared struct {
	of string // see nameOf
	instrument.NetworkRun
}

// nameOf identifies what was simulated.
func nameOf(s schedule.Schedule, p dist.Plan) string {
	return fmt.Sprintf("%s %s %v %+v", s.Collective(), s.Name(), p.DType, s.Params())
}
