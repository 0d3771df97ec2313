package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// ideal is a network without overheads: 50 bytes per nanosecond and 500 ns.
var ideal = loggp.Network{Name: "ideal", Latency: 500 * event.Nanosecond, Bandwidth: 50e6}

// replayed returns the result of the same nodes on every rank.
func replayed(t testing.TB, ranks int, algorithm string, nodes func(rank int) []chakra.Node) (*Result, *loggp.Machine) {
	t.Helper()
	var traces []*chakra.Trace
	for rank := range ranks {
		traces = append(traces, trace(rank, nodes(rank)...))
	}
	w := must.Get(load(Options{}, traces...))(t)
	m := must.Get(loggp.NewMachine(ideal, ranks))(t)
	return must.Get(w.Run(OnNetwork(m, Choice(algorithm))))(t), m
}

// TestClosedForms compares collectives with formulas, exactly. A ring all-reduce of S bytes on N ranks takes
// 2(N-1)(L + S/(N B)), and a direct one 2(L + (N-1) S/(N B)).
func TestClosedForms(t *testing.T) {
	const l = 500 * event.Nanosecond
	for _, n := range []int{2, 4, 8, 16} {
		size := int64(1 << 20)
		part := event.Time(size) / event.Time(n) * 20 // 20 ps per byte
		others := event.Time(n - 1)
		for _, c := range []struct {
			kind      chakra.Collective
			algorithm string
			bytes     int64
			want      event.Time
		}{
			{chakra.AllReduce, "ring", size, 2 * others * (l + part)},
			{chakra.AllReduce, Auto, size, 2 * others * (l + part)},
			{chakra.AllReduce, "direct", size, 2 * (l + others*part)},
			{chakra.ReduceScatter, "ring", size, others * (l + part)},
			{chakra.AllGather, "ring", size / int64(n), others * (l + part)}, // comm_size is the input of a rank
			{chakra.AllToAll, "pairwise", size, others * (l + part)},
		} {
			r, m := replayed(t, n, c.algorithm, func(int) []chakra.Node { return []chakra.Node{coll(1, c.kind, c.bytes, "")} })
			if r.Time != c.want {
				t.Errorf("%v %s of %d ranks: %v, want %v", c.kind, c.algorithm, n, r.Time, c.want)
			}
			var out, in int64
			for i, link := range m.Links() {
				if i < n {
					out += link.Bytes
				} else {
					in += link.Bytes
				}
			}
			if out != in || out == 0 {
				t.Errorf("%v: %d bytes leave and %d arrive", c.kind, out, in)
			}
		}
	}
}

// TestGroups runs the all-reduces of two groups side by side, and the all-reduces of one group one after the other.
func TestGroups(t *testing.T) {
	const size = 1 << 20
	const one = 2 * (500*event.Nanosecond + size/2*20)
	for _, c := range []struct {
		name string
		want event.Time
	}{{"pair", one}, {"", 2 * 3 * (500*event.Nanosecond + size/4*20)}} {
		nodes := func(rank int) []chakra.Node {
			name := c.name
			if name != "" {
				name += []string{"a", "b"}[rank/2]
			}
			return []chakra.Node{coll(1, chakra.AllReduce, size, name), coll(2, chakra.AllReduce, size, name)}
		}
		if r, _ := replayed(t, 4, "ring", nodes); r.Time != 2*c.want {
			t.Errorf("%q: %v, want %v", c.name, r.Time, 2*c.want)
		}
	}
}

// TestIslands takes rings within and between switches for an all-reduce whose members are evenly spread over switches,
// and one ring for others. On links without latency of 10 bytes per nanosecond, rings of 4 take 3 times a quarter of
// 1,024 bytes, before and after. Between the switches the 4 pairs exchange an eighth twice, over links of 40.
func TestIslands(t *testing.T) {
	const file = "name: n\nlevels:\n- {name: island, size: 4, bandwidth_gbs: 10, latency_ns: 0}\n" +
		"- {name: leaf, size: 2, bandwidth_gbs: 40, latency_ns: 0}\n"
	network := must.Get(loggp.Parse("n.yaml", []byte(file)))(t)
	for _, c := range []struct {
		members []int
		kind    chakra.Collective
		used    string
		want    event.Time
	}{
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, chakra.AllReduce, "allreduce torus", (3*256 + 2*128 + 3*256) * 100},
		{[]int{0, 1, 2, 3}, chakra.AllReduce, "allreduce ring", 6 * 256 * 100},
		{[]int{0, 4}, chakra.AllReduce, "allreduce ring", 2 * 512 * 100},
		{[]int{0, 1, 2, 4, 5, 6}, chakra.AllReduce, "allreduce torus", 0},
		{[]int{0, 4, 1, 5}, chakra.AllReduce, "allreduce ring", 6 * 256 * 100},
		{[]int{0, 1, 2, 4}, chakra.AllReduce, "allreduce ring", 6 * 256 * 100},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, chakra.AllGather, "allgather ring", 7 * 1024 * 100},
	} {
		var traces []*chakra.Trace
		for rank := range 8 {
			tr := trace(rank, comp(1, 0))
			if slices.Contains(c.members, rank) {
				tr.Nodes = append(tr.Nodes, coll(2, c.kind, 1024, "g"))
			}
			traces = append(traces, tr)
		}
		for launch := range event.Time(2) {
			n := network
			n.Launch = launch * us // of a collective
			w := must.Get(load(Options{Groups: map[string][]int{"g": c.members}}, traces...))(t)
			on := OnNetwork(must.Get(loggp.NewMachine(n, 8))(t), Choice(Auto))
			r := must.Get(w.Run(on))(t)
			if on.Used() != c.used || c.want > 0 && r.Time != c.want+n.Launch {
				t.Errorf("%v: %s takes %v, want %s and %v", c.members, on.Used(), r.Time, c.used, c.want+n.Launch)
			}
		}
	}
}

