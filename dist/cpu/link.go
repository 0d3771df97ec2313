package cpu

import (
	"errors"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// link connects this rank with a peer through channels in shared memory or, if the peer is on another host, through a
// TCP connection. It is a single type with two cases and not an interface, because an interface call in the spin loop
// would cost time.
type link struct {
	peer     int
	to, from *shm.Channel
	tcp      *tcp.Link // replaces the channels; nil: shared memory
}

// outgoing is the state of a message to a peer.
type outgoing struct {
	link  *link // nil if there is no message
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

// incoming is the state of a message from a peer. Data that is to be added is received over TCP in pieces, alternately
// into two buffers that stay in a cache: one piece is received while the other is added.
type incoming struct {
	link  *link // nil: none
	dst   []byte
	take  func(off int, piece []byte) // called with each piece
	slots shm.Transfer

	posted, taken int // bytes to add: posted for receiving, and already added
	marks         [2]uint64
	pieces        [2][]byte
}

// incomingPiece is the size of a piece in bytes. Both pieces of a message stay in the L2 cache.
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

// reserve allocates the pieces for adding messages of up to the given size over TCP.
func (i *incoming) reserve(bytes int) {
	for k := range i.pieces {
		i.pieces[k] = make([]byte, min(bytes, incomingPiece))
	}
}

// post posts a receive of the next piece to add.
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

// add adds the pieces that have arrived, and reports whether there were any.
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

// mover transfers the messages of one step of a rank: one out, one in, or both at once. It is reused
// for all messages, so that a run allocates nothing.
type mover struct {
	e       *engine
	label   *shm.Label // label of the collective; nil for a message of the program
	op      string     // the operation, for errors; "" for the current collective
	dtype   dist.DType
	kernel  vec.Kernel
	out     outgoing
	in      incoming
	srcs    [2][]byte
	store   func(off int, piece []byte) // stores a received piece; made once, so that messages allocate nothing
	add     func(off int, piece []byte)
	sleeper tcp.Sleeper
}

func (e *engine) newMover(l *shm.Label, d dist.DType, reduction vec.Op, op string) *mover {
	t := &mover{e: e, label: l, op: op, dtype: d, kernel: vec.Lookup(d, reduction)}
	t.store = func(off int, piece []byte) { copy(t.in.dst[off:], piece) }
	t.add = func(off int, piece []byte) {
		t.srcs = [2][]byte{t.in.dst[off : off+len(piece)], piece}
		t.kernel.Reduce(t.srcs[0], t.srcs[:])
	}
	return t
}

func (t *mover) note(b []byte) shm.Note {
	return shm.Note{Type: uint64(t.dtype), Count: uint64(len(b) / t.dtype.Size()), Bytes: uint64(len(b))}
}

// header returns the header of a message over TCP. For messages of the program both ends count the messages, and the
// signature is the element type.
func (t *mover) header(b []byte) tcp.Header {
	if t.label != nil {
		return t.e.hosts.header(t.label, len(b))
	}
	n := t.note(b)
	return tcp.Header{Call: n.Count, Sign: n.Type, Bytes: n.Bytes}
}

// move sends src over one link and receives dst over another; either link may be nil. If add is set,
// received data is added to dst.
func (t *mover) move(to *link, src []byte, from *link, dst []byte, add bool) error {
	t.send(to, src)
	t.receive(from, dst, add)
	far := to != nil && to.tcp != nil || from != nil && from.tcp != nil
	w := t.e.member.NewWait(-1, t.op)
	if far {
		w = t.e.member.NewFarWait(-1, t.op)
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

// progress sends and receives as much as possible without waiting.
func (t *mover) progress() (moved bool, err error) {
	sent, err := t.out.move()
	// Receive even if sending has failed, because the peer's last message may say why.
	received, recvErr := t.in.move()
	if recvErr != nil {
		return false, t.linkFailure(t.in.link, recvErr)
	}
	if err != nil {
		return false, t.linkFailure(t.out.link, err)
	}
	return sent || received, nil
}

// mixedMaxSleep limits a sleep in poll(2) while the rank also waits for shared memory. A write to shared memory does
// not end the sleep.
const mixedMaxSleep = time.Millisecond

// pause is one step of a wait that involves the network.
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
		limit = min(limit, mixedMaxSleep)
	}
	if limit > 0 {
		t.sleeper.SleepOn(limit, out, in)
	}
	return err
}

// linkFailure converts the error of a link into the failure of the group.
func (t *mover) linkFailure(l *link, err error) error {
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
	return t.e.hosts.linkFailure(l.tcp, err, t.op)
}

// message prepares a send or a receive of the program. Both directions of a link may be in use at once, each with its
// own mover.
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
