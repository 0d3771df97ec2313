package fabric

import (
	"sort"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// lineBuffer is memory for the lines of a train, so that advancing it allocates nothing.
type lineBuffer []line

// take returns an empty list with room for n lines.
func (b *lineBuffer) take(n int) []line {
	if cap(*b)-len(*b) < n { // lists that were taken before keep the old memory
		*b = make(lineBuffer, 0, max(64, 2*cap(*b), n))
	}
	from := len(*b)
	*b = (*b)[:from+n]
	return (*b)[from : from : from+n]
}

// trainBuffer is the memory of a train. When the train has arrived, another train reuses it.
type trainBuffer struct {
	train []segment
	lines lineBuffer
}

// line is a linear schedule: flit i is due at from + i*every.
type line struct{ from, every event.Time }

// schedule holds the time of each flit of a train at one place. Flit i of full size is due at the maximum of the lines.
// The last flit may be shorter, so its time is stored separately. Links and nodes preserve this form (max-plus
// algebra). A link that needs t per flit delays every line by t and raises its slope to at least t. A node that delays
// the head adds a constant line. Flits that come out of a memory follow no such formula, so their times are listed.
type schedule struct {
	lines []line
	last  event.Time
	times []event.Time // the time of each flit; if not nil, lines is not used
}

// listedSchedule returns the schedule of flits with the given times.
func listedSchedule(times []event.Time) schedule {
	return schedule{times: times, last: times[len(times)-1]}
}

// time returns the time of flit i.
func (s schedule) time(i, flits int) event.Time {
	if i == flits-1 {
		return s.last
	}
	return s.fullFlitTime(i)
}

// fullFlitTime returns the time of flit i if it has full size.
func (s schedule) fullFlitTime(i int) event.Time {
	if s.times != nil {
		return s.times[i]
	}
	latest := s.lines[0].from + event.Time(i)*s.lines[0].every
	for _, l := range s.lines[1:] {
		latest = max(latest, l.from+event.Time(i)*l.every)
	}
	return latest
}

// add adds a line and drops the lines that are nowhere above it. If the new line is nowhere above one of the others,
// add does nothing.
func (s *schedule) add(l line) {
	remaining := s.lines[:0]
	for _, o := range s.lines {
		if o.from >= l.from && o.every >= l.every {
			return // no line has been dropped so far: o would have made it redundant, too
		}
		if l.from < o.from || l.every < o.every {
			remaining = append(remaining, o)
		}
	}
	s.lines = append(remaining, l)
}

// segment is a train at one hop: when its flits are ready to enter the link, when they have left it, and when the link
// was free before the train. splitIntoFlits needs the last to undo the train.
type segment struct {
	ready, left schedule
	free        event.Time
}

// passLink returns when the flits of a train have left a link that becomes free at the time free. each is the time that
// the link needs for a full flit, and last for the last flit. Flit i leaves at the maximum of free + (i+1)*each and,
// for every j <= i, the ready time of flit j + (i-j+1)*each.
func passLink(b *lineBuffer, ready schedule, flits int, free, each, last event.Time) schedule {
	if flits == 1 {
		return schedule{last: max(ready.last, free) + last}
	}
	if ready.times != nil {
		return passListed(b, ready, free, each, last)
	}
	departed := schedule{lines: b.take(len(ready.lines) + 1)}
	departed.add(line{free + each, each})
	for _, l := range ready.lines {
		departed.add(line{l.from + each, max(l.every, each)})
	}
	departed.last = max(ready.last, departed.fullFlitTime(flits-2)) + last
	return departed
}

// passListed is passLink for listed times. If the link never has to wait for a flit after the first one, the result is
// a line.
func passListed(b *lineBuffer, ready schedule, free, each, last event.Time) schedule {
	times := make([]event.Time, len(ready.times))
	steady := true
	end := free
	for i, at := range ready.times {
		took := each
		if i == len(times)-1 {
			took = last
		}
		steady = steady && (i == 0 || at <= end)
		end = max(end, at) + took
		times[i] = end
	}
	if steady {
		return schedule{lines: append(b.take(1), line{times[0], each}), last: end}
	}
	return listedSchedule(times)
}

// passNode returns when flits that have left a link are ready for the next link. Only the head pays the cost of the
// node, which adds a constant line.
func passNode(b *lineBuffer, departed schedule, flits int, h *topo.Hop) schedule {
	if h.Collect || flits == 1 {
		ready := departed.last + h.Wire + h.Cost
		return schedule{lines: append(b.take(1), line{ready, 0}), last: ready}
	}
	head := departed.fullFlitTime(0) + h.Wire + h.Cost
	if departed.times != nil {
		return listedSchedule(lists.Map(departed.times, func(t event.Time) event.Time { return max(t+h.Wire, head) }))
	}
	ready := schedule{lines: b.take(len(departed.lines) + 1)}
	for _, l := range departed.lines {
		ready.lines = append(ready.lines, line{l.from + h.Wire, l.every})
	}
	ready.add(line{head, 0})
	ready.last = max(departed.last+h.Wire, head)
	return ready
}

// advance moves a train over its next link, assuming that no other message comes to the link before the last flit. If
// one does, it splits the train (splitTrain).
func (f *Fabric) advance(m *Message, e event.Event) {
	if m.split {
		return // the train was split after this event was scheduled
	}
	f.links[m.Path[m.hop].Link].pending--
	f.checkTie(m, m.hop, e.Time)
	f.splitTrain(m.Path[m.hop].Link, e)
	f.pass(m)
	for m.hop < len(m.Path) {
		// Nothing comes to a chained link between this train and the one before it. That one must have passed the link
		// already, because it may still be split and arrive later.
		link := m.Path[m.hop].Link
		if l := &f.links[link]; !l.chained || l.pending > 0 || f.trainEntering(link, e) != nil {
			f.approach(m, m.train[m.hop].ready.time(0, m.flits))
			return
		}
		f.pass(m)
	}
	f.deliver(m, m.train[m.hop].ready.last)
}

// pass moves a train over its next link.
func (f *Fabric) pass(m *Message) {
	h := &m.Path[m.hop]
	s := &m.train[m.hop]
	each, last := h.BW.Time(f.flitBytes), h.BW.Time(f.flitSize(m, m.flits-1))
	l := &f.links[h.Link]
	s.free = l.freeAt
	s.left = passLink(&m.lines, s.ready, m.flits, l.freeAt, each, last)
	l.freeAt = s.left.last
	l.busyTime += event.Time(m.flits-1)*each + last
	f.hops += int64(m.flits)
	l.train = claim{m.ID + 1, int32(m.hop)}
	m.train = append(m.train, segment{ready: passNode(&m.lines, s.left, m.flits, h)})
	m.hop++
}

// splitTrain splits the train on a link if some of its flits have not yet entered the link at event e.
func (f *Fabric) splitTrain(link int32, e event.Event) {
	m := f.trainEntering(link, e)
	f.links[link].train = claim{} // the train is split below, or has passed
	if m != nil {
		f.splitIntoFlits(m, e)
	}
}

// trainEntering returns the train that is still entering a link at event e, because some of its flits have not entered
// it yet. It returns nil if there is none.
func (f *Fabric) trainEntering(link int32, e event.Event) *Message {
	c := f.links[link].train
	if c.message == 0 {
		return nil
	}
	m := f.messages.at(c.message - 1)
	if m == nil || m.split || m.train == nil {
		return nil
	}
	last := m.event(flitAt, m.train[c.hop].ready.last, m.flits-1, int(c.hop))
	if last.Before(e) {
		return nil
	}
	return m
}

// splitIntoFlits splits a train into flits at their positions just before event e. It undoes the passages after e,
// which were computed in advance.
func (f *Fabric) splitIntoFlits(m *Message, e event.Event) {
	train := m.train
	if m.hop > 0 && m.hop < len(m.Path) {
		f.links[m.Path[m.hop].Link].pending-- // its event is ignored
	}
	m.splitUp()
	m.version++
	f.splits++
	taken := make([]int, len(m.Path)+1) // by hop: number of flits that have entered its link
	for hop := range m.hop {
		s := &train[hop]
		h := &m.Path[hop]
		n := sort.Search(m.flits, func(i int) bool {
			return !m.event(flitAt, s.ready.time(i, m.flits), i, hop).Before(e)
		})
		taken[hop] = n
		if f.observe != nil {
			f.reportPassages(m, hop, n)
		}
		if n < m.flits {
			f.links[h.Link].freeAt = s.free
			if n > 0 {
				f.links[h.Link].freeAt = s.left.time(n-1, m.flits)
			}
			for i := n; i < m.flits; i++ {
				f.links[h.Link].busyTime -= h.BW.Time(f.flitSize(m, i))
				f.hops--
			}
		}
	}
	for hop := range train {
		m.headReady[hop] = train[hop].ready.time(0, m.flits)
	}
	before := m.flits // number of flits that have entered the link of the previous hop
	for hop := range train {
		waiting := hop > 0 && m.Path[hop-1].Collect && taken[hop-1] < m.flits
		for i := taken[hop]; i < before; i++ {
			if waiting {
				m.nextHop[i] = int32(hop) // waits for the last flit at a node that stores and forwards
			} else {
				f.scheduleFlit(m, i, hop, train[hop].ready.time(i, m.flits))
			}
		}
		before = taken[hop]
	}
}

// reportPassages reports the passages of the first n flits of a train at a hop.
func (f *Fabric) reportPassages(m *Message, hop, n int) {
	s, h := &m.train[hop], &m.Path[hop]
	for i := range n {
		size := f.flitSize(m, i)
		end := s.left.time(i, m.flits)
		start := end - h.BW.Time(size)
		f.observe(Passage{h.Link, m.ID, size, start - s.ready.time(i, m.flits), start, end})
	}
}

// Latency returns how long a message takes without contention.
func (f *Fabric) Latency(path topo.Path, bytes int) event.Time {
	if f.model == topo.Whole {
		return path.Fixed() + path.Bottleneck().BW.Time(bytes)
	}
	flits := f.Flits(bytes)
	var buffer lineBuffer
	ready := schedule{lines: []line{{0, 0}}}
	for i := range path {
		h := &path[i]
		departed := passLink(&buffer, ready, flits, 0, h.BW.Time(f.flitBytes), h.BW.Time(bytes-(flits-1)*f.flitBytes))
		ready = passNode(&buffer, departed, flits, h)
	}
	return ready.last
}
