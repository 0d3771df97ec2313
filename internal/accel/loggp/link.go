package loggp

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
)

// linkClass holds the parameters of links. Links with the same parameters share one.
type linkClass struct {
	wire         pace
	latency, gap event.Time
}

// link is the state of a link and its totals.
type link struct {
	class      int32
	free       event.Time // end of the last reservation
	busy, wait event.Time
	bytes      int64
	messages   int64
}

// LinkUse is the traffic of a link.
type LinkUse struct {
	Name     string
	Messages int64
	Bytes    int64
	Busy     event.Time // sum of the times that the bytes took
	Waited   event.Time // sum over messages: from when the first byte arrived until the link was free for it
}

// Links returns the traffic of all links.
func (m *Machine) Links() []LinkUse {
	list := make([]LinkUse, len(m.links))
	for i, l := range m.links {
		list[i] = LinkUse{Name: m.linkName(i), Messages: l.messages, Bytes: l.bytes, Busy: l.busy, Waited: l.wait}
	}
	return list
}

// message is a message on its way, or in the mail of its receiver.
type message struct {
	operation, from, to int32  // from and to are members
	cause               int32  // as in member
	source, target      int32  // the ranks of from and to
	number              uint32 // counts the messages of the source
	kind                kind
	hop                 uint8 // index of the next link of its path
	bytes               int64
	last                event.Time // when its last byte reaches the next link; in the mail: the receiver
	wire                event.Time // on the slowest link so far
	spent               Spent      // of the sender when it sent, and the latencies so far
}

// kind is the kind of a message.
type kind uint8

const (
	data    kind = iota // for a receive
	flag                // for a wait
	request             // of a get: the receiver's interface answers with as many bytes
	answer              // for a get
	written             // of a put: goes to memory
)

// moves returns the number of bytes on the links.
func (g *message) moves() int64 {
	if g.kind == request {
		return 0
	}
	return g.bytes
}

// post sends a message over the first link of its path, at time t or when the link is free. It returns when the
// bytes have left, and how long they took.
func (m *Machine) post(t event.Time, g message) (left, took event.Time) {
	var slot int32
	if n := len(m.free); n > 0 {
		slot, m.free = m.free[n-1], m.free[:n-1]
	} else {
		slot = int32(len(m.messages))
		m.messages = append(m.messages, message{})
	}
	m.sent[g.source]++
	g.number, g.last = m.sent[g.source], t
	m.messages[slot] = g
	m.result.Messages++
	m.result.Bytes += g.moves()
	return m.transmit(slot, t)
}

// transmit sends a message over the next link of its path, on which its first byte arrives at time t. It
// returns when the last byte has passed the link, and how long the bytes took.
func (m *Machine) transmit(slot int32, t event.Time) (passed, took event.Time) {
	g := &m.messages[slot]
	l := &m.links[m.linkOf(g)]
	c := &m.classes[l.class]
	begin := max(t, l.free)
	took = c.wire.of(g.moves())
	passed = max(begin+took, g.last)
	l.free = begin + took + c.gap
	l.busy += took
	l.wait += begin - t
	l.bytes += g.moves()
	l.messages++
	first := max(t, passed-max(took, g.last-t))
	g.hop++
	g.wire = max(g.wire, took)
	g.last = passed + c.latency
	g.spent.Latency += c.latency
	if m.linkOf(g) >= 0 || g.hop == 1 { // a message that is posted never arrives within the same event
		m.queue.Push(event.Event{Time: first + c.latency, Seq: sequence(messageClass, g.source, uint64(g.number)),
			Kind: arrival, B: slot})
	}
	return passed, took
}

// linkOf returns the next link of a message's path, or -1 after the last one.
func (m *Machine) linkOf(g *message) int32 {
	switch g.hop {
	case 0:
		return g.source
	case 1:
		return int32(m.ranks) + g.target
	}
	return -1
}

// pass handles the arrival of a message's first byte at a link, or at its receiver.
func (m *Machine) pass(slot int32, t event.Time) {
	g := &m.messages[slot]
	if m.linkOf(g) >= 0 {
		m.transmit(slot, t)
		if m.linkOf(g) >= 0 {
			return
		}
	}
	g.spent.Wire += g.wire
	switch g.kind {
	case request:
		m.free = append(m.free, slot)
		m.post(g.last, message{operation: g.operation, from: g.to, to: g.from, source: g.target, target: g.source,
			cause: g.cause, kind: answer, bytes: g.bytes, spent: g.spent})
		return
	case written:
		m.free = append(m.free, slot)
		m.result.Time = max(m.result.Time, g.last)
		return
	}
	o := m.operations[g.operation]
	k := &o.members[g.to]
	k.mail = append(k.mail, slot)
	if k.receiving && m.receive(o, k) {
		m.advance(o, k, t)
	}
}

// linkName returns the name of a link: the two nodes that it connects.
func (m *Machine) linkName(i int) string {
	if i < m.ranks {
		return fmt.Sprintf("%d-net", i)
	}
	return fmt.Sprintf("net-%d", i-m.ranks)
}
