package nccl

import (
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// config is ncclConfig_t as of version 2.14. The struct states its version, and later libraries use
// defaults for the fields that it lacks.
type config struct {
	size     uint64
	magic    uint32
	version  uint32
	blocking int32
	_        int32
}

const configMagic = 0xcafebeef

// Comm is one rank's end of a communicator.
type Comm struct {
	lib    *Library
	handle uintptr
	state  *int32 // result of State; on the heap because C writes to it
}

// Start begins to create a communicator. Each rank uses the GPU whose context is current. Poll State until the
// communicator is ready.
func (l *Library) Start(ranks, rank int, id ID) (*Comm, error) {
	handle := new(uintptr)
	c := &config{magic: configMagic, version: oldest}
	c.size = uint64(unsafe.Sizeof(*c))
	err := l.check("ncclCommInitRankConfig", 0, l.initRank(handle, ranks, rank, id, c))
	if err != nil && err != ErrInProgress {
		return nil, err
	}
	return &Comm{l, *handle, new(int32)}, nil
}

// State returns nil if all requests to the communicator have been enqueued, ErrInProgress if some have not, and
// otherwise the error of this or another rank.
func (c *Comm) State() error {
	if err := c.check("ncclCommGetAsyncError",
		c.lib.f.commGetAsyncError.Call(c.handle, uintptr(unsafe.Pointer(c.state)))); err != nil {
		return err
	}
	return c.check("the communicator", uintptr(*c.state))
}

// Abort ends the communicator and its work on the GPU.
func (c *Comm) Abort() error { return c.check("ncclCommAbort", c.lib.f.commAbort.Call(c.handle)) }

// Destroy ends the communicator. All ranks must call it.
func (c *Comm) Destroy() error { return c.check("ncclCommDestroy", c.lib.f.commDestroy.Call(c.handle)) }

func (c *Comm) check(call string, result uintptr) error { return c.lib.check(call, c.handle, result) }

// NCCL's enumerators of element types and reductions.
var (
	types = map[dtype.DType]uintptr{dtype.U8: 1, dtype.I32: 2, dtype.I64: 4, dtype.F16: 6, dtype.F32: 7, dtype.F64: 8,
		dtype.BF16: 9}
	ops = map[dtype.Reduction]uintptr{dtype.Sum: 0, dtype.Prod: 1, dtype.Max: 2, dtype.Min: 3, dtype.Avg: 4}
)

// AllReduce, like all operations below, starts on the stream and returns at once.
func (c *Comm) AllReduce(in, out cuda.Pointer, count int, d dtype.DType, r dtype.Reduction, s *cuda.Stream) error {
	return c.check("ncclAllReduce",
		c.lib.f.allReduce.Call(uintptr(in), uintptr(out), uintptr(count), types[d], ops[r], c.handle, s.Handle()))
}

// Broadcast copies the root's in to all ranks' out.
func (c *Comm) Broadcast(in, out cuda.Pointer, count int, d dtype.DType, root int, s *cuda.Stream) error {
	return c.check("ncclBroadcast",
		c.lib.f.broadcast.Call(uintptr(in), uintptr(out), uintptr(count), types[d], uintptr(root), c.handle, s.Handle()))
}

// Reduce stores the result at the root.
func (c *Comm) Reduce(in, out cuda.Pointer, count int, d dtype.DType, r dtype.Reduction, root int,
	s *cuda.Stream) error {
	return c.check("ncclReduce", c.lib.f.reduce.Call(uintptr(in), uintptr(out), uintptr(count), types[d], ops[r],
		uintptr(root), c.handle, s.Handle()))
}

// AllGather gathers blocks of equal size.
func (c *Comm) AllGather(in, out cuda.Pointer, count int, d dtype.DType, s *cuda.Stream) error {
	return c.check("ncclAllGather",
		c.lib.f.allGather.Call(uintptr(in), uintptr(out), uintptr(count), types[d], c.handle, s.Handle()))
}

// ReduceScatter stores each rank's block of the result in its out. All blocks have the same size.
func (c *Comm) ReduceScatter(in, out cuda.Pointer, count int, d dtype.DType, r dtype.Reduction, s *cuda.Stream) error {
	return c.check("ncclReduceScatter",
		c.lib.f.reduceScatter.Call(uintptr(in), uintptr(out), uintptr(count), types[d], ops[r], c.handle, s.Handle()))
}

// Send sends to peer, which must receive the same count.
func (c *Comm) Send(in cuda.Pointer, count int, d dtype.DType, peer int, s *cuda.Stream) error {
	return c.check("ncclSend", c.lib.f.send.Call(uintptr(in), uintptr(count), types[d], uintptr(peer), c.handle,
		s.Handle()))
}

// Recv receives from peer.
func (c *Comm) Recv(out cuda.Pointer, count int, d dtype.DType, peer int, s *cuda.Stream) error {
	return c.check("ncclRecv", c.lib.f.recv.Call(uintptr(out), uintptr(count), types[d], uintptr(peer), c.handle,
		s.Handle()))
}

// Group starts the operations of f together, so that they do not wait for each other.
func (c *Comm) Group(f func() error) error {
	if err := c.check("ncclGroupStart", c.lib.f.groupStart.Call()); err != nil {
		return err
	}
	failed := f()
	if failed == ErrInProgress {
		failed = nil
	}
	ended := c.check("ncclGroupEnd", c.lib.f.groupEnd.Call())
	if failed != nil {
		return failed
	}
	return ended
}
