package nccl

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// call is a prepared collective.
type call struct {
	e     *engine
	plan  dist.Plan
	label *shm.Label
	start func(in, out cuda.Pointer) error // enqueues the NCCL operations on the stream
	do    func() error                     // the method value perform, made once so that run allocates nothing
}

// Prepare chooses the NCCL call for a plan.
func (e *engine) Prepare(p dist.Plan) (run, release func() error, err error) {
	c := &call{e: e, plan: p, label: shm.NewLabel(p.Terms())}
	for _, b := range []dist.Buffer{p.In, p.Out} {
		if a, ours := b.Memory().(*allocation); b.Count() > 0 && b.Bytes() == nil && (!ours || a.device != e.GPU) {
			return nil, nil, fmt.Errorf("%v belongs to another backend or GPU", b)
		}
	}
	c.start, c.do = c.selectCall(), c.perform
	return c.run, nil, nil
}

// selectCall returns the function that enqueues the plan's operation. NCCL recognizes in-place calls by
// the addresses, with the same meaning as dist.
func (c *call) selectCall() func(in, out cuda.Pointer) error {
	e, p := c.e, c.plan
	d, s := p.DType, e.stream
	_, n := dist.Block(p.Count, e.Size(), e.Rank())
	even := p.Count%e.Size() == 0
	switch p.Op {
	case dist.AllReduce:
		return func(in, out cuda.Pointer) error { return e.comm.AllReduce(in, out, p.Count, d, p.Reduction, s) }
	case dist.ReduceScatter:
		if even {
			return func(in, out cuda.Pointer) error { return e.comm.ReduceScatter(in, out, n, d, p.Reduction, s) }
		}
		return c.forEachBlock(func(rank int, in, out cuda.Pointer, off cuda.Pointer, n int) error {
			return e.comm.Reduce(in+off, out, n, d, p.Reduction, rank, s)
		})
	case dist.AllGather:
		if even {
			return func(in, out cuda.Pointer) error { return e.comm.AllGather(in, out, n, d, s) }
		}
		return c.forEachBlock(func(rank int, in, out cuda.Pointer, off cuda.Pointer, n int) error {
			return e.comm.Broadcast(in, out+off, n, d, rank, s)
		})
	case dist.Broadcast:
		return func(in, out cuda.Pointer) error { return e.comm.Broadcast(in, out, p.Count, d, p.Root, s) }
	case dist.Reduce:
		return func(in, out cuda.Pointer) error { return e.comm.Reduce(in, out, p.Count, d, p.Reduction, p.Root, s) }
	case dist.Barrier:
		return func(cuda.Pointer, cuda.Pointer) error {
			return e.comm.AllReduce(e.barrierByte, e.barrierByte, 1, dist.U8, dist.Max, s)
		}
	}
	return c.exchangeBlocks()
}

