package fabric

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/lists"
)

// shipment is a message of a test: its size, start and path.
type shipment struct {
	at    event.Time
	bytes int
	path  topo.Path
	ready []event.Time // SendReady, or SendEach
	each  bool         // SendEach
}

// links returns the links of the path, followed by the others.
func (s *shipment) links() (all []int32) {
	for _, h := range s.path {
		all = append(all, h.Link)
	}
	for link := range int32(links) {
		if !slices.Contains(all, link) {
			all = append(all, link)
		}
	}
	return all
}

const inject = Kinds // the kind of the test's own events

// ship runs all shipments and returns the time of each delivery.
func ship(f *Fabric, q *event.Queue, shipments []shipment) (arrived []event.Time) {
	arrived = make([]event.Time, len(shipments))
	owner := map[int32]int{}
	for i, s := range shipments {
		q.Push(event.Event{Time: s.at, Class: Owner, Seq: uint64(i), Kind: inject, A: int32(i)})
	}
	for e, ok := q.Pop(); ok; e, ok = q.Pop() {
		switch e.Kind {
		case inject:
			s := shipments[e.A]
			switch {
			case s.each:
				owner[f.SendEach(e.Time, s.path, s.bytes, s.ready).ID] = int(e.A)
			case s.ready != nil:
				owner[f.SendReady(e.Time, s.path, s.bytes, s.ready).ID] = int(e.A)
			default:
				owner[f.Send(e.Time, s.path, s.bytes).ID] = int(e.A)
			}
		case Delivered:
			if f.Valid(e) {
				arrived[owner[e.A]] = e.Time
				f.Done(f.Message(e.A))
			}
		case FlitThere:
			if f.Message(e.A) == nil {
				panic("a flit arrives after its message was delivered")
			}
		default:
			f.Handle(e)
		}
	}
	return arrived
}

const links = 7

// shipments draws messages that share links. The closer their start times, the more contention there is.
func shipments(t *rapid.T) []shipment {
	hops := make([]topo.Hop, links)
	for i := range hops {
		hops[i] = topo.Hop{Link: int32(i),
			BW:      rapid.SampledFrom([]topo.Bandwidth{topo.GBps(128), topo.GBps(256), topo.GBps(512), 77_777}).Draw(t, "bw"),
			Wire:    event.Time(rapid.SampledFrom([]int{0, 10, 500}).Draw(t, "wire")),
			Cost:    event.Time(rapid.SampledFrom([]int{0, 0, 2000, 8000}).Draw(t, "cost")),
			Collect: rapid.IntRange(0, 5).Draw(t, "collect") == 0}
	}
	var list []shipment
	for range rapid.IntRange(1, 6).Draw(t, "messages") {
		order := rapid.Permutation([]int32{0, 1, 2, 3, 4, 5, 6}).Draw(t, "links")
		if len(list) > 0 && rapid.Bool().Draw(t, "same") { // so that links follow each other in several paths
			order = slices.Clone(list[0].links())
		}
		s := shipment{
			at:    event.Time(rapid.SampledFrom([]int{0, 0, 1000, 2000, 5000, 12345, 40000}).Draw(t, "at")),
			bytes: rapid.SampledFrom([]int{0, 1, 255, 256, 257, 1000, 4096, 5000}).Draw(t, "bytes"),
		}
		for _, link := range order[:rapid.IntRange(1, links).Draw(t, "hops")] {
			s.path = append(s.path, hops[link])
		}
		if how := rapid.IntRange(0, 4).Draw(t, "each"); how < 3 {
			s.each = how == 0
			burst := rapid.SampledFrom([]int{1, 3, 8}).Draw(t, "burst")
			for i := range max(1, (s.bytes+255)/256) {
				s.ready = append(s.ready, s.at+event.Time(i/burst*8000))
			}
		}
		list = append(list, s)
	}
	return list
}

