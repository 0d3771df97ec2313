package mpi

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
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

// mailbox sends and receives small messages of the backend itself, on a communicator or with a tag
// that nothing else uses. Sends do not block.
type mailbox struct {
	lib   *mpi.Library
	comm  comm
	slot  *mpi.Slot
	probe *mpi.Call
	sent  []*mpi.Slot // requests of sends that may not be complete yet
}

const anyTag = -1

// newMailbox returns a mailbox that receives messages with the given tag, or all messages for anyTag.
func newMailbox(lib *mpi.Library, c comm, tag int) *mailbox {
	m := &mailbox{lib: lib, comm: c, slot: new(mpi.Slot)}
	m.probe = lib.IprobeAny(tag, c, m.slot)
	return m
}

func (m *mailbox) send(to, tag int, body []byte) error {
	m.sweep()
	s := new(mpi.Slot)
	if err := m.lib.Isend(mpi.Memory(body), len(body), m.lib.Type(dtype.U8), to, tag, m.comm, s).Run(); err != nil {
		return err
	}
	m.sent = append(m.sent, s)
	return nil
}

// receive returns the next message that has arrived. ok is false if there is none.
func (m *mailbox) receive() (from int, body []byte, ok bool, err error) {
	if err := m.probe.Run(); err != nil || !m.slot.Done() {
		return 0, nil, false, err
	}
	from, tag := m.lib.Source(m.slot), m.lib.Tag(m.slot)
	if err := m.lib.Count(m.slot).Run(); err != nil {
		return 0, nil, false, err
	}
	n := m.slot.Bytes()
	body = make([]byte, max(1, n))
	err = m.lib.Recv(mpi.Memory(body), n, m.lib.Type(dtype.U8), from, tag, m.comm, m.slot).Run()
	return from, body[:n], err == nil, err
}

// sweep forgets sends that are complete.
func (m *mailbox) sweep() {
	m.sent = slices.DeleteFunc(m.sent, func(s *mpi.Slot) bool { return m.lib.Test(s).Run() == nil && s.Done() })
}

// flush waits for all sends to complete, at most for limit.
func (m *mailbox) flush(limit time.Duration) {
	var b backoff
	for m.sweep(); len(m.sent) > 0 && b.pause() < limit; m.sweep() {
	}
	if len(m.sent) > 0 {
		keepForever(m.sent)
	}
}
