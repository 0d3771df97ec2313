// Package flat is the backend of a simulated network: LogGP with contention on links (package loggp). The network is
// flat, with up to a million ranks, or a graph of switches and links. Every algorithm of the library runs on it. There
// is only rank 0, whose calls stand for the calls of all ranks (see dist.Description.Virtual). No data moves, and the
// clock shows simulated time.
//
// Before a call is timed, its steps are proved, for exactly these ranks and elements: every rank ends with the result
// of the collective, and there is no deadlock. So a row records that the schedule was proved and that data was not
// executed.
//
// The network is described by a file (dist.Config.Machine); the default is the built-in network.yaml of package loggp.
package flat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/host/collector"
)

// Name is the name of the backend.
const Name = "flat"

// maxRanks is the maximum number of ranks. maxDirectRanks is the maximum for algorithms that read the
// memory of peers: proving that none of their accesses comes too early takes time quadratic in the
// number of ranks.
const (
	maxRanks       = 1 << 20
	maxDirectRanks = 1 << 10
)

// For more than manyRanks ranks the garbage collector runs when the heap has grown by manyRanksGC percent.
const (
	manyRanks   = 1 << 17
	manyRanksGC = 30
)

func init() {
	dist.Register(dist.Description{
		Name: Name, Help: "a simulated network, for any number of ranks: schedules are proved, no data moves",
		InProcess: true, Simulated: true, Virtual: true,
	}, backend{})
}

// capabilities returns all collectives that are schedules.
func capabilities() dist.Capabilities {
	c := dist.Capabilities{DTypes: dtype.All(), Reductions: dtype.Reductions(),
		Algorithms: map[dist.Collective][]string{},
		Features:   []dist.Feature{dist.SymmetricMemory, dist.UnevenBlocks, dist.Pipelining}}
	for _, op := range dist.Collectives() {
		if names := schedule.Names(string(op)); len(names) > 0 {
			// The first one is the default: it sends messages between neighbours and moves the fewest bytes over links.
			slices.SortStableFunc(names, func(a, b string) int { return order(a) - order(b) })
			c.Ops, c.Algorithms[op] = append(c.Ops, op), names
		}
	}
	return c
}

func order(algorithm string) int {
	if algorithm == "ring" {
		return 0
	}
	return 1
}

type backend struct{}

// Capabilities implements the method that dist.Describe calls: algorithms may be registered at any time.
func (backend) Capabilities() dist.Capabilities { return capabilities() }

var _ instrument.MachineReader = backend{}

// CheckMachine implements instrument.MachineReader. The arrangement is a list of faults.
func (backend) CheckMachine(path, arrangement string, ranks int) error {
	n, err := loggp.Open(path, arrangement)
	if err != nil {
		return err
	}
	return n.Check(ranks)
}

// DescribeMachine implements instrument.MachineReader. A group may have fewer ranks than the network.
func (backend) DescribeMachine(path, _ string) (instrument.Machine, error) {
	n, err := loggp.Open(path, "")
	if n.Graph != nil {
		return instrument.Machine{Ranks: n.Graph.Ranks, Text: fmt.Sprintf("network %s: %s", n.Name, n.Graph.Text)}, err
	}
	return instrument.Machine{Text: fmt.Sprintf("network %s: latency %g ns, overhead %g ns, gap %g ns, %g GB/s", n.Name,
		n.Latency.Nanoseconds(), n.Overhead.Nanoseconds(), n.Gap.Nanoseconds(), float64(n.Bandwidth)/1e6)}, err
}

// NearbyMachine implements instrument.MachineReader. There is no default file.
func (backend) NearbyMachine() string { return "" }

// Join implements dist.Backend. There are no other ranks to wait for.
func (backend) Join(_ context.Context, c dist.Config) (dist.Engine, error) {
	if c.Rank != 0 {
		return nil, fmt.Errorf("rank %d: there is only rank 0, which stands for all ranks", c.Rank)
	}
	if c.Size > maxRanks {
		return nil, fmt.Errorf("%d ranks, want %d at most", c.Size, maxRanks)
	}
	n, err := loggp.Open(c.Machine, c.Arrangement)
	if err == nil {
		err = n.Check(c.Size)
	}
	return &engine{size: c.Size, network: n}, err
}

