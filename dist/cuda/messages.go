package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/dist/devicegroup"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// A message in device memory is one copy, which the receiver starts. The sender publishes the address of
// its elements in shared memory of the host, and waits until the receiver has confirmed the copy. No
// kernel waits for another rank, so messages work in any order, and concurrently with a collective.
// Messages in host memory go through shared memory of the host, in pieces, and not through the GPU.

// mailbox holds the resources of a group's messages.
type mailbox struct {
	e            *engine
	to, from     []*shm.Channel // by peer, for messages to and from it
	stream       *cuda.Stream   // for receives; a collective may block the engine's other stream
	arrivalFlags *cuda.Shared   // one flag per peer, set when a copy from it is done
	copyNumbers  []uint32       // by peer: how many copies from it were started; the value of its flag
}

// flagBytes is the distance between the flags of two peers, so that they are in different cache lines.
const flagBytes = 128

// newMailbox must be called with the device's context current.
func (e *engine) newMailbox() (*mailbox, error) {
	m := &mailbox{e: e, copyNumbers: make([]uint32, e.size)}
	for peer := range e.size {
		m.to = append(m.to, e.Checker.ChannelTo(shm.ForProgram, peer, describe))
		m.from = append(m.from, e.Checker.ChannelFrom(shm.ForProgram, peer, describe))
	}
	var err error
	if m.stream, err = e.device.Stream(); err != nil {
		return nil, err
	}
	if m.arrivalFlags, err = e.device.Share(e.size * flagBytes); err != nil {
		return nil, errors.Join(err, m.stream.Destroy())
	}
	return m, nil
}

func (m *mailbox) close() error { return errors.Join(m.stream.Destroy(), m.arrivalFlags.Free()) }

// onDevice is a bit in shm.Note.Type for elements in device memory. Sender and receiver must agree on it.
const onDevice = 1 << 32

// describe formats a note for the error about a mismatch.
func describe(n shm.Note) string {
	s := fmt.Sprintf("%d %v", n.Count, dist.DType(n.Type&^onDevice))
	if n.Type&onDevice != 0 {
		s += " in device memory"
	}
	return s
}

// message is a prepared send or receive.
type message struct {
	*mailbox
	plan   dist.Plan
	op     string
	note   shm.Note
	span   span                        // this rank's elements, if they are in device memory
	bytes  []byte                      // sent through shared memory: the elements or, for device memory, the encoded span
	take   func(off int, piece []byte) // handles a received piece of bytes
	copier copier
	err    error // of the copy that take started
}

// message prepares a send or a receive.
func (e *engine) message(p dist.Plan) (func() error, error) {
	b := p.In
	if p.Op == dist.Recv {
		b = p.Out
	}
	m := &message{mailbox: e.mailbox, plan: p, op: p.String(), bytes: b.Bytes()}
	m.note = shm.Note{Type: uint64(p.DType), Count: uint64(p.Count), Bytes: uint64(len(m.bytes))}
	m.take = func(off int, piece []byte) { copy(m.bytes[off:], piece) }
	if p.Count > 0 && m.bytes == nil {
		var ours bool
		if m.span, ours = e.findSpan(b); !ours {
			return nil, fmt.Errorf("%v is memory of another group", b)
		}
		m.bytes = binary.LittleEndian.AppendUint64(nil, m.span.encode())
		m.note.Type, m.note.Bytes = m.note.Type|onDevice, uint64(len(m.bytes))
		m.take = func(_ int, word []byte) { m.err = m.fetch(binary.LittleEndian.Uint64(word)) }
		if p.Op == dist.Recv {
			if err := m.chooseCopier(); err != nil {
				return nil, err
			}
		}
	}
	if p.Op == dist.Send {
		return m.send, nil
	}
	return m.recv, nil
}