// forEachBlock returns a group of one operation for each rank's block that is not empty. off is the
// block's position in bytes, n its length in elements.
func (c *call) forEachBlock(
	each func(rank int, in, out, off cuda.Pointer, n int) error,
) func(in, out cuda.Pointer) error {
	e, p := c.e, c.plan
	return func(in, out cuda.Pointer) error {
		return e.comm.Group(func() error {
			for rank := range e.Size() {
				off, n := dist.Block(p.Count, e.Size(), rank)
				if n == 0 {
					continue
				}
				if err := ignoreProgress(each(rank, in, out, cuda.Pointer(off*p.DType.Size()), n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// exchangeBlocks returns gather, scatter or all-to-all as a group of sends and receives. A rank's block
// for itself is copied.
func (c *call) exchangeBlocks() func(in, out cuda.Pointer) error {
	e, p := c.e, c.plan
	width := p.DType.Size()
	_, own := dist.Block(p.Count, e.Size(), e.Rank())
	exchange := func(peer int, in, out cuda.Pointer) error {
		off, n := dist.Block(p.Count, e.Size(), peer)
		block := cuda.Pointer(off * width)
		var sent, received int // elements
		from, to := in, out
		switch p.Op {
		case dist.AllToAll:
			sent, from = n, in+block
			received, to = own, out+cuda.Pointer(peer*own*width)
		case dist.Scatter:
			if e.Rank() == p.Root {
				sent, from = n, in+block
			}
			if peer == p.Root {
				received = own
			}
		case dist.Gather:
			if peer == p.Root {
				sent = own
			}
			if e.Rank() == p.Root {
				received, to = n, out+block
			}
		}
		if peer == e.Rank() {
			if sent == 0 || received == 0 || from == to {
				return nil
			}
			return e.stream.Copy(to, from, sent*width)
		}
		if sent > 0 {
			if err := ignoreProgress(e.comm.Send(from, sent, p.DType, peer, e.stream)); err != nil {
				return err
			}
		}
		if received > 0 {
			return ignoreProgress(e.comm.Recv(to, received, p.DType, peer, e.stream))
		}
		return nil
	}
	return func(in, out cuda.Pointer) error {
		return e.comm.Group(func() error {
			for peer := range e.Size() {
				if err := exchange(peer, in, out); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// run agrees on the call with the other ranks, performs it and waits for its end.
func (c *call) run() error {
	a := c.e.Checker
	if err := a.Begin(c.label, 1); err != nil {
		return err
	}
	epoch := a.Next()
	c.e.setProgress(epoch, 0)
	a.Signal()
	if err := a.AwaitAll(epoch); err != nil {
		return err
	}
	if c.plan.Count == 0 && c.plan.Op != dist.Barrier {
		return nil
	}
	return c.e.GPU.Do(c.do)
}

// setProgress publishes this rank's progress in a call, for failTimeout of other ranks: 0 when the rank
// has agreed on the call, 1 when NCCL has accepted it.
func (e *engine) setProgress(epoch uint32, progress uint64) {
	atomic.StoreUint64(e.Checker.Word(e.Rank(), epoch, 0), uint64(epoch)<<1|progress)
}

// perform copies host memory to the device if needed, and runs the operation.
func (c *call) perform() error {
	e := c.e
	in, err := c.resolve(0, c.plan.In)
	if err == nil && c.plan.In.Bytes() != nil {
		err = e.GPU.Write(in, c.plan.In.Bytes())
	}
	if err != nil {
		return e.fail(c.label.Text(), err)
	}
	out, err := c.resolve(1, c.plan.Out)
	if err != nil {
		return e.fail(c.label.Text(), err)
	}
	if err := ignoreProgress(c.start(in, out)); err != nil {
		return e.fail(c.label.Text(), err)
	}
	e.setProgress(e.Checker.Next()-1, 1)
	if err := e.awaitComm(c.label.Text()); err != nil {
		return err
	}
	if err := e.await(c.label.Text(), e.stream.Done); err != nil {
		return err
	}
	if c.plan.Out.Bytes() != nil {
		if err := e.GPU.Read(c.plan.Out.Bytes(), out); err != nil {
			return e.fail(c.label.Text(), err)
		}
	}
	return nil
}

// resolve returns the device address of a buffer: in its own device memory, or, for a buffer in host
// memory, in the stage.
func (c *call) resolve(stage int, b dist.Buffer) (cuda.Pointer, error) {
	if b.Count() == 0 {
		return 0, nil
	}
	if a, ours := b.Memory().(*allocation); ours {
		return a.addr + cuda.Pointer(b.Offset()), nil
	}
	s := &c.e.stage[stage]
	err := s.grow(c.e.GPU, len(b.Bytes()))
	return s.addr, err
}

// awaitComm returns when the communicator has accepted the last call.
func (e *engine) awaitComm(op string) error {
	return e.await(op, func() (bool, error) {
		err := e.comm.State()
		return err == nil, ignoreProgress(err)
	})
}

// await polls done until it returns true. It aborts the communicator and returns an error if done or the
// communicator fails, if a rank dies or leaves, or after the timeout.
func (e *engine) await(op string, done func() (bool, error)) error {
	return devicegroup.Pace.Until(func() (bool, error) {
		ok, err := done()
		if err != nil {
			return false, e.fail(op, err)
		}
		if !ok && e.Checker.Meeting.Crowded { // NCCL's own threads and other ranks need this core
			shm.Yield()
		}
		return ok, nil
	}, func(waited time.Duration) error {
		if e.Checker.CheckFailed(op) {
			e.abort()
			return e.Checker.FailureIn(op)
		}
		if err := ignoreProgress(e.comm.State()); err != nil {
			return e.fail(op, err)
		}
		if waited > e.Timeout {
			return e.failTimeout(op)
		}
		return nil
	})
}

// failTimeout ends the group because a call did not end in time. The error blames the first rank that
// agreed on the call and whose NCCL has not accepted it.
func (e *engine) failTimeout(op string) error {
	f := shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d waited %v for NCCL in %s, which all ranks have started", e.Rank(), e.Timeout, op)}
	epoch := e.Checker.Next() - 1
	for rank := range e.Size() {
		if atomic.LoadUint64(e.Checker.Word(rank, epoch, 0)) == uint64(epoch)<<1 {
			f = shm.Failure{Kind: shm.PeerGone, Rank: rank, PID: e.Checker.Meeting.PIDs[rank],
				Text: fmt.Sprintf("rank %d waited %v in %s for rank %d, which has not started it", e.Rank(), e.Timeout, op, rank)}
			break
		}
	}
	failed := e.Checker.Fail(f)
	e.abort()
	return failed
}

// fail ends the group because NCCL or the driver returned err during op. If a rank has died, the error
// names that rank instead: its death is the likely cause.
func (e *engine) fail(op string, err error) error {
	defer e.abort()
	if e.Checker.CausedByPeer(op) {
		return e.Checker.FailureIn(op)
	}
	return e.Checker.Fail(shm.Failure{Kind: shm.Refusal,
		Text: fmt.Sprintf("rank %d in %s: %v: %v", e.Rank(), op, e.lib, err)})
}