// The times do not depend on how many messages were sent before, whatever the model. 256 SIPs of 128 PEs send more than
// 2^24 messages.
func TestNumbersOfMessages(t *testing.T) {
	after := func(sent int, list []shipment, model topo.Fabric, queueing topo.Queueing) []event.Time {
		var q event.Queue
		f := New(&q, links, model, 256)
		f.messages = messages{pages: make([]*messagePage, sent/messagesPerPage), sent: sent}
		f.Arbitrate(queueing)
		return ship(f, &q, list)
	}
	rapid.Check(t, func(t *rapid.T) {
		list := shipments(t)
		model := rapid.SampledFrom([]topo.Fabric{topo.Whole, topo.Flits}).Draw(t, "model")
		rules := []topo.Queueing{{}, {Rule: topo.RoundRobin, Buffer: 2}, {Rule: topo.Age, Buffer: 2}}
		queueing := rapid.SampledFrom(rules).Draw(t, "queueing")
		want := after(0, list, model, queueing)
		for _, sent := range []int{1 << 22, 1 << 23, 1 << 24, 1 << 25} {
			if got := after(sent, list, model, queueing); !slices.Equal(got, want) {
				t.Fatalf("after %d messages: %v, want %v", sent, got, want)
			}
		}
	})
}

// Trains are an optimization: arrivals and the load of every link must equal the flit-by-flit simulation, to
// the picosecond.
func TestTrainsEqualFlits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			trainsEqualFlits(t, shipments(t))
		}
	})
}

func trainsEqualFlits(t *rapid.T, list []shipment) {
	var q1, q2 event.Queue
	fast, slow := New(&q1, links, topo.Flits, 256), New(&q2, links, topo.Flits, 256)
	slow.FlitByFlit()
	if rapid.Bool().Draw(t, "chain") {
		fast.Chain(slices.Values(lists.Map(list, func(s shipment) topo.Path { return s.path })))
	}
	got, want := ship(fast, &q1, list), ship(slow, &q2, list)
	if !slices.Equal(got, want) {
		t.Fatalf("trains arrive at %v, flits at %v", got, want)
	}
	if !slices.Equal(fast.Busy(), slow.Busy()) || !slices.Equal(until(fast), until(slow)) || fast.hops != slow.hops {
		t.Fatalf("links were busy %v until %v (%d hops), flit by flit %v until %v (%d hops)", fast.Busy(), until(fast),
			fast.hops, slow.Busy(), until(slow), slow.hops)
	}
}

// until returns when each link is free.
func until(f *Fabric) []event.Time {
	return lists.Map(f.links, func(l link) event.Time { return l.freeAt })
}

// Messages that have arrived take no memory, however many were sent.
func TestMessagesAreFreed(t *testing.T) {
	var q event.Queue
	f := New(&q, 1, topo.Flits, 256)
	path := topo.Path{{Link: 0, BW: topo.GBps(128)}}
	most := 0
	for i := range 10_000 {
		f.Send(event.Time(i)*event.Microsecond, path, 4096)
		for e, more := q.Pop(); more; e, more = q.Pop() {
			if e.Kind == Delivered {
				f.Done(f.Message(e.A))
			} else {
				f.Handle(e)
			}
		}
		held := 0
		for _, p := range f.messages.pages {
			if p != nil {
				held++
			}
		}
		most = max(most, held, len(f.spareTrains))
	}
	if most > 1 || f.Messages() != 10_000 {
		t.Errorf("%d pages or buffers are held for one message in transit, of %d", most, f.Messages())
	}
}

// A train that meets another message is split, one that does not is not. Both arrive when single flits would.
func TestTrainIsSplit(t *testing.T) {
	hop := func(link int32) topo.Hop { return topo.Hop{Link: link, BW: topo.GBps(128), Wire: 30} }
	long := shipment{bytes: 1 << 16, path: topo.Path{hop(0), hop(1), hop(2)}}
	cross := shipment{at: 100_000, bytes: 1 << 12, path: topo.Path{hop(1), hop(3)}}
	aside := shipment{at: 100_000, bytes: 1 << 12, path: topo.Path{hop(4), hop(3)}}
	for _, c := range []struct {
		list  []shipment
		apart int
	}{{[]shipment{long, cross}, 1}, {[]shipment{long, aside}, 0}} {
		var q1, q2 event.Queue
		fast, slow := New(&q1, links, topo.Flits, 256), New(&q2, links, topo.Flits, 256)
		slow.FlitByFlit()
		if got, want := ship(fast, &q1, c.list), ship(slow, &q2, c.list); !slices.Equal(got, want) {
			t.Errorf("trains arrive at %v, flits at %v", got, want)
		}
		if fast.splits != c.apart {
			t.Errorf("%d trains were split, want %d", fast.splits, c.apart)
		}
	}
}

