package fabric

import (
	"sort"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// line is a time for each flit: from + i*every.
type line struct{ from, every event.Time }

// schedule is when each flit of a train is somewhere: flit i, of those of full
// size, at the latest of the lines, and the last flit, which may be shorter, at
// a time of its own. Links and nodes keep that form (max-plus algebra): a link
// that needs t per flit delays every line by t and makes it at least as steep,
// and one that holds back the head adds a level line.
type schedule struct {
	lines []line
	last  event.Time
}

func (s schedule) at(i, flits int) event.Time {
	if i == flits-1 {
		return s.last
	}
	return s.full(i)
}

func (s schedule) full(i int) event.Time {
	latest := s.lines[0].from + event.Time(i)*s.lines[0].every
	for _, l := range s.lines[1:] {
		latest = max(latest, l.from+event.Time(i)*l.every)
	}
	return latest
}

// add puts in a line unless it is nowhere the latest, and drops those that it
// makes redundant.
func (s *schedule) add(l line) {
	kept := s.lines[:0]
	for _, o := range s.lines {
		if o.from >= l.from && o.every >= l.every {
			return // nothing was dropped before: o would have been too
		}
		if l.from < o.from || l.every < o.every {
			kept = append(kept, o)
		}
	}
	s.lines = append(kept, l)
}

// segment is a train at one hop: when its flits are ready to enter the link,
// and when they have left it.
type segment struct {
	ready, gone schedule
}

// passLink gives when flits that are ready have been sent by a link that is
// free from a time on.
func passLink(ready schedule, flits int, free, each, last event.Time) schedule {
	if flits == 1 {
		return schedule{last: max(ready.last, free) + last}
	}
	gone := schedule{lines: make([]line, 0, len(ready.lines)+1)}
	gone.add(line{free + each, each})
	for _, l := range ready.lines {
		gone.add(line{l.from + each, max(l.every, each)})
	}
	gone.last = max(ready.last, gone.full(flits-2)) + last
	return gone
}

// passNode gives when flits that were sent are ready for the next link.
func passNode(gone schedule, flits int, h *topo.Hop) schedule {
	if h.Collect || flits == 1 {
		ready := gone.last + h.Wire + h.Cost
		return schedule{[]line{{ready, 0}}, ready}
	}
	head := gone.full(0) + h.Wire + h.Cost
	ready := schedule{lines: make([]line, 0, len(gone.lines)+1)}
	for _, l := range gone.lines {
		ready.lines = append(ready.lines, line{l.from + h.Wire, l.every})
	}
	ready.add(line{head, 0})
	ready.last = max(gone.last+h.Wire, head)
	return ready
}

// advance takes the train over its next link, as if no other message came there
// before its last flit; one that does splits the train.
func (f *Fabric) advance(m *Message, e event.Event) {
	if m.split {
		return // split since this was announced
	}
	h := &m.Path[m.hop]
	f.breakUp(h.Link, e)
	s := &m.train[m.hop]
	each, last := h.BW.Time(f.flitBytes), h.BW.Time(f.flitSize(m, m.flits-1))
	s.gone = passLink(s.ready, m.flits, f.free[h.Link], each, last)
	f.free[h.Link] = s.gone.last
	f.busy[h.Link] += event.Time(m.flits-1)*each + last
	f.hops += int64(m.flits)
	f.trains[h.Link] = claim{m.ID + 1, int32(m.hop)}
	next := passNode(s.gone, m.flits, h)
	m.train = append(m.train, segment{ready: next})
	m.hop++
	if m.hop == len(m.Path) {
		f.deliver(m, next.last)
		return
	}
	f.queue.Push(event.Event{Time: next.at(0, m.flits), Seq: m.seq(0, m.hop), Kind: trainAt, A: m.ID})
}

// breakUp splits the train on a link if flits of it are still to come there.
func (f *Fabric) breakUp(link int32, e event.Event) {
	c := f.trains[link]
	if c.message == 0 {
		return
	}
	f.trains[link] = claim{} // it is split now, or has passed
	m := f.messages[c.message-1]
	if m.split || m.train == nil {
		return
	}
	last := event.Event{Time: m.train[c.hop].ready.last, Seq: m.seq(m.flits-1, int(c.hop))}
	if !last.Before(e) {
		f.scatter(m, e)
	}
}

// scatter splits a train into flits as they are just before an event: what has
// happened by then stays, what was only scheduled is undone.
func (f *Fabric) scatter(m *Message, e event.Event) {
	train := m.train
	m.splitUp()
	m.version++
	taken := make([]int, len(m.Path)+1) // by hop: flits that have entered its link
	for hop := range m.hop {
		s := &train[hop]
		h := &m.Path[hop]
		n := sort.Search(m.flits, func(i int) bool {
			return !event.Event{Time: s.ready.at(i, m.flits), Seq: m.seq(i, hop)}.Before(e)
		})
		taken[hop] = n
		if f.observe != nil {
			f.passed(m, hop, n)
		}
		if n < m.flits {
			f.free[h.Link] = s.gone.at(n-1, m.flits)
			for i := n; i < m.flits; i++ {
				f.busy[h.Link] -= h.BW.Time(f.flitSize(m, i))
				f.hops--
			}
		}
	}
	for hop := range train {
		m.headThen[hop] = train[hop].ready.at(0, m.flits)
	}
	before := m.flits // flits that have left the hop before
	for hop := range train {
		waiting := hop > 0 && m.Path[hop-1].Collect && taken[hop-1] < m.flits
		for i := taken[hop]; i < before; i++ {
			if waiting {
				m.at[i] = int32(hop) // until the last has come to the node that collects
			} else {
				f.push(m, i, hop, train[hop].ready.at(i, m.flits))
			}
		}
		before = taken[hop]
	}
}

// passed tells of the first n flits of a train at a hop.
func (f *Fabric) passed(m *Message, hop, n int) {
	s, h := &m.train[hop], &m.Path[hop]
	for i := range n {
		size := f.flitSize(m, i)
		end := s.gone.at(i, m.flits)
		start := end - h.BW.Time(size)
		f.observe(Passage{h.Link, m.ID, size, start - s.ready.at(i, m.flits), start, end})
	}
}

// Latency is what a message takes when no other uses its links. The rest of
// its time is queueing.
func (f *Fabric) Latency(path topo.Path, bytes int) event.Time {
	if f.model == topo.Whole {
		return path.Fixed() + path.Bottleneck().BW.Time(bytes)
	}
	flits := f.Flits(bytes)
	ready := schedule{lines: []line{{0, 0}}}
	for i := range path {
		h := &path[i]
		gone := passLink(ready, flits, 0, h.BW.Time(f.flitBytes), h.BW.Time(bytes-(flits-1)*f.flitBytes))
		ready = passNode(gone, flits, h)
	}
	return ready.last
}
