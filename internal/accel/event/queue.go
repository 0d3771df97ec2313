// Package event is the event queue of a discrete-event simulation.
//
// Time is integer picoseconds. Events of the same picosecond are ordered by their sequence numbers. The simulator
// derives the number from what the event is about and not from when it was scheduled. The order of events therefore
// does not depend on the order of scheduling. The queue does not interpret events.
package event

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
)

// Time is simulated time in picoseconds.
type Time int64

// Units of time.
const (
	Picosecond  Time = 1
	Nanosecond  Time = 1000
	Microsecond Time = 1000 * Nanosecond
)

// Nanoseconds returns the time in nanoseconds.
func (t Time) Nanoseconds() float64 { return float64(t) / float64(Nanosecond) }

// String returns the time in nanoseconds with its unit, such as "1678.04 ns".
func (t Time) String() string { return strconv.FormatFloat(t.Nanoseconds(), 'f', -1, 64) + " ns" }

// Event is something that happens at a time. The simulator defines the meaning of Kind, A and B. Events of the same
// time are ordered by Class, then by Seq, then by Hop.
type Event struct {
	Time  Time
	Seq   uint64
	A, B  int32
	Hop   uint16
	Class uint8
	Kind  uint8
}

// Before reports whether e happens before o.
func (e Event) Before(o Event) bool {
	if e.Time != o.Time {
		return e.Time < o.Time
	}
	if e.Class != o.Class {
		return e.Class < o.Class
	}
	return e.Seq < o.Seq || e.Seq == o.Seq && e.Hop < o.Hop
}

func compare(a, b Event) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(a.Hop, b.Hop))
}

// Queue is a calendar queue (Brown, 1988): a ring of buckets (days), each for one interval of time; one
// turn of the ring is a year. Push and Pop take constant time as long as a day holds few distinct instants,
// so the number and length of days are adapted to the instants of the events. Many events of one instant, which no
// calendar can separate, also take constant time if they are added in order, or as two interleaved sequences that are
// each in order; otherwise the logarithm of their number.
//
// The zero Queue is empty and ready to use.
type Queue struct {
	days  []day
	shift uint  // a day is 1<<shift picoseconds
	today int64 // the day, counted from time 0, that Pop looks at
	n     int
	limit int // more events than this need a rebuild
	// Since the last rebuild, wasted is the number of steps over empty days and past other instants of a day, and pops is
	// the number of removals. If there are too many wasted steps per removal, days have an unsuitable length.
	wasted, pops int
	steps        int // all entries moved and days visited so far; tests limit it
}

// day holds the events of one day of every year, in two sorted runs and a binary heap. An event is appended to the
// first run whose last event is not later. If there is none, it goes to the heap. One run is enough for the messages of
// ranks that answer in the order of their numbers. The second one is for exchanges between ranks whose numbers
// differ in one bit: they answer in the order 1, 0, 3, 2 and so on.
type day struct {
	runs [2]run
	heap []Event
}

// run is a sorted list whose first taken events have been removed.
type run struct {
	events []Event
	taken  int
}

// next returns the first event of a day and the index of its run, which is -1 if the event is in the heap.
func (d *day) next() (first *Event, index int) {
	if len(d.heap) > 0 {
		first, index = &d.heap[0], -1
	}
	for i := range d.runs {
		if r := &d.runs[i]; r.taken < len(r.events) {
			if e := &r.events[r.taken]; first == nil || e.Before(*first) {
				first, index = e, i
			}
		}
	}
	return first, index
}

const minDays = 16

// Push adds an event. It must not be earlier than the last event popped.
func (q *Queue) Push(e Event) {
	if q.n >= q.limit {
		q.rebuild()
	}
	number := int64(e.Time) >> q.shift
	if q.n == 0 {
		q.today = number
	}
	q.insert(number, e)
	q.n++
	q.today = min(q.today, number)
}

// insert adds an event to a day.
func (q *Queue) insert(number int64, e Event) {
	d := &q.days[number&int64(len(q.days)-1)]
	for i := range d.runs {
		r := &d.runs[i]
		if last := len(r.events) - 1; last < r.taken || !e.Before(r.events[last]) {
			r.events = append(r.events, e)
			return
		}
	}
	heap := append(d.heap, e)
	i := len(heap) - 1
	for i > 0 {
		above := (i - 1) / 2
		if !e.Before(heap[above]) {
			break
		}
		q.step(heap[above], e)
		heap[i] = heap[above]
		i = above
	}
	heap[i] = e
	d.heap = heap
}

