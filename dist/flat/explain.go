package flat

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
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

// Explain implements instrument.Explainer: the traffic of links, energy, and the costs of faults, as far as the
// network has any of these.
func (e *engine) Explain(p dist.Plan) (out instrument.Explanation, err error) {
	n := &e.network
	if n.Graph == nil && n.Energy == (loggp.Energy{}) && len(n.Faults) == 0 {
		return out, nil
	}
	s, err := e.schedule(p)
	if err != nil {
		return out, err
	}
	run := func(n loggp.Network) (event.Time, *loggp.Machine, error) { return simulate(s, p, n) }
	time, m, err := run(*n)
	if err != nil {
		return out, err
	}
	out.Details = map[string]string{}
	report := func(name string, value float64, unit string) {
		out.Metrics = append(out.Metrics, instrument.Metric{Name: name, Value: value, Unit: unit, Better: "lower"})
	}
	if n.Graph != nil {
		out.Details["links"] = loggp.LevelText(m.Levels(), time)
	}
	if parts := m.Energy(0, 0); parts != nil {
		text, uj := loggp.EnergyText(parts)
		out.Details["energy"] = text
		report("energy_uj", uj, "uJ")
	}
	if len(n.Faults) > 0 {
		costs, all, err := loggp.FaultCosts(*n, time, m, run)
		if err != nil {
			return out, fmt.Errorf("finding the costs of faults: %w", err)
		}
		out.Details["faults"] = loggp.CostText(costs)
		report("fault_cost_us", all.Nanoseconds()/1000, "us")
	}
	return out, nil
}
