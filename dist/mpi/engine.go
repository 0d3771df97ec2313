package mpi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// engine is one rank's side of a group.
type engine struct {
	process     *process
	members     membership
	coordinator coordinator
	comm        comm
	splits      int         // number of Split calls; names the next subgroup
	sent        atomic.Bool // this rank has sent a message, which may not have been received
}

var _ dist.Engine = (*engine)(nil)

// newEngine completes a group whose ranks have met, so that all of them call newComm. b is nil for
// ranks on several hosts: their coordinator needs the communicator.
func (p *process) newEngine(m membership, b coordinator, newComm func() (comm, error)) (dist.Engine, error) {
	e := &engine{process: p, members: m, coordinator: b}
	var err error
	if e.comm, err = newComm(); err == nil && b == nil {
		e.coordinator, err = newRemoteCoordinator(p, e.comm, m)
	}
	if err != nil {
		if b != nil {
			b.Close()
		}
		return nil, err
	}
	return e, nil
}

func (e *engine) Rank() int { return e.members.rank }
func (e *engine) Size() int { return len(e.members.hosts) }

func (e *engine) Capabilities() dist.Capabilities { return capabilities() }

// Facts returns what the group runs on, for [dist.Group.Facts].
func (e *engine) Facts() dist.Facts { return dist.Facts{Library: e.process.lib.String()} }

// Prepare returns the function that performs the planned call.
func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	if p.Op.PointToPoint() {
		return e.message(p)
	}
	return e.collective(p)
}

// Refuse fails the group because this rank cannot make its call.
func (e *engine) Refuse(reason error) { _ = e.coordinator.Fail(shm.RefusalBy(e.Rank(), reason)) }

// fail ends the group because an MPI function returned err during op.
func (e *engine) fail(op string, err error) error {
	return e.coordinator.Fail(shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d in %s: %v: %v", e.Rank(), op, e.process.lib, err)})
}

// Split divides the communicator by MPI_Comm_split. The ranks of each part then find out which hosts
// they are on, because a part may be on one host although the group is not.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	if err := agree(e.coordinator, newLabel("split")); err != nil {
		return nil, err
	}
	e.splits++
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
	m := membership{id: fmt.Sprintf("%s/%d.%d", e.members.id, e.splits, color), secret: e.members.secret, rank: rank,
		timeout: e.members.timeout}
	if err := m.locate(e.process, c, size); err != nil {
		return nil, e.fail("split", err)
	}
	var b coordinator
	if m.oneHost() {
		ctx, cancel := context.WithTimeout(context.Background(), m.timeout)
		defer cancel()
		if b, err = meetLocal(ctx, m); err != nil {
			return nil, fmt.Errorf("splitting: %w", err)
		}
	}
	return e.process.newEngine(m, b, func() (comm, error) { return c, nil })
}

// Alloc returns zeroed memory of this rank, page-aligned and not shared with other ranks. If one rank
// has no memory left, every rank gets an error.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	if err := agree(e.coordinator, newLabel(fmt.Sprintf("alloc of %d %v", count, d))); err != nil {
		return dist.Buffer{}, err
	}
	b, failed := e.process.heap.alloc(d, count)
	ok := make([]int32, 2) // 1 if this rank has the memory; the minimum over all ranks
	if failed == nil {
		ok[0] = 1
	}
	lib := e.process.lib
	err := lib.Allreduce(mpi.Memory(ok), mpi.Memory(ok[1:]), 1, lib.Type(dtype.I32), lib.Op(dtype.I32, vec.Min),
		e.comm).Run()
	if err != nil {
		return dist.Buffer{}, e.fail("alloc", err)
	}
	if failed == nil && ok[1] == 0 {
		failed = errors.Join(errors.New("another rank has no memory left"), e.process.heap.free(b))
	}
	if failed != nil {
		return dist.Buffer{}, fmt.Errorf("allocating %d %v: %w", count, d, failed)
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
