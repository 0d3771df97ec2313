package ahbm

import (
	"fmt"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// AllReduceTime simulates an all-reduce of the given number of elements between members SIPs of a machine with sips
// SIPs, without data. A group of all SIPs uses their arrangement. The SIPs of a smaller group are connected as a ring
// of their own. algorithm is "" for the default one.
func (backend) AllReduceTime(file, arrangement string, sips, members, elements int, algorithm string) (event.Time,
	error) {
	m, err := machineOf(file, arrangement, sips)
	if err != nil {
		return 0, err
	}
	if members < sips {
		if m.Topo, err = m.Topo.WithSIPs(topo.Ring, members, 1); err != nil {
			return 0, fmt.Errorf("a group of %d SIPs: %w", members, err)
		}
	}
	if members == 1 {
		return 0, nil
	}
	settings := m.CCL
	if algorithm != "" {
		if settings, err = m.CCL.With(algorithm, func(*ccl.Settings) {}); err != nil {
			return 0, err
		}
	}
	system := accel.New(m.Topo, settings)
	system.TimingOnly = true
	v, err := newVectorSum(system, elements, settings.Settings().SlotBytes/dist.F16.Size())
	if err != nil {
		return 0, err
	}
	result, err := v.graph.Launch()
	if err != nil {
		return 0, fmt.Errorf("all-reduce: %w", err)
	}
	return result.Crit, nil
}
