package replay

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// Timed is a Machine that knows how long each operation takes and nothing else: operations do not share links.
type Timed struct {
	collective func(key int64, c Call, members []int32) (Times, error)
	message    func(key int64, from, to int, bytes int64) Times

	queue      event.Queue
	now        event.Time
	operations []timedOperation
	free       []int32
	added      uint64
}

// Times says how long a member of an operation takes, counted from the start of the last member. If own is set, the
// member does not wait for others, and its time is counted from its own start.
type Times func(member int) (took event.Time, own bool)

// Together returns the times of an operation whose members all end at the same time.
func Together(took event.Time) Times { return func(int) (event.Time, bool) { return took, false } }

// timedOperation is an operation that has not ended.
type timedOperation struct {
	key     int64
	serial  uint64 // number of the operation; orders events at the same time
	ranks   []int32
	times   Times
	starts  []event.Time
	started int
	ended   int
	last    int32 // member that started last
}

// NewTimed returns a machine on which operations take the times that the functions return. Keys are as in Machine.
func NewTimed(collective func(key int64, c Call, members []int32) (Times, error),
	message func(key int64, from, to int, bytes int64) Times) *Timed {
	return &Timed{collective: collective, message: message}
}

var _ Machine = (*Timed)(nil)

func (m *Timed) add(o timedOperation) loggp.ID {
	o.starts, o.serial = make([]event.Time, len(o.ranks)), m.added
	m.added++
	if n := len(m.free); n > 0 {
		slot := m.free[n-1]
		m.free = m.free[:n-1]
		m.operations[slot] = o
		return loggp.ID(slot)
	}
	m.operations = append(m.operations, o)
	return loggp.ID(len(m.operations) - 1)
}

// Collective implements Machine.
func (m *Timed) Collective(key int64, c Call, members []int32) (loggp.ID, error) {
	times, err := m.collective(key, c, members)
	return m.add(timedOperation{key: key, ranks: members, times: times}), err
}

// Message implements Machine.
func (m *Timed) Message(key int64, from, to int, bytes int64) loggp.ID {
	return m.add(timedOperation{key: key, ranks: []int32{int32(from), int32(to)}, times: m.message(key, from, to, bytes)})
}

// Compute implements Machine.
func (m *Timed) Compute(key int64, rank int, duration event.Time) loggp.ID {
	return m.add(timedOperation{key: key, ranks: []int32{int32(rank)}, times: Together(duration)})
}

// Start implements Machine.
func (m *Timed) Start(id loggp.ID, member int, at event.Time) {
	o := &m.operations[id]
	o.starts[member] = max(at, m.now)
	if o.started++; o.started == 1 || o.starts[member] > o.starts[o.last] {
		o.last = int32(member)
	}
	if took, own := o.times(member); own {
		m.end(id, member, o.starts[member]+took)
	}
	if o.started < len(o.ranks) {
		return
	}
	for member := range o.ranks {
		if took, own := o.times(member); !own {
			m.end(id, member, o.starts[o.last]+took)
		}
	}
}

// end schedules the end of a member.
func (m *Timed) end(id loggp.ID, member int, at event.Time) {
	o := &m.operations[id]
	m.queue.Push(event.Event{Time: at, Seq: uint64(o.ranks[member])<<40 | o.serial, A: int32(member), B: int32(id)})
}

// Run implements Machine.
func (m *Timed) Run(ended func(loggp.End)) error {
	for {
		e, more := m.queue.Pop()
		if !more {
			return nil
		}
		m.now = e.Time
		o := &m.operations[e.B]
		cause := int(o.last)
		if _, own := o.times(int(e.A)); own {
			cause = int(e.A)
		}
		end := loggp.End{ID: loggp.ID(e.B), Key: o.key, Member: int(e.A), Rank: int(o.ranks[e.A]), Start: o.starts[e.A],
			Time: e.Time, Cause: cause, CauseStart: o.starts[cause], Spent: loggp.Spent{Local: e.Time - o.starts[cause]}}
		if o.ended++; o.ended == len(o.ranks) {
			m.free = append(m.free, e.B)
		}
		ended(end)
	}
}

// Recorded selects the durations of the traces for communication.
const Recorded = "recorded"

// OnRecord returns a machine on which communication takes the time that the traces recorded, without the time in
// which ranks waited for the last one. It returns an error if an operation has no duration.
func (w *Workload) OnRecord() (*Timed, error) {
	for i := range w.operations {
		nodes := w.operations[i].nodes
		if at := slices.IndexFunc(nodes, func(at int32) bool { return w.recorded(at).Duration == 0 }); at >= 0 {
			return nil, fmt.Errorf("%s: its duration was not recorded", w.describe(nodes[at]))
		}
	}
	of := func(key int64) Times { return w.recordedTimes(w.operations[key-int64(len(w.nodes))].nodes) }
	return NewTimed(func(key int64, _ Call, _ []int32) (Times, error) { return of(key), nil },
		func(key int64, _, _ int, _ int64) Times { return of(key) }), nil
}

func (w *Workload) recorded(at int32) *chakra.Node {
	_, n := w.origin(at)
	return n
}

// recordedTimes returns the recorded times of an operation, without the time in which members waited for the last one.
//
// If the recorded intervals of a collective do not overlap, the clocks of the ranks differ. All members then take the
// shortest duration, because the member that waited least has it. Otherwise a member takes the time from the last start
// to its end. Members of messages and rooted collectives may end before the last start; such a member waited for
// nobody, and takes its whole duration.
func (w *Workload) recordedTimes(nodes []int32) Times {
	last, firstEnd, shortest := event.Time(0), longest, longest
	for _, at := range nodes {
		n := w.recorded(at)
		last = max(last, n.Start)
		firstEnd = min(firstEnd, n.Start+n.Duration)
		shortest = min(shortest, n.Duration)
	}
	rooted := w.operations[w.nodes[nodes[0]].operation].group < 0 || w.recorded(nodes[0]).Collective.Rooted()
	if last > firstEnd && !rooted {
		return Together(shortest)
	}
	return func(member int) (event.Time, bool) {
		n := w.recorded(nodes[member])
		if end := n.Start + n.Duration; end > last {
			return end - last, false
		}
		return n.Duration, true
	}
}

// Traces returns the traces with the times of the replay: start and duration of every node that took time. Replayed
// on the same machine, they take the same time.
func (r *Result) Traces() []*chakra.Trace {
	w := r.workload
	traces := make([]*chakra.Trace, len(w.traces))
	for rank, t := range w.traces {
		c := *t
		c.Nodes = slices.Clone(t.Nodes)
		for i := range c.Nodes {
			n := &w.nodes[w.base[rank]+int32(i)]
			c.Nodes[i].Start = n.start
			if n.lane != noLane {
				c.Nodes[i].Duration = n.end - n.start
			}
		}
		traces[rank] = &c
	}
	return traces
}
