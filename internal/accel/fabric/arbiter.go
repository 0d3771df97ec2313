package fabric

import (
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// arbiter decides which of the flits that wait for a link is sent next. It holds flits back while the buffer at the end
// of the link is full. Without an arbiter, a link sends in order of arrival into unlimited buffers, and the time at
// which a flit leaves is known when it arrives.
//
// A flit occupies a place in the buffer at the end of a link from the start of its transfer over this link until it has
// left over the next one. All flits that come over the link share this buffer, whichever link they take next. Sources,
// destinations, and nodes that collect whole messages have unlimited buffers. A freed place can be used at once.
type arbiter struct {
	topo.Queueing
	ports []port // by link
}

// port is the state of a link with an arbiter.
type port struct {
	waiting   []flit // in order of arrival
	busy      bool
	current   flit  // being sent
	occupied  int   // flits in the buffer at its end, and on the way there
	lastInput int32 // round-robin: the input that was served last
}

// flit is a flit at a hop of its message.
type flit struct {
	message *Message
	index   int
	hop     int
	since   event.Time // when it arrived
}

// input returns the link that the flit came over, or -1 at its source.
func (w *flit) input() int32 {
	if w.hop == 0 {
		return -1
	}
	return w.message.Path[w.hop-1].Link
}

// buffered reports whether a flit that has passed a hop takes a place in the buffer there.
func (m *Message) buffered(hop int) bool {
	return hop >= 0 && hop+1 < len(m.Path) && !m.Path[hop].Collect
}

// Arbitrate sets the rule by which links choose among waiting flits, and the size of buffers. It has no effect on whole
// messages.
func (f *Fabric) Arbitrate(q topo.Queueing) {
	if q.Plain() || f.model == topo.Whole {
		return
	}
	f.flitByFlit = true
	f.arbiter = &arbiter{q, make([]port, len(f.links))}
}

// Blocked returns a link before which flits are still waiting, or -1. If no event is left, these flits wait forever,
// because the buffers are full in a cycle.
func (f *Fabric) Blocked() int {
	if f.arbiter == nil {
		return -1
	}
	return slices.IndexFunc(f.arbiter.ports, func(p port) bool { return len(p.waiting) > 0 })
}

// arrive queues a flit for its next link.
func (f *Fabric) arrive(m *Message, i int, now event.Time) {
	w := flit{m, i, int(m.nextHop[i]), now}
	link := m.Path[w.hop].Link
	p := &f.arbiter.ports[link]
	p.waiting = append(p.waiting, w)
	f.serve(link, now)
}

// choose returns the position of the flit to send next, or -1.
func (a *arbiter) choose(p *port) int {
	best := -1
	before := func(x, y *flit) bool { // arrivals are in order, so FIFO never replaces the first
		switch a.Rule {
		case topo.Age:
			return x.message.ID < y.message.ID || x.message.ID == y.message.ID && x.index < y.index
		case topo.RoundRobin:
			return uint32(x.input()-p.lastInput-1) < uint32(y.input()-p.lastInput-1)
		}
		return false
	}
	for i := range p.waiting {
		w := &p.waiting[i]
		if a.Buffer > 0 && p.occupied >= a.Buffer && w.message.buffered(w.hop) {
			continue
		}
		if best < 0 || before(w, &p.waiting[best]) {
			best = i
		}
	}
	return best
}

// serve starts to send a waiting flit, if the link is idle and the buffer at its end has room.
func (f *Fabric) serve(link int32, now event.Time) {
	p := &f.arbiter.ports[link]
	if p.busy {
		return
	}
	k := f.arbiter.choose(p)
	if k < 0 {
		return
	}
	w := p.waiting[k]
	p.waiting = slices.Delete(p.waiting, k, k+1)
	p.busy, p.current, p.lastInput = true, w, w.input()
	if w.message.buffered(w.hop) {
		p.occupied++
	}
	size := f.flitSize(w.message, w.index)
	end := now + w.message.Path[w.hop].BW.Time(size)
	f.links[link].freeAt = end
	f.recordPassage(Passage{link, w.message.ID, size, now - w.since, now, end})
	f.queue.Push(event.Event{Time: end, Class: classFree, Seq: uint64(link), Kind: linkFree, A: link})
	f.forward(w.message, w.index, w.hop, end)
}

// onLinkFree runs when a link has sent a flit. The flit has then left the buffer before the link. Both this link and
// the link that fills that buffer may send again.
func (f *Fabric) onLinkFree(link int32, now event.Time) {
	p := &f.arbiter.ports[link]
	w := p.current
	p.busy, p.current = false, flit{}
	if w.message.buffered(w.hop - 1) {
		f.arbiter.ports[w.input()].occupied--
		defer f.serve(w.input(), now)
	}
	f.serve(link, now)
}
