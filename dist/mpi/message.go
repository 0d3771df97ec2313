package mpi

import (
	"fmt"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// message is a prepared send or receive. Its MPI tag is the element type, so that the receiver can
// compare the type before it receives the elements.
type message struct {
	e     *engine
	plan  dist.Plan
	op    string
	slot  *mpi.Slot
	begin *mpi.Call // MPI_Isend
	poll  *mpi.Call // MPI_Test of a send, MPI_Iprobe of a receive
	count *mpi.Call // MPI_Get_count of a receive
	take  *mpi.Call // MPI_Recv
}

// drainTimeout is how long we still wait for a message after its peer has left: the message may have
// been sent before that.
const drainTimeout = 50 * time.Millisecond

// message prepares a send or a receive.
func (e *engine) message(p dist.Plan) (func() error, error) {
	if p.Count > mpi.MostElements {
		return nil, fmt.Errorf("MPI counts up to %d elements, not %d", mpi.MostElements, p.Count)
	}
	lib, t, tag := e.process.lib, e.process.lib.Type(p.DType), int(p.DType)
	o := &message{e: e, plan: p, op: p.String(), slot: new(mpi.Slot)}
	if p.Op == dist.Send {
		o.begin = lib.Isend(mpi.Memory(p.In.Bytes()), p.Count, t, p.Peer, tag, e.comm, o.slot)
		o.poll = lib.Test(o.slot)
		return o.send, nil
	}
	o.poll = lib.Iprobe(p.Peer, e.comm, o.slot)
	o.count = lib.Count(o.slot)
	o.take = lib.Recv(mpi.Memory(p.Out.Bytes()), p.Count, t, p.Peer, tag, e.comm, o.slot)
	return o.receive, nil
}

// send returns when MPI has taken the elements.
func (o *message) send() error {
	if _, err := o.e.coordinator.checkPeer(o.plan.Peer, o.op); err != nil {
		return err
	}
	o.e.sent.Store(true)
	if err := o.begin.Run(); err != nil {
		return o.e.fail(o.op, err)
	}
	err := o.await()
	if err != nil {
		keepForever(o)
	}
	return err
}

// receive waits for a message, compares its type and length with the plan, and receives it.
func (o *message) receive() error {
	if _, err := o.e.coordinator.checkPeer(o.plan.Peer, o.op); err != nil {
		return err
	}
	if err := o.await(); err != nil {
		return err
	}
	if err := o.count.Run(); err != nil {
		return o.e.fail(o.op, err)
	}
	bytes := o.slot.Bytes()
	if d := dist.DType(o.e.process.lib.Tag(o.slot)); d != o.plan.DType || bytes != o.plan.Count*d.Size() {
		return o.e.coordinator.Fail(shm.Failure{Kind: shm.Disagreement,
			Text: fmt.Sprintf("rank %d sends %d %v to rank %d, which receives %d %v",
				o.plan.Peer, bytes/d.Size(), d, o.e.Rank(), o.plan.Count, o.plan.DType)})
	}
	if err := o.take.Run(); err != nil {
		return o.e.fail(o.op, err)
	}
	return nil
}

// await polls until the message is sent or can be received.
func (o *message) await() error {
	var goneSince time.Time // when the peer was first seen to be gone
	fail := func(err error) error { return o.e.fail(o.op, err) }
	return poll(o.poll, o.slot, fail, func(waited time.Duration) error {
		gone, err := o.e.coordinator.checkPeer(o.plan.Peer, o.op)
		switch timeout := o.e.members.timeout; {
		case err != nil:
			return err
		case gone != nil && goneSince.IsZero():
			goneSince = time.Now()
		case gone != nil && time.Since(goneSince) > drainTimeout:
			return o.e.coordinator.Fail(*gone)
		case waited > timeout:
			return o.e.coordinator.Fail(shm.Failure{Kind: shm.PeerGone, Rank: o.plan.Peer,
				Text: fmt.Sprintf("rank %d waited %v for rank %d in %s", o.e.Rank(), timeout, o.plan.Peer, o.op)})
		}
		return nil
	})
}

// keptForever holds the buffers and requests of MPI operations that were started and given up. MPI
// may still access them, so the garbage collector must not reclaim them.
var keptForever struct {
	sync.Mutex
	all []any
}

func keepForever(o any) {
	keptForever.Lock()
	defer keptForever.Unlock()
	keptForever.all = append(keptForever.all, o)
}
