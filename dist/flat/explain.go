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
	return ExplainRun(e.network, last.Outcome, run)
}

// explains reports whether there is more to say about a call than its time.
func (e *engine) explains() bool {
	n := &e.network
	return n.Graph != nil || n.Energy != (loggp.Energy{}) || len(n.Faults) > 0
}

// prepared is the outcome of the call that was prepared last. It is kept for Explain.
type prepared struct {
	of string // see nameOf
	Outcome
}

// nameOf identifies what was simulated.
func nameOf(s schedule.Schedule, p dist.Plan) string {
	return fmt.Sprintf("%s %s %v %+v", s.Collective(), s.Name(), p.DType, s.Params())
}

// Outcome is the result of a run on a network.
type Outcome struct {
	Time    event.Time
	Machine *loggp.Machine
	// Ops and MemoryBytes are the operations and accesses of computation, for the energy; the machine counts its own.
	Ops, MemoryBytes float64
}

// ExplainRun returns the traffic of links, the energy, and the costs of faults, as far as the network has any of
// these. run is called for the network without each of its faults.
func ExplainRun(n loggp.Network, o Outcome, run func(loggp.Network) (event.Time, *loggp.Machine, error)) (
	out instrument.Explanation, err error) {
	out.Details = map[string]string{}
	report := func(name string, value float64, unit string) {
		out.Metrics = append(out.Metrics, instrument.Metric{Name: name, Value: value, Unit: unit, Better: "lower"})
	}
	if n.Graph != nil {
		out.Details["links"] = loggp.LevelText(o.Machine.Levels(), o.Time)
	}
	if parts := o.Machine.Energy(o.Ops, o.MemoryBytes); parts != nil {
		text, uj := loggp.EnergyText(parts)
		out.Details["energy"] = text
		report("energy_uj", uj, "uJ")
	}
	if len(n.Faults) > 0 {
		costs, all, err := loggp.FaultCosts(n, o.Time, o.Machine, run)
		if err != nil {
			return out, fmt.Errorf("finding the costs of faults: %w", err)
		}
		out.Details["faults"] = loggp.CostText(costs)
		report("fault_cost_us", all.Nanoseconds()/1000, "us")
	}
	return out, nil
}
