package nccl

import (
	"fmt"
	"sync/atomic"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// call is a prepared collective.
type call struct {
	e     *engine
	plan  dist.Plan
	label *shm.Label
	// start tells NCCL what to do.
	start func(in, out cuda.Pointer) error
	do    func() error // perform, so that a run allocates nothing
}

// Prepare chooses NCCL's call.
func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	c := &call{e: e, plan: p, label: shm.NewLabel(p.Terms())}
	for _, b := range []dist.Buffer{p.In, p.Out} {
		if a, ours := b.Memory().(*allocation); b.Count() > 0 && b.Bytes() == nil && (!ours || a.device != e.device) {
			return nil, fmt.Errorf("%v is memory of another backend's or GPU's", b)
		}
	}
	c.start, c.do = c.operation(), c.perform
	return c.run, nil
}

// operation is what NCCL is told for the plan. In-place forms are NCCL's own.
func (c *call) operation() func(in, out cuda.Pointer) error {
	e, p := c.e, c.plan
	d, s := p.DType, e.stream
	_, n := dist.Block(p.Count, e.size, e.rank)
	even := p.Count%e.size == 0
	switch p.Op {
	case dist.AllReduce:
		return func(in, out cuda.Pointer) error { return e.comm.AllReduce(in, out, p.Count, d, p.Reduction, s) }
	case dist.ReduceScatter:
		if even {
			return func(in, out cuda.Pointer) error { return e.comm.ReduceScatter(in, out, n, d, p.Reduction, s) }
		}
		return c.blocks(func(rank int, in, out cuda.Pointer, off cuda.Pointer, n int) error {
			return e.comm.Reduce(in+off, out, n, d, p.Reduction, rank, s)
		})
	case dist.AllGather:
		if even {
			return func(in, out cuda.Pointer) error { return e.comm.AllGather(in, out, n, d, s) }
		}
		return c.blocks(func(rank int, in, out cuda.Pointer, off cuda.Pointer, n int) error {
			return e.comm.Broadcast(in, out+off, n, d, rank, s)
		})
	case dist.Broadcast:
		return func(in, out cuda.Pointer) error { return e.comm.Broadcast(in, out, p.Count, d, p.Root, s) }
	case dist.Reduce:
		return func(in, out cuda.Pointer) error { return e.comm.Reduce(in, out, p.Count, d, p.Reduction, p.Root, s) }
	case dist.Barrier:
		return func(cuda.Pointer, cuda.Pointer) error {
			return e.comm.AllReduce(e.byte, e.byte, 1, dist.U8, dist.Max, s)
		}
	}
	return c.messages()
}

// blocks makes a group of one operation for each rank's block that has elements.
func (c *call) blocks(each func(rank int, in, out, off cuda.Pointer, n int) error) func(in, out cuda.Pointer) error {
	e, p := c.e, c.plan
	return func(in, out cuda.Pointer) error {
		return e.comm.Group(func() error {
			for rank := range e.size {
				off, n := dist.Block(p.Count, e.size, rank)
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

// messages makes the operations that are a group of sends and receives. A rank's own
// block is copied.
func (c *call) messages() func(in, out cuda.Pointer) error {
	e, p := c.e, c.plan
	width := p.DType.Size()
	_, mine := dist.Block(p.Count, e.size, e.rank)
	sends := p.Op == dist.AllToAll || p.Op == dist.Scatter && e.rank == p.Root
	receives := p.Op == dist.AllToAll || p.Op == dist.Gather && e.rank == p.Root
	// message is this rank's exchange with another, or with itself.
	message := func(rank int, in, out cuda.Pointer) error {
		off, n := dist.Block(p.Count, e.size, rank)
		from, to := in, out
		if sends { // of a block for each; else the whole input is the block
			from += cuda.Pointer(off * width)
		} else {
			n = mine
		}
		send, recv, got := sends || p.Op == dist.Gather && rank == p.Root, receives ||
			p.Op == dist.Scatter && rank == p.Root, mine
		switch {
		case p.Op == dist.AllToAll:
			to += cuda.Pointer(rank * mine * width)
		case receives:
			_, got = dist.Block(p.Count, e.size, rank)
			to += cuda.Pointer(off * width)
		}
		if rank == e.rank {
			if !send || !recv || n == 0 || from == to {
				return nil
			}
			return e.stream.Copy(to, from, n*width)
		}
		if send && n > 0 {
			if err := ignoreProgress(e.comm.Send(from, n, p.DType, rank, e.stream)); err != nil {
				return err
			}
		}
		if recv && got > 0 {
			return ignoreProgress(e.comm.Recv(to, got, p.DType, rank, e.stream))
		}
		return nil
	}
	return func(in, out cuda.Pointer) error {
		return e.comm.Group(func() error {
			for rank := range e.size {
				if err := message(rank, in, out); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// run agrees on the call, does it and waits for its end.
func (c *call) run() error {
	a := c.e.agreement
	if err := a.Begin(c.label, 1); err != nil {
		return err
	}
	epoch := a.Next()
	c.e.progress(epoch, 0)
	a.Signal()
	if err := a.AwaitAll(epoch); err != nil {
		return err
	}
	if c.plan.Count == 0 && c.plan.Op != dist.Barrier {
		return nil
	}
	return c.e.device.Do(c.do)
}

// progress notes for the others how far this rank is with a call: 0 at its start,
// 1 when NCCL has it.
func (e *engine) progress(epoch uint32, how uint64) {
	atomic.StoreUint64(e.agreement.Word(e.rank, epoch, 0), uint64(epoch)<<1|how)
}

func (c *call) perform() error {
	e := c.e
	in, err := c.place(0, c.plan.In)
	if err == nil && c.plan.In.Bytes() != nil {
		err = e.device.Write(in, c.plan.In.Bytes())
	}
	if err != nil {
		return e.broken(c.label.Text(), err)
	}
	out, err := c.place(1, c.plan.Out)
	if err != nil {
		return e.broken(c.label.Text(), err)
	}
	if err := ignoreProgress(c.start(in, out)); err != nil {
		return e.broken(c.label.Text(), err)
	}
	e.progress(e.agreement.Next()-1, 1)
	if err := e.settle(c.label.Text()); err != nil {
		return err
	}
	if err := e.wait(c.label.Text()); err != nil {
		return err
	}
	if c.plan.Out.Bytes() != nil {
		if err := e.device.Read(c.plan.Out.Bytes(), out); err != nil {
			return e.broken(c.label.Text(), err)
		}
	}
	return nil
}

// place is where NCCL finds a buffer: in the program's own device memory, or the stage.
func (c *call) place(which int, b dist.Buffer) (cuda.Pointer, error) {
	if b.Count() == 0 {
		return 0, nil
	}
	if a, far := b.Memory().(*allocation); far {
		return a.at + cuda.Pointer(b.Offset()), nil
	}
	s := &c.e.stage[which]
	err := s.reserve(c.e.device, len(b.Bytes()))
	return s.at, err
}
