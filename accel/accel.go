// Package accel simulates an accelerator: SIPs (packages) of cubes (dies), each with
// its HBM and a grid of PEs (processing elements), connected by a network on chip,
// UCIe links and a switch. A program allocates tensors in the simulated memory,
// launches kernels on the PEs, reads the results back and learns what everything
// took, to the picosecond.
//
//	system := accel.New(accel.DefaultTopology(), accel.DefaultConfig())
//	x, err := system.Zeros(0, 16, 1024, accel.PerCube)  // on SIP 0, a row for each cube
//	err = x.Set(values)
//	result, err := system.Launch(kernel, accel.OnPE0(system, 0))
//	fmt.Println(result.Crit, result.Breakdown, x.Data())
//
// # The machine
//
// A Topology says how many SIPs, cubes and PEs there are, how they are connected and
// what each part costs; a Config says which all-reduce runs and how its receive queues
// are set up. Load reads both from YAML files (docs/accelerator.md explains every key);
// WithSIPs and WithCubes of a Topology give variants of it.
//
// # Tensors
//
// A Tensor is a matrix of f16 in the HBM of one SIP. Its Policy divides it over the
// cubes and the PEs of each cube, by rows, by columns or as copies; PerCube and OnCube
// are the usual ones. Set and Data move the values of the whole tensor, On finds the
// shard of one PE.
//
// # Kernels
//
// A kernel is a function of package tl, recorded once for each PE. Launch simulates
// it to its end and then computes what it computes, so that x.Data is the result.
// AllReduce adds up tensors over all SIPs, Matmul multiplies on some PEs of SIP 0, and
// GemmAllReduce simulates a product whose parts are added up while the next are
// multiplied.
//
// # Results
//
// A Result has the time of the slowest PE (Crit), where it went along the critical path
// (Breakdown), what every PE took and what its engines did. Kernels that wait for each
// other end in a *Deadlock that names the chain. The simulation has no randomness: the
// same files give the same times on any machine, until ModelVersion changes.
//
// Everything happens in the calling goroutine; one goroutine uses a System at a time.
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
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// ModelVersion changes when the same files give other times, or other limits of them.
const ModelVersion = "5"

// Version names the model and the files that are built into it, for results made with them.
func Version() string {
	files := sha256.Sum256(slices.Concat(topo.DefaultFile(), ccl.DefaultFile()))
	return fmt.Sprintf("%s-%x", ModelVersion, files[:4])
}

// The names under which the current folder is searched.
const (
	TopologyName = "topology.yaml"
	CCLName      = "ccl.yaml"
)

// System is a simulated accelerator and the contents of its memory.
type System struct {
	Topo *Topology
	CCL  *Config
	// FlitByFlit simulates every flit separately, for tests.
	FlitByFlit bool
	// TimingOnly leaves out computing the data.
	TimingOnly bool
	// Load has every Result tell what each link carried when.
	Load bool
	// Trace has every Result tell everything that happened, for WriteTrace.
	Trace bool

	memory *memory
	clock  event.Time
	last   *sim.Result
}

// New is a system with empty memory.
func New(t *Topology, c *Config) *System {
	return &System{Topo: t, CCL: c, memory: newMemory(t)}
}

// Load reads the two files; "" is the one built in.
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

// Nearby is the name if the current folder has such a file, and "" otherwise.
func Nearby(name string) string {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return name
}

// Now is the simulated time: the sum of all kernels so far, each from the common
// start of its PEs to the end of the last, without the launches.
func (s *System) Now() Time { return s.clock }

// Clock is the simulated time for benches: bench.State.UseClock takes it.
func (s *System) Clock() Clock { return Clock{s} }

// Clock counts what the kernels of a System have taken.
type Clock struct{ system *System }

// Now is in picoseconds.
func (c Clock) Now() int64 { return int64(c.system.clock) }

// Deterministic says that the same run takes the same time.
func (Clock) Deterministic() bool { return true }

// Name is that of simulated time.
func (Clock) Name() string { return "simulated" }

// Look has what follows recorded for Inside.
func (c Clock) Look() { c.system.Load = true }

// Inside is what the last launch looked like inside, as pages of a run show it: the load of each link
// over time and the critical path; nothing if nobody looked.
func (c Clock) Inside() ([]byte, error) { return profile.Of(c.system.Topo, c.system.last).Encode() }

// Launch runs a kernel on the given PEs.
func (s *System) Launch(k tl.Kernel, on []PEID) (*Result, error) {
	return s.launch(k, on, s.CCL.Settings())
}

func (s *System) launch(k tl.Kernel, on []topo.PEID, set ccl.Settings) (*sim.Result, error) {
	l, err := s.simulate(k, on, set)
	if err != nil {
		return nil, err
	}
	return l.result, s.execute(l)
}

// launched is a launch whose time is known.
type launched struct {
	programs []*tl.Program
	result   *sim.Result
}

// simulate finds out when everything happens.
func (s *System) simulate(k tl.Kernel, on []topo.PEID, set ccl.Settings) (*launched, error) {
	cubes, pes := map[int]bool{}, map[int]bool{}
	for _, id := range on {
		cubes[id.Cube], pes[id.PE] = true, true
	}
	env := tl.Env{Topo: s.Topo, Cubes: len(cubes), PEs: len(pes), SlotBytes: set.SlotBytes}
	l := &launched{}
	for _, id := range on {
		if _, err := s.Topo.Address(topo.Location{PEID: id, Space: topo.HBMSpace}); err != nil {
			return nil, fmt.Errorf("launching on %v: %w", id, err)
		}
		env.ID = id
		p, err := tl.Record(env, k)
		if err != nil {
			return nil, err
		}
		l.programs = append(l.programs, p)
	}
	var err error
	l.result, err = sim.Run(sim.Config{Topo: s.Topo, Buffer: set.Buffer, Slots: set.Slots, SlotBytes: set.SlotBytes,
		CreditBytes: set.CreditBytes, Poll: set.Poll, FlitByFlit: s.FlitByFlit, Load: s.Load, Trace: s.Trace}, l.programs)
	return l, err
}

// execute computes the data of a launch, in the order in which it happens, and lets its time pass.
func (s *System) execute(l *launched) error {
	s.clock += l.result.Crit
	s.last = l.result
	if s.TimingOnly {
		return nil
	}
	data := tl.NewExecutor(s.memory, l.programs)
	for _, e := range l.result.Order {
		if err := data.Do(int(e.Program), int(e.Op), e.Port); err != nil {
			return err
		}
	}
	return nil
}

// OnPE0 is the first PE of every cube of the given SIPs.
func OnPE0(s *System, sips ...int) []PEID {
	var on []topo.PEID
	for _, sip := range sips {
		for cube := range s.Topo.Cubes.Count() {
			on = append(on, topo.PEID{SIP: sip, Cube: cube})
		}
	}
	return on
}

// OnAll is every PE of the given SIPs.
func OnAll(s *System, sips ...int) []PEID {
	var on []topo.PEID
	for _, sip := range sips {
		for i := range s.Topo.Cubes.Count() * s.Topo.PEs() {
			on = append(on, topo.PEID{SIP: sip, Cube: i / s.Topo.PEs(), PE: i % s.Topo.PEs()})
		}
	}
	return on
}