// The simple reference for a message without contention: a loop over all flits and links.
func lonely(path topo.Path, bytes, flitBytes int) event.Time {
	flits := max(1, (bytes+flitBytes-1)/flitBytes)
	ready := make([]event.Time, flits)
	for _, h := range path {
		var free event.Time
		for i := range ready {
			free = max(free, ready[i]) + h.BW.Time(min(flitBytes, bytes-i*flitBytes))
			ready[i] = free + h.Wire
			if i == 0 {
				ready[0] += h.Cost
			}
			ready[i] = max(ready[i], ready[0])
		}
		if h.Collect {
			for i := range ready {
				ready[i] = free + h.Wire + h.Cost
			}
		}
	}
	return ready[flits-1]
}

func TestZeroLoadLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shipments(t)[0]
		s.ready, s.each = nil, false
		for _, model := range []topo.Fabric{topo.Flits, topo.Whole} {
			var q event.Queue
			f := New(&q, links, model, 256)
			want := f.Latency(s.path, s.bytes)
			if got := ship(f, &q, []shipment{s})[0] - s.at; got != want {
				t.Fatalf("%s: %v ps, the formula says %v", model, got, want)
			}
			if model == topo.Flits && lonely(s.path, s.bytes, 256) != want {
				t.Fatalf("the formula says %v, flit by flit it is %v", want, lonely(s.path, s.bytes, 256))
			}
			if bound := s.path.Bottleneck().BW.Time(s.bytes); want < bound-event.Time(len(s.path)) {
				t.Fatalf("%s: %v ps is faster than the slowest link allows (%v)", model, want, bound)
			}
		}
	})
}

// Known times: 64 KB over a link of 128 GB/s drain in 512 ns, in either model.
func TestDrain(t *testing.T) {
	path := topo.Path{{Link: 0, BW: topo.GBps(256)}, {Link: 1, BW: topo.GBps(128), Cost: 8000},
		{Link: 2, BW: topo.GBps(256), Cost: 8000}}
	for model, want := range map[topo.Fabric]event.Time{
		topo.Whole: 512_000 + 16_000,
		// The first flit fills the pipeline (1 ns before, 1 ns after). The flits that follow hide the costs of
		// the nodes.
		topo.Flits: 512_000 + 1000 + 1000,
	} {
		var q event.Queue
		f := New(&q, links, model, 256)
		if got := ship(f, &q, []shipment{{bytes: 65536, path: path}})[0]; got != want {
			t.Errorf("%s: %v ps, want %v", model, got, want)
		}
	}
}

// seen runs shipments on a fabric and returns every passage, by link in order of time.
func seen(f *Fabric, q *event.Queue, list []shipment) [][]Passage {
	all := make([][]Passage, links)
	f.Observe(func(p Passage) { all[p.Link] = append(all[p.Link], p) })
	ship(f, q, list)
	for _, of := range all {
		slices.SortStableFunc(of, func(a, b Passage) int {
			return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
		})
	}
	return all
}

// Laws that hold for any load, with trains, without trains and with whole messages: no link sends two things
// at once or above its rate, every byte passes every link of its path once, and Little's law holds before each
// link (mean number = arrival rate times mean stay).
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := shipments(t)
		for _, model := range []topo.Fabric{topo.Flits, topo.Whole} {
			var q1, q2 event.Queue
			fast, slow := New(&q1, links, model, 256), New(&q2, links, model, 256)
			slow.FlitByFlit()
			got, reference := seen(fast, &q1, list), seen(slow, &q2, list)
			if fault := brokenLaw(list, got, reference); fault != "" {
				t.Fatalf("%s: %s", model, fault)
			}
			for link, of := range got {
				var busy event.Time
				for _, p := range of {
					busy += p.To - p.From
				}
				if busy != fast.Busy()[link] {
					t.Fatalf("%s: link %d was sending for %v, and says %v", model, link, busy, fast.Busy()[link])
				}
			}
		}
	})
}