// BenchmarkScale replays 1,024 ranks with 1,000 nodes each: blocks of five computations, an all-reduce of 8 ranks
// and messages along a pipeline, and at the end an all-reduce of every 8th rank.
func BenchmarkScale(b *testing.B) {
	const ranks, blocks = 1024, 125
	for b.Loop() {
		traces := make([]*chakra.Trace, ranks)
		for rank := range ranks {
			tr := trace(rank)
			id := uint64(1)
			for range blocks {
				for range 5 {
					tr.Nodes = append(tr.Nodes, comp(id, 20*us, id-min(id-1, 1)))
					if id == 1 {
						tr.Nodes[0].DataDeps = nil
					}
					id++
				}
				tr.Nodes = append(tr.Nodes, coll(id, chakra.AllReduce, 1<<20, groupName("tp", rank/8), id-1))
				tr.Nodes = append(tr.Nodes, send(id+1, rank, (rank+8)%ranks, 1<<16, id),
					recv(id+2, (rank+ranks-8)%ranks, rank, 1<<16, id))
				id += 3
			}
			tr.Nodes[len(tr.Nodes)-1] = recv(id-1, (rank+ranks-8)%ranks, rank, 1<<16, id-3)
			tr.Nodes = append(tr.Nodes, coll(id, chakra.AllReduce, 1<<24, groupName("dp", rank%8), id-1))
			traces[rank] = tr
		}
		w := must.Get(load(Options{}, traces...))(b)
		m := must.Get(loggp.NewMachine(ideal, ranks))(b)
		r := must.Get(w.Run(OnNetwork(m, Choice(Auto))))(b)
		b.ReportMetric(float64(w.Nodes()), "nodes")
		b.ReportMetric(float64(m.Result().Messages), "messages")
		b.ReportMetric(Micros(r.Time), "step-us")
	}
}

var groupNames = map[[2]int]string{}

func groupName(kind string, i int) string {
	key := [2]int{int(kind[0]), i}
	if groupNames[key] == "" {
		groupNames[key] = kind + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	return groupNames[key]
}

// TestNetworkProperties replays random traces on a network of switches: switches keep no bytes, every byte that the
// traces send arrives, no node starts before its dependencies have ended, and a faster network takes no longer unless
// something happens in another order.
func TestNetworkProperties(t *testing.T) {
	const file = "name: n\noverhead_ns: 100\ngap_ns: 5\nlevels:\n- {name: island, size: 2, bandwidth_gbs: 10, " +
		"latency_ns: 200}\n- {name: leaf, size: 2, bandwidth_gbs: %d, latency_ns: 500}\n"
	network := func(t *rapid.T, gbs int) loggp.Network {
		return must.Get(loggp.Parse("n.yaml", fmt.Appendf(nil, file, gbs)))(t)
	}
	rapid.Check(t, func(rt *rapid.T) {
		traces := draw(rt)
		gbs := rapid.IntRange(1, 20).Draw(rt, "GB/s")
		step := func(gbs int) (*Result, *loggp.Machine) {
			n := network(rt, gbs)
			w := must.Get(load(Options{}, traces...))(rt)
			m := must.Get(loggp.NewMachine(n, len(traces)))(rt)
			r := must.Get(w.Run(OnNetwork(m, Choice(Auto))))(rt)
			checkResult(rt, w, r, 1)
			balance := make([]int64, len(n.Graph.Nodes))
			for i, l := range m.Links() {
				balance[n.Graph.Links[i].From] -= l.Bytes
				balance[n.Graph.Links[i].To] += l.Bytes
			}
			for node := n.Graph.Ranks; node < len(balance); node++ {
				if balance[node] != 0 {
					rt.Fatalf("%s keeps %d bytes", n.Graph.Nodes[node], balance[node])
				}
			}
			return r, m
		}
		slow, with := step(gbs)
		fast, without := step(gbs + rapid.IntRange(1, 20).Draw(rt, "more"))
		if fast.Time > slow.Time && loggp.Reordered(with, without) == "" {
			rt.Fatalf("%v on the faster network, %v on the slower one", fast.Time, slow.Time)
		}
	})
}
