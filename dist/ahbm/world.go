package ahbm

import (
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/accel/ccl"
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/collector"
)

// world is the shared state of a group: the accelerator and the current collective.
type world struct {
	size    int
	secret  string
	machine Machine

	// Guarded by the mutex of worlds until complete is closed.
	joined   []bool
	missing  int
	complete chan struct{}

	mu     sync.Mutex // guards the fields below
	now    event.Time // simulated time
	last   *accel.Result
	latest prepared
	left   []bool
	call   *call
	failed error // permanent: every later call returns it
}

// With more than manySIPs SIPs the garbage collector runs when the heap has grown by manySIPsGC percent.
const (
	manySIPs   = 128
	manySIPsGC = 30
)

// call is the current collective.
type call struct {
	plans   []*dist.Plan // by rank; nil until the rank has called
	arrived int          // number of ranks that have called
	done    chan struct{}
	err     error
}

func newWorld(size int, secret string, m Machine) *world {
	return &world{size: size, secret: secret, machine: m, joined: make([]bool, size), missing: size,
		complete: make(chan struct{}), left: make([]bool, size)}
}

// absent returns the number of ranks that have not joined.
func (w *world) absent() int {
	worlds.Lock()
	defer worlds.Unlock()
	return w.missing
}

// withdraw undoes a Join that timed out or was cancelled. It reports false if all ranks have joined meanwhile.
func (w *world) withdraw(c dist.Config) bool {
	worlds.Lock()
	defer worlds.Unlock()
	if w.missing == 0 {
		return false
	}
	w.joined[c.Rank] = false
	if w.missing++; w.missing == w.size {
		delete(worlds.byID, c.ID)
	}
	return true
}

// meet waits until all ranks have made the same call and it has been performed. The last rank to
// arrive performs it for all, so the simulation runs on one goroutine and is deterministic.
func (w *world) meet(rank int, p *dist.Plan, timeout time.Duration) error {
	w.mu.Lock()
	if w.failed == nil {
		if i := slices.Index(w.left, true); i >= 0 {
			w.failed = &dist.PeerError{Rank: i, Text: fmt.Sprintf("rank %d has left the group", i)}
		}
	}
	if w.failed != nil {
		defer w.mu.Unlock()
		return w.failed
	}
	if w.call == nil {
		w.call = &call{plans: make([]*dist.Plan, w.size), done: make(chan struct{})}
	}
	c := w.call
	c.plans[rank] = p
	c.arrived++
	if c.arrived == w.size {
		w.end(w.perform(c))
	}
	w.mu.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		w.mu.Lock()
		if w.call == c {
			i := slices.Index(c.plans, nil)
			w.end(&dist.PeerError{Rank: i, Text: fmt.Sprintf("%v: rank %d did not come within %v", *p, i, timeout)})
		}
		w.mu.Unlock()
	}
	return c.err
}

// end completes the current call. An error ends the group.
func (w *world) end(err error) {
	w.call.err, w.failed = err, err
	close(w.call.done)
	w.call = nil
}

// refuse ends the group because a rank cannot make a call that others may wait for.
func (w *world) refuse(rank int, reason error) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return false
	}
	w.failed = shm.RefusalBy(rank, reason).Err()
	if w.call != nil {
		w.end(w.failed)
	}
	return true
}

// leave records that a rank has closed its group.
func (w *world) leave(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[rank] = true
	if w.call != nil && w.call.plans[rank] == nil {
		w.end(&dist.PeerError{Rank: rank, Text: fmt.Sprintf("rank %d has left the group", rank)})
	}
}

