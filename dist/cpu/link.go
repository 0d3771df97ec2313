package cpu

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// link is the way to and from one peer: channels in shared memory, or a TCP
// connection to a rank of another host. It is one type with two cases, not an
// interface, because it is polled while spinning.
type link struct {
	peer     int
	to, from *shm.Channel
	tcp      *tcp.Link // instead of the channels
}

// outgoing is a message on its way to a peer.
type outgoing struct {
	link  *link // nil: none
	src   []byte
	slots shm.Transfer
}

func (o *outgoing) move() (moved bool, err error) {
	switch {
	case o.link == nil:
		return false, nil
	case o.link.tcp != nil:
		return o.link.tcp.Out.Progress()
	}
	return o.slots.Send(o.src), nil
}

func (o *outgoing) pending() bool {
	if o.link != nil && o.link.tcp != nil {
		return o.link.tcp.Out.Pending()
	}
	return o.link != nil && !o.slots.Complete()
}

// incoming is a message on its way from a peer. What is to be added to the memory
// comes over TCP in pieces that stay in a cache, one of which is on its way
// while the other is added.
type incoming struct {
	link  *link // nil: none
	dst   []byte
	take  func(off int, piece []byte) // what is done with a piece
	slots shm.Transfer

	posted, taken int // bytes of what is added, over TCP
	marks         [2]uint64
	pieces        [2][]byte
}

const incomingPiece = 128 << 10

func (i *incoming) move() (moved bool, err error) {
	switch {
	case i.link == nil:
		return false, nil
	case i.link.tcp != nil:
		if moved, err = i.link.tcp.In.Progress(); err != nil {
			return false, err
		}
		return i.add() || moved, nil
	}
	return i.slots.Recv(i.take)
}

func (i *incoming) pending() bool {
	if i.link != nil && i.link.tcp != nil {
		return i.link.tcp.In.Pending()
	}
	return i.link != nil && !i.slots.Complete()
}

// reserve makes room for adding messages of up to so many bytes over TCP.
func (i *incoming) reserve(bytes int) {
	for k := range i.pieces {
		i.pieces[k] = make([]byte, min(bytes, incomingPiece))
	}
}

// post expects the next piece of what is to be added.
func (i *incoming) post() {
	n := min(incomingPiece, len(i.dst)-i.posted)
	if n == 0 {
		return
	}
	k := i.posted / incomingPiece % 2
	i.link.tcp.In.Expect(i.pieces[k][:n])
	i.posted += n
	i.marks[k] = i.link.tcp.In.Posted()
}

// add takes the pieces that have come, and tells whether there was any.
func (i *incoming) add() (moved bool) {
	for i.taken < i.posted {
		k := i.taken / incomingPiece % 2
		if i.link.tcp.In.Done() < i.marks[k] {
			return moved
		}
		n := min(incomingPiece, len(i.dst)-i.taken)
		i.take(i.taken, i.pieces[k][:n])
		i.taken += n
		i.post()
		moved = true
	}
	return moved
}

// mover moves the messages of one rank's step: one out, one in, or both at once,
// each over the link that leads there. It keeps its memory between messages.
type mover struct {
	e       *engine
	label   *shm.Label // of the collective, nil for a message of the program
	doing   string     // for errors; "": the present collective
	dtype   dist.DType
	kernel  vec.Kernel
	combine *dist.Combiner // instead of the kernel
	sum     []byte         // what it makes, where the output may be one of its sources
	out     outgoing
	in      incoming
	srcs    [2][]byte
	store   func(off int, piece []byte) // made once: a closure a message would be garbage
	add     func(off int, piece []byte)
	sleeper tcp.Sleeper
}

func (e *engine) newMover(l *shm.Label, d dist.DType, op vec.Op, doing string) *mover {
	t := &mover{e: e, label: l, doing: doing, dtype: d, kernel: vec.Lookup(d, op)}
	t.store = func(off int, piece []byte) { copy(t.in.dst[off:], piece) }
	t.add = func(off int, piece []byte) {
		t.srcs = [2][]byte{t.in.dst[off : off+len(piece)], piece}
		t.reduce(t.srcs[0], t.srcs[:])
	}
	return t
}

// reduce combines the sources, of which dst may be one, in their order.
func (t *mover) reduce(dst []byte, srcs [][]byte) {
	switch {
	case t.combine == nil:
		t.kernel.Reduce(dst, srcs)
	case len(srcs) == 2 && unsafe.SliceData(dst) == unsafe.SliceData(srcs[0]):
		t.combine.Apply(dst, srcs[1])
	default:
		t.sum = append(t.sum[:0], srcs[0]...)
		for _, src := range srcs[1:] {
			t.combine.Apply(t.sum, src)
		}
		copy(dst, t.sum)
	}
}

