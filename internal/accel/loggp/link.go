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

// link is the state of a link.
type link struct {
	class, to int32      // to is a node of a graph
	free      event.Time // end of the last reservation
}

// totals sums up the traffic of a link.
type totals struct {
	busy, wait event.Time
	order      uint64     // hash of the messages in their order
	mixed      event.Time // sum over messages: how early their first bytes pass between the bytes of earlier messages
	bytes      int64
	messages   int64
}

// LinkUse is the traffic of a link.
type LinkUse struct {
	Name     string
	Level    string // the group of links in the network file
	Messages int64
	Bytes    int64
	Busy     event.Time // sum of the times that the bytes took
	Waited   event.Time // sum over messages: from when the first byte arrived until the link was free for it
	Order    uint64     // hash of the messages in the order in which they took the link
	Energy   float64    // picojoules; 0 if the network file does not give it
}

// Links returns the traffic of all links.
func (m *Machine) Links() []LinkUse {
	list := make([]LinkUse, len(m.links))
	for i, l := range m.totals {
		list[i] = LinkUse{Name: m.linkName(i), Level: flatSwitch, Messages: l.messages, Bytes: l.bytes, Busy: l.busy,
			Waited: l.wait, Order: l.order}
		perByte := m.network.Energy.Link
		if g := m.network.Graph; g != nil {
			perByte, list[i].Level = g.Links[i].Energy, g.Levels[g.Links[i].Level]
		}
		list[i].Energy = float64(perByte) * float64(l.bytes) / 1000
	}
	return list
}

// message is a message on its way, or in the mail of its receiver.
type message struct {
	operation, from, to int32  // from and to are members
	source, target      int32  // the ranks of from and to
	number              uint32 // counts the messages of the source
	next                int32  // link of its path; -1 after the last one. In the mail: see member.firstMail
	identity            uint64 // of the message in LinkUse.Order; unlike number, it does not depend on times
	kind                kind
	bytes               int64
	last                event.Time // when its last byte reaches the next link; in the mail: the receiver
}

