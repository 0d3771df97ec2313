package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// call is a prepared collective.
type call struct {
	e     *engine
	plan  dist.Plan
	label *shm.Label
	// in and out are this rank's buffers: the caller's device memory or, if staged, the stage.
	in, out span
	staged  bool
	piece   int // elements per launch

	params *gpu.Params
	launch *cuda.Launch
	// epoch numbers the barriers of the flags, or the calls of Lamport. A launch that performs n calls
	// advances it by n + epochStep - 1; 0: the kernel uses no epochs.
	epoch     *uint32
	epochStep uint32
	work      func(first, count int) error // processes count elements from first on

	peers      [2][gpu.MaxRanks]cuda.Pointer // input and output of each rank, in the current run
	direct     bool                          // the buffers have multicast addresses, in the current run
	vectors    [3]span                       // the epilogue's bias, residual and weight on the device
	onHost     [3]bool                       // which vectors are copied from host memory at every run
	normLaunch *normKernel                   // nil if there is no norm, or the algorithm's kernel applies it
}

// Prepare finds the kernel and the device addresses of the buffers.
func (e *engine) Prepare(p dist.Plan) (run, release func() error, err error) {
	if p.Op.PointToPoint() {
		run, err = e.message(p)
		return run, nil, err
	}
	c, err := e.newCall(p)
	if err != nil {
		return nil, nil, errors.Join(err, c.release())
	}
	return c.run, c.release, nil
}

func (e *engine) newCall(p dist.Plan) (*call, error) {
	text := p.Terms()
	c := &call{e: e, plan: p, piece: stageBytes / p.DType.Size()}
	var ours [2]bool
	c.in, ours[0] = e.findSpan(p.In)
	c.out, ours[1] = e.findSpan(p.Out)
	for i, b := range []dist.Buffer{p.In, p.Out} {
		if b.Count() > 0 && !ours[i] && b.Bytes() == nil {
			return c, fmt.Errorf("%v is memory of another group, or was freed", b)
		}
	}
	c.staged = p.In.Count() > 0 && !ours[0] || p.Out.Count() > 0 && !ours[1]
	if p.In.Count()+p.Out.Count() == 0 && p.Op != dist.Barrier { // assume the kind of memory that the other ranks use
		c.staged = !ours[0] && !ours[1]
	}
	if c.staged {
		c.in, c.out = span{allocation: e.stage[0]}, span{allocation: e.stage[1]}
		text += " through the host" // ranks that disagree on the kind of memory get an error
	}
	c.label = shm.NewLabel(text)
	return c, c.prepare()
}

func (c *call) prepare() error {
	switch c.plan.Op {
	case dist.Barrier:
		c.work = func(int, int) error { return nil }
		return nil
	case dist.AllReduce:
		if err := c.checkAligned(c.in, c.out); err != nil {
			return err
		}
		if err := c.prepareAllReduce(); err != nil {
			return err
		}
		return c.injectFault()
	}
	return c.prepareCopies()
}

// run agrees on the call with the other ranks, performs it and waits for its end.
func (c *call) run() error {
	if c.in.wasFreed() || c.out.wasFreed() {
		return c.e.failFreed(c.plan)
	}
	if c.plan.Count == 0 {
		return c.e.Checker.Check(c.label)
	}
	return c.e.device.Do(func() error {
		if c.staged {
			return c.runStaged()
		}
		if err := c.exchangeAddresses(); err != nil {
			return err
		}
		return c.work(0, c.plan.Count)
	})
}