// perform performs the call of all ranks.
func (w *world) perform(c *call) error {
	first := c.plans[0]
	for rank, p := range c.plans {
		if signature(p) != signature(first) {
			return &dist.MisuseError{Text: fmt.Sprintf("rank 0 called %s, rank %d %s", signature(first), rank, signature(p))}
		}
	}
	if first.Op == dist.Barrier || first.Count == 0 {
		return nil
	}
	reduce := w.reduce
	if _, spread := first.In.Memory().(perCube); spread {
		reduce = w.reduceTiles
	}
	if w.size > manySIPs {
		// Programs and data are live to the end. A garbage collector that lets the heap double would need twice as much
		// memory for nothing.
		restore, _ := collector.Hold(manySIPsGC)
		defer restore()
	}
	result, err := reduce(c)
	if err != nil {
		return err
	}
	w.now += result.Crit
	w.last = result
	if w.machine.Observe != nil {
		w.machine.Observe(result)
	}
	return nil
}

// clock returns the simulated time of the group.
func (w *world) clock() profile.Clock {
	return profile.Clock{
		Time: func() event.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Record: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.machine.Load = true
		},
		Latest: func() (*topo.Topology, *sim.Result) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.machine.Topo, w.last
		},
	}
}

// system returns a new accelerator with empty memory, set up for an algorithm.
func (w *world) system(algorithm string) (*accel.System, error) {
	settings, err := w.machine.CCL.With(algorithm, func(*ccl.Settings) {})
	if err != nil {
		return nil, err
	}
	system := accel.New(w.machine.Topo, settings)
	system.TimingOnly, system.Load, system.Trace = w.machine.TimingOnly, w.machine.Load, w.machine.Trace
	return system, nil
}

// prepared is the latest simulated call. If the same call is made again, its time is reused, because
// it does not depend on the data.
type prepared struct {
	algorithm    string
	count, chunk int
	load         bool // its result has the load of links
	sum          *vectorSum
}

// reduce performs the all-reduce of plain buffers.
func (w *world) reduce(c *call) (*accel.Result, error) {
	first := c.plans[0]
	if l := w.latest; l.sum == nil || l.algorithm != first.Algorithm || l.count != first.Count ||
		l.chunk != first.Chunk || l.load != w.machine.Load {
		system, err := w.system(first.Algorithm)
		if err != nil {
			return nil, err
		}
		piece := system.CCL.Settings().SlotBytes / dist.F16.Size()
		if first.Chunk > 0 {
			piece = min(piece, first.Chunk)
		}
		sum, err := newVectorSum(system, first.Count, piece)
		if err != nil {
			return nil, err
		}
		w.latest = prepared{first.Algorithm, first.Count, first.Chunk, w.machine.Load, sum}
	}
	return w.latest.sum.run(c.plans)
}

// reduceTiles performs the all-reduce of buffers with a tile on every cube.
func (w *world) reduceTiles(c *call) (*accel.Result, error) {
	cubes, count := w.machine.Topo.Cubes.Count(), c.plans[0].Count
	if count%cubes != 0 {
		return nil, fmt.Errorf("%v: a buffer with a tile on each of %d cubes does not have %d elements", *c.plans[0], cubes,
			count)
	}
	system, err := w.system(c.plans[0].Algorithm)
	if err != nil {
		return nil, err
	}
	tensors := make([]*accel.Tensor, w.size)
	for rank, p := range c.plans {
		if tensors[rank], err = system.Zeros(rank, cubes, count/cubes, accel.PerCube); err != nil {
			return nil, err
		}
		if w.machine.TimingOnly { // the memory stays untouched, and so takes no memory of this machine
			continue
		}
		if err := tensors[rank].Set(dist.Slice[dist.Float16](p.In)[:count]); err != nil {
			return nil, err
		}
	}
	result, err := system.AllReduce(tensors)
	if err != nil {
		return nil, err
	}
	for rank, p := range c.plans {
		if !w.machine.TimingOnly {
			copy(dist.Slice[dist.Float16](p.Out), tensors[rank].Data())
		}
	}
	return result, nil
}

// signature returns the parameters of a call on which ranks must agree.
func signature(p *dist.Plan) string {
	memory := "plain" // any memory but PerCube
	if _, spread := p.In.Memory().(perCube); spread {
		memory = "per cube"
	}
	return fmt.Sprintf("%v by %q in pieces of %d (%s memory)", *p, p.Algorithm, p.Chunk, memory)
}

func unsafePointer(b dist.Buffer) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b.Bytes())) }
