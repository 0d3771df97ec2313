// Package accel simulates an accelerator: SIPs (packages) of cubes (dies), each with its HBM and a
// grid of PEs (processing elements), connected by a network on chip, UCIe links and a switch. A
// program allocates tensors in the simulated memory, launches kernels on the PEs and reads back the
// results. It also gets the time of each launch, to the picosecond.
//
//	system := accel.New(accel.DefaultTopology(), accel.DefaultConfig())
//	x, err := system.Zeros(0, 16, 1024, accel.PerCube)  // on SIP 0, one row per cube
//	err = x.Set(values)
//	result, err := system.Launch(kernel, accel.OnPE0(system, 0))
//	fmt.Println(result.Crit, result.Breakdown, x.Data())
//
// # The machine
//
// A Topology describes the number of SIPs, cubes and PEs, how they are connected and the cost of each
// part. A Config selects the all-reduce algorithm and sets up the receive queues. Load reads both
// from YAML files (docs/accelerator.md explains every key). The methods WithSIPs and WithCubes of a
// Topology return variants of it.
//
// # Tensors
//
// A Tensor is a matrix in the HBM of one SIP. Its Policy divides it over the cubes and the PEs of
// each cube, by rows, by columns or as copies; PerCube and OnCube are the usual ones. Elements are f16, or
// bf16 or f32 if the policy says so. Set and Data transfer a whole f16 tensor, SetValues and Values convert a tensor
// of any type, and On returns the shard of one PE.
//
// # Kernels
//
// A kernel is a function over package tl, recorded once for each PE. Launch simulates it to its end
// and then computes its results, so that x.Data returns them. Capture simulates a kernel once for
// many launches. AllReduce launches the built-in all-reduce kernel over all SIPs.
//
// # Results
//
// A Result holds the time of the slowest PE (Crit), its breakdown along the critical path (Breakdown), the time of
// every PE and the use of its engines. If kernels wait for each other, the launch returns a *Deadlock that names the
// chain of waiting PEs.
//
// Every launch is checked. It returns an error that names the lines of the kernel for three mistakes: an access to
// memory that was not allocated, a read of an Empty tensor before it was written, and conflicting accesses of two PEs
// that no message orders. The simulation has no randomness: the same files give the same times on any machine, until
// Version changes.
//
// A System does all work in the calling goroutine. It must not be used by two goroutines at once.
package accel

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sanitize"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/dtype"
)

type (
	// Topology is the machine: its parts, how they are connected and what each costs.
	Topology = topo.Topology
	// PEID identifies a PE by its SIP, its cube in the SIP and its number in the cube.
	PEID = topo.PEID
	// Config selects the all-reduce algorithm and has the settings of each algorithm.
	Config = ccl.Config
	// Result holds the simulated times of a launch.
	Result = sim.Result
	// Deadlock is the error returned when kernels wait for each other.
	Deadlock = sim.Deadlock
	// Time is simulated time in picoseconds.
	Time = event.Time
	// Float16 is an element: an IEEE 754 binary16.
	Float16 = dtype.Float16
	// Clock reads the simulated time of a System, see System.Clock.
	Clock = profile.Clock
)

// DefaultTopology returns the built-in machine.
func DefaultTopology() *Topology { return topo.Default() }

// DefaultConfig returns the built-in configuration of collectives.
func DefaultConfig() *Config { return ccl.Default() }

// Float16From returns the Float16 nearest to f, ties to even.
func Float16From(f float32) Float16 { return dtype.Float16From(f) }

// modelVersion must be changed when the same files give other times or other limits.
const modelVersion = "6"

// Version identifies the simulation model and its built-in files. A bench stores it with its results
// (bench.Version), so that results of different models are never mixed.
func Version() string {
	files := sha256.Sum256(slices.Concat(topo.DefaultFile(), ccl.DefaultFile()))
	return fmt.Sprintf("%s-%x", modelVersion, files[:4])
}

