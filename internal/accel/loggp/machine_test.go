package loggp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// ends runs a machine and returns the ends of all members by key and member.
func ends(t testing.TB, m *Machine) map[[2]int64]End {
	t.Helper()
	all := map[[2]int64]End{}
	must.Do(t, m.Run(func(e End) { all[[2]int64{e.Key, int64(e.Member)}] = e }))
	return all
}

// A message takes 2o + L + k/B. Its end names the member that was late.
func TestMessage(t *testing.T) {
	n := sample
	const bytes = 1 << 20
	wire := n.Bandwidth.Time(bytes)
	for _, c := range []struct{ send, receive event.Time }{{0, 0}, {0, 5e9}, {7e6, 0}} {
		m := machine(t, n, 4)
		id := m.Message(7, 2, 1, bytes)
		m.Start(id, 1, c.receive)
		m.Start(id, 0, c.send)
		all := ends(t, m)
		sent, received := all[[2]int64{7, 0}], all[[2]int64{7, 1}]
		arrived := c.send + n.Overhead + wire + n.Latency
		if want := max(arrived, c.receive) + n.Overhead; received.Time != want || received.Rank != 1 {
			t.Errorf("%+v: received at %v, want %v", c, received, want)
		}
		cause := 0
		if c.receive > arrived {
			cause = 1
		} else if want := (Spent{Local: 2 * n.Overhead, Wire: wire, Latency: n.Latency}); received.Spent != want {
			t.Errorf("%+v: %+v, want %+v", c, received.Spent, want)
		}
		if received.Cause != cause || sent.Time != c.send+n.Overhead+wire || sent.Cause != 0 {
			t.Errorf("%+v: %+v, %+v", c, received, sent)
		}
	}
}

// Two messages that leave one rank at once, or that arrive at one rank at once, share its link, and the later
// one waits. A computation delays neither.
func TestContention(t *testing.T) {
	n := sample
	const bytes = 1 << 20
	wire := n.Bandwidth.Time(bytes)
	for _, pairs := range [][2][2]int{{{0, 1}, {0, 2}}, {{1, 0}, {2, 0}}} {
		m := machine(t, n, 3)
		for i, pair := range pairs {
			id := m.Message(int64(i), pair[0], pair[1], bytes)
			m.Start(id, 0, 0)
			m.Start(id, 1, 0)
		}
		m.Start(m.Compute(2, 0, 3*wire), 0, 0)
		all := ends(t, m)
		alone := 2*n.Overhead + n.Latency + wire
		first, second := all[[2]int64{0, 1}], all[[2]int64{1, 1}]
		if first.Time != alone || second.Time != alone+wire+n.Gap || second.Spent.Queue != wire+n.Gap {
			t.Errorf("%v: %+v, %+v", pairs, first, second)
		}
		if e := all[[2]int64{2, 0}]; e.Time != 3*wire || e.Spent.Local != 3*wire {
			t.Errorf("computation: %+v", e)
		}
	}
}

// Faults of the caller are errors or are named at the end.
func TestMachineErrors(t *testing.T) {
	s := build(t, schedule.AllReduce, "ring", schedule.Params{Ranks: 2, Count: 4})
	m := machine(t, sample, 4)
	for _, members := range [][]int32{nil, {1}, {1, 1}, {1, 4}, {-1, 1}} {
		if _, err := m.Collective(0, s, 4, members); err == nil {
			t.Errorf("members %v were accepted", members)
		}
	}
	id := must.Get(m.Collective(0, s, 4, []int32{3, 1}))(t)
	m.Start(id, 0, 0)
	if err := m.Run(nil); err == nil || !strings.Contains(err.Error(), "allreduce ring: rank 3 waits for ever") {
		t.Error(err)
	}
}

// job is a random operation for TestManyAtOnce.
type job struct {
	s       schedule.Schedule
	members []int32
	bytes   int64
	starts  []event.Time
	after   int // index of the job whose last end starts this one as well; -1: none
}