// brokenLaw reports which law the passages break, if any. The occupancies come from the reference simulation.
func brokenLaw(list []shipment, passages, reference [][]Passage) string {
	for link, of := range passages {
		var bytes, sent int
		var rate topo.Bandwidth
		for _, s := range list {
			for _, h := range s.path {
				if int(h.Link) == link {
					bytes, rate = bytes+s.bytes, h.BW
				}
			}
		}
		var until, stays event.Time
		for _, p := range of {
			if p.From < until || p.To-p.From < rate.Time(p.Bytes) {
				return fmt.Sprintf("link %d is above its rate: %+v after %v", link, p, until)
			}
			until = p.To
			sent += p.Bytes
			stays += p.Wait + p.To - p.From
		}
		if sent != bytes {
			return fmt.Sprintf("%d bytes went over link %d, of %d", sent, link, bytes)
		}
		if area := occupancy(reference[link]); area != stays {
			return fmt.Sprintf("at link %d the number before it adds up to %v over time, the stays to %v", link, area, stays)
		}
	}
	return ""
}

// occupancy integrates over time how many flits wait before a link or are being sent by it.
func occupancy(of []Passage) (area event.Time) {
	type change struct {
		at event.Time
		by int
	}
	var changes []change
	for _, p := range of {
		changes = append(changes, change{p.From - p.Wait, 1}, change{p.From, -1}, change{p.From, 1}, change{p.To, -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	number := 0
	for i, c := range changes {
		if i > 0 {
			area += event.Time(number) * (c.at - changes[i-1].at)
		}
		number += c.by
	}
	return area
}

// Each planted error breaks a law and is found.
func TestInvariantsCanFail(t *testing.T) {
	hop := func(link int32) topo.Hop { return topo.Hop{Link: link, BW: topo.GBps(128), Wire: 30} }
	list := []shipment{{bytes: 4096, path: topo.Path{hop(0), hop(1)}},
		{at: 1000, bytes: 4096, path: topo.Path{hop(2), hop(1)}}}
	for want, plant := range map[string]func(all [][]Passage){
		"":                         func([][]Passage) {},
		"link 1 is above its rate": func(all [][]Passage) { all[1][3].From -= 10; all[1][3].To -= 10 },
		"link 0 is above its rate": func(all [][]Passage) { all[0][2].Bytes++ },
		"bytes went over link 1":   func(all [][]Passage) { all[1] = all[1][1:] },
		"at link 1 the number":     func(all [][]Passage) { all[1][5].Wait++ },
	} {
		var q1, q2 event.Queue
		got := seen(New(&q1, links, topo.Flits, 256), &q1, list)
		plant(got)
		fault := brokenLaw(list, got, seen(New(&q2, links, topo.Flits, 256), &q2, list))
		if !strings.Contains(fault, want) || (want == "") != (fault == "") {
			t.Errorf("%q, want %q", fault, want)
		}
	}
}

// Flits that become ready out of order pass in the order in which they become ready: a flit waits for the
// previous one only if that is ready first.
func TestFlitsReadyOutOfOrder(t *testing.T) {
	var q event.Queue
	const flit = 64
	f := New(&q, 1, topo.Flits, flit)
	f.SendEach(0, topo.Path{{Link: 0, BW: topo.GBps(64)}}, 3*flit,
		[]event.Time{5000 * event.Nanosecond, 0, 9000 * event.Nanosecond})
	var order []int32
	for e, more := q.Pop(); more; e, more = q.Pop() {
		switch {
		case e.Kind < Delivered:
			f.Handle(e)
		case e.Kind == FlitThere:
			order = append(order, e.B)
		}
	}
	if !slices.Equal(order, []int32{1, 0, 2}) {
		t.Errorf("flits arrive in the order %v, want 1, 0, 2", order)
	}
}
