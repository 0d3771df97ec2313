package mpi

import (
	"fmt"
	"hash/fnv"
	"runtime"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/kernel/epilogue"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// collective is a prepared call.
type collective struct {
	e        *engine
	plan     dist.Plan // keeps the buffers reachable, since call refers to them by address
	text     string    // everything on which the ranks must agree
	hash     uint64    // of text
	agreed   bool      // the ranks have agreed on the call: it has run before
	call     *mpi.Call // nil if there is nothing to move
	epilogue epilogue.Step

	blocks  [2]mpi.Blocks // counts and displacements that call refers to by address
	scratch []byte        // substitute for a buffer where MPI's in-place rules differ from dist's
	// before and after are copies within this rank, made before and after the call.
	before, after localCopy
}

type localCopy struct{ dst, src []byte }

func (m localCopy) do() {
	if len(m.src) > 0 {
		copy(m.dst, m.src)
	}
}

// collective prepares a collective.
func (e *engine) collective(p dist.Plan) (func() error, error) {
	if p.Count > mpi.MostElements || p.Out.Count() > mpi.MostElements {
		return nil, fmt.Errorf("MPI counts up to %d elements, not %d", mpi.MostElements, max(p.Count, p.Out.Count()))
	}
	o := e.newCollective(p)
	if p.Count > 0 || p.Op == dist.Barrier {
		o.call = o.prepare()
	}
	return o.run, nil
}

// newCollective returns a collective without its MPI call.
func (e *engine) newCollective(p dist.Plan) *collective {
	o := &collective{e: e, plan: p, text: p.Terms()}
	h := fnv.New64a()
	h.Write([]byte(o.text))
	o.hash = h.Sum64()
	if p.Op.Reduces() && p.Reduction == dist.Avg {
		o.epilogue = epilogue.Average(p.DType, e.Size())
	}
	if x := p.Epilogue; x != nil {
		o.epilogue = o.epilogue.Then(p.DType, x.Scale, x.Bias.Bytes(), x.Residual.Bytes())
	}
	return o
}

// run makes the call. The first time, it agrees on it with the other ranks before.
func (o *collective) run() error {
	if err := o.agree(); err != nil {
		return err
	}
	if o.call == nil {
		return nil
	}
	o.before.do()
	if err := o.call.Run(); err != nil {
		return o.e.fail(o.text, err)
	}
	o.after.do()
	o.epilogue.Apply(o.plan.Out.Bytes(), 0)
	runtime.KeepAlive(o)
	return nil
}

func (o *collective) agree() error {
	if o.agreed {
		return o.again()
	}
	err := o.e.agree(o.text)
	o.agreed = err == nil
	return err
}

// again records a run of a call on which the ranks have agreed before.
func (o *collective) again() error {
	if o.e.coordinator.Failed() {
		_, err := o.e.coordinator.checkPeer(o.e.Rank(), o.text)
		return err
	}
	o.e.history.add(o.hash)
	return nil
}

// splitAllReduce is an MPI_Iallreduce that is started by begin and completed by finish. It is started
// before the ranks have agreed on it. That is safe: MPI matches non-blocking collectives only with each
// other, and if ranks start different ones, finish returns the error and the result is not used.
type splitAllReduce struct {
	*collective
	slot   *mpi.Slot
	call   *mpi.Call
	test   *mpi.Call
	posted string // what this rank has posted about the first run
}

// PrepareHalves prepares an all-reduce in two halves: see dist.Engine.
func (e *engine) PrepareHalves(p dist.Plan) (begin, finish func() error, arrived func() bool, err error) {
	if p.Op != dist.AllReduce || p.Count == 0 || p.Count > mpi.MostElements {
		return nil, nil, nil, nil
	}
	c, lib := e.newCollective(p), e.process.lib
	c.text += " begun"
	in := mpi.Memory(p.In.Bytes())
	if p.InPlace {
		in = lib.InPlace
	}
	o := &splitAllReduce{collective: c, slot: new(mpi.Slot)}
	o.call = lib.Iallreduce(in, mpi.Memory(p.Out.Bytes()), p.Count, lib.Type(p.DType),
		lib.Op(p.DType, vec.Combining(p.Reduction)), e.comm, o.slot)
	o.test = lib.Test(o.slot)
	return o.begin, o.finish, nil, nil
}

func (o *splitAllReduce) begin() error {
	if err := o.post(); err != nil {
		return err
	}
	if err := o.call.Run(); err != nil {
		return o.e.fail(o.text, err)
	}
	return nil
}

// post is the first half of agree, and wait the second.
func (o *splitAllReduce) post() error {
	if o.agreed {
		return o.again()
	}
	o.posted = o.e.history.agreeing(o.text)
	return o.e.coordinator.post(o.posted)
}

func (o *splitAllReduce) wait() error {
	if o.agreed {
		return nil
	}
	err := o.e.coordinator.wait(o.posted)
	o.agreed = err == nil
	return err
}

func (o *splitAllReduce) finish() error {
	err := o.wait()
	if err == nil {
		err = o.await()
	}
	if err != nil {
		keepForever(o)
		return err
	}
	o.epilogue.Apply(o.plan.Out.Bytes(), 0)
	return nil
}

// await polls until the all-reduce, which all ranks have started, is complete.
func (o *splitAllReduce) await() error {
	fail := func(err error) error { return o.e.fail(o.text, err) }
	return poll(o.test, o.slot, fail, func(waited time.Duration) error {
		if _, err := o.e.coordinator.checkPeer(o.e.Rank(), o.text); err != nil {
			return err
		}
		if waited > o.e.members.timeout {
			return fail(fmt.Errorf("not done after %v, though all ranks have started it", waited))
		}
		return nil
	})
}

// prepare chooses the MPI call. It passes MPI_IN_PLACE where that has the meaning of dist's in-place
// calls.
func (o *collective) prepare() *mpi.Call {
	p, lib, c := o.plan, o.e.process.lib, o.e.comm
	t, op := lib.Type(p.DType), lib.Op(p.DType, vec.Combining(p.Reduction))
	in, out := mpi.Memory(p.In.Bytes()), mpi.Memory(p.Out.Bytes())
	size, rank := o.e.Size(), o.e.Rank()
	even := p.Count%size == 0 && p.Counts == nil
	mine, n := 0, p.Count/size
	switch {
	case p.Op == dist.AllToAll && !even:
		o.blocks[0] = mpi.NewBlocks(size, func(r int) (int, int) { off, _, n := p.Params(size).Pair(rank, r); return off, n })
		o.blocks[1] = mpi.NewBlocks(size, func(r int) (int, int) { _, off, n := p.Params(size).Pair(r, rank); return off, n })
	case p.Op != dist.AllToAll:
		mine, n = p.Params(size).Block(rank)
		if !even {
			o.blocks[0] = mpi.NewBlocks(size, func(r int) (int, int) { return p.Params(size).Block(r) })
		}
	}
	switch p.Op {
	case dist.AllReduce:
		if p.InPlace {
			in = lib.InPlace
		}
		return lib.Allreduce(in, out, p.Count, t, op, c)
	case dist.ReduceScatter:
		if p.InPlace { // MPI_IN_PLACE would store the block at the start of the vector
			o.scratch = make([]byte, len(p.Out.Bytes()))
			out, o.after = mpi.Memory(o.scratch), localCopy{p.Out.Bytes(), o.scratch}
		}
		if even {
			return lib.ReduceScatterBlock(in, out, n, t, op, c)
		}
		return lib.ReduceScatter(in, out, o.blocks[0], t, op, c)
	case dist.AllGather:
		// Either all ranks pass MPI_IN_PLACE or none, and a rank with an empty block cannot know
		// whether the others work in place. So all ranks pass it, after copying their block into
		// the output if needed. The library would make the same copy.
		if !p.InPlace {
			o.before = localCopy{p.Out.Bytes()[mine*p.DType.Size():], p.In.Bytes()}
		}
		if even {
			return lib.Allgather(lib.InPlace, out, n, t, c)
		}
		return lib.Allgatherv(lib.InPlace, out, n, o.blocks[0], t, c)
	case dist.Broadcast:
		if rank == p.Root {
			if !p.InPlace {
				o.after = localCopy{p.Out.Bytes(), p.In.Bytes()}
			}
			out = in
		}
		return lib.Bcast(out, p.Count, t, p.Root, c)
	case dist.Reduce:
		switch {
		case p.InPlace && lib.ReducesInPlace(p.Root):
			in = lib.InPlace
		case p.InPlace:
			o.scratch = make([]byte, len(p.In.Bytes()))
			in, o.before = mpi.Memory(o.scratch), localCopy{o.scratch, p.In.Bytes()}
		}
		return lib.Reduce(in, out, p.Count, t, op, p.Root, c)
	case dist.Gather:
		if p.InPlace {
			in = lib.InPlace
		}
		if even {
			return lib.Gather(in, out, n, t, p.Root, c)
		}
		return lib.Gatherv(in, out, n, o.blocks[0], t, p.Root, c)
	case dist.Scatter:
		if p.InPlace {
			out = lib.InPlace
		}
		if even {
			return lib.Scatter(in, out, n, t, p.Root, c)
		}
		return lib.Scatterv(in, out, n, o.blocks[0], t, p.Root, c)
	case dist.AllToAll:
		if even {
			return lib.Alltoall(in, out, n, t, c)
		}
		return lib.Alltoallv(in, out, o.blocks[0], o.blocks[1], t, c)
	}
	return lib.Barrier(c)
}
