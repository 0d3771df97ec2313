package mpi

import (
	"fmt"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/mpi"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// message is a prepared send or receive. The tag says the element type, so that
// the receiver sees what comes before it takes it.
type message struct {
	e     *engine
	plan  dist.Plan
	doing string
	slot  *mpi.Slot
	begin *mpi.Call // of a send
	look  *mpi.Call // until it is sent, or there to be received
	count *mpi.Call // of a receive: what is there
	take  *mpi.Call
}

// drainTime is how long a message may still be on its way from, or to, a rank
// that is gone.
const drainTime = 50 * time.Millisecond

func (e *engine) message(p dist.Plan) (func() error, error) {
	if p.Count > mpi.MostElements {
		return nil, fmt.Errorf("MPI counts up to %d elements, not %d", mpi.MostElements, p.Count)
	}
	lib, t, tag := e.process.lib, e.process.lib.Type(p.DType), int(p.DType)
	o := &message{e: e, plan: p, doing: p.String(), slot: new(mpi.Slot)}
	if p.Op == dist.Send {
		o.begin = lib.Isend(mpi.Memory(p.In.Bytes()), p.Count, t, p.Peer, tag, e.comm, o.slot)
		o.look = lib.Test(o.slot)
		return o.send, nil
	}
	o.look = lib.Iprobe(p.Peer, e.comm, o.slot)
	o.count = lib.Count(o.slot)
	o.take = lib.Recv(mpi.Memory(p.Out.Bytes()), p.Count, t, p.Peer, tag, e.comm, o.slot)
	return o.receive, nil
}

func (o *message) send() error {
	if _, err := o.e.coordinator.watch(o.plan.Peer, o.doing); err != nil {
		return err
	}
	o.e.sent.Store(true)
	if err := o.begin.Run(); err != nil {
		return o.e.broken(o.doing, err)
	}
	err := o.await()
	if err != nil {
		abandon(o)
	}
	return err
}

func (o *message) receive() error {
	if _, err := o.e.coordinator.watch(o.plan.Peer, o.doing); err != nil {
		return err
	}
	if err := o.await(); err != nil {
		return err
	}
	if err := o.count.Run(); err != nil {
		return o.e.broken(o.doing, err)
	}
	bytes := o.slot.Bytes()
	if d := dist.DType(o.e.process.lib.Tag(o.slot)); d != o.plan.DType || bytes != o.plan.Count*d.Size() {
		return o.e.coordinator.Fail(shm.Failure{Kind: shm.Disagreement,
			Text: fmt.Sprintf("rank %d sends %d %v to rank %d, which receives %d %v",
				o.plan.Peer, bytes/d.Size(), d, o.e.Rank(), o.plan.Count, o.plan.DType)})
	}
	if err := o.take.Run(); err != nil {
		return o.e.broken(o.doing, err)
	}
	return nil
}

// await looks until what this operation waits for has happened.
func (o *message) await() error {
	var p backoff
	var since time.Time // when the peer was found gone
	for {
		if err := o.look.Run(); err != nil {
			return o.e.broken(o.doing, err)
		}
		if o.slot.Done() {
			return nil
		}
		waited := p.pause()
		if p.looks%watchEvery != 0 {
			continue
		}
		gone, err := o.e.coordinator.watch(o.plan.Peer, o.doing)
		switch timeout := o.e.meeting.timeout; {
		case err != nil:
			return err
		case gone != nil && since.IsZero():
			since = time.Now()
		case gone != nil && time.Since(since) > drainTime:
			return o.e.coordinator.Fail(*gone)
		case waited > timeout:
			return o.e.coordinator.Fail(shm.Failure{Kind: shm.PeerGone, Rank: o.plan.Peer,
				Text: fmt.Sprintf("rank %d waited %v for rank %d in %s", o.e.Rank(), timeout, o.plan.Peer, o.doing)})
		}
	}
}

// abandoned is the memory of what MPI may still do, though no rank waits for it.
var abandoned struct {
	sync.Mutex
	all []any
}

func abandon(o any) {
	abandoned.Lock()
	defer abandoned.Unlock()
	abandoned.all = append(abandoned.all, o)
}
