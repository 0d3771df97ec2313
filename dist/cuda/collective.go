package cuda

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpu"
)

// call is a prepared collective.
type call struct {
	e     *engine
	plan  dist.Plan
	label *shm.Label
	// where the kernel finds this rank's buffers: the program's own device memory, or
	// the stage.
	in, out span
	staged  bool
	piece   int // elements of a staged call that go at once

	params *gpu.Params
	launch *cuda.Launch
	number *uint32 // counts what the kernel's epochs count
	each   uint32  // by how much a launch of one call counts on
	work   func(c *call, first, count int) error

	peers  [2][gpu.MaxRanks]cuda.Pointer // in and out of all ranks, in the present run
	direct bool                          // they have addresses for all ranks, in the present run
	bias   [3]span                       // bias, residual and weight on the device
	copied [3]bool                       // from the program's own memory, at every run
	norm   *norm                         // of what the kernel has left; nil: none, or the kernel does it
}

// Prepare finds the kernel and where the buffers are.
func (e *engine) Prepare(p dist.Plan) (func() error, error) {
	if p.Op.PointToPoint() {
		return e.message(p)
	}
	c, err := e.newCall(p)
	if err != nil {
		return nil, err
	}
	return c.run, nil
}

func (e *engine) newCall(p dist.Plan) (*call, error) {
	text := p.Terms()
	c := &call{e: e, plan: p}
	var there [2]bool
	c.in, there[0] = e.spanOf(p.In)
	c.out, there[1] = e.spanOf(p.Out)
	for i, b := range []dist.Buffer{p.In, p.Out} {
		if b.Count() > 0 && !there[i] && b.Bytes() == nil {
			return nil, fmt.Errorf("%v is memory of another group, or was freed", b)
		}
	}
	c.staged = p.In.Count() > 0 && !there[0] || p.Out.Count() > 0 && !there[1]
	if p.In.Count()+p.Out.Count() == 0 && p.Op != dist.Barrier { // an empty block is where the others' are
		c.staged = !there[0] && !there[1]
	}
	if c.staged {
		c.in, c.out = span{allocation: e.stage[0]}, span{allocation: e.stage[1]}
		text += " through the host"
	}
	c.label = shm.NewLabel(text)
	if err := c.prepare(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *call) prepare() error {
	width := c.plan.DType.Size()
	c.piece = stageBytes / width
	switch c.plan.Op {
	case dist.Barrier:
		c.work = func(*call, int, int) error { return nil }
		return nil
	case dist.AllReduce:
		if err := c.aligned(c.in, c.out); err != nil {
			return err
		}
		if err := c.allReduce(); err != nil {
			return err
		}
		return c.sabotage()
	}
	return c.others()
}

// run agrees on the call, does it and waits for its end.
func (c *call) run() error {
	if c.in.gone() || c.out.gone() {
		return c.e.forsaken(c.plan)
	}
	if c.plan.Count == 0 {
		return c.e.agreement.Check(c.label)
	}
	return c.e.device.Do(func() error {
		if !c.staged {
			if err := c.meet(); err != nil {
				return err
			}
			return c.work(c, 0, c.plan.Count)
		}
		return c.stagedRun()
	})
}

// meet agrees on the call with all ranks and learns where their buffers are.
func (c *call) meet() error {
	a := c.e.agreement
	if err := a.Begin(c.label, 1); err != nil {
		return err
	}
	epoch := a.Next()
	mine := [2]uint64{c.in.word(), c.out.word()}
	*a.Word(c.e.rank, epoch, 0), *a.Word(c.e.rank, epoch, 1) = mine[0], mine[1]
	a.Signal()
	if err := a.AwaitAll(epoch); err != nil {
		return err
	}
	c.direct = c.in.forAll() != 0 && c.out.forAll() != 0 && (c.staged || c.plan.Count*c.plan.DType.Size()%packBytes == 0)
	for rank := range c.e.size {
		for i := range c.peers {
			word := *a.Word(rank, epoch, i)
			c.direct = c.direct && word == mine[i]
			if s := c.e.span(word); s.allocation != nil {
				c.peers[i][rank] = s.pointer(rank)
			}
		}
	}
	return nil
}

const (
	watchEvery  = 256 // looks at the stream between two at the group
	politeLooks = 20_000
)

// wait returns when the work of the call's stream is done.
func (c *call) wait() error { return c.e.Await(c.label.Text(), c.e.stream) }

// Await returns when a stream's work is done. It notices when the group has failed and when
// a rank is gone, and then has the kernels give up.
func (e *engine) Await(doing string, s *cuda.Stream) error {
	for looks := 1; ; looks++ {
		done, err := s.Done()
		if err != nil {
			return e.broken(doing, err)
		}
		if done {
			return e.verdict(doing)
		}
		if looks%watchEvery != 0 {
			continue
		}
		if looks > politeLooks {
			runtime.Gosched()
			time.Sleep(20 * time.Microsecond)
		}
		if e.agreement.CheckFailed(doing) {
			atomic.CompareAndSwapUint32(&e.failed().Claimed, 0, gpu.GivenUp)
		}
	}
}

// verdict is what a kernel that has ended says of itself.
func (e *engine) verdict(doing string) error {
	f := e.failed()
	claimed := atomic.LoadUint32(&f.Claimed)
	if claimed == 0 {
		return nil
	}
	failure := *f
	atomic.StoreUint32(&f.Claimed, 0)
	if e.agreement.CheckFailed(doing) {
		return e.agreement.Failure()
	}
	why := shm.Failure{Kind: shm.Refusal, Text: fmt.Sprintf("rank %d in %s: %v", e.rank, doing, failure)}
	if failure.Peer != failure.Rank { // else nobody knows whom it waited for
		why.Kind, why.Rank, why.PID = shm.PeerGone, int(failure.Peer), e.agreement.Meeting.PIDs[failure.Peer%uint32(e.size)]
	}
	return e.agreement.Fail(why)
}

// broken ends the group because the driver has failed. A rank whose memory is gone
// breaks the others: it is the one to name.
func (e *engine) broken(doing string, err error) error {
	if cuda.Sticky(err) && e.agreement.CausedByPeer(doing) {
		return e.agreement.Failure()
	}
	return e.agreement.Fail(shm.Failure{Kind: shm.Refusal, Text: fmt.Sprintf("rank %d in %s: %v", e.rank, doing, err)})
}