// remove removes the first event of a day, which next has found.
func (q *Queue) remove(d *day, index int) {
	if index >= 0 {
		r := &d.runs[index]
		if r.taken++; 2*r.taken >= len(r.events) { // each event moves to the front once, on average
			r.events, r.taken = r.events[:copy(r.events, r.events[r.taken:])], 0
		}
		return
	}
	heap, last := d.heap, len(d.heap)-1
	e := heap[last]
	heap = heap[:last]
	d.heap = heap
	i := 0
	for below := 1; below < last; below = 2*i + 1 {
		if right := below + 1; right < last && heap[right].Before(heap[below]) {
			below = right
		}
		if !heap[below].Before(e) {
			break
		}
		q.step(heap[below], e)
		heap[i] = heap[below]
		i = below
	}
	if last > 0 {
		heap[i] = e
	}
}

// step counts that one event passed another one in a heap. Shorter days would avoid that, unless both have
// the same time.
func (q *Queue) step(a, b Event) {
	q.steps++
	if a.Time != b.Time {
		q.wasted++
	}
}

// Pop removes the next event.
func (q *Queue) Pop() (Event, bool) {
	if q.n == 0 {
		return Event{}, false
	}
	if q.wasted > 8*q.pops+32*q.n+1024 { // about the cost of a rebuild
		q.rebuild()
	}
	mask := int64(len(q.days) - 1)
	for range q.days {
		d := &q.days[q.today&mask]
		if next, index := d.next(); next != nil && int64(next.Time)>>q.shift == q.today {
			e := *next
			q.n--
			q.pops++
			q.remove(d, index)
			return e, true
		}
		q.today++
		q.wasted++
		q.steps++
	}
	// A whole year has no event: search all days for the next one.
	var next *Event
	for i := range q.days {
		if e, _ := q.days[i].next(); e != nil && (next == nil || e.Before(*next)) {
			next = e
		}
	}
	q.steps += len(q.days)
	q.today = int64(next.Time) >> q.shift
	return q.Pop()
}

// rebuild distributes the events over days. There are at least as many days as instants, so that a queue of many
// events at few instants needs few. A day is about a quarter of the average gap between the next 256 instants, because
// skipping an empty day is cheaper than sorting into a full one.
func (q *Queue) rebuild() {
	all := make([]Event, 0, q.n)
	for i := range q.days {
		d := &q.days[i]
		for _, r := range d.runs {
			all = append(all, r.events[r.taken:]...)
		}
		all = append(all, d.heap...)
	}
	slices.SortFunc(all, compare)
	q.steps += len(all)
	// No length of a day separates events of the same instant, so only the gaps between instants count.
	const near = 256
	instants, gaps, last := 0, 0, 0
	for i := 1; i < len(all); i++ {
		if all[i].Time > all[i-1].Time {
			if instants++; instants <= near {
				gaps, last = instants, i
			}
		}
	}
	if gaps > 0 {
		gap := int64(all[last].Time-all[0].Time) / int64(gaps)
		q.shift = uint(max(bits.Len64(uint64(gap))-2, 0))
	}
	days := max(minDays, 1<<bits.Len(uint(instants)))
	if len(q.days) != days {
		q.days = make([]day, days)
		const usual = 4 // events per day
		room := make([]Event, usual*days)
		for i := range q.days {
			q.days[i].runs[0].events = room[usual*i : usual*i : usual*(i+1)]
		}
	}
	for i := range q.days {
		d := &q.days[i]
		for j := range d.runs {
			d.runs[j] = run{events: d.runs[j].events[:0]}
		}
		d.heap = d.heap[:0]
	}
	for _, e := range all {
		q.insert(int64(e.Time)>>q.shift, e)
	}
	if len(all) > 0 {
		q.today = int64(all[0].Time) >> q.shift
	}
	q.limit = 2 * max(days, len(all))
	q.wasted, q.pops = 0, 0
}
