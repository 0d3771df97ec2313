package nccl

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/nccl"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// engine is one rank's side of a group.
type engine struct {
	devicegroup.Group
	lib *nccl.Library

	comm        *nccl.Comm // nil after abort
	stream      *cuda.Stream
	barrierByte cuda.Pointer // a byte for barriers to reduce
	stage       [2]stage     // for input and output in host memory
}

var (
	_ dist.Engine         = (*engine)(nil)
	_ instrument.Observer = (*engine)(nil)
)

func (e *engine) Capabilities() dist.Capabilities {
	c := capabilities()
	if bits.OnesCount(uint(e.Size())) != 1 {
		c.Reductions = slices.DeleteFunc(c.Reductions, func(r dist.Reduction) bool { return r == dist.Avg })
	}
	return c
}

// Facts returns what the group runs on, for [dist.Group.Facts].
func (e *engine) Facts() dist.Facts {
	return dist.Facts{Library: fmt.Sprintf("%v, %s", e.lib, e.GPU.Device().Name), RanksPerDevice: 1}
}

// join completes an engine whose ranks have met. On an error, the other ranks learn the reason.
func join(e *engine) (dist.Engine, error) {
	if err := e.open(); err != nil {
		e.Refuse(err)
		_ = e.Close() // err is the first cause
		return nil, err
	}
	return e, nil
}

// open creates the communicator. It is collective.
func (e *engine) open() error {
	if err := e.checkOneRankPerGPU(); err != nil {
		return err
	}
	id, err := e.shareID()
	if err != nil {
		return err
	}
	err = e.GPU.Do(func() (err error) {
		if e.stream, err = e.GPU.Stream(); err != nil {
			return err
		}
		if e.barrierByte, err = e.GPU.Alloc(1); err != nil {
			return err
		}
		e.comm, err = e.lib.Start(e.Size(), e.Rank(), id)
		return err
	})
	if err != nil {
		return err
	}
	if err := e.GPU.Do(func() error { return e.awaitComm("init") }); err != nil {
		return err
	}
	if err := e.Checker.Check(shm.NewLabel("init")); err != nil {
		return err
	}
	e.Checker.ResetCallCount()
	return nil
}

// checkOneRankPerGPU returns a dist.UnavailableError if ranks share a GPU. NCCL would report that as an
// invalid usage, without naming the ranks.
func (e *engine) checkOneRankPerGPU() error {
	all, err := e.Checker.AllGather("init", []byte(e.GPU.Device().BusID))
	if err != nil {
		return err
	}
	for rank, id := range all {
		if first := slices.IndexFunc(all, func(other []byte) bool { return string(other) == string(id) }); first < rank {
			return &dist.UnavailableError{Err: fmt.Errorf("NCCL takes one rank per GPU, and ranks %d and %d of %d both "+
				"have GPU %s (%s)", first, rank, e.Size(), id, e.GPU.Device().Name)}
		}
	}
	return nil
}

// shareID returns the communicator's id, which rank 0 creates for all.
func (e *engine) shareID() (id nccl.ID, err error) {
	var mine []byte
	if e.Rank() == 0 {
		if id, err = e.lib.NewID(); err != nil {
			return id, err
		}
		mine = id[:]
	}
	all, err := e.Checker.AllGather("init", mine)
	if err != nil {
		return id, err
	}
	copy(id[:], all[0])
	return id, nil
}

// Split partitions the group by color. Each part gets its own communicator.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	part, _, err := e.Checker.Split(color, key)
	if part == nil {
		return nil, err
	}
	return join(&engine{lib: e.lib, Group: devicegroup.Group{Checker: part, GPU: e.GPU, Timeout: e.Timeout}})
}

// Close leaves the group and frees its resources. The last call of the other ranks may need this rank's
// communicator.
func (e *engine) Close() error {
	defer e.Checker.Close()
	e.Checker.Leave()
	if !e.Checker.Failed() {
		e.AwaitOthers()
	}
	if e.stream == nil {
		return nil
	}
	return e.Release(func() error {
		var faults []error
		if e.Checker.Failed() || !e.Checker.Alone() {
			e.abort()
		} else if e.comm != nil {
			faults = append(faults, ignoreProgress(e.comm.Destroy()))
		}
		for _, s := range e.stage {
			faults = append(faults, s.free(e.GPU))
		}
		if e.barrierByte != 0 {
			faults = append(faults, e.GPU.Free(e.barrierByte))
		}
		return errors.Join(append(faults, e.stream.Destroy())...)
	})
}

// abort ends the communicator and its work on the GPU. Its error is ignored, because the failure that
// led to abort is already being reported.
func (e *engine) abort() {
	if e.comm != nil {
		_ = e.comm.Abort()
		e.comm = nil
	}
}

// ignoreProgress turns ErrInProgress into nil: a non-blocking communicator returns it for calls that it
// has accepted.
func ignoreProgress(err error) error {
	if err == nccl.ErrInProgress {
		return nil
	}
	return err
}

// allocation is device memory of this rank, made by Alloc.
type allocation struct {
	device *cuda.Context
	addr   cuda.Pointer
	freed  bool
}

var _ dist.DeviceMemory = (*allocation)(nil)

func (a *allocation) Read(dst []byte, off int) error {
	return a.device.Do(func() error { return a.device.Read(dst, a.addr+cuda.Pointer(off)) })
}

func (a *allocation) Write(off int, src []byte) error {
	return a.device.Do(func() error { return a.device.Write(a.addr+cuda.Pointer(off), src) })
}

// Alloc returns zeroed device memory. If one rank has no memory left, every rank gets an error.
func (e *engine) Alloc(d dist.DType, count int) (dist.Buffer, error) {
	a := &allocation{device: e.GPU}
	bytes := max(1, count*d.Size())
	failed := e.GPU.Do(func() (err error) {
		if a.addr, err = e.GPU.Alloc(bytes); err != nil {
			return err
		}
		return e.GPU.Fill(a.addr, 0, bytes)
	})
	failed = e.Share(fmt.Sprintf("alloc of %d %v", count, d), failed, "has no memory left")
	if failed != nil && a.addr != 0 {
		failed = errors.Join(failed, e.GPU.Do(func() error { return e.GPU.Free(a.addr) }))
	}
	if failed != nil {
		return dist.Buffer{}, fmt.Errorf("allocating %d bytes on GPU %s: %w", bytes, e.GPU.Device().BusID, failed)
	}
	return dist.NewBuffer(d, count, nil, a), nil
}

// Free frees memory that Alloc returned.
func (e *engine) Free(b dist.Buffer) error {
	a, ours := b.Memory().(*allocation)
	if !ours || a.device != e.GPU || a.freed {
		return fmt.Errorf("freeing %v: not memory that Alloc of this group returned", b)
	}
	a.freed = true
	return e.GPU.Do(func() error { return e.GPU.Free(a.addr) })
}

// stage is device memory for calls on host memory. It grows to the largest buffer used so far.
type stage struct {
	addr  cuda.Pointer
	bytes int
}

// grow makes the stage at least so large. Its content is lost.
func (s *stage) grow(c *cuda.Context, bytes int) (err error) {
	if bytes <= s.bytes {
		return nil
	}
	if err := s.free(c); err != nil {
		return err
	}
	if s.addr, err = c.Alloc(bytes); err == nil {
		s.bytes = bytes
	}
	return err
}

func (s *stage) free(c *cuda.Context) error {
	if s.bytes == 0 {
		return nil
	}
	s.bytes = 0
	return c.Free(s.addr)
}