// engine is rank 0, which stands for all ranks.
type engine struct {
	size    int
	network loggp.Network
	last    prepared

	mu     sync.Mutex // guards the fields below
	now    event.Time
	failed error
}

var _ dist.Engine = (*engine)(nil)

func (e *engine) Rank() int { return 0 }
func (e *engine) Size() int { return e.size }

// Capabilities leaves out the algorithms that cannot be proved for this number of ranks.
func (e *engine) Capabilities() dist.Capabilities {
	c := capabilities()
	if e.size <= maxDirectRanks {
		return c
	}
	for op, names := range c.Algorithms {
		c.Algorithms[op] = slices.DeleteFunc(names, func(name string) bool {
			info, _ := schedule.Lookup(string(op), name)
			return info.Direct
		})
	}
	return c
}

// schedule returns the steps of a call.
func (e *engine) schedule(p dist.Plan) (schedule.Schedule, error) {
	params := p.Params(e.size)
	params.ChunkElems = p.Chunk
	return schedule.New(string(p.Op), p.Algorithm, params)
}

// simulate runs a schedule on a network, and returns its time and the machine.
func simulate(s schedule.Schedule, p dist.Plan, n loggp.Network) (event.Time, *loggp.Machine, error) {
	m, err := loggp.NewMachine(n, s.Ranks())
	if err != nil {
		return 0, nil, err
	}
	r, err := m.RunAlone(s, p.DType.Size())
	return r.Time, m, err
}

// once runs the schedule of a call, and keeps what Explain needs.
func (e *engine) once(s schedule.Schedule, p dist.Plan) (event.Time, error) {
	if !e.explains() {
		r, err := loggp.Run(s, p.DType.Size(), e.network)
		return r.Time, err
	}
	time, m, err := simulate(s, p, e.network)
	e.last = prepared{nameOf(s, p), instrument.NetworkRun{Time: time, Machine: m}}
	return time, err
}

// Prepare proves and simulates the schedule of the call once. Every run then advances the clock by that time.
func (e *engine) Prepare(p dist.Plan) (run, release func() error, err error) {
	s, err := e.schedule(p)
	if err != nil {
		return nil, nil, err
	}
	if e.size > manyRanks {
		// The state of the ranks is live to the end. A garbage collector that lets the heap double would need twice as
		// much memory for nothing.
		restore, _ := collector.Hold(manyRanksGC)
		defer restore()
	}
	s = schedule.Keep(s) // it runs twice: to be proved and to be timed
	if err := schedule.Prove(s); err != nil {
		return nil, nil, fmt.Errorf("proving the schedule: %w", err)
	}
	time, err := e.once(s, p)
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.failed == nil {
			e.now += time
		}
		return e.failed
	}, nil, nil
}

// Refuse implements dist.Engine.
func (e *engine) Refuse(reason error) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if first = e.failed == nil; first {
		e.failed = shm.RefusalBy(0, reason).Err()
	}
	return first
}

// Alloc returns memory without contents. It may be of any size, because it occupies nothing.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	return dist.NewBuffer(d, count, nil, &nowhere{}), nil
}

func (e *engine) Free(b dist.Buffer) error {
	if _, ours := b.Memory().(*nowhere); !ours {
		return errors.New("freeing a buffer that was not allocated here")
	}
	return nil
}

func (e *engine) Split(int, int) (dist.Engine, error) {
	return nil, errors.New("a simulated network has no groups of some of its ranks")
}

func (e *engine) Clock() dist.Clock { return clock.Simulated(e.time) }
func (e *engine) Close() error      { return nil }

// nowhere is device memory without contents. Reading and writing it are errors.
type nowhere struct{ _ byte } // not of size 0, so that allocations have different addresses

var errNowhere = errors.New("a simulated network moves no data, so there is none to read or write")

func (*nowhere) Read([]byte, int) error  { return errNowhere }
func (*nowhere) Write(int, []byte) error { return errNowhere }

// time returns the simulated time of the network.
func (e *engine) time() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return int64(e.now)
}
