package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// A message in device memory is one copy, which the receiver starts: the sender says in
// shared memory of the host where its elements are, and waits until the receiver has said
// that it has them. No kernel ever waits for another rank, so messages can be taken in
// whatever order ranks come to them, and beside a collective. Messages in the program's own
// memory go through shared memory of the host, in pieces, and no GPU sees them.

// mailbox is what the messages of a group need.
type mailbox struct {
	e        *engine
	to, from []*shm.Channel // by peer
	stream   *cuda.Stream   // of what comes in: a collective may wait in the other
	arrived  *cuda.Shared   // a flag for each peer, by which the host sees that a copy is done
	numbers  []uint32       // of the copies from each peer
}

// flagBytes keeps the flags of different peers apart.
const flagBytes = 128

// newMailbox is called where the device's context is current.
func (e *engine) newMailbox() (*mailbox, error) {
	m := &mailbox{e: e, numbers: make([]uint32, e.size)}
	for peer := range e.size {
		m.to = append(m.to, e.agreement.ChannelTo(shm.ForProgram, peer, describe))
		m.from = append(m.from, e.agreement.ChannelFrom(shm.ForProgram, peer, describe))
	}
	var err error
	if m.stream, err = e.device.Stream(); err != nil {
		return nil, err
	}
	if m.arrived, err = e.device.Share(e.size * flagBytes); err != nil {
		return nil, errors.Join(err, m.stream.Destroy())
	}
	return m, nil
}

func (m *mailbox) close() error { return errors.Join(m.stream.Destroy(), m.arrived.Free()) }

// onDevice marks the type of elements that are in device memory.
const onDevice = 1 << 32

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
	plan  dist.Plan
	doing string
	note  shm.Note
	at    span   // this rank's elements, where they are in device memory
	bytes []byte // what goes through the host: the elements, or where they are
	take  func(off int, piece []byte)
	copy  copier
	err   error // of the copy
}

// message prepares a send or a receive.
func (e *engine) message(p dist.Plan) (func() error, error) {
	b := p.In
	if p.Op == dist.Recv {
		b = p.Out
	}
	m := &message{mailbox: e.messages, plan: p, doing: p.String(), bytes: b.Bytes()}
	m.note = shm.Note{Type: uint64(p.DType), Count: uint64(p.Count), Bytes: uint64(len(m.bytes))}
	m.take = func(off int, piece []byte) { copy(m.bytes[off:], piece) }
	if p.Count > 0 && m.bytes == nil {
		var ours bool
		if m.at, ours = e.spanOf(b); !ours {
			return nil, fmt.Errorf("%v is memory of another group", b)
		}
		m.bytes = binary.LittleEndian.AppendUint64(nil, m.at.word())
		m.note.Type, m.note.Bytes = m.note.Type|onDevice, uint64(len(m.bytes))
		m.take = func(_ int, word []byte) { m.err = m.fetch(binary.LittleEndian.Uint64(word)) }
		if p.Op == dist.Recv {
			if err := m.settleCopy(); err != nil {
				return nil, err
			}
		}
	}
	if p.Op == dist.Send {
		return m.send, nil
	}
	return m.recv, nil
}

// settleCopy chooses how the elements are copied. A kernel that raises a flag when it is
// done is seen sooner than the end of a stream; the copy engine is faster in the long run.
func (m *message) settleCopy() (err error) {
	method := m.e.knobs.copy
	if method == "" && m.plan.Count*m.plan.DType.Size() <= singleBytes {
		method = byLoads
	}
	m.copy, err = m.e.newCopier(method, m.stream)
	return err
}

// far tells whether the elements are in device memory.
func (m *message) far() bool { return m.at.allocation != nil }

// ready fails where the message cannot be on its way.
func (m *message) ready() error {
	if m.at.gone() {
		return m.e.forsaken(m.plan)
	}
	return m.e.agreement.Failure()
}

// send returns when the elements may be changed: once they are in shared memory, or
// copied.
func (m *message) send() error {
	if err := m.ready(); err != nil {
		return err
	}
	c := m.to[m.plan.Peer]
	t, w := c.Begin(m.note), m.e.agreement.NewWait(m.plan.Peer, m.doing)
	for !t.Complete() {
		if t.Send(m.bytes) {
			w.Moved()
		} else if err := w.ForSpace(c); err != nil {
			return err
		}
	}
	if !m.far() {
		return nil
	}
	for !c.Empty() {
		if err := w.ForEmpty(c); err != nil {
			return err
		}
	}
	return m.e.agreement.Failure() // such as that of the copy
}

// recv returns when the elements are there.
func (m *message) recv() error {
	if err := m.ready(); err != nil {
		return err
	}
	c := m.from[m.plan.Peer]
	t, w := c.Begin(m.note), m.e.agreement.NewWait(m.plan.Peer, m.doing)
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

// fetch copies the elements that are where the word says in the sender's memory, and
// returns when they are here.
func (m *message) fetch(word uint64) error {
	e, peer := m.e, m.plan.Peer
	from := e.span(word)
	if from.allocation == nil {
		return e.broken(m.doing, fmt.Errorf("rank %d sends from memory that rank %d does not know", peer, e.rank))
	}
	m.numbers[peer]++
	number, bytes := m.numbers[peer], m.plan.Count*m.plan.DType.Size()
	return e.device.Do(func() error {
		if err := m.copy.start(m.at.pointer(e.rank), from.pointer(peer), bytes,
			m.arrived.Device+cuda.Pointer(peer*flagBytes), number); err != nil {
			return e.broken(m.doing, err)
		}
		if !m.copy.flags(bytes) {
			return m.ended(nil, 0)
		}
		return m.ended((*atomic.Uint32)(unsafe.Pointer(&m.arrived.Bytes[peer*flagBytes])), number)
	})
}

// ended waits for a copy: for its flag, or where it has none for the stream.
func (m *message) ended(flag *atomic.Uint32, number uint32) error {
	e := m.e
	begin := time.Time{}
	for looks := 1; ; looks++ {
		if flag != nil && flag.Load() == number {
			return nil
		}
		if flag != nil && looks%watchEvery != 0 {
			continue
		}
		switch done, err := m.copy.stream.Done(); {
		case err != nil:
			return e.broken(m.doing, err)
		case done && flag != nil && flag.Load() != number:
			return e.broken(m.doing, fmt.Errorf("the kernel of copy %d has ended, and its flag is %d", number, flag.Load()))
		case done:
			return nil
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		if looks > politeLooks {
			runtime.Gosched()
			time.Sleep(20 * time.Microsecond)
			if time.Since(begin) > e.timeout {
				return e.broken(m.doing, fmt.Errorf("a copy of %d bytes is not done after %v", m.plan.Count*m.plan.DType.Size(),
					e.timeout))
			}
		}
	}
}