func (t *mover) note(b []byte) shm.Note {
	return shm.Note{Type: uint64(t.dtype), Count: uint64(len(b) / t.dtype.Size()), Bytes: uint64(len(b))}
}

// header is what goes before a message over TCP. Of a message of the program both
// ends count the elements, whose type is the signature.
func (t *mover) header(b []byte) tcp.Header {
	if t.label != nil {
		return t.e.hosts.header(t.label, len(b))
	}
	n := t.note(b)
	return tcp.Header{Call: n.Count, Sign: n.Type, Bytes: n.Bytes}
}

// move sends src over one link and receives dst over another, either of which may
// be nil. With add, what comes is added to what is there.
func (t *mover) move(to *link, src []byte, from *link, dst []byte, add bool) error {
	t.send(to, src)
	t.receive(from, dst, add)
	far := to != nil && to.tcp != nil || from != nil && from.tcp != nil
	w := t.e.member.NewWait(-1, t.doing)
	if far {
		w = t.e.member.NewFarWait(-1, t.doing)
	}
	for {
		moved, err := t.progress()
		sending, receiving := t.out.pending(), t.in.pending()
		switch {
		case err != nil:
			return err
		case !sending && !receiving:
			return nil
		case moved:
			w.Moved()
			continue
		case far:
			err = t.pause(&w, sending, receiving)
		case receiving:
			err = w.ForPiece(from.from)
		default:
			err = w.ForSpace(to.to)
		}
		if err != nil {
			return err
		}
	}
}

func (t *mover) send(to *link, src []byte) {
	t.out.link, t.out.src = to, src
	switch {
	case to == nil:
	case to.tcp != nil:
		to.tcp.Out.PostHeader(t.header(src))
		to.tcp.Out.Post(src)
	default:
		t.out.slots = to.to.Begin(t.note(src))
	}
}

func (t *mover) receive(from *link, dst []byte, add bool) {
	i := &t.in
	i.link, i.dst, i.take, i.posted, i.taken = from, dst, t.store, 0, 0
	if add {
		i.take = t.add
	}
	switch {
	case from == nil:
	case from.tcp == nil:
		i.slots = from.from.Begin(t.note(dst))
	default:
		from.tcp.In.ExpectHeader(t.header(dst))
		if !add {
			from.tcp.In.Expect(dst)
			return
		}
		i.post()
		i.post()
	}
}

// progress moves what can be moved.
func (t *mover) progress() (moved bool, err error) {
	sent, err := t.out.move()
	// What the peer said last may explain why nothing can be sent.
	came, lost := t.in.move()
	if lost != nil {
		return false, t.broken(t.in.link, lost)
	}
	if err != nil {
		return false, t.broken(t.out.link, err)
	}
	return sent || came, nil
}

// mixedPatience bounds a sleep in which shared memory, that cannot end it, is
// waited for too.
const mixedPatience = time.Millisecond

// pause is one step of a wait that is not for shared memory alone.
func (t *mover) pause(w *shm.Wait, sending, receiving bool) error {
	var out, in *tcp.Link
	mixed := false
	if sending {
		w.Peer, out = t.out.link.peer, t.out.link.tcp
		mixed = out == nil
	}
	if receiving {
		w.Peer, in = t.in.link.peer, t.in.link.tcp
		mixed = mixed || in == nil
	}
	limit, err := w.Step()
	if mixed {
		limit = min(limit, mixedPatience)
	}
	if limit > 0 {
		t.sleeper.SleepOn(limit, out, in)
	}
	return err
}

// broken says what an error of a link means.
func (t *mover) broken(l *link, err error) error {
	var other *tcp.MismatchError
	switch {
	case l.tcp == nil:
		return err
	case t.label == nil && errors.As(err, &other):
		note := func(h tcp.Header) string {
			return describe(shm.Note{Type: h.Sign, Count: h.Call, Bytes: h.Bytes})
		}
		return t.e.member.Disagree(fmt.Sprintf("rank %d sends %s to rank %d, which receives %s",
			l.peer, note(other.Got), t.e.Rank(), note(other.Want)))
	}
	return t.e.hosts.broken(l.tcp, err, t.doing)
}

// message is a send or a receive of the program. The two halves of a link may be
// at work at once, each with a mover of its own.
func (e *engine) message(p dist.Plan) func() error {
	t := e.newMover(nil, p.DType, vec.Sum, p.String())
	var to, from *link
	if p.Op == dist.Send {
		to = e.messages[p.Peer]
	} else {
		from = e.messages[p.Peer]
	}
	in, out := p.In.Bytes(), p.Out.Bytes()
	return func() error {
		if err := e.member.Failure(); err != nil {
			return err
		}
		return t.move(to, in, from, out, false)
	}
}

func describe(n shm.Note) string { return fmt.Sprintf("%d %v", n.Count, dist.DType(n.Type)) }
