package fabric

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// arbitrated ships a list over a fabric with an arbiter, and returns the arrivals.
func arbitrated(q topo.Queueing, list []shipment) ([]event.Time, *Fabric) {
	var events event.Queue
	f := New(&events, links, topo.Flits, 256)
	f.Arbitrate(q)
	return ship(f, &events, list), f
}

// With order of arrival and buffers that are never full, the arbiter is the plain fabric, to the picosecond. With any
// rule each link carries the same bytes, and with any buffer everything arrives, or the blocked link is reported.
func TestArbiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := shipments(t)
		for i := range list { // the order of empty messages within an instant may differ
			list[i].bytes = max(1, list[i].bytes)
		}
		var events event.Queue
		plain := New(&events, links, topo.Flits, 256)
		want := ship(plain, &events, list)
		got, f := arbitrated(topo.Queueing{Rule: topo.FIFO, Buffer: 1 << 20}, list)
		if !slices.Equal(got, want) || !slices.Equal(f.Busy(), plain.Busy()) {
			t.Fatalf("arrivals %v, without an arbiter %v", got, want)
		}
		q := topo.Queueing{Rule: rapid.SampledFrom([]topo.Arbitration{topo.FIFO, topo.RoundRobin, topo.Age}).Draw(t, "rule"),
			Buffer: rapid.IntRange(0, 3).Draw(t, "buffer")}
		got, f = arbitrated(q, list)
		if f.Blocked() >= 0 && q.Buffer > 0 {
			return
		}
		if !slices.Equal(f.Busy(), plain.Busy()) || slices.Contains(got, 0) {
			t.Fatalf("%+v: links were busy %v instead of %v, arrivals %v", q, f.Busy(), plain.Busy(), got)
		}
	})
}

// parkingLot has four streams that merge one after the other: the first passes links 0, 1 and 2, the second 1 and 2,
// the others only 2. It returns the arrivals.
func parkingLot(q topo.Queueing) []event.Time {
	hop := func(link int32) topo.Hop { return topo.Hop{Link: link, BW: topo.GBps(256)} }
	stream := func(first int32) shipment {
		s := shipment{bytes: 1 << 14, path: topo.Path{hop(first)}}
		for link := int32(4); link <= 6; link++ {
			if link >= 3+max(1, first) {
				s.path = append(s.path, hop(link))
			}
		}
		return s
	}
	got, _ := arbitrated(q, []shipment{stream(0), stream(1), stream(2), stream(3)})
	return got
}

// Round-robin gives the last merge half of the link; age shares it equally, so that no stream ends long after
// the others.
func TestParkingLot(t *testing.T) {
	spread := func(q topo.Queueing) event.Time {
		got := parkingLot(q)
		return slices.Max(got) - slices.Min(got)
	}
	fair := spread(topo.Queueing{Rule: topo.Age, Buffer: 4})
	unfair := spread(topo.Queueing{Rule: topo.RoundRobin, Buffer: 4})
	if unfair <= 0 || fair == unfair {
		t.Errorf("arrivals are %v apart with age, %v with round-robin", fair, unfair)
	}
}

// A link does not send into a full buffer: with one place it waits until the flit has left over the next, slower link.
func TestBackpressure(t *testing.T) {
	path := topo.Path{{Link: 0, BW: topo.GBps(256)}, {Link: 1, BW: topo.GBps(64)}}
	other := topo.Path{{Link: 0, BW: topo.GBps(256)}, {Link: 2, BW: topo.GBps(256)}}
	list := []shipment{{bytes: 1024, path: path}, {bytes: 1024, path: other}}
	free, _ := arbitrated(topo.Queueing{Rule: topo.RoundRobin}, list)
	tight, _ := arbitrated(topo.Queueing{Rule: topo.RoundRobin, Buffer: 1}, list)
	if free[1] >= tight[1] {
		t.Errorf("a stream behind a full buffer arrives at %v, with unlimited buffers at %v", tight[1], free[1])
	}
}
