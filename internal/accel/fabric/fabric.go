// Package fabric moves messages over the links of the simulated accelerator.
//
// A link carries one thing at a time, in the order of arrival, in each
// direction separately. There are two models of a message (topo.Fabric):
//
//   - whole: the head opens the way link by link and the message drains behind
//     it, so that it takes its fixed latency and once the time of its slowest
//     link;
//   - flits: pieces of a fixed size that follow each other. A node's cost is
//     paid once, by the first flit, and the others do not overtake it. Streams
//     that meet at a link interleave flit by flit, in the order of arrival. A
//     node that collects (Hop.Collect) passes a message on only when it has all
//     of it.
//
// Flits are simulated one by one only where that matters. A message that meets
// no other is a train: one event per link for all its flits, whose
// times are known as a formula (train.go). When another message comes to a link
// before the last flit of a train, the train is split into its flits as
// they stand then. The results are the same to the picosecond.
//
// The package knows links and times, not what messages are for: the owner of
// the event queue passes it the events of its kinds and learns of deliveries by
// events of the kind Delivered.
package fabric

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// The kinds of events of this package; others' start at Kinds.
const (
	wholeAt   uint8 = iota // the head of message A is at its next link
	trainAt                // the head of train A is at its next link
	flitAt                 // flit B of message A is at its next link
	Delivered              // message A has arrived; B is its version
	FlitThere              // flit B of message A, sent with Each, has arrived
	Kinds
)

// Sequence numbers: at one instant links come before deliveries, and those
// before everything of the owner, whose sequence numbers start at Sequences.
const (
	seqLinks          uint64 = 0
	seqDeliveries     uint64 = 1 << 60
	Sequences         uint64 = 2 << 60
	flitBits, hopBits        = 24, 13 // below a message's number: its flits, and where each is
)

// Fabric is the links and what is on them.
type Fabric struct {
	queue      *event.Queue
	model      topo.Fabric
	flitBytes  int
	flitByFlit bool // no trains: every flit has its own events, the reference

	free     []event.Time // by link: when it has sent all that has come to it
	busy     []event.Time // by link: how long it was sending
	trains   []claim      // by link: the last train that took it
	messages []*Message
	hops     int64 // link passages of flits or messages
	observe  func(Passage)
}

// Passage is a flit, or a message that moves whole, that has been over a link.
type Passage struct {
	Link, Message int32
	Bytes         int
	Wait          event.Time // behind others, before it was sent
	From, To      event.Time // while it was sent
}

// claim says which train took a link, and as which of its hops.
type claim struct {
	message int32 // number + 1; 0 is none
	hop     int32
}

// Message is a message in transit.
type Message struct {
	ID    int32
	Path  topo.Path
	Bytes int

	each     bool // the owner wants every flit
	version  int32
	flits    int
	hop      int        // of the head, while it is whole or a train
	tail     event.Time // whole: when the tail is at the next link
	train    []segment  // by hop it has come to
	split    bool
	headThen []event.Time // split: when the head was ready at each hop
	at       []int32      // split: by flit, the hop it goes to next
	queue    []pendingHop // split: by flit, where it is announced
}

// pendingHop says that a flit is announced at a hop, and for when. Of the flits of one
// message that stand before the same link only the first is in the queue of
// events: it calls the next one. So a burst of a thousand flits is one event.
type pendingHop struct {
	hop   int32 // + 1; 0 is nowhere
	waits bool  // for the flit before it to pass
	ready event.Time
}

// New makes the links of a wiring, all free.
func New(q *event.Queue, links int, model topo.Fabric, flitBytes int) *Fabric {
	return &Fabric{queue: q, model: model, flitBytes: flitBytes,
		free: make([]event.Time, links), busy: make([]event.Time, links), trains: make([]claim, links)}
}

// FlitByFlit turns trains off: the slow reference that they are tested against.
func (f *Fabric) FlitByFlit() { f.flitByFlit = true }

// Observe has a function told of every passage: those of one link in the order of their times if
// there are no trains, else of a train's together when it has arrived or is split.
func (f *Fabric) Observe(passed func(Passage)) { f.observe = passed }

// sent counts a link's work.
func (f *Fabric) sent(p Passage) {
	f.busy[p.Link] += p.To - p.From
	f.hops++
	if f.observe != nil {
		f.observe(p)
	}
}

// Message is what a Delivered or FlitThere event is about.
func (f *Fabric) Message(id int32) *Message { return f.messages[id] }

// Hops counts the passages of flits (or whole messages) over links.
func (f *Fabric) Hops() int64 { return f.hops }

// Busy is how long each link was sending.
func (f *Fabric) Busy() []event.Time { return f.busy }

// Send starts a message now.
func (f *Fabric) Send(now event.Time, path topo.Path, bytes int) *Message {
	m := f.message(now, path, bytes)
	if f.model == topo.Whole {
		m.tail = now
		f.queue.Push(event.Event{Time: now, Seq: m.seq(0, m.hop), Kind: wholeAt, A: m.ID})
		return m
	}
	m.train = append(m.train, segment{ready: schedule{lines: []line{{now, 0}}, last: now}})
	if f.flitByFlit {
		f.scatter(m, event.Event{Time: now - 1})
	} else {
		f.queue.Push(event.Event{Time: now, Seq: m.seq(0, 0), Kind: trainAt, A: m.ID})
	}
	return m
}

