// Package accel is the host side of the simulated accelerator: tensors in its
// memory, kernels launched on its PEs, and the all-reduce over its SIPs.
//
//	system := accel.New(topo.Default(), ccl.Default())
//	x, err := system.Zeros(0, 16, 1024, accel.PerCube)  // on SIP 0, a row for each cube
//	x.Set(values)
//	result, err := system.Launch(kernel, accel.OnPE0(system, 0))
//
// A launch is simulated to its end: package sim finds out when everything
// happens, then package tl computes it, so x.Data is the result and Result says
// what it took. Everything happens in the calling goroutine; a System is used by
// one at a time. The packages below it are one noun each: event (the queue),
// topo (the machine), fabric (messages), tl (kernels), sim (PEs and memory), ccl
// (collectives).
package accel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// ModelVersion changes when the same files give other times.
const ModelVersion = "2"

// The names under which the current folder is searched.
const (
	TopologyName = "topology.yaml"
	CCLName      = "ccl.yaml"
)

// System is a simulated accelerator with what is in its memory.
type System struct {
	Topo *topo.Topology
	CCL  *ccl.Config
	// FlitByFlit simulates every flit by itself, for tests.
	FlitByFlit bool
	// TimingOnly leaves out computing the data.
	TimingOnly bool

	memory *memory
	clock  event.Time
}

// New is a system with empty memory.
func New(t *topo.Topology, c *ccl.Config) *System {
	return &System{Topo: t, CCL: c, memory: newMemory(t)}
}

// Load reads the two files; "" is the one built in.
func Load(topologyFile, cclFile string) (t *topo.Topology, c *ccl.Config, err error) {
	t, c = topo.Default(), ccl.Default()
	if topologyFile != "" {
		if t, err = topo.Load(topologyFile); err != nil {
			return nil, nil, err
		}
	}
	if cclFile != "" {
		if c, err = ccl.Load(cclFile); err != nil {
			return nil, nil, err
		}
	}
	return t, c, nil
}

// Nearby is the name if the current folder has such a file, and otherwise "".
func Nearby(name string) string {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return name
}

// Now is the simulated time: the sum of all kernels so far, each from the common
// start of its PEs to the end of the last, without the launches.
func (s *System) Now() event.Time { return s.clock }

// Launch runs a kernel on the given PEs.
func (s *System) Launch(k tl.Kernel, on []topo.PEID) (*sim.Result, error) {
	return s.launch(k, on, s.CCL.Settings())
}

func (s *System) launch(k tl.Kernel, on []topo.PEID, set ccl.Settings) (*sim.Result, error) {
	cubes, pes := map[int]bool{}, map[int]bool{}
	for _, id := range on {
		cubes[id.Cube], pes[id.PE] = true, true
	}
	env := tl.Env{Topo: s.Topo, Cubes: len(cubes), PEs: len(pes), SlotBytes: set.SlotBytes}
	var programs []*tl.Program
	for _, id := range on {
		if _, err := s.Topo.Address(topo.Location{PEID: id, Space: topo.HBMSpace}); err != nil {
			return nil, fmt.Errorf("launching on %v: %w", id, err)
		}
		env.ID = id
		p, err := tl.Record(env, k)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	result, err := sim.Run(sim.Config{Topo: s.Topo, Buffer: set.Buffer, Slots: set.Slots, SlotBytes: set.SlotBytes,
		CreditBytes: set.CreditBytes, Poll: set.Poll, FlitByFlit: s.FlitByFlit}, programs)
	if err != nil {
		return nil, err
	}
	s.clock += result.Crit
	if s.TimingOnly {
		return result, nil
	}
	data := tl.NewExecutor(s.memory, programs)
	for _, e := range result.Order {
		if err := data.Do(int(e.Program), int(e.Op), e.Port); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// OnPE0 is the first PE of every cube of the given SIPs.
func OnPE0(s *System, sips ...int) []topo.PEID {
	var on []topo.PEID
	for _, sip := range sips {
		for cube := range s.Topo.Cubes.Count() {
			on = append(on, topo.PEID{SIP: sip, Cube: cube})
		}
	}
	return on
}

// OnAll is every PE of the given SIPs.
func OnAll(s *System, sips ...int) []topo.PEID {
	var on []topo.PEID
	for _, sip := range sips {
		for i := range s.Topo.Cubes.Count() * s.Topo.PEs() {
			on = append(on, topo.PEID{SIP: sip, Cube: i / s.Topo.PEs(), PE: i % s.Topo.PEs()})
		}
	}
	return on
}
