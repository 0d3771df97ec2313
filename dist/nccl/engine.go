package nccl

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/nccl"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// contexts are the GPUs' contexts in this process, by ordinal, which all groups share.
var contexts = struct {
	sync.Mutex
	open map[int]*cuda.Context
}{open: map[int]*cuda.Context{}}

func contextOf(d *cuda.Device) (c *cuda.Context, err error) {
	contexts.Lock()
	defer contexts.Unlock()
	if c = contexts.open[d.Ordinal]; c == nil {
		if c, err = d.Context(); err == nil {
			contexts.open[d.Ordinal] = c
		}
	}
	return c, err
}

// engine is one rank's end of a group.
type engine struct {
	lib        *nccl.Library
	device     *cuda.Context
	agreement  *shm.CallChecker
	rank, size int
	timeout    time.Duration

	comm   *nccl.Comm // nil once aborted
	stream *cuda.Stream
	byte   cuda.Pointer // of barriers
	stage  [2]stage
}

var (
	_ dist.Engine         = (*engine)(nil)
	_ instrument.Observer = (*engine)(nil)
)

func (e *engine) Rank() int { return e.rank }
func (e *engine) Size() int { return e.size }

// Observe reads the GPU's clocks, power and temperature.
func (e *engine) Observe() (string, error) { return e.device.Device().Observe() }

func (e *engine) Capabilities() dist.Capabilities {
	c := capabilities()
	if bits.OnesCount(uint(e.size)) != 1 {
		c.Reductions = slices.DeleteFunc(c.Reductions, func(r dist.Reduction) bool { return r == dist.Avg })
	}
	return c
}

// Facts returns what the group runs on, for [dist.Group.Facts].
func (e *engine) Facts() dist.Facts {
	return dist.Facts{Library: fmt.Sprintf("%v, %s", e.lib, e.device.Device().Name), RanksPerDevice: 1}
}

// join makes the group of ranks that have met, of which the engine knows the GPU.
func join(e *engine) (dist.Engine, error) {
	e.rank, e.size = e.agreement.Rank(), e.agreement.Size()
	if err := e.open(); err != nil {
		e.Refuse(err)
		_ = e.Close() // the reason is err
		return nil, err
	}
	return e, nil
}

// open makes the communicator, which all ranks do together.
func (e *engine) open() error {
	if err := e.oneEach(); err != nil {
		return err
	}
	id, err := e.newID()
	if err != nil {
		return err
	}
	err = e.device.Do(func() (err error) {
		if e.stream, err = e.device.Stream(); err != nil {
			return err
		}
		if e.byte, err = e.device.Alloc(1); err != nil {
			return err
		}
		e.comm, err = e.lib.Start(e.size, e.rank, id)
		return err
	})
	if err != nil {
		return err
	}
	if err := e.device.Do(func() error { return e.settle("init") }); err != nil {
		return err
	}
	if err := e.agreement.Check(shm.NewLabel("init")); err != nil {
		return err
	}
	e.agreement.ResetCallCount()
	return nil
}

// oneEach refuses ranks that share a GPU, as NCCL itself would in other words.
func (e *engine) oneEach() error {
	all, err := e.agreement.AllGather("init", []byte(e.device.Device().BusID))
	if err != nil {
		return err
	}
	for rank, id := range all {
		if first := slices.IndexFunc(all, func(other []byte) bool { return string(other) == string(id) }); first < rank {
			return &dist.UnavailableError{Err: fmt.Errorf("NCCL takes one rank per GPU, and ranks %d and %d of %d both "+
				"have GPU %s (%s)",
				first, rank, e.size, id, e.device.Device().Name)}
		}
	}
	return nil
}

// newID has rank 0 name the communicator for all.
func (e *engine) newID() (id nccl.ID, err error) {
	var mine []byte
	if e.rank == 0 {
		if id, err = e.lib.NewID(); err != nil {
			return id, err
		}
		mine = id[:]
	}
	all, err := e.agreement.AllGather("init", mine)
	if err != nil {
		return id, err
	}
	copy(id[:], all[0])
	return id, nil
}

// Refuse fails the group because this rank cannot make its call.
func (e *engine) Refuse(reason error) { _ = e.agreement.Fail(shm.RefusalBy(e.rank, reason)) }

// Split makes groups of the ranks of each color, each with a communicator of its own.
func (e *engine) Split(color, key int) (dist.Engine, error) {
	part, _, err := e.agreement.Split(color, key)
	if part == nil {
		return nil, err
	}
	return join(&engine{lib: e.lib, device: e.device, agreement: part, timeout: e.timeout})
}

// lastWait is how long a rank that closes waits for the others, whose last call may
// still need this one's communicator.
const lastWait = time.Second

// Close leaves the group.
func (e *engine) Close() error {
	defer e.agreement.Close()
	e.agreement.Leave()
	for begin := time.Now(); !e.agreement.Failed() && time.Since(begin) < lastWait && !e.agreement.Alone(); {
		time.Sleep(time.Millisecond)
	}
	if e.stream == nil {
		return nil
	}
	return e.device.Do(func() error {
		var faults []error
		if e.agreement.Failed() || !e.agreement.Alone() {
			e.abort()
		} else if e.comm != nil {
			faults = append(faults, ignoreProgress(e.comm.Destroy()))
		}
		for _, s := range e.stage {
			faults = append(faults, s.free(e.device))
		}
		if e.byte != 0 {
			faults = append(faults, e.device.Free(e.byte))
		}
		faults = append(faults, e.stream.Destroy())
		if err := errors.Join(faults...); err != nil && !cuda.Sticky(err) && !e.agreement.Failed() {
			return err
		}
		return nil
	})
}

// abort ends the communicator and its work on the GPU. There is nobody to tell an
// error to: something else has failed before.
func (e *engine) abort() {
	if e.comm != nil {
		_ = e.comm.Abort()
		e.comm = nil
	}
}

func ignoreProgress(err error) error {
	if err == nccl.ErrInProgress {
		return nil
	}
	return err
}
