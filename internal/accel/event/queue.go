// Package event is the queue of a discrete-event simulation: what happens next.
//
// Time is integer picoseconds. Events of the same picosecond come out in the
// order of their sequence number, which belongs to what the event is about and
// not to when it was scheduled: so the order is the same however the simulator
// came to schedule them, and on any machine. The queue knows nothing of what an
// event means.
package event

import (
	"cmp"
	"math/bits"
	"slices"
)

// Time is simulated time in picoseconds.
type Time int64

// Units of time.
const (
	Picosecond  Time = 1
	Nanosecond  Time = 1000
	Microsecond Time = 1000 * Nanosecond
)

// Nanoseconds is the time as a number.
func (t Time) Nanoseconds() float64 { return float64(t) / float64(Nanosecond) }

// Event is something that happens at a time. Kind, A and B say what to whom.
type Event struct {
	Time Time
	Seq  uint64 // order among events of the same time
	A, B int32
	Kind uint8
}

// Before is the order in which events happen.
func (e Event) Before(o Event) bool { return e.Time < o.Time || e.Time == o.Time && e.Seq < o.Seq }

func compare(a, b Event) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Seq, b.Seq)) }

// Queue is a calendar queue (Brown, 1988): a ring of days, each a short sorted
// list, and a year that goes round it. Adding and removing take constant time
// as long as a day holds few events, so the length of a day follows the events.
//
// The zero Queue is empty and ready.
type Queue struct {
	days  []day
	shift uint  // a day is 1<<shift picoseconds
	today int64 // the day, counted from time 0, that Pop looks at
	n     int
	// wasted counts steps over empty days and within long ones since the last
	// rebuild, pops what they were for: a bad ratio means days of a bad length.
	wasted, pops int
}

// day is the events of one day (of every year) in order. Those before first
// have happened.
type day struct {
	events []Event
	first  int
}

const fewestDays = 16

// Push adds an event. Its time must not lie before that of the last event
// popped.
func (q *Queue) Push(e Event) {
	if q.n >= 2*len(q.days) {
		q.rebuild(max(fewestDays, 2*len(q.days)))
	}
	number := int64(e.Time) >> q.shift
	if q.n == 0 {
		q.today = number
	}
	q.insert(number, e)
	q.n++
	q.today = min(q.today, number)
}

// near is how many positions from the end of its day an event is looked for one by
// one. Most belong there; among the many of one instant the rest are searched.
const near = 4

func (q *Queue) insert(number int64, e Event) {
	d := &q.days[number&int64(len(q.days)-1)]
	list := append(d.events, e)
	i := len(list) - 1
	for least := max(d.first, i-near); i > least && e.Before(list[i-1]); i-- {
		list[i] = list[i-1]
		q.wasted++
	}
	if i > d.first && e.Before(list[i-1]) {
		low, high := d.first, i-1 // the position is between: list[high] is later
		for low < high {
			if middle := int(uint(low+high) / 2); e.Before(list[middle]) {
				high = middle
			} else {
				low = middle + 1
			}
		}
		copy(list[low+1:i+1], list[low:i])
		q.wasted += (i - low) / near
		i = low
	}
	list[i] = e
	d.events = list
}

// Pop removes the next event.
func (q *Queue) Pop() (Event, bool) {
	if q.n == 0 {
		return Event{}, false
	}
	if q.wasted > 8*q.pops+32*q.n+1024 { // a rebuild is about as much work
		q.rebuild(len(q.days))
	}
	mask := int64(len(q.days) - 1)
	for range q.days {
		d := &q.days[q.today&mask]
		if d.first < len(d.events) && int64(d.events[d.first].Time)>>q.shift == q.today {
			e := d.events[d.first]
			d.first++
			if d.first == len(d.events) {
				d.events, d.first = d.events[:0], 0
			}
			q.n--
			q.pops++
			return e, true
		}
		q.today++
		q.wasted++
	}
	// A whole year without an event: go straight to the next one.
	var next Event
	found := false
	for _, d := range q.days {
		if d.first < len(d.events) && (!found || d.events[d.first].Before(next)) {
			next, found = d.events[d.first], true
		}
	}
	q.today = int64(next.Time) >> q.shift
	return q.Pop()
}

// rebuild spreads the events over so many days, each a quarter as long as the gaps
// between the next few hundred instants: stepping over an empty day is cheaper than
// finding a position in a full one.
func (q *Queue) rebuild(days int) {
	all := make([]Event, 0, q.n)
	for _, d := range q.days {
		all = append(all, d.events[d.first:]...)
	}
	slices.SortFunc(all, compare)
	// Events at one instant do not get apart in days however short, so only
	// the gaps between instants count.
	instants, last := 0, 0
	for i := 1; i < len(all) && instants < 256; i++ {
		if all[i].Time > all[i-1].Time {
			instants, last = instants+1, i
		}
	}
	if instants > 0 {
		gap := int64(all[last].Time-all[0].Time) / int64(instants)
		q.shift = uint(max(bits.Len64(uint64(gap))-2, 0))
	}
	if len(q.days) != days {
		q.days = make([]day, days)
		const usual = 4 // events of a day
		room := make([]Event, usual*days)
		for i := range q.days {
			q.days[i].events = room[usual*i : usual*i : usual*(i+1)]
		}
	}
	for i := range q.days {
		q.days[i] = day{events: q.days[i].events[:0]}
	}
	for _, e := range all {
		q.insert(int64(e.Time)>>q.shift, e)
	}
	if len(all) > 0 {
		q.today = int64(all[0].Time) >> q.shift
	}
	q.wasted, q.pops = 0, 0
}
