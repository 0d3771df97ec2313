package instrument

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
)

// NetworkRun is the result of a run on a network.
type NetworkRun struct {
	Time    event.Time
	Machine *loggp.Machine
	// Ops and MemoryBytes are the operations and accesses of computation, for the energy; the machine counts its own.
	Ops, MemoryBytes float64
}

// ExplainNetwork returns the traffic of links, the energy, and the costs of faults, as far as the network has any of
// these. run is called for the network without each of its faults.
func ExplainNetwork(n loggp.Network, o NetworkRun, run func(loggp.Network) (event.Time, *loggp.Machine, error)) (
	out Explanation, err error) {
	out.Details = map[string]string{}
	report := func(name string, value float64, unit string) {
		out.Metrics = append(out.Metrics, Metric{Name: name, Value: value, Unit: unit, Better: "lower"})
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