// Load reads a topology file and a ccl file. An empty name selects the built-in one.
func Load(topologyFile, cclFile string) (t *Topology, c *Config, err error) {
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

// TopologyFile returns "topology.yaml" if the current folder has such a file, otherwise "". It is the
// default of --topology.
func TopologyFile() string { return existing("topology.yaml") }

// CCLFile returns "ccl.yaml" if the current folder has such a file, otherwise "". It is the default of
// --ccl.
func CCLFile() string { return existing("ccl.yaml") }

func existing(name string) string {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return name
}

// System is a simulated accelerator and the contents of its memory.
type System struct {
	Topo *Topology
	CCL  *Config
	// TimingOnly skips computing the data: only times are simulated.
	TimingOnly bool
	// Load records in every Result how much each link carried over time.
	Load bool
	// Trace records every event in each Result, for WriteTrace.
	Trace bool

	memory *memory
	now    Time
	latest *Result
}

// New returns a system with empty memory.
func New(t *Topology, c *Config) *System {
	return &System{Topo: t, CCL: c, memory: &memory{topo: t, regions: map[PEID][]region{}}}
}

// Now returns the simulated time: the sum of all kernel times so far. A kernel's time counts from the
// common start of its PEs to the end of the last one, without the launch.
func (s *System) Now() Time { return s.now }

// Clock returns a clock for bench.State.UseClock. It advances with every launch on s and makes the
// profile of the latest launch (link load, critical path) part of the row.
func (s *System) Clock() Clock {
	return Clock{Time: s.Now, Record: func() { s.Load = true },
		Latest: func() (*topo.Topology, *sim.Result) { return s.Topo, s.latest }}
}

// Launch runs a kernel on the given PEs.
func (s *System) Launch(k tl.Kernel, on []PEID) (*Result, error) {
	g, err := s.Capture(k, on)
	if err != nil {
		return nil, err
	}
	return g.Launch()
}

// Graph is a kernel whose execution has been simulated. Launching it again costs only the computation
// of its data, because the times do not depend on the data.
type Graph struct {
	system   *System
	programs []*program.Program
	result   *Result
}

// Capture simulates a kernel on the given PEs without changing the memory or the time of the system.
func (s *System) Capture(k tl.Kernel, on []PEID) (*Graph, error) {
	if len(on) == 0 {
		return nil, errors.New("launching a kernel: no PEs are given")
	}
	cubes, pes := map[int]bool{}, map[int]bool{}
	for _, id := range on {
		cubes[id.Cube], pes[id.PE] = true, true
	}
	set := s.CCL.Settings()
	env := program.Env{Topo: s.Topo, Cubes: len(cubes), PEs: len(pes), SlotBytes: set.SlotBytes}
	g := &Graph{system: s}
	for _, id := range on {
		if _, err := s.Topo.Address(topo.Location{PEID: id, Space: topo.HBMSpace}); err != nil {
			return nil, fmt.Errorf("launching on %v: %w", id, err)
		}
		env.ID = id
		p, err := tl.Record(env, k)
		if err != nil {
			return nil, err
		}
		g.programs = append(g.programs, p)
	}
	var err error
	g.result, err = sim.Run(sim.Config{Topo: s.Topo, Buffer: set.Buffer, Slots: set.Slots, SlotBytes: set.SlotBytes,
		CreditBytes: set.CreditBytes, Poll: set.Poll, Load: s.Load, Trace: s.Trace}, g.programs)
	if err != nil {
		return nil, err
	}
	if g.result.Unchecked, err = g.launch(allocation{s.memory}).Check(); err != nil {
		return nil, fmt.Errorf("checking the kernel: %w", err)
	}
	return g, nil
}

// launch returns what the check of the kernel needs.
func (g *Graph) launch(m sanitize.Memory) sanitize.Launch {
	return sanitize.Launch{Topo: g.system.Topo, Programs: g.programs, Order: g.result.Order, Start: g.result.Start,
		Slots: g.system.CCL.Settings().Slots, Memory: m}
}

// Launch advances the time of the system by the kernel's time and computes its data, in the order in
// which the operations take effect.
func (g *Graph) Launch() (*Result, error) {
	s := g.system
	if s.memory.empty > 0 { // an earlier launch may have written what this one reads
		if _, err := g.launch(s.memory).Check(); err != nil {
			return nil, fmt.Errorf("checking the kernel: %w", err)
		}
		s.memory.markWritten(g.programs)
	}
	s.now += g.result.Crit
	s.latest = g.result
	if s.TimingOnly {
		return g.result, nil
	}
	data := program.NewExecutor(s.memory, g.programs)
	for e := range g.result.Order.All() {
		if err := data.Do(int(e.Program), int(e.Op), e.Port); err != nil {
			return nil, err
		}
	}
	return g.result, nil
}

// OnPE0 returns the first PE of every cube of the given SIPs.
func OnPE0(s *System, sips ...int) []PEID { return onFirst(s, 1, sips) }

// OnAll returns every PE of the given SIPs.
func OnAll(s *System, sips ...int) []PEID { return onFirst(s, s.Topo.PEs(), sips) }

// onFirst returns the first n PEs of every cube of the given SIPs.
func onFirst(s *System, n int, sips []int) (on []PEID) {
	for _, sip := range sips {
		for i := range s.Topo.Cubes.Count() * n {
			on = append(on, PEID{SIP: sip, Cube: i / n, PE: i % n})
		}
	}
	return on
}

// AllReduce adds up tiles with the algorithm that s.CCL selects and leaves the sum in each of them.
// There is one tensor per SIP, in SIP order. Tensors are laid out PerCube with one row per cube, so
// that the sum is over all cubes of all SIPs, or OnCube with a single row, so that the sum is over the
// SIPs only.
func (s *System) AllReduce(tensors []*Tensor) (*Result, error) {
	shape, err := s.shape(tensors)
	if err != nil {
		return nil, fmt.Errorf("all-reduce: %w", err)
	}
	ptrs := map[PEID]tl.Ptr{}
	var on []PEID
	for _, t := range tensors {
		for _, shard := range t.Shards {
			ptrs[shard.At] = shard.Ptr
			on = append(on, shard.At)
		}
	}
	kernel, err := ccl.Kernel(s.CCL.Algorithm, shape, func(id PEID) tl.Ptr { return ptrs[id] })
	if err != nil {
		return nil, fmt.Errorf("all-reduce: %w", err)
	}
	result, err := s.Launch(kernel, on)
	if err != nil {
		return nil, fmt.Errorf("all-reduce (%s): %w", s.CCL.Algorithm, err)
	}
	return result, nil
}

// shape returns which tiles an all-reduce sums, according to the layout of the tensors.
func (s *System) shape(tensors []*Tensor) (ccl.Shape, error) {
	shape := ccl.Shape{SIPs: s.Topo.SIPs, Root: s.CCL.Settings().Root}
	if len(tensors) != s.Topo.SIPs.Count {
		return shape, fmt.Errorf("%d tensors for %d SIPs: want one for each", len(tensors), s.Topo.SIPs.Count)
	}
	first := tensors[0]
	shape.N = first.Cols
	if first.policy.Type != tl.F16 {
		return shape, fmt.Errorf("the tensors are %v: want f16", first.policy.Type)
	}
	for sip, t := range tensors {
		switch {
		case t.SIP != sip:
			return shape, fmt.Errorf("tensor %d is on SIP %d: want the tensors in SIP order", sip, t.SIP)
		case t.Rows != first.Rows || t.Cols != first.Cols || t.policy != first.policy:
			return shape, fmt.Errorf("the tensors of SIP 0 and %d differ in shape or policy", sip)
		}
	}
	switch count := len(first.Shards); {
	case count == 1 && first.Rows == 1:
		shape.Cubes, shape.Only = topo.Grid{W: 1, H: 1}, first.Shards[0].At.Cube
	case count == s.Topo.Cubes.Count() && first.policy == PerCube && first.Rows == count:
		shape.Cubes = s.Topo.Cubes
	default:
		return shape, fmt.Errorf("a tensor of %d x %d in %d shards: want one row for each cube, laid out PerCube, "+
			"or one row OnCube", first.Rows, first.Cols, count)
	}
	return shape, nil
}
