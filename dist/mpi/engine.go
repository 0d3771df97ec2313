package mpi

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// engine is one rank's side of a group.
type engine struct {
	process     *process
	members     membership
	coordinator *coordinator
	comm        comm
	history     history     // calls since the last agreement; only the goroutine of the collectives uses it
	sent        atomic.Bool // this rank has sent a message, which may not have been received
}

var _ dist.Engine = (*engine)(nil)

// newEngine completes a group whose ranks all have the communicator.
func (p *process) newEngine(m membership, c comm) (dist.Engine, error) {
	coordinator, err := p.newCoordinator(c, m)
	if err != nil {
		return nil, err
	}
	return &engine{process: p, members: m, coordinator: coordinator, comm: c}, nil
}

func (e *engine) Rank() int { return e.members.rank }
func (e *engine) Size() int { return len(e.members.world) }

func (e *engine) Capabilities() dist.Capabilities { return capabilities() }

// Facts returns what the group runs on, for [dist.Group.Facts].
func (e *engine) Facts() dist.Facts { return dist.Facts{Library: e.process.lib.String()} }

// Prepare returns the function that performs the planned call.
func (e *engine) Prepare(p dist.Plan) (run, release func() error, err error) {
	if p.Op.PointToPoint() {
		run, err = e.message(p)
	} else {
		run, err = e.collective(p)
	}
	return run, nil, err
}

// Refuse fails the group because this rank cannot make its call.
func (e *engine) Refuse(reason error) (first bool) { return e.coordinator.RefuseCall(reason) }

// fail ends the group because an MPI function returned err during op.
func (e *engine) fail(op string, err error) error {
	return e.coordinator.Fail(shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d in %s: %v: %v", e.Rank(), op, e.process.lib, err)})
}

// Split divides the communicator by MPI_Comm_split.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	if err := e.agree("split"); err != nil {
		return nil, err
	}
	lib := e.process.lib
	c, err := lib.Split(e.comm, color, key)
	if err != nil {
		return nil, e.fail("split", err)
	}
	if color < 0 {
		return nil, nil
	}
	rank, size, err := lib.RankSize(c)
	if err != nil {
		return nil, e.fail("split", err)
	}
	world, err := e.process.numbers(c, size)
	if err != nil {
		return nil, e.fail("split", err)
	}
	return e.process.newEngine(membership{rank: rank, timeout: e.members.timeout, world: world}, c)
}

// Alloc returns zeroed memory of this rank, page-aligned and not shared with other ranks. If a rank has no
// memory left, that fails the group.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	call := fmt.Sprintf("alloc of %d %v", count, d)
	b, err := e.process.heap.alloc(d, count)
	if err != nil {
		err = fmt.Errorf("%s: %w", call, err)
		e.Refuse(err)
		return dist.Buffer{}, err
	}
	if err := e.agree(call); err != nil {
		return dist.Buffer{}, errors.Join(err, e.process.heap.free(b))
	}
	return b, nil
}

// Free returns memory to the heap for the next Alloc.
func (e *engine) Free(b dist.Buffer) error { return e.process.heap.free(b) }

// Close leaves the group. MPI reuses the ids of freed communicators, so a message left in a freed one
// could be received in the next. The communicator is therefore leaked if the group has failed, because
// its operations may never end, or if this rank has sent messages, because they may not have been
// received.
func (e *engine) Close() error {
	leak := e.coordinator.Failed() || e.sent.Load()
	e.coordinator.Close()
	if leak {
		return nil
	}
	return e.process.lib.Free(e.comm)
}

// heap allocates memory outside the Go heap. It never unmaps memory but reuses it, because MPI
// libraries cache the addresses that they have registered with a network card.
type heap struct {
	mu   sync.Mutex
	used map[unsafe.Pointer][]byte // by address
	idle map[int][][]byte          // by length in bytes
}

// pageAligned marks buffers whose memory comes from Alloc.
type pageAligned struct{}

const pageBytes = 4096

// alloc returns zeroed memory.
func (h *heap) alloc(d dist.DType, count int) (dist.Buffer, error) {
	if count == 0 {
		return dist.NewBuffer(d, 0, nil, pageAligned{}), nil
	}
	n := (count*d.Size() + pageBytes - 1) &^ (pageBytes - 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == nil {
		h.used, h.idle = map[unsafe.Pointer][]byte{}, map[int][][]byte{}
	}
	var b []byte
	if old := h.idle[n]; len(old) > 0 {
		b, h.idle[n] = old[len(old)-1], old[:len(old)-1]
		clear(b)
	} else {
		var err error
		if b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
			return dist.Buffer{}, fmt.Errorf("mapping %d bytes: %w", n, err)
		}
	}
	at := unsafe.Pointer(unsafe.SliceData(b))
	h.used[at] = b
	return dist.NewBuffer(d, count, at, pageAligned{}), nil
}

// free makes the memory of b, which must come from alloc, available to the next alloc.
func (h *heap) free(b dist.Buffer) error {
	if b.Count() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	at := unsafe.Pointer(unsafe.SliceData(b.Bytes()))
	memory, ours := h.used[at]
	if !ours {
		return fmt.Errorf("freeing %v: not memory that Alloc returned", b)
	}
	delete(h.used, at)
	h.idle[len(memory)] = append(h.idle[len(memory)], memory)
	return nil
}