// chain returns the chain of the sender when it sent a message, with the latencies so far. It returns nil if chains are
// not kept.
func (m *Machine) chain(slot int32) *chain {
	if m.ended == nil {
		return nil
	}
	return &m.chains[slot]
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
// bytes have left, and how long they took. sent is the chain up to t.
func (m *Machine) post(t event.Time, g message, sent *chain) (left, took event.Time) {
	var slot int32
	if n := len(m.free); n > 0 {
		slot, m.free = m.free[n-1], m.free[:n-1]
	} else {
		slot = int32(len(m.messages))
		m.messages = append(m.messages, message{})
	}
	m.sent[g.source]++
	g.number, g.last, g.next = m.sent[g.source], t, m.nextLink(&g, -1)
	if m.totals != nil {
		g.identity = identity(&g, m.operations[g.operation].key)
	}
	m.messages[slot] = g
	if sent != nil {
		for len(m.chains) < len(m.messages) {
			m.chains = append(m.chains, chain{})
		}
		m.chains[slot] = chain{cause: sent.cause, spent: sent.spent}
	}
	m.result.Messages++
	m.result.Bytes += g.moves()
	m.result.MemoryBytes += 2 * g.moves() // read at the source, written at the target
	// A message of a rank to itself takes no link of a graph. An answer is sent only at time t, because messages of other
	// ranks may take the same link before that.
	if g.next < 0 || m.routes != nil && t > m.now {
		m.reach(slot, t)
		return t, 0
	}
	return m.transmit(slot, t, true)
}

// identity returns a hash of a message. An answer has the same one in every simulation, whichever request arrives
// first.
func identity(g *message, key int64) uint64 {
	h := uint64(g.source)<<32 ^ uint64(g.target)
	h = h*fnvPrime ^ uint64(key)
	return h*fnvPrime ^ uint64(g.bytes)<<8 ^ uint64(g.kind)
}

const fnvPrime = 0x100000001b3

// transmit sends a message over the next link of its path, on which its first byte arrives at time t. It
// returns when the last byte has passed the link, and how long the bytes took.
func (m *Machine) transmit(slot int32, t event.Time, posted bool) (passed, took event.Time) {
	g := &m.messages[slot]
	at := g.next
	l := &m.links[at]
	c := &m.classes[l.class]
	begin := max(t, l.free)
	took = c.wire.of(g.moves())
	passed = max(begin+took, g.last)
	l.free = begin + took + c.gap
	first := max(t, passed-max(took, g.last-t))
	if m.totals != nil {
		m.totals[at].add(g, begin-t, took, max(begin-first, 0))
	}
	g.next = m.nextLink(g, at)
	g.last = passed + c.latency
	if chain := m.chain(slot); chain != nil {
		chain.wire = max(chain.wire, took)
		chain.spent.Latency += c.latency
	}
	if g.next >= 0 || posted { // a message that is posted never arrives within the same event
		m.reach(slot, first+c.latency)
	}
	return passed, took
}

// add counts a message that waited for the link and occupied it.
func (u *totals) add(g *message, waited, took, mixed event.Time) {
	u.busy += took
	u.wait += waited
	u.mixed += mixed
	u.bytes += g.moves()
	u.messages++
	u.order = u.order*fnvPrime ^ g.identity
}

// reach schedules the arrival of a message's first byte at the next link of its path, or at its receiver, at time t.
func (m *Machine) reach(slot int32, t event.Time) {
	g := &m.messages[slot]
	m.queue.Push(event.Event{Time: t, Seq: sequence(messageClass, g.source, uint64(g.number)), Kind: arrival, B: slot})
}

// nextLink returns the link of a message's path after another one, or its first link if at is -1. It returns -1 after
// the last one.
func (m *Machine) nextLink(g *message, at int32) int32 {
	switch {
	case m.routes == nil && at < 0:
		return g.source
	case m.routes == nil && at < int32(m.ranks):
		return int32(m.ranks) + g.target
	case m.routes == nil:
		return -1
	}
	node := g.source
	if at >= 0 {
		node = m.links[at].to
	}
	if node == g.target {
		return -1
	}
	return m.routes.Next(node, g.source, g.target)
}

// pass handles the arrival of a message's first byte at a link, or at its receiver.
func (m *Machine) pass(slot int32, t event.Time) {
	g := &m.messages[slot]
	if g.next >= 0 {
		if m.transmit(slot, t, false); g.next >= 0 {
			return
		}
	}
	chain := m.chain(slot)
	if chain != nil {
		chain.spent.Wire += chain.wire
	}
	switch g.kind {
	case request:
		m.free = append(m.free, slot)
		m.post(g.last, message{operation: g.operation, from: g.to, to: g.from, source: g.target, target: g.source,
			kind: answer, bytes: g.bytes}, chain)
		return
	case written:
		m.free = append(m.free, slot)
		m.result.Time = max(m.result.Time, g.last)
		return
	}
	o := m.operations[g.operation]
	k := &o.members[g.to]
	m.deliver(k, slot)
	if k.receiving && m.receive(o, k, m.current(o, k)) {
		m.advance(o, k, t)
	}
}

// flatSwitch is the name of the switch of a flat network.
const flatSwitch = "net"

// linkName returns the name of a link: the two nodes that it connects.
func (m *Machine) linkName(i int) string {
	switch {
	case m.network.Graph != nil:
		return m.network.Graph.Links[i].Name
	case i < m.ranks:
		return fmt.Sprintf("%d-%s", i, flatSwitch)
	}
	return fmt.Sprintf("%s-%d", flatSwitch, i-m.ranks)
}

// Reordered returns a text that says which events happened in another order on machine b than on machine a, such as
// "messages take link 0-1", or "" if there are none. Links serve messages in the order of arrival, and mix the bytes of
// messages that arrive slowly. The callers of Compute start the computation that is ready first. A change of the order
// can therefore make a run on a faster network slower.
func Reordered(a, b *Machine) string {
	for i := range a.totals {
		if x, y := &a.totals[i], &b.totals[i]; x.messages == y.messages && (x.order != y.order || x.mixed != y.mixed) {
			return "messages take link " + a.linkName(i)
		}
	}
	for rank := range a.computed {
		if a.computed[rank] != b.computed[rank] {
			return fmt.Sprintf("rank %d computes", rank)
		}
	}
	return ""
}
