package loggp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// LevelUse is the traffic of the links of a level.
type LevelUse struct {
	Level   string
	Links   int // number of links that carried a message
	Bytes   int64
	Busiest LinkUse
	Energy  float64 // picojoules
}

// Levels returns the traffic by level, in the order of the network file.
func (m *Machine) Levels() []LevelUse {
	var list []LevelUse
	for _, l := range m.Links() {
		i := slices.IndexFunc(list, func(u LevelUse) bool { return u.Level == l.Level })
		if i < 0 {
			i, list = len(list), append(list, LevelUse{Level: l.Level})
		}
		u := &list[i]
		if u.Bytes += l.Bytes; l.Messages > 0 {
			u.Links++
		}
		if u.Energy += l.Energy; l.Busy > u.Busiest.Busy || u.Busiest.Name == "" {
			u.Busiest = l
		}
	}
	return list
}

// LevelText returns a text about the traffic of levels during a time.
func LevelText(levels []LevelUse, during event.Time) string {
	return strings.Join(lists.Map(levels, func(u LevelUse) string {
		return fmt.Sprintf("%s: %sB, busiest %s (%.0f %%)", u.Level, unit.FormatBytesApprox(float64(u.Bytes)), u.Busiest.Name,
			100*float64(u.Busiest.Busy)/float64(max(during, 1)))
	}), "; ")
}

// EnergyPart is the energy of a part of a machine.
type EnergyPart struct {
	Name string
	PJ   float64 // picojoules
}

// Energy returns the energy of the links by level, of memory, and of operations. It leaves out parts for which the
// network file gives no energy. ops and memoryBytes are added to the operations and bytes that the machine has counted.
func (m *Machine) Energy(ops, memoryBytes float64) (list []EnergyPart) {
	add := func(name string, pj float64) {
		if pj > 0 {
			list = append(list, EnergyPart{name, pj})
		}
	}
	for _, u := range m.Levels() {
		add(u.Level, u.Energy)
	}
	e := &m.network.Energy
	add("memory", float64(e.Memory)*(float64(m.result.MemoryBytes)+memoryBytes)/1000)
	add("operations", float64(e.Op)*(float64(m.result.Ops)+ops)/1000)
	return list
}

// EnergyText returns a text about the energy of parts, and the sum in microjoules.
func EnergyText(list []EnergyPart) (text string, uj float64) {
	for _, p := range list {
		uj += p.PJ / 1e6
	}
	return strings.Join(lists.Map(list, func(p EnergyPart) string {
		return fmt.Sprintf("%s %s µJ", p.Name, unit.FormatSig(p.PJ/1e6, 3))
	}), ", "), uj
}

// FaultCost is how much longer a run takes because of a fault.
type FaultCost struct {
	Fault
	Cost event.Time // with all faults, less without this one; it may be negative
	// Reordered is set if the cost is negative. It then gives the reason: which events happen in another order because
	// of the fault, or that a dead link changes paths.
	Reordered string
}

// FaultCosts runs a simulation without each of the faults of a network, and without all of them. time and with are
// the run with all faults.
func FaultCosts(n Network, time event.Time, with *Machine, run func(Network) (event.Time, *Machine, error)) (
	costs []FaultCost, all event.Time, err error) {
	for i, f := range n.Faults {
		without := n
		without.Faults = slices.Delete(slices.Clone(n.Faults), i, i+1)
		t, m, err := run(without)
		if err != nil {
			return nil, 0, fmt.Errorf("without %v: %w", f, err)
		}
		c := FaultCost{Fault: f, Cost: time - t}
		if c.Cost < 0 && f.Kind != DeadLink {
			c.Reordered = Reordered(with, m)
		}
		costs = append(costs, c)
		all = c.Cost
	}
	if len(costs) == 1 {
		return costs, all, nil
	}
	n.Faults = nil
	healthy, _, err := run(n)
	return costs, time - healthy, err
}

// CostText returns a text about the costs of faults.
func CostText(costs []FaultCost) string {
	return strings.Join(lists.Map(costs, func(c FaultCost) string {
		text := fmt.Sprintf("%v: %s", c.Fault, unit.FormatMicros(c.Cost.Nanoseconds()/1000))
		switch {
		case c.Cost < 0 && c.Reordered != "":
			text += " (faster with the fault, because " + c.Reordered + " in another order)"
		case c.Cost < 0:
			text += " (faster with the fault, because messages take other paths)"
		}
		return text
	}), "; ")
}
