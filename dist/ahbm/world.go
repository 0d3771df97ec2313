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
)

// world is a group: the accelerator, and the call that its ranks are meeting for.
type world struct {
	size    int
	secret  string
	machine Machine

	// Guarded by worlds until complete.
	joined   []bool
	missing  int
	complete chan struct{}

	mu     sync.Mutex
	now    event.Time // simulated
	left   []bool
	call   *call
	failed error // final: every later call gets it
}

// call is one collective that ranks are arriving at.
type call struct {
	plans []*dist.Plan // by rank
	here  int
	done  chan struct{}
	err   error
}

func newWorld(size int, secret string, m Machine) *world {
	return &world{size: size, secret: secret, machine: m, joined: make([]bool, size), missing: size, complete: make(chan struct{}),
		left: make([]bool, size)}
}

func (w *world) absent() int {
	worlds.Lock()
	defer worlds.Unlock()
	return w.missing
}

// withdraw undoes a Join that the others did not answer.
func (w *world) withdraw(c dist.Config) {
	worlds.Lock()
	defer worlds.Unlock()
	w.joined[c.Rank] = false
	w.missing++
}

// meet brings a rank's call together with the others' and returns when it has
// been made. The last to come makes it.
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
	c.here++
	if c.here == w.size {
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

// end closes the current call; an error is the end of the group.
func (w *world) end(err error) {
	w.call.err, w.failed = err, err
	close(w.call.done)
	w.call = nil
}

// refuse is a rank that cannot make the call that the others may wait for.
func (w *world) refuse(rank int, reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return
	}
	w.failed = &dist.MisuseError{Text: fmt.Sprintf("rank %d cannot make its call: %v", rank, reason)}
	if w.call != nil {
		w.end(w.failed)
	}
}

// leave is a rank that closes its group.
func (w *world) leave(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[rank] = true
	if w.call != nil && w.call.plans[rank] == nil {
		w.end(&dist.PeerError{Rank: rank, Text: fmt.Sprintf("rank %d has left the group", rank)})
	}
}

// perform makes a call for which all ranks are here.
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
	if _, spread := first.In.Memory().(perCube); spread {
		cubes := w.machine.Topo.Cubes.Count()
		if first.Count%cubes != 0 {
			return fmt.Errorf("%v: a buffer with a tile on each of %d cubes does not have %d elements", *first, cubes, first.Count)
		}
		return w.reduce(c, cubes, first.Count/cubes, 0, accel.PerCube)
	}
	grid := w.machine.Topo.Cubes
	root := grid.H/2*grid.W + grid.W/2
	piece := w.machine.CCL.Algorithms[first.Algorithm].SlotBytes / dist.F16.Size()
	if first.Chunk > 0 {
		piece = min(piece, first.Chunk)
	}
	for off := 0; off < first.Count; off += piece {
		if err := w.reduce(c, 1, min(piece, first.Count-off), off, accel.OnCube(root)); err != nil {
			return err
		}
	}
	return nil
}

// signature is what ranks must agree on.
func signature(p *dist.Plan) string {
	memory := "plain" // all memory but that of PerCube is alike
	if _, spread := p.In.Memory().(perCube); spread {
		memory = perCube{}.Name()
	}
	return fmt.Sprintf("%v by %q in pieces of %d (%s memory)", *p, p.Algorithm, p.Chunk, memory)
}

// reduce makes one launch: tiles of n elements, rows of them per rank, from off
// on in the ranks' buffers.
func (w *world) reduce(c *call, rows, n, off int, policy accel.Policy) error {
	settings, err := w.machine.CCL.With(c.plans[0].Algorithm, func(*ccl.Settings) {})
	if err != nil {
		return err
	}
	// Memory is not given back piece by piece, so every launch gets a fresh one.
	system := accel.New(w.machine.Topo, settings)
	system.TimingOnly, system.Trace = w.machine.TimingOnly, w.machine.Trace
	tensors := make([]*accel.Tensor, w.size)
	for rank, p := range c.plans {
		if tensors[rank], err = system.Zeros(rank, rows, n, policy); err != nil {
			return err
		}
		if err := tensors[rank].Set(dist.Slice[dist.Float16](p.In)[off : off+rows*n]); err != nil {
			return err
		}
	}
	result, err := system.AllReduce(tensors)
	if err != nil {
		return err
	}
	w.now += result.Crit
	if w.machine.Observe != nil {
		w.machine.Observe(result)
	}
	for rank, p := range c.plans {
		copy(dist.Slice[dist.Float16](p.Out)[off:], tensors[rank].Data())
	}
	return nil
}

func unsafePointer(b dist.Buffer) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b.Bytes())) }
