// Package fabric moves messages over the links of the simulated accelerator.
//
// A link carries one flit or message at a time in each direction, in order of arrival unless Arbitrate sets another
// rule. There are two models of a message (topo.Fabric):
//
//   - whole: the head advances link by link and the bytes drain behind it (cut-through). The latency is
//     the fixed latency of the path plus the transfer time at the slowest link.
//   - flits: a message is a sequence of pieces of a fixed size. Only the first flit pays the cost of a node,
//     and the others do not overtake it. Messages that meet at a link interleave flit by flit, in order of
//     arrival. A node that stores and forwards (Hop.Collect) waits for the whole message.
//
// Flits are simulated one by one only where that is necessary. A message that meets no other message is a train: it
// needs only one event per link for all its flits, because their times follow a formula (train.go). When another
// message comes to a link before the last flit of a train, the train is split into its flits at their current
// positions. The results are the same to the picosecond.
//
// The package does not know the purpose of messages. The owner of the event queue passes events of kinds below Kinds to
// Handle. Delivered events tell the owner that a message has arrived.
package fabric

import (
	"iter"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// The kinds of events of this package. The owner's kinds start at Kinds. A and B are the fields of the event.
const (
	wholeAt   uint8 = iota // the head of message A is at its next link
	trainAt                // the head of train A is at its next link
	flitAt                 // flit B of message A is at its next link
	linkFree               // link A, which has an arbiter, has sent a flit
	Delivered              // message A has arrived; B is its version
	FlitThere              // flit B of message A, sent with SendEach, has arrived
	Kinds
)

// The classes order the events of one instant. The owner's classes start at Owner.
const (
	classArrival  uint8 = iota // at a link: earlier messages first, then earlier flits, then earlier hops
	classFree                  // after the arrivals, so that the arbiter can choose among them
	classDelivery              // earlier messages first
	Owner
)

// Fabric holds the state of the links and of the messages in transit.
type Fabric struct {
	queue      *event.Queue
	model      topo.Fabric
	flitBytes  int
	flitByFlit bool // no trains: every flit has its own events

	links       []link
	messages    messages
	spareTrains []trainBuffer // of messages that have arrived
	hops        int64         // passages of flits or whole messages over links
	splits      int           // trains that were split
	observe     func(Passage)
	arbiter     *arbiter // nil: links send in order of arrival into unlimited buffers
	symmetry    *symmetry
}

// link is the state of a link.
type link struct {
	freeAt   event.Time // when it will have sent all flits and messages that have arrived so far
	busyTime event.Time // how long it was sending so far
	train    claim      // the last train that used it
	pending  int32      // number of trains and flits that have an event at this link
	chained  bool       // all messages come to it over the same other link, see Chain
}

// Passage is the passage of a flit, or of a whole message, over a link.
type Passage struct {
	Link, Message int32
	Bytes         int
	Wait          event.Time // in the queue before the link
	From, To      event.Time // begin and end of sending
}

// claim identifies the train that last used a link, and at which of its hops.
type claim struct {
	message int32 // ID + 1; 0 means none
	hop     int32
}

// Message is a message in transit. In the model of flits, it is a train until it is split (see the package comment).
type Message struct {
	ID    int32
	Path  topo.Path
	Bytes int
	Tag   uint64 // for the owner, who sets it after Send
	// Part and Enters are used only with Symmetric: the relative number of the part to which the message goes, and the
	// hop at which it enters that part. Part is 0 for a message that stays in its part. The owner sets them after Send.
	Part, Enters int

	each      bool  // the owner is notified of every flit
	version   int32 // increases when the train is split, which invalidates its Delivered event
	flits     int
	hop       int        // next hop of the head, while the message is whole or a train
	tail      event.Time // whole: when the tail reaches the next link
	train     []segment  // train: by hop reached so far
	lines     lineBuffer // of the train's schedules
	split     bool
	headReady []event.Time // split: by hop, when the head was ready
	nextHop   []int32      // split: by flit, its next hop
	queue     []pendingHop // split: by flit, the hop that it is waiting for
}

// pendingHop is a flit that waits to pass a hop. Of all flits of a message that wait for the same link, only the first
// one has an event. When it is handled, it schedules the event of the next flit. A thousand waiting flits thus take
// only one place in the event queue.
type pendingHop struct {
	hop   int32 // hop + 1; 0 means none
	waits bool  // it has no event yet, because the previous flit has not passed
	ready event.Time
}

// New returns a fabric with the given number of links, all of them free. flitBytes is the size of a flit in bytes.
func New(q *event.Queue, links int, model topo.Fabric, flitBytes int) *Fabric {
	return &Fabric{queue: q, model: model, flitBytes: flitBytes,
		links: make([]link, links)}
}

// FlitByFlit disables trains. Simulating every flit is slow; tests use it as a reference.
func (f *Fabric) FlitByFlit() { f.flitByFlit = true }

// Observe sets a function that is called for every passage. Without trains, the calls for a link are in order of time.
// All passages of a train are reported when it arrives or is split.
func (f *Fabric) Observe(passed func(Passage)) { f.observe = passed }

// Chain tells the fabric all paths that messages will take. In all these paths, most links come after the same other
// link. Trains cannot overtake each other on such a pair of links. A train that has passed the first link can therefore
// pass the second one at once, without an event.
func (f *Fabric) Chain(paths iter.Seq[topo.Path]) {
	const none, several = -2, -3
	before := slices.Repeat([]int32{none}, len(f.links))
	for path := range paths {
		last := int32(-1)
		for _, h := range path {
			switch before[h.Link] {
			case last, several:
			case none:
				before[h.Link] = last
			default:
				before[h.Link] = several
			}
			last = h.Link
		}
	}
	for i := range f.links {
		f.links[i].chained = before[i] >= 0
	}
}

// recordPassage counts a passage and reports it to the observer.
func (f *Fabric) recordPassage(p Passage) {
	f.links[p.Link].busyTime += p.To - p.From
	f.hops++
	if f.observe != nil {
		f.observe(p)
	}
}

// Message returns a message by its ID, the field A of Delivered and FlitThere events.
func (f *Fabric) Message(id int32) *Message { return f.messages.at(id) }

// Messages returns the number of messages sent so far.
func (f *Fabric) Messages() int { return f.messages.sent }

// Hops returns the number of passages of flits (or whole messages) over links.
func (f *Fabric) Hops() int64 { return f.hops }

// Busy returns how long each link was sending.
func (f *Fabric) Busy() []event.Time {
	return lists.Map(f.links, func(l link) event.Time { return l.busyTime })
}

// Send starts a message now.
func (f *Fabric) Send(now event.Time, path topo.Path, bytes int) *Message {
	m := f.message(now, path, bytes)
	if f.model == topo.Whole {
		m.tail = now
		f.queue.Push(m.event(wholeAt, now, 0, m.hop))
		return m
	}
	f.reuseTrain(m)
	f.depart(m, now, schedule{lines: append(m.lines.take(1), line{now, 0}), last: now})
	return m
}

// reuseTrain gives a message the memory of a train that has arrived, if there is one, or new memory.
func (f *Fabric) reuseTrain(m *Message) {
	if n := len(f.spareTrains); n > 0 {
		m.train, m.lines = f.spareTrains[n-1].train, f.spareTrains[n-1].lines
		f.spareTrains = f.spareTrains[:n-1]
	}
	if cap(m.train) <= len(m.Path) {
		m.train = make([]segment, 0, len(m.Path)+1)
	}
}

// depart starts a message as a train whose flits get ready for its first link at the times in ready.
func (f *Fabric) depart(m *Message, at event.Time, ready schedule) {
	m.train = append(m.train, segment{ready: ready})
	if f.flitByFlit {
		f.splitIntoFlits(m, event.Event{Time: at - 1})
		return
	}
	f.approach(m, at)
}

// approach schedules the arrival of a train at its next link.
func (f *Fabric) approach(m *Message, at event.Time) {
	f.links[m.Path[m.hop].Link].pending++
	f.queue.Push(m.event(trainAt, at, 0, m.hop))
}

// SendReady starts a message whose flits become ready at the given times, which must not decrease. In the model of
// whole messages, the head leaves at the first of these times, and the tail not before the last one.
func (f *Fabric) SendReady(now event.Time, path topo.Path, bytes int, ready []event.Time) *Message {
	m := f.message(now, path, bytes)
	if f.model == topo.Whole {
		m.tail = ready[len(ready)-1]
		f.queue.Push(m.event(wholeAt, ready[0], 0, m.hop))
		return m
	}
	f.reuseTrain(m)
	f.depart(m, ready[0], listedSchedule(slices.Clone(ready)))
	return m
}

// SendEach is like SendReady. In addition, a FlitThere event reports the arrival of each flit, before Delivered.
func (f *Fabric) SendEach(now event.Time, path topo.Path, bytes int, ready []event.Time) *Message {
	m := f.message(now, path, bytes)
	if f.model == topo.Whole {
		m.tail = ready[len(ready)-1]
		f.queue.Push(m.event(wholeAt, ready[0], 0, m.hop))
		return m
	}
	m.each = true
	m.splitUp()
	for i := range m.flits {
		f.scheduleFlit(m, i, 0, ready[min(i, len(ready)-1)])
	}
	return m
}

func (f *Fabric) message(now event.Time, path topo.Path, bytes int) *Message {
	m := &Message{Path: path, Bytes: bytes, flits: f.Flits(bytes)}
	f.messages.add(m)
	return m
}

// Flits returns the number of flits of a message. An empty message has one.
func (f *Fabric) Flits(bytes int) int { return max(1, (bytes+f.flitBytes-1)/f.flitBytes) }

// flitSize returns the size of a message's i-th flit.
func (f *Fabric) flitSize(m *Message, i int) int {
	if i == m.flits-1 {
		return m.Bytes - i*f.flitBytes
	}
	return f.flitBytes
}

// event returns the event of a flit at a hop. flit is 0 for trains and whole messages.
func (m *Message) event(kind uint8, at event.Time, flit, hop int) event.Event {
	return event.Event{Time: at, Class: classArrival, Seq: uint64(m.ID)<<32 | uint64(flit), Hop: uint16(hop), Kind: kind,
		A: m.ID, B: int32(flit)}
}

// Handle processes an event of this package, except Delivered and FlitThere, which are for the owner.
func (f *Fabric) Handle(e event.Event) {
	if e.Kind == linkFree {
		f.onLinkFree(e.A, e.Time)
		return
	}
	m := f.messages.at(e.A)
	if m == nil {
		return // an outdated event: the train was split, and its last flit has already arrived
	}
	switch e.Kind {
	case wholeAt:
		f.moveWhole(m, e.Time)
	case trainAt:
		f.advance(m, e)
	case flitAt:
		f.moveFlit(m, int(e.B), e)
	}
}

// Valid reports whether a Delivered event is still valid. If the train was split after the event had been scheduled,
// the message arrives at another time and has another Delivered event.
func (f *Fabric) Valid(e event.Event) bool {
	m := f.messages.at(e.A)
	return m != nil && m.version == e.B
}

// deliver schedules the Delivered event of a message. The event has the message's current version, see Valid.
func (f *Fabric) deliver(m *Message, at event.Time) {
	f.queue.Push(event.Event{Time: at, Class: classDelivery, Seq: uint64(m.ID), Kind: Delivered, A: m.ID,
		B: m.version})
}

// Done releases the state of a delivered message.
func (f *Fabric) Done(m *Message) {
	if f.observe != nil && !m.split {
		for hop := range m.train[:max(0, len(m.train)-1)] { // the last segment is the destination
			f.reportPassages(m, hop, m.flits)
		}
	}
	if !m.split && m.train != nil {
		f.spareTrains = append(f.spareTrains, trainBuffer{m.train[:0], m.lines[:0]})
	}
	m.train, m.lines, m.headReady, m.nextHop, m.queue = nil, nil, nil, nil, nil
	f.messages.remove(m.ID)
}

// messages holds the messages in transit, by ID, in pages. A page is freed when all its messages have arrived, so that
// the memory depends on the messages in transit and not on all messages that were sent.
type messages struct {
	pages []*messagePage
	sent  int
}

// messagesPerPage trades the memory that one slow message keeps for the number of allocations.
const messagesPerPage = 256

type messagePage struct {
	arrived int
	list    [messagesPerPage]*Message
}

// add numbers a message and stores it.
func (s *messages) add(m *Message) {
	m.ID = int32(s.sent)
	if s.sent%messagesPerPage == 0 {
		s.pages = append(s.pages, &messagePage{})
	}
	s.pages[len(s.pages)-1].list[s.sent%messagesPerPage] = m
	s.sent++
}

// at returns a message, or nil if it has arrived.
func (s *messages) at(id int32) *Message {
	p := s.pages[id/messagesPerPage]
	if p == nil {
		return nil
	}
	return p.list[id%messagesPerPage]
}

// remove drops a message that has arrived.
func (s *messages) remove(id int32) {
	p := s.pages[id/messagesPerPage]
	p.list[id%messagesPerPage] = nil
	if p.arrived++; p.arrived == messagesPerPage {
		s.pages[id/messagesPerPage] = nil
	}
}

// moveWhole moves a whole message over one link. The head continues as soon as the link is free. The link is occupied
// until the message has drained, but at least until the tail has arrived from the previous links.
func (f *Fabric) moveWhole(m *Message, now event.Time) {
	h := m.Path[m.hop]
	f.checkTie(m, m.hop, now)
	start := max(now, f.links[h.Link].freeAt)
	drain := h.BW.Time(m.Bytes)
	end := max(start+drain, m.tail)
	f.links[h.Link].freeAt = end
	f.recordPassage(Passage{h.Link, m.ID, m.Bytes, start - now, end - drain, end})
	m.tail = end + h.Wire + h.Cost
	m.hop++
	if m.hop == len(m.Path) {
		f.deliver(m, m.tail)
		return
	}
	f.queue.Push(m.event(wholeAt, start+h.Wire+h.Cost, 0, m.hop))
}

// moveFlit moves one flit over one link. The head pays the cost of the node after the link, and later flits do not
// overtake it (headReady). A node that stores and forwards releases all flits together when the last one is there.
func (f *Fabric) moveFlit(m *Message, i int, e event.Event) {
	now := e.Time
	if f.arbiter != nil {
		f.arrive(m, i, now)
		return
	}
	at := int(m.nextHop[i])
	h := &m.Path[at]
	f.links[h.Link].pending--
	f.checkTie(m, at, now)
	f.splitTrain(h.Link, e)
	m.queue[i].hop = 0
	if next := i + 1; next < m.flits && m.queue[next].waits {
		m.queue[next].waits = false
		f.pushFlitEvent(m, next, at, m.queue[next].ready)
	}
	size := f.flitSize(m, i)
	took := h.BW.Time(size)
	start := max(now, f.links[h.Link].freeAt)
	end := start + took
	f.links[h.Link].freeAt = end
	f.recordPassage(Passage{h.Link, m.ID, size, start - now, start, end})
	f.forward(m, i, at, end)
}

// forward schedules the next event of a flit that leaves the link of a hop at end: at its next hop or at its
// destination.
func (f *Fabric) forward(m *Message, i, at int, end event.Time) {
	h := &m.Path[at]
	last := i == m.flits-1
	ready := end + h.Wire
	if h.Collect {
		if !last {
			m.nextHop[i]++ // waits at the node for the last flit
			return
		}
		for j := range m.flits {
			f.scheduleFlit(m, j, at+1, ready+h.Cost)
		}
		return
	}
	if i == 0 {
		ready += h.Cost
		m.headReady[at+1] = ready
	}
	f.scheduleFlit(m, i, at+1, max(ready, m.headReady[at+1]))
}

// scheduleFlit schedules a flit at a hop, or its arrival at the destination. If the previous flit of the message waits
// at the same hop and became ready earlier, the flit gets no event yet; the previous flit schedules it (pendingHop).
func (f *Fabric) scheduleFlit(m *Message, i, hop int, at event.Time) {
	m.nextHop[i] = int32(hop)
	if hop < len(m.Path) && f.arbiter != nil {
		f.pushFlitEvent(m, i, hop, at)
		return
	}
	if hop < len(m.Path) {
		f.links[m.Path[hop].Link].pending++
		m.queue[i] = pendingHop{hop: int32(hop) + 1, ready: at}
		if i > 0 && m.queue[i-1].hop == int32(hop)+1 && m.queue[i-1].ready <= at {
			m.queue[i].waits = true
			return
		}
		f.pushFlitEvent(m, i, hop, at)
		return
	}
	if m.each {
		f.queue.Push(m.event(FlitThere, at, i, hop))
	}
	if i == m.flits-1 {
		f.deliver(m, at)
	}
}

// pushFlitEvent adds the event of a flit at a hop to the queue.
func (f *Fabric) pushFlitEvent(m *Message, i, hop int, at event.Time) {
	f.queue.Push(m.event(flitAt, at, i, hop))
}

// splitUp marks the message as split and allocates the state of its flits.
func (m *Message) splitUp() {
	m.split = true
	m.headReady = make([]event.Time, len(m.Path)+1)
	m.nextHop = make([]int32, m.flits)
	m.queue = make([]pendingHop, m.flits)
}
