package loggp

import (
	"iter"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

const ns = event.Nanosecond

// sample has round numbers: in 1 ns the network transfers 10 bytes, and 40 bytes are reduced or 80 copied.
var sample = Network{Latency: 1000 * ns, Overhead: 100 * ns, Gap: 10 * ns, Bandwidth: 10e6, Reduce: 40e6, Copy: 80e6}

func build(t testing.TB, op, algorithm string, p schedule.Params) schedule.Schedule {
	t.Helper()
	return must.Get(schedule.New(op, algorithm, p))(t)
}

func machine(t must.T, n Network, ranks int) *Machine { return must.Get(NewMachine(n, ranks))(t) }

// The closed forms of the literature (Thakur et al. 2005: Hockney's alpha and beta, with gamma for reductions)
// for powers of two that divide the count.
func TestClosedForms(t *testing.T) {
	const elem, count = 4, 1 << 14
	n := sample
	alpha := 2*n.Overhead + n.Latency
	beta := func(bytes int64) event.Time { return n.Bandwidth.Time(bytes) }
	for _, p := range []int{2, 4, 8, 64, 256} {
		size, rounds := int64(elem*count), event.Time(bits.Len(uint(p))-1)
		part, others := size/int64(p), event.Time(p-1)
		copied := n.Copy.Time(size)
		// The root receives p-1 vectors one after the other and adds each of them; the next one arrives
		// meanwhile. Then it sends p-1 vectors, each when the previous one has left.
		naive := n.Overhead + n.Latency + beta(size) + n.Overhead + n.Reduce.Time(size)
		for range p - 2 {
			naive += n.Overhead + n.Reduce.Time(size)
		}
		arrived := n.Overhead + n.Latency + others*beta(size) + (others-1)*n.Gap + n.Overhead + n.Reduce.Time(size)
		naive = max(naive, arrived) + others*(n.Overhead+beta(size)) + n.Latency + n.Overhead
		for _, c := range []struct {
			op, algorithm string
			want          event.Time
		}{
			{schedule.AllReduce, "ring", copied + 2*others*(alpha+beta(part)) + others*n.Reduce.Time(part)},
			{schedule.AllReduce, "recursive-doubling", copied + rounds*(alpha+beta(size)+n.Reduce.Time(size))},
			{schedule.AllReduce, "halving-doubling",
				copied + 2*rounds*alpha + 2*beta(part*int64(others)) + n.Reduce.Time(part*int64(others))},
			{schedule.AllReduce, "naive", naive},
			{schedule.AllGather, "ring", n.Copy.Time(part) + others*(alpha+beta(part))},
			{schedule.Barrier, "dissemination", rounds * alpha},
		} {
			params := schedule.Params{Ranks: p, Count: count}
			if c.op == schedule.Barrier {
				params.Count = 0
			}
			s := build(t, c.op, c.algorithm, params)
			got := must.Get(Run(s, elem, n))(t)
			// Every transfer is rounded up to whole picoseconds, so small differences add up.
			if off := got.Time - c.want; off < -100 || off > 100 {
				t.Errorf("%s %s of %d ranks: %v ns, want %v", c.op, c.algorithm, p, got.Time.Nanoseconds(), c.want.Nanoseconds())
			}
		}
	}
}

// All ranks read the root's memory. Its interface serves one after the other, after the root's flag, and each
// rank raises a flag when it is done.
func TestReads(t *testing.T) {
	const elem, count = 4, 1 << 14
	n := sample
	for _, p := range []int{2, 4, 8} {
		got, err := Run(build(t, schedule.Broadcast, "direct", schedule.Params{Ranks: p, Count: count}), elem, n)
		want := 4*n.Latency + 6*n.Overhead + event.Time(p-1)*n.Bandwidth.Time(elem*count) + event.Time(p-2)*n.Gap
		if off := got.Time - want; err != nil || off < -100 || off > 100 {
			t.Errorf("%d ranks: %v ns, want %v; %v", p, got.Time.Nanoseconds(), want.Nanoseconds(), err)
		}
		if want := int64(p-1) * 4; got.Messages != want || got.Bytes != int64(p-1)*elem*count {
			t.Errorf("%d ranks: %+v, want %d messages", p, got, want)
		}
	}
}

// reference computes the times of messages as a fixed point, without an event queue: it alternates between
// the steps of each rank and the arrivals at each receiver until nothing changes.
func reference(s schedule.Schedule, elem int64, n Network) (last event.Time) {
	type name struct{ from, to, number int }
	there := map[name]event.Time{} // when the last byte has arrived, as far as known
	for changed := true; changed; {
		heads := map[int][]event.Event{} // by receiver
		names, bytes := map[uint64]name{}, map[uint64]int64{}
		last = 0
		for rank := range s.Ranks() {
			var now, out event.Time
			sent, seen := map[int]int{}, map[int]int{}
			post := func(to int, k int64) event.Time {
				now += n.Overhead
				start := max(now, out)
				out = start + n.Bandwidth.Time(k) + n.Gap
				id := uint64(rank)<<32 | uint64(len(names))
				names[id], bytes[id] = name{rank, to, sent[to]}, k
				heads[to] = append(heads[to], event.Event{Time: start + n.Latency, Seq: id})
				sent[to]++
				return start + n.Bandwidth.Time(k)
			}
			for step := range s.Steps(rank) {
				k := elem * int64(max(step.Src.Len, step.Dst.Len))
				left := event.Time(0)
				switch {
				case step.Op.Sends():
					left = post(step.To.First, elem*int64(step.Src.Len))
				case step.Op == schedule.Signal:
					before := len(names)
					for i := range step.To.N {
						if to := step.To.At(i); to != rank {
							if n.Load > 0 && len(names) > before {
								now -= n.Overhead // in shared memory one flag serves all peers
							}
							post(to, 0)
						}
					}
				case step.Op == schedule.Put:
					now += n.Store.Time(k)
					if step.Src.Buf == schedule.Input {
						now += n.Load.Time(k)
					}
				case step.Op.Direct():
					now += n.Store.Time(k)
					for i := range step.From.N {
						if step.From.At(i) == rank || step.Src.Buf == schedule.Input {
							now += n.Load.Time(k)
						} else {
							now += n.Fetch.Time(k)
						}
					}
				case step.Op == schedule.Copy:
					now += n.Copy.Time(k)
				}
				if step.Op.Receives() || step.Op == schedule.Wait {
					for i := range step.From.N {
						if from := step.From.At(i); from != rank {
							now = max(now, there[name{from, rank, seen[from]}]) + n.Overhead
							seen[from]++
						}
					}
				}
				now = max(now, left)
				if step.Op.Accumulates() {
					now += n.Reduce.Time(elem * int64(step.Dst.Len))
				}
			}
			last = max(last, now)
		}
		changed = false
		for _, came := range heads {
			slices.SortFunc(came, func(a, b event.Event) int {
				if a.Before(b) {
					return -1
				}
				return 1
			})
			in := event.Time(0)
			for _, e := range came {
				at := max(e.Time, in) + n.Bandwidth.Time(bytes[e.Seq])
				in = at + n.Gap
				changed = changed || there[names[e.Seq]] != at
				there[names[e.Seq]] = at
			}
		}
	}
	return last
}

// The simulation equals the reference for all algorithms and random networks; algorithms that access the memory
// of peers are tested with shared memory only. The result does not depend on ranks running ahead.
func TestReference(t *testing.T) {
	var infos []schedule.Info
	for _, op := range schedule.Collectives() {
		infos = append(infos, schedule.Algorithms(op)...)
	}
	rapid.Check(t, func(t *rapid.T) {
		info := rapid.SampledFrom(infos).Draw(t, "algorithm")
		variants := schedule.Variants(info, rapid.IntRange(1, 9).Draw(t, "ranks"), rapid.IntRange(0, 60).Draw(t, "count"))
		if len(variants) == 0 {
			return
		}
		s := must.Get(schedule.New(info.Collective, info.Name, rapid.SampledFrom(variants).Draw(t, "variant")))(t)
		some := func(name string) event.Time { return event.Time(rapid.IntRange(0, 5000).Draw(t, name)) }
		rate := func(name string, least int) Rate { return Rate(rapid.IntRange(least, 20000).Draw(t, name)) * 1000 }
		n := Network{Latency: some("latency"), Overhead: some("overhead"), Gap: some("gap"),
			Bandwidth: rate("bandwidth", 1), Reduce: rate("reduce", 0), Copy: rate("copy", 0)}
		if info.Direct || rapid.Bool().Draw(t, "one memory") {
			n.Load, n.Fetch, n.Store = rate("load", 1), rate("fetch", 0), rate("store", 0)
		}
		got, err := Run(s, 4, n)
		if want := reference(s, 4, n); err != nil || got.Time != want {
			t.Fatalf("%s %s %+v on %+v: %v, want %v; %v", info.Collective, info.Name, s.Params(), n, got.Time, want, err)
		}
		m := machine(t, n, s.Ranks())
		m.strict = true
		if slow, err := m.RunAlone(s, 4); err != nil || slow != got {
			t.Fatalf("%s %s %+v on %+v: %v, without going ahead %v; %v", info.Collective, info.Name, s.Params(), n, got, slow,
				err)
		}
	})
}

// The state of a rank and of a message fits one cache line each. A simulation of a million ranks waits for memory most
// of the time.
func TestStateIsSmall(t *testing.T) {
	const line = 64
	for name, size := range map[string]uintptr{"member": unsafe.Sizeof(member{}), "message": unsafe.Sizeof(message{}),
		"Puller": unsafe.Sizeof(schedule.Puller{}), "links": 4 * unsafe.Sizeof(link{})} {
		if size > line {
			t.Errorf("%s has %d bytes, want at most %d", name, size, line)
		}
	}
}

// A deadlock is an error that names the rank and the step.
func TestHangs(t *testing.T) {
	s := build(t, schedule.AllReduce, "naive", schedule.Params{Ranks: 3, Count: 4})
	if _, err := Run(mute{s}, 4, sample); err == nil ||
		!strings.Contains(err.Error(), "rank 0 waits for ever in recv-reduce") {
		t.Errorf("%v", err)
	}
}

// mute is a schedule whose rank 2 does nothing.
type mute struct{ schedule.Schedule }

func (m mute) Steps(rank int) iter.Seq[schedule.Step] {
	if rank == 2 {
		return func(func(schedule.Step) bool) {}
	}
	return m.Schedule.Steps(rank)
}

// Every fault of a file is reported with its position.
func TestParse(t *testing.T) {
	_, err := Parse("n.yaml", []byte("name: x\nlatency_ns: -1\noverhead_ns: 1\ngap_ns: 0\nbandwidth_gbs: 0\nspeed: 3\n"))
	for _, want := range []string{"n.yaml:2:13", "latency_ns", "n.yaml:5:16", "bandwidth_gbs", "n.yaml:6:1", "speed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if Default().Name == "" || Rate(3).Time(1) != 333333334 || Rate(0).Time(9) != 0 {
		t.Errorf("%+v, %v", Default(), Rate(3).Time(1))
	}
}