// runStaged performs a call on host memory: it copies the input to the device and the result back. An
// all-reduce goes in pieces; other collectives must fit into the stage.
func (c *call) runStaged() error {
	p := c.plan
	if p.Op != dist.AllReduce {
		return c.runStagedPiece(p.In, p.Out, 0, p.Count)
	}
	for first := 0; first < p.Count; first += c.piece {
		n := min(c.piece, p.Count-first)
		if err := c.runStagedPiece(p.In.Slice(first, n), p.Out.Slice(first, n), first, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) runStagedPiece(in, out dist.Buffer, first, count int) error {
	e := c.e
	if in.Count() > 0 {
		if err := c.copyIn(e.stage[0].addr[e.rank], in); err != nil {
			return c.fail(err)
		}
	}
	if err := c.exchangeAddresses(); err != nil {
		return err
	}
	if err := c.work(first, count); err != nil {
		return err
	}
	if out.Count() > 0 {
		if err := c.copyOut(out, e.stage[1].addr[e.rank]); err != nil {
			return c.fail(err)
		}
	}
	return nil
}

// copyIn copies a buffer of a staged call to the device. The buffer may be device memory, if only the
// other buffer of the call is host memory.
func (c *call) copyIn(to cuda.Pointer, b dist.Buffer) error {
	if s, ours := c.e.findSpan(b); ours {
		return errors.Join(c.e.stream.Copy(to, s.pointer(c.e.rank), b.Count()*b.DType().Size()), c.e.stream.Synchronize())
	}
	return c.e.device.Write(to, b.Bytes())
}

// copyOut is the reverse of copyIn.
func (c *call) copyOut(b dist.Buffer, from cuda.Pointer) error {
	if s, ours := c.e.findSpan(b); ours {
		return errors.Join(c.e.stream.Copy(s.pointer(c.e.rank), from, b.Count()*b.DType().Size()), c.e.stream.Synchronize())
	}
	return c.e.device.Read(b.Bytes(), from)
}

// exchangeAddresses agrees on the call with all ranks and sets peers and direct.
func (c *call) exchangeAddresses() error {
	a := c.e.Checker
	if err := a.Begin(c.label, 1); err != nil {
		return err
	}
	epoch := a.Next()
	mine := [2]uint64{c.in.encode(), c.out.encode()}
	*a.Word(c.e.rank, epoch, 0), *a.Word(c.e.rank, epoch, 1) = mine[0], mine[1]
	a.Signal()
	if err := a.AwaitAll(epoch); err != nil {
		return err
	}
	// One multicast address serves all ranks only if their buffers have the same place in the memory.
	c.direct = c.in.multicastPointer() != 0 && c.out.multicastPointer() != 0 &&
		(c.staged || c.plan.Count*c.plan.DType.Size()%packBytes == 0)
	for rank := range c.e.size {
		for i := range c.peers {
			word := *a.Word(rank, epoch, i)
			c.direct = c.direct && word == mine[i]
			if s := c.e.decodeSpan(word); s.allocation != nil {
				c.peers[i][rank] = s.pointer(rank)
			}
		}
	}
	return nil
}

// wait returns when the work on the engine's stream is done.
func (c *call) wait() error { return c.e.Await(c.label.Text(), c.e.stream) }

// fail ends the group because the driver returned err during this call.
func (c *call) fail(err error) error { return c.e.fail(c.label.Text(), err) }

// Await returns when a stream's work is done. If the group fails or a rank dies meanwhile, it makes the
// kernels give up and returns the failure.
func (e *engine) Await(op string, s *cuda.Stream) error {
	err := devicegroup.Pace.Until(func() (bool, error) {
		done, err := s.Done()
		if err != nil {
			err = e.fail(op, err)
		}
		return done, err
	}, func(time.Duration) error {
		if e.Checker.CheckFailed(op) {
			atomic.CompareAndSwapUint32(&e.failureRecord().Claimed, 0, gpu.GivenUp)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e.checkKernelFailure(op)
}

// checkKernelFailure returns the failure that a kernel which has ended left in the failure record.
func (e *engine) checkKernelFailure(op string) error {
	record := e.failureRecord()
	if atomic.LoadUint32(&record.Claimed) == 0 {
		return nil
	}
	failure := *record
	atomic.StoreUint32(&record.Claimed, 0)
	if e.Checker.CheckFailed(op) {
		return e.Checker.Failure()
	}
	f := shm.Failure{Kind: shm.Refusal, Text: fmt.Sprintf("rank %d in %s: %v", e.rank, op, failure)}
	if failure.Peer != failure.Rank { // the kernel knows which rank it waited for
		f.Kind, f.Rank, f.PID = shm.PeerGone, int(failure.Peer), e.Checker.Meeting.PIDs[failure.Peer%uint32(e.size)]
	}
	return e.Checker.Fail(f)
}

// fail ends the group because the driver returned err during op. When a rank dies, its memory goes, and
// the kernels of other ranks that access it fail too. The error then names the rank that died.
func (e *engine) fail(op string, err error) error {
	if cuda.Sticky(err) && e.Checker.CausedByPeer(op) {
		return e.Checker.Failure()
	}
	return e.Checker.Fail(shm.Failure{Kind: shm.Refusal, Text: fmt.Sprintf("rank %d in %s: %v", e.rank, op, err)})
}

// normKernel is a separate launch that applies the norm of an epilogue to the output, for algorithms
// whose own kernel does not have complete rows in one block. It is a sum over one rank.
type normKernel struct {
	params *gpu.Params
	launch *cuda.Launch
}

// row returns the number of elements in a row of the norm, or 0 if there is no norm.
func (c *call) row() int {
	if x := c.plan.Epilogue; x != nil && x.Norm != nil {
		return x.Norm.Weight.Count()
	}
	return 0
}

func (c *call) prepareNorm() error {
	name, err := gpu.Norm.Kernel(c.plan.DType, gpu.Any)
	if err != nil {
		return err
	}
	k, err := c.e.device.kernel(gpu.Norm, name, false)
	if err != nil {
		return err
	}
	sumParams, sumLaunch := c.params, c.launch
	params := *c.params
	params.Size, params.Scale, params.Bias = 1, 1, 0
	params.Options, params.DelayNS = gpu.DropStart|gpu.DropEnd, 0
	c.params = &params
	err = c.chooseGrid(k, min(c.piece, c.plan.Count)*c.plan.DType.Size(), false)
	c.normLaunch = &normKernel{c.params, c.launch}
	c.params, c.launch = sumParams, sumLaunch
	return err
}

// normalise applies the norm, if it needs a separate launch, to the piece that was just summed.
func (c *call) normalise() error {
	if c.normLaunch == nil {
		return nil
	}
	n, out := c.normLaunch, c.params.Out[c.e.rank]
	n.params.In[0], n.params.Out[c.e.rank], n.params.Count = out, out, c.params.Count
	if err := n.launch.Start(c.e.stream); err != nil {
		return c.fail(err)
	}
	return c.wait()
}
