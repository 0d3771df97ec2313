package nccl

import (
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// config is NCCL's ncclConfig_t as of version 2.14. Later versions have more fields
// and take their defaults where the struct says that it is older.
type config struct {
	size     uint64
	magic    uint32
	version  uint32
	blocking int32
	_        int32
}

const configMagic = 0xcafebeef

// Comm is a communicator: one rank's end of it.
type Comm struct {
	lib    *Library
	handle uintptr
	state  *int32 // on the heap: for State
}

// Start begins to make a communicator of so many ranks, each on a GPU of its own: the
// one whose context is current. State tells when it is made.
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

// State is nil when everything that was told to the communicator is under way or done,
// ErrInProgress when it is not, and otherwise what has failed, on this rank or another.
func (c *Comm) State() error {
	if err := c.check("ncclCommGetAsyncError",
		c.lib.f.commGetAsyncError.Call(c.handle, uintptr(unsafe.Pointer(c.state)))); err != nil {
		return err
	}
	return c.check("the communicator", uintptr(*c.state))
}

// Abort ends the communicator and what it is doing on the GPU.
func (c *Comm) Abort() error { return c.check("ncclCommAbort", c.lib.f.commAbort.Call(c.handle)) }

// Destroy ends the communicator when all its ranks do.
func (c *Comm) Destroy() error { return c.check("ncclCommDestroy", c.lib.f.commDestroy.Call(c.handle)) }

func (c *Comm) check(call string, result uintptr) error { return c.lib.check(call, c.handle, result) }

// The numbers of NCCL's element types and reductions.
var (
	types = map[dtype.DType]uintptr{dtype.U8: 1, dtype.I32: 2, dtype.I64: 4, dtype.F16: 6, dtype.F32: 7, dtype.F64: 8,
		dtype.BF16: 9}
	ops = map[dtype.Reduction]uintptr{dtype.Sum: 0, dtype.Prod: 1, dtype.Max: 2, dtype.Min: 3, dtype.Avg: 4}
)

// AllReduce and the others start an operation on the stream.
func (c *Comm) AllReduce(in, out cuda.Pointer, count int, d dtype.DType, r dtype.Reduction, s *cuda.Stream) error {
	return c.check("ncclAllReduce",
		c.lib.f.allReduce.Call(uintptr(in), uintptr(out), uintptr(count), types[d], ops[r], c.handle, s.Handle()))
}

// Broadcast has all ranks' out filled from the root's in.
func (c *Comm) Broadcast(in, out cuda.Pointer, count int, d dtype.DType, root int, s *cuda.Stream) error {
	return c.check("ncclBroadcast",
		c.lib.f.broadcast.Call(uintptr(in), uintptr(out), uintptr(count), types[d], uintptr(root), c.handle, s.Handle()))
}

// Reduce leaves the result with the root.
func (c *Comm) Reduce(in, out cuda.Pointer, count int, d dtype.DType, r dtype.Reduction, root int,
	s *cuda.Stream) error {
	return c.check("ncclReduce", c.lib.f.reduce.Call(uintptr(in), uintptr(out), uintptr(count), types[d], ops[r],
		uintptr(root), c.handle, s.Handle()))
}

// AllGather gathers blocks of equal count.
func (c *Comm) AllGather(in, out cuda.Pointer, count int, d dtype.DType, s *cuda.Stream) error {
	return c.check("ncclAllGather",
		c.lib.f.allGather.Call(uintptr(in), uintptr(out), uintptr(count), types[d], c.handle, s.Handle()))
}

// ReduceScatter leaves blocks of equal count.
func (c *Comm) ReduceScatter(in, out cuda.Pointer, count int, d dtype.DType, r dtype.Reduction, s *cuda.Stream) error {
	return c.check("ncclReduceScatter",
		c.lib.f.reduceScatter.Call(uintptr(in), uintptr(out), uintptr(count), types[d], ops[r], c.handle, s.Handle()))
}

// Send sends to a rank, which receives as much.
func (c *Comm) Send(in cuda.Pointer, count int, d dtype.DType, peer int, s *cuda.Stream) error {
	return c.check("ncclSend", c.lib.f.send.Call(uintptr(in), uintptr(count), types[d], uintptr(peer), c.handle,
		s.Handle()))
}

// Recv receives from a rank.
func (c *Comm) Recv(out cuda.Pointer, count int, d dtype.DType, peer int, s *cuda.Stream) error {
	return c.check("ncclRecv", c.lib.f.recv.Call(uintptr(out), uintptr(count), types[d], uintptr(peer), c.handle,
		s.Handle()))
}

// Group starts what f starts as one, so that its parts do not wait for each other.
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
