package event

import (
	"container/heap"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The queue behaves like a sorted list for random sequences of Push and Pop.
func TestQueueIsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var want []Event
		now, seq := Time(0), uint64(0)
		pushMany := rapid.SliceOf(rapid.SampledFrom([]Time{0, 1, 7, 1000, 1001, 1 << 20, 1 << 40}))
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			for _, d := range pushMany.Draw(t, "delays") {
				seq += uint64(rapid.IntRange(1, 3).Draw(t, "step"))
				e := Event{Time: now + d, Seq: seq ^ 5}
				q.Push(e)
				want = append(want, e)
			}
			slices.SortFunc(want, compare)
			for range rapid.IntRange(0, 20).Draw(t, "pops") {
				got, ok := q.Pop()
				if ok != (len(want) > 0) {
					t.Fatalf("Pop says %v with %d events to come", ok, len(want))
				}
				if !ok {
					break
				}
				if got != want[0] {
					t.Fatalf("popped %+v, next is %+v", got, want[0])
				}
				now, want = got.Time, want[1:]
			}
			if q.n != len(want) {
				t.Fatalf("Len is %d, want %d", q.n, len(want))
			}
		}
	})
}

// A thousand events at one instant and a single one a second later: the extremes of what a day can hold.
func TestQueueBunches(t *testing.T) {
	var q Queue
	for i := range 1000 {
		q.Push(Event{Time: 5, Seq: uint64(999 - i)})
	}
	q.Push(Event{Time: 1e12})
	for i := range 1000 {
		if e, _ := q.Pop(); e.Seq != uint64(i) {
			t.Fatalf("event %d has sequence %d", i, e.Seq)
		}
	}
	if e, ok := q.Pop(); !ok || e.Time != 1e12 {
		t.Fatalf("got %v, %v", e, ok)
	}
	if _, ok := q.Pop(); ok {
		t.Fatal("an empty queue has an event")
	}
}

// For any distribution of events the queue's work (entries moved and days visited) is proportional to their
// number. Each of k events at one instant may cost up to 2 log k.
func TestQueueWorkIsLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		at   func(i, n int) Event
	}{
		{"one instant, last first", func(i, n int) Event { return Event{Seq: uint64(n - i)} }},
		{"one instant, any order", func(i, n int) Event { return Event{Seq: rng.Uint64()} }},
		{"a hundred instants", func(i, n int) Event { return Event{Time: Time(i%100) * 4000, Seq: rng.Uint64()} }},
		{"spread", func(i, n int) Event { return Event{Time: Time(rng.IntN(1e9)), Seq: uint64(i)} }},
		{"half of them far away", func(i, n int) Event { return Event{Time: Time(i%2) * 1e15, Seq: rng.Uint64()} }},
	} {
		for _, n := range []int{1 << 8, 1 << 12, 1 << 16} {
			var q Queue
			for i := range n {
				q.Push(c.at(i, n))
			}
			last := Event{Time: -1}
			for range n {
				e, _ := q.Pop()
				if e.Before(last) {
					t.Fatalf("%s: %+v came after %+v", c.name, e, last)
				}
				last = e
			}
			if most := n * (2*bits.Len(uint(n)) + 16); q.steps > most {
				t.Errorf("%s: %d steps for %d events, want at most %d", c.name, q.steps, n, most)
			}
		}
	}
}

// Events of one instant that are added nearly in order cost a constant number of steps each, and few days. Ranks in
// lockstep give such events: on a ring each message goes to the next rank, in an exchange to the rank whose number
// differs in one bit.
func TestQueueLockstep(t *testing.T) {
	const bits = 11
	const ranks, rounds = 1 << bits, 20
	for name, next := range map[string]func(rank, round int) int{
		"ring":     func(rank, _ int) int { return (rank + 1) % ranks },
		"exchange": func(rank, round int) int { return rank ^ 1<<(round%bits) },
	} {
		var q Queue
		push := func(round, rank int) { q.Push(Event{Time: Time(round) * 1234, Seq: uint64(rank), A: int32(rank)}) }
		for rank := range ranks {
			push(0, rank)
		}
		last := Event{Time: -1}
		for i := range ranks * rounds {
			e, ok := q.Pop()
			if !ok || e.Before(last) {
				t.Fatalf("%s: %+v came after %+v", name, e, last)
			}
			last = e
			push(i/ranks+1, next(int(e.A), i/ranks))
		}
		if most := 2 * ranks * rounds; q.steps > most || len(q.days) > 2*minDays {
			t.Errorf("%s: %d steps for %d events, want at most %d; %d days", name, q.steps, ranks*rounds, most, len(q.days))
		}
	}
}

type binaryHeap []Event

func (h binaryHeap) Len() int           { return len(h) }
func (h binaryHeap) Less(i, j int) bool { return h[i].Before(h[j]) }
func (h binaryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *binaryHeap) Push(x any)        { *h = append(*h, x.(Event)) }
func (h *binaryHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// The hold model: pop one, push one, with 100,000 pending.
func BenchmarkHold(b *testing.B) {
	const pending = 100_000
	rng := rand.New(rand.NewPCG(1, 2))
	b.Run("calendar", func(b *testing.B) {
		var q Queue
		for i := range pending {
			q.Push(Event{Time: Time(rng.IntN(1e6)), Seq: uint64(i)})
		}
		for b.Loop() {
			e, _ := q.Pop()
			e.Time += Time(rng.IntN(1e6))
			q.Push(e)
		}
	})
	b.Run("heap", func(b *testing.B) {
		var h binaryHeap
		for i := range pending {
			heap.Push(&h, Event{Time: Time(rng.IntN(1e6)), Seq: uint64(i)})
		}
		for b.Loop() {
			e := heap.Pop(&h).(Event)
			e.Time += Time(rng.IntN(1e6))
			heap.Push(&h, e)
		}
	})
}