// chooseCopier chooses how the elements are copied. For short messages a kernel is best: the host sees its
// flag sooner than the end of a stream. For long ones the copy engine is faster.
func (m *message) chooseCopier() (err error) {
	method := m.e.knobs.copy
	if method == "" && m.plan.Count*m.plan.DType.Size() <= singleBytes {
		method = byLoads
	}
	m.copier, err = m.e.newCopier(method, m.stream)
	return err
}

// onDevice reports whether the elements are in device memory.
func (m *message) onDevice() bool { return m.span.allocation != nil }

// check returns an error if the memory was freed or the group has failed.
func (m *message) check() error {
	if m.span.wasFreed() {
		return m.e.failFreed(m.plan)
	}
	return m.e.Checker.Failure()
}

// send returns when the caller may change the elements: when they are in shared memory or, for device
// memory, when the receiver has copied them.
func (m *message) send() error {
	if err := m.check(); err != nil {
		return err
	}
	c := m.to[m.plan.Peer]
	t, w := c.Begin(m.note), m.e.Checker.NewWait(m.plan.Peer, m.op)
	for !t.Complete() {
		if t.Send(m.bytes) {
			w.Moved()
		} else if err := w.ForSpace(c); err != nil {
			return err
		}
	}
	if !m.onDevice() {
		return nil
	}
	for !c.Empty() {
		if err := w.ForEmpty(c); err != nil {
			return err
		}
	}
	return m.e.Checker.Failure() // the receiver may have failed to copy
}

// recv returns when the elements have arrived.
func (m *message) recv() error {
	if err := m.check(); err != nil {
		return err
	}
	c := m.from[m.plan.Peer]
	t, w := c.Begin(m.note), m.e.Checker.NewWait(m.plan.Peer, m.op)
	for !t.Complete() {
		switch moved, err := t.Recv(m.take); {
		case err != nil:
			return err
		case m.err != nil:
			return m.err
		case moved:
			w.Moved()
		default:
			if err := w.ForPiece(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch copies the elements from the span in the sender's memory that word encodes. It returns when the
// copy is done.
func (m *message) fetch(word uint64) error {
	e, peer := m.e, m.plan.Peer
	from := e.decodeSpan(word)
	if from.allocation == nil {
		return e.fail(m.op, fmt.Errorf("rank %d sends from memory that rank %d has not mapped", peer, e.rank))
	}
	m.copyNumbers[peer]++
	number, bytes := m.copyNumbers[peer], m.plan.Count*m.plan.DType.Size()
	return e.device.Do(func() error {
		if err := m.copier.start(m.span.pointer(e.rank), from.pointer(peer), bytes,
			m.arrivalFlags.Device+cuda.Pointer(peer*flagBytes), number); err != nil {
			return e.fail(m.op, err)
		}
		if !m.copier.raisesFlag(bytes) {
			return m.awaitCopy(nil, 0)
		}
		return m.awaitCopy((*atomic.Uint32)(unsafe.Pointer(&m.arrivalFlags.Bytes[peer*flagBytes])), number)
	})
}

// awaitCopy waits until a copy is done: until its flag has the given number or, if flag is nil, until the
// stream is idle.
func (m *message) awaitCopy(flag *atomic.Uint32, number uint32) error {
	e := m.e
	raised := func() bool { return flag != nil && flag.Load() == number }
	ended := func() (bool, error) {
		switch done, err := m.copier.stream.Done(); {
		case err != nil:
			return false, e.fail(m.op, err)
		case done && flag != nil && !raised():
			return false, e.fail(m.op, fmt.Errorf("the kernel of copy %d has ended, but its flag is %d", number, flag.Load()))
		default:
			return done, nil
		}
	}
	return devicegroup.Pace.Until(func() (bool, error) {
		if flag == nil {
			return ended()
		}
		return raised(), nil
	}, func(waited time.Duration) error {
		if waited > e.Timeout {
			return e.fail(m.op, fmt.Errorf("a copy of %d bytes is not done after %v", m.plan.Count*m.plan.DType.Size(),
				e.Timeout))
		}
		_, err := ended()
		return err
	})
}