func drawJob(t *rapid.T, i, ranks int) job {
	label := func(name string) string { return fmt.Sprintf("%s of job %d", name, i) }
	all := make([]int32, ranks)
	for r := range all {
		all[r] = int32(r)
	}
	j := job{members: rapid.Permutation(all).Draw(t, label("members")), after: i - 1}
	size := rapid.IntRange(2, ranks).Draw(t, label("size"))
	switch rapid.IntRange(0, 3).Draw(t, label("kind")) {
	case 0:
		size, j.bytes = 1, rapid.Int64Range(0, 1e7).Draw(t, label("duration"))
	case 1:
		size, j.bytes = 2, rapid.Int64Range(0, 1e5).Draw(t, label("bytes"))
	default:
		op := rapid.SampledFrom(schedule.Collectives()).Draw(t, label("collective"))
		info := rapid.SampledFrom(schedule.Algorithms(op)).Draw(t, label("algorithm"))
		count := rapid.IntRange(1, 500).Draw(t, label("count"))
		if variants := schedule.Variants(info, size, count); len(variants) > 0 {
			j.s = must.Get(schedule.New(op, info.Name, rapid.SampledFrom(variants).Draw(t, label("variant"))))(t)
		} else {
			size, j.bytes = 1, 5
		}
	}
	j.members = j.members[:size]
	for range size {
		j.starts = append(j.starts, event.Time(rapid.IntRange(0, 1e6).Draw(t, label("start"))))
	}
	if rapid.Bool().Draw(t, label("independent")) {
		j.after = -1
	}
	return j
}

// runJobs runs jobs on a machine and returns their ends in the order of reporting.
func runJobs(t testing.TB, m *Machine, jobs []job) (list []End) {
	add := func(i int, at event.Time) {
		j := jobs[i]
		var id ID
		switch {
		case j.s != nil:
			id = must.Get(m.Collective(int64(i), j.s, 4, j.members))(t)
		case len(j.members) == 2:
			id = m.Message(int64(i), int(j.members[0]), int(j.members[1]), j.bytes)
		default:
			id = m.Compute(int64(i), int(j.members[0]), event.Time(j.bytes))
		}
		for member, offset := range j.starts {
			m.Start(id, member, at+offset)
		}
	}
	left := make([]int, len(jobs))
	for i, j := range jobs {
		if left[i] = len(j.members); j.after < 0 {
			add(i, 0)
		}
	}
	must.Do(t, m.Run(func(e End) {
		list = append(list, e)
		if left[e.Key]--; left[e.Key] == 0 {
			for i, j := range jobs {
				if j.after == int(e.Key) {
					add(i, e.Time)
				}
			}
		}
	}))
	return list
}

// Whatever runs at once: ends are reported in the order of time, no member ends before it starts, the parts of
// Spent are not negative and cover the time since the cause started, every byte that leaves arrives, and a
// second run gives the same.
func TestManyAtOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ranks := rapid.IntRange(2, 7).Draw(rt, "ranks")
		jobs := make([]job, rapid.IntRange(1, 6).Draw(rt, "jobs"))
		members := 0
		for i := range jobs {
			jobs[i] = drawJob(rt, i, ranks)
			members += len(jobs[i].members)
		}
		m := machine(t, sample, ranks)
		list := runJobs(t, m, jobs)
		if len(list) != members {
			rt.Fatalf("%d members of %d ended", len(list), members)
		}
		last := event.Time(0)
		for _, e := range list {
			s := e.Spent
			if e.Time < last || e.Time < e.Start || e.CauseStart+s.Total() != e.Time ||
				min(s.Local, s.Wire, s.Latency, s.Queue) < 0 {
				rt.Fatalf("after %v: %+v", last, e)
			}
			last = e.Time
		}
		var out, in int64
		for i, l := range m.Links() {
			if i < ranks {
				out += l.Bytes
			} else {
				in += l.Bytes
			}
		}
		if got := m.Result(); out != got.Bytes || in != got.Bytes {
			rt.Fatalf("%d bytes leave, %d arrive, %d are counted", out, in, got.Bytes)
		}
		if again := runJobs(t, machine(t, sample, ranks), jobs); !slices.Equal(again, list) {
			rt.Fatalf("%+v, and again %+v", list, again)
		}
	})
}

// A collective on some ranks of a machine takes the same time as alone, whatever the other ranks do meanwhile.
func TestSubgroup(t *testing.T) {
	for _, op := range schedule.Collectives() {
		for _, info := range schedule.Algorithms(op) {
			variants := schedule.Variants(info, 4, 1000)
			if len(variants) == 0 {
				continue
			}
			s := must.Get(schedule.New(op, info.Name, variants[0]))(t)
			want := must.Get(Run(s, 4, sample))(t)
			m := machine(t, sample, 8)
			const late = 12345
			for key, members := range [][]int32{{0, 2, 5, 7}, {1, 3, 4, 6}} {
				id := must.Get(m.Collective(int64(key), s, 4, members))(t)
				for i := range members {
					m.Start(id, i, event.Time(key)*late)
				}
			}
			var last [2]event.Time
			must.Do(t, m.Run(func(e End) { last[e.Key] = max(last[e.Key], e.Time) }))
			if last[0] != want.Time || last[1] != last[0]+late {
				t.Errorf("%s %s: %v, alone %v", op, info.Name, last, want.Time)
			}
		}
	}
}