// SendEach starts a message whose flits become ready at the given times, and
// reports each arrival by a FlitThere event before Delivered. With
// whole messages there are no flits: the head leaves at the first time, the
// tail not before the last.
func (f *Fabric) SendEach(now event.Time, path topo.Path, bytes int, ready []event.Time) *Message {
	m := f.message(now, path, bytes)
	if f.model == topo.Whole {
		m.tail = ready[len(ready)-1]
		f.queue.Push(event.Event{Time: ready[0], Seq: m.seq(0, m.hop), Kind: wholeAt, A: m.ID})
		return m
	}
	m.each = true
	m.splitUp()
	for i := range m.flits {
		f.push(m, i, 0, ready[min(i, len(ready)-1)])
	}
	return m
}

func (f *Fabric) message(now event.Time, path topo.Path, bytes int) *Message {
	m := &Message{ID: int32(len(f.messages)), Path: path, Bytes: bytes, flits: f.Flits(bytes)}
	f.messages = append(f.messages, m)
	return m
}

// Flits is how many flits so many bytes are; a message without bytes is still
// one.
func (f *Fabric) Flits(bytes int) int { return max(1, (bytes+f.flitBytes-1)/f.flitBytes) }

// flitSize is the size of a message's i-th flit.
func (f *Fabric) flitSize(m *Message, i int) int {
	if i == m.flits-1 {
		return m.Bytes - i*f.flitBytes
	}
	return f.flitBytes
}

func (m *Message) seq(flit, hop int) uint64 {
	return seqLinks | uint64(m.ID)<<(flitBits+hopBits) | uint64(flit)<<hopBits | uint64(hop)
}

// Handle does what an event of this package says, except for those that are
// for the owner.
func (f *Fabric) Handle(e event.Event) {
	m := f.messages[e.A]
	switch e.Kind {
	case wholeAt:
		f.whole(m, e.Time)
	case trainAt:
		f.advance(m, e)
	case flitAt:
		f.single(m, int(e.B), e)
	}
}

// Valid reports whether a Delivered event still holds: a train that was split
// after its delivery was scheduled arrives at another time.
func (f *Fabric) Valid(e event.Event) bool { return f.messages[e.A].version == e.B }

func (f *Fabric) deliver(m *Message, at event.Time) {
	f.queue.Push(event.Event{Time: at, Seq: seqDeliveries | uint64(m.ID), Kind: Delivered, A: m.ID, B: m.version})
}

// Done gives back what was kept of a delivered message.
func (f *Fabric) Done(m *Message) {
	if f.observe != nil && !m.split {
		for hop := range m.train[:max(0, len(m.train)-1)] { // the last is where it arrived
			f.passed(m, hop, m.flits)
		}
	}
	m.train, m.headThen, m.at, m.queue = nil, nil, nil, nil
}

// whole passes one link: the head continues at once, the tail when the message
// has drained, which it cannot before it has come.
func (f *Fabric) whole(m *Message, now event.Time) {
	h := m.Path[m.hop]
	start := max(now, f.free[h.Link])
	drain := h.BW.Time(m.Bytes)
	end := max(start+drain, m.tail)
	f.free[h.Link] = end
	f.sent(Passage{h.Link, m.ID, m.Bytes, start - now, end - drain, end})
	m.tail = end + h.Wire + h.Cost
	m.hop++
	if m.hop == len(m.Path) {
		f.deliver(m, m.tail)
		return
	}
	f.queue.Push(event.Event{Time: start + h.Wire + h.Cost, Seq: m.seq(0, m.hop), Kind: wholeAt, A: m.ID})
}

// single passes one flit over one link. The others of its message come later,
// each with an event of its own.
func (f *Fabric) single(m *Message, i int, e event.Event) {
	now := e.Time
	at := int(m.at[i])
	h := &m.Path[at]
	f.breakUp(h.Link, e)
	m.queue[i].hop = 0
	if next := i + 1; next < m.flits && m.queue[next].waits {
		m.queue[next].waits = false
		f.announce(m, next, at, m.queue[next].ready)
	}
	size := f.flitSize(m, i)
	took := h.BW.Time(size)
	start := max(now, f.free[h.Link])
	end := start + took
	f.free[h.Link] = end
	f.sent(Passage{h.Link, m.ID, size, start - now, start, end})
	last := i == m.flits-1
	ready := end + h.Wire
	if h.Collect {
		if !last {
			m.at[i]++ // it waits there for the last
			return
		}
		for j := range m.flits {
			f.push(m, j, at+1, ready+h.Cost)
		}
		return
	}
	if i == 0 {
		ready += h.Cost
		m.headThen[at+1] = ready
	}
	f.push(m, i, at+1, max(ready, m.headThen[at+1]))
}

// push announces a flit at one of its hops, or its arrival.
func (f *Fabric) push(m *Message, i, hop int, at event.Time) {
	m.at[i] = int32(hop)
	if hop < len(m.Path) {
		m.queue[i] = pendingHop{hop: int32(hop) + 1, ready: at}
		if i > 0 && m.queue[i-1].hop == int32(hop)+1 && m.queue[i-1].ready <= at {
			m.queue[i].waits = true
			return
		}
		f.announce(m, i, hop, at)
		return
	}
	if m.each {
		f.queue.Push(event.Event{Time: at, Seq: m.seq(i, hop), Kind: FlitThere, A: m.ID, B: int32(i)})
	}
	if i == m.flits-1 {
		f.deliver(m, at)
	}
}

func (f *Fabric) announce(m *Message, i, hop int, at event.Time) {
	f.queue.Push(event.Event{Time: at, Seq: m.seq(i, hop), Kind: flitAt, A: m.ID, B: int32(i)})
}

// splitUp makes room for the state of single flits.
func (m *Message) splitUp() {
	m.split = true
	m.headThen = make([]event.Time, len(m.Path)+1)
	m.at = make([]int32, m.flits)
	m.queue = make([]pendingHop, m.flits)
}
