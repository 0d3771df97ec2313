package loggp

import (
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

func parse(t must.T, text string) Network {
	t.Helper()
	return must.Get(Parse("n.yaml", []byte(text)))(t)
}

// directAllReduce sends one part to every peer, reduces the parts that arrive, and sends the sum to every peer.
type directAllReduce struct{ schedule.Schedule }

func (d directAllReduce) Name() string { return "direct" }

func (d directAllReduce) Steps(rank int) iter.Seq[schedule.Step] {
	return func(yield func(schedule.Step) bool) {
		n, part := d.Ranks(), schedule.Range{Len: d.Count() / d.Ranks()}
		for range 2 {
			for i := 1; i < n; i++ {
				if !yield(schedule.Step{Op: schedule.Send, To: schedule.One((rank + i) % n), Src: part}) {
					return
				}
			}
			for i := 1; i < n; i++ {
				if !yield(schedule.Step{Op: schedule.Recv, From: schedule.One((rank - i + n) % n), Dst: part}) {
					return
				}
			}
		}
	}
}

// The closed forms for one dimension: a ring all-reduce on a ring, and a direct one on a switch and on a fully
// connected dimension. They are exact.
func TestOneDimension(t *testing.T) {
	for _, n := range []int{2, 3, 4, 8, 16} {
		count := 4096 * n * n
		params := schedule.Params{Ranks: n, Count: count, InPlace: true}
		steps := build(t, schedule.AllReduce, "ring", params)
		const latency = 500 * ns
		wire := func(bytes int) event.Time { return event.Time(bytes) * 20 } // 50 GB/s
		part, others := wire(4*count/n), event.Time(n-1)
		for _, c := range []struct {
			kind string
			s    schedule.Schedule
			want event.Time
		}{
			{"Ring", steps, 2 * others * (latency + part)},
			{"Switch", steps, 2 * others * (latency + part)},
			{"Switch", directAllReduce{steps}, 2 * (latency + others*part)},
			{"FullyConnected", steps, 2 * others * (latency + part)},
			// A send ends when its bytes have left, so that messages over different links leave one after the other.
			{"FullyConnected", directAllReduce{steps}, 2 * (latency + others*part)},
		} {
			network := parse(t, fmt.Sprintf("topology: [ %s ]\nnpus_count: [ %d ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n",
				c.kind, n))
			m := machine(t, network, n)
			got := must.Get(m.RunAlone(c.s, 4))(t)
			if got.Time != c.want {
				t.Errorf("%s of %d ranks on %s: %v, want %v", c.s.Name(), n, c.kind, got.Time, c.want)
			}
		}
	}
}

// A network of one level equals a flat network for all algorithms that send messages.
func TestOneLevel(t *testing.T) {
	flat := parse(t, "{name: f, latency_ns: 1000, overhead_ns: 100, gap_ns: 10, bandwidth_gbs: 7.3, reduce_gbs: 40, "+
		"copy_gbs: 80}")
	tree := parse(t, "{name: t, overhead_ns: 100, gap_ns: 10, reduce_gbs: 40, copy_gbs: 80, "+
		"topology: [Switch], npus_count: [9], bandwidth: [7.3], latency: [1000]}")
	for _, op := range schedule.Collectives() {
		for _, info := range schedule.Algorithms(op) {
			for i, v := range schedule.Variants(info, 9, 100) {
				s := must.Get(schedule.New(op, info.Name, v))(t)
				a, b := must.Get(Run(s, 4, flat))(t), must.Get(Run(s, 4, tree))(t)
				if a != b && !info.Direct || a.Bytes != b.Bytes {
					t.Errorf("%s %s variant %d: %+v on a flat network, %+v on a switch", op, info.Name, i, a, b)
				}
			}
		}
	}
}

// Eight slow messages pass a fast link at once, because it has the bandwidth of all of them. Half of
// the bandwidth takes twice as long.
func TestTrunk(t *testing.T) {
	for _, c := range []struct {
		trunk int
		want  event.Time
	}{{400, 1000 * ns}, {200, 2000 * ns}, {50, 8000 * ns}} {
		n := parse(t, fmt.Sprintf("name: two\nedges:\n- {from: 0..7, to: a, bandwidth_gbs: 50, latency_ns: 0}\n"+
			"- {from: 8..15, to: b, bandwidth_gbs: 50, latency_ns: 0}\n- {from: a, to: b, bandwidth_gbs: %d, latency_ns: 0, "+
			"name: trunk}\n",
			c.trunk))
		m := machine(t, n, 16)
		for i := range 8 {
			id := m.Message(int64(i), i, 8+i, 50000)
			m.Start(id, 0, 0)
			m.Start(id, 1, 0)
		}
		must.Do(t, m.Run(nil))
		if got := m.Result().Time; got != c.want {
			t.Errorf("trunk of %d GB/s: %v, want %v", c.trunk, got, c.want)
		}
		for _, l := range m.Links() {
			if l.Name == "trunk" && (l.Bytes != 8*50000 || l.Messages != 8 || l.Busy != event.Time(8*50000*1000/c.trunk)) {
				t.Errorf("%+v", l)
			}
		}
	}
}

// A message of a rank to itself takes no link, and no number of bytes is too large.
func TestExtremes(t *testing.T) {
	m := machine(t, parse(t, "name: x\noverhead_ns: 1\ntorus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}"), 4)
	for i, to := range []int{2, 3} {
		id := m.Message(int64(i), 2, to, 1<<60)
		m.Start(id, 0, 0)
		m.Start(id, 1, 0)
	}
	all := ends(t, m)
	if all[[2]int64{0, 1}].Time != 2*ns || all[[2]int64{1, 1}].Time < 1<<58 {
		t.Errorf("%+v", all)
	}
}

// networks has a network of every generator, with the names of two of its cables.
var networks = map[string]string{
	"levels": "levels:\n- {name: island, size: 4, bandwidth_gbs: 40, latency_ns: 200}\n" +
		"- {name: leaf, size: 3, latency_ns: 500, oversubscription: 2, links: 2}\n",
	"fat tree": "fat_tree: {radix: 4, bandwidth_gbs: 5, latency_ns: 100, oversubscription: 2}",
	"rails": "rails: {nodes: 4, ranks_per_node: 2, nodes_per_leaf: 2, spines: 2, island: {bandwidth_gbs: 40, " +
		"latency_ns: 100}, " +
		"rail: {bandwidth_gbs: 5, latency_ns: 300}, spine: {latency_ns: 700, oversubscription: 4}}",
	"dragonfly": "dragonfly: {groups: 3, routers_per_group: 2, ranks_per_router: 2, host: {bandwidth_gbs: 5, " +
		"latency_ns: 10}, " +
		"local: {bandwidth_gbs: 5, latency_ns: 20}, global: {bandwidth_gbs: 3, latency_ns: 300}}",
	"torus": "torus: {shape: [3, 4], bandwidth_gbs: 5, latency_ns: 100}",
}

func drawNetwork(t *rapid.T) Network {
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range networks {
			if !yield(name) {
				return
			}
		}
	})
	name := rapid.SampledFrom(names).Draw(t, "network")
	some := func(what string) int { return rapid.IntRange(0, 200).Draw(t, what) }
	return parse(t, fmt.Sprintf("name: %s\noverhead_ns: %d\ngap_ns: %d\nreduce_gbs: 20\n%s",
		strings.ReplaceAll(name, " ", "-"),
		some("overhead"), some("gap"), networks[name]))
}

func drawSchedule(t *rapid.T, ranks int) schedule.Schedule {
	op := rapid.SampledFrom(schedule.Collectives()).Draw(t, "collective")
	info := rapid.SampledFrom(schedule.Algorithms(op)).Draw(t, "algorithm")
	variants := schedule.Variants(info, ranks, rapid.IntRange(1, 300).Draw(t, "count"))
	if len(variants) == 0 {
		t.Skip()
	}
	return must.Get(schedule.New(op, info.Name, rapid.SampledFrom(variants).Draw(t, "variant")))(t)
}

// Every link that leads to a switch carries as many bytes in as the links from the switch carry out, the bytes of all
// ranks leave and arrive, and the time of each end is explained.
func TestConservation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := drawNetwork(rt)
		ranks := rapid.IntRange(2, n.MaxRanks()).Draw(rt, "ranks")
		m := machine(rt, n, ranks)
		s := drawSchedule(rt, ranks)
		id := must.Get(m.Collective(1, s, 4, nil))(rt)
		for i := range ranks {
			m.Start(id, i, event.Time(rapid.IntRange(0, 5000).Draw(rt, "start")))
		}
		must.Do(rt, m.Run(func(e End) {
			if p := e.Spent; e.CauseStart+p.Total() != e.Time || min(p.Local, p.Wire, p.Latency, p.Queue) < 0 {
				rt.Fatalf("%+v", e)
			}
		}))
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
	})
}

// A slow link may spread the bytes of a message, so that they pass a later link between the bytes of other messages,
// and free the next link earlier. Reordered names such a link.
func TestMixed(t *testing.T) {
	n := parse(t, "name: n\noverhead_ns: 0\ngap_ns: 10\nreduce_gbs: 20\n"+networks["dragonfly"])
	s := must.Get(schedule.New("reduce", "direct", schedule.Params{Ranks: 9, Count: 2}))(t)
	fast := machine(t, n, 9)
	n.Faults = must.Get(ParseFaults(SlowLink, "6-router3:3x"))(t)
	slow := machine(t, n, 9)
	a, b := must.Get(fast.RunAlone(s, 4))(t), must.Get(slow.RunAlone(s, 4))(t)
	if name := Reordered(slow, fast); a.Time <= b.Time || name == "" {
		t.Errorf("%v, and %v with a slow link: %q", a.Time, b.Time, name)
	}
}

// A faster link never makes a collective slower, unless messages take a link in another order.
func TestMonotonicity(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := drawNetwork(rt)
		ranks := rapid.IntRange(2, n.MaxRanks()).Draw(rt, "ranks")
		s := drawSchedule(rt, ranks)
		fast := machine(rt, n, ranks)
		cable := rapid.SampledFrom(n.Graph.Cables).Draw(rt, "link")
		n.Faults = must.Get(ParseFaults(SlowLink, cable+":3x"))(rt)
		slow := machine(rt, n, ranks)
		a, b := must.Get(fast.RunAlone(s, 4))(rt), must.Get(slow.RunAlone(s, 4))(rt)
		if a.Time > b.Time && Reordered(slow, fast) == "" {
			rt.Fatalf("%v, but only %v with a slow %s", a.Time, b.Time, cable)
		}
	})
}

// Faults change what they name: a slow rank its own time, a slow link the paths over it; a dead link is avoided or
// its pairs are named; a start offset delays the start.
func TestFaults(t *testing.T) {
	const text = "name: pair\noverhead_ns: 100\nedges:\n- {from: 0, to: 1, bandwidth_gbs: 10, latency_ns: 500}\n" +
		"- {from: 0, to: 2, bandwidth_gbs: 10, latency_ns: 500}\n- {from: 2, to: 1, bandwidth_gbs: 10, latency_ns: 500}\n"
	const bytes, wire = 10000, 1000 * ns
	base := 2*100*ns + 500*ns + wire
	for faults, want := range map[string]event.Time{
		"":                     base,
		"slow-rank 0:2x":       base + 100*ns,
		"slow-rank 1:1.5x":     base + 50*ns,
		"slow-rank 2:9x":       base,
		"slow-link 0-1:4x":     base + 3*wire,
		"slow-link 1-0:4x":     base + 3*wire,
		"slow-link 2-1:4x":     base,
		"dead-link 0-1":        base + 500*ns, // over rank 2; the bytes follow each other
		"start-offset 0:2us":   base + 2000*ns,
		"start-offset 1:500ns": base,
	} {
		n := parse(t, text)
		if kind, value, given := strings.Cut(faults, " "); given {
			n.Faults = must.Get(ParseFaults(kind, value))(t)
			if got := strings.Replace(n.Faults[0].String(), "µ", "u", 1); got != faults {
				t.Errorf("%q is written as %q", faults, got)
			}
		}
		m := machine(t, n, 3)
		id := m.Message(0, 0, 1, bytes)
		m.Start(id, 0, 0)
		m.Start(id, 1, 0)
		must.Do(t, m.Run(nil))
		if got := m.Result().Time; got != want {
			t.Errorf("%q: %v, want %v", faults, got, want)
		}
	}
	flat := sample
	for _, c := range []struct {
		n           Network
		kind, value string
		want        string
	}{
		{parse(t, text), DeadLink, "0-1+2-1", "no path in both directions between ranks 0 and 1"},
		{parse(t, text), DeadLink, "1-3", `unknown link "1-3", did you mean`},
		{parse(t, text), SlowRank, "3:2x", "slow-rank 3:2x: there are only ranks 0 to 2"},
		{flat, DeadLink, "1-net", "no path in both directions between ranks 0 and 1"},
		{flat, SlowLink, "3-net:2x", `unknown link "3-net": the links of a flat network are 0-net to 2-net`},
		{flat, SlowLink, "0-net", "want a colon and a value after the name, as in leaf0-spine1:4x"},
		{flat, SlowLink, "0-net:0.5x", "want a factor from 1x"}, {flat, SlowRank, "1:NaNx", "want a factor from 1x"},
		{flat, SlowRank, "1:infx", "want a factor"}, {flat, SlowRank, "1:1.0004x", "with at most 3 decimals"},
		{flat, SlowRank, "a:2x", "want a rank before the colon"}, {flat, SlowRank, "1:2", "want a factor"},
		{flat, StartOffset, "1:2", "want a time from 0 to 1h"}, {flat, DeadLink, "0-net+", "want the name of a link"},
	} {
		faults, err := ParseFaults(c.kind, c.value)
		if err == nil {
			c.n.Faults = faults
			_, err = NewMachine(c.n, 3)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.kind, c.value, err, c.want)
		}
	}
	flat.Faults = append(must.Get(ParseFaults(SlowLink, "0-net:2x"))(t), must.Get(ParseFaults(StartOffset, "1:1us"))(t)...)
	s := build(t, schedule.Broadcast, "tree", schedule.Params{Ranks: 2, Count: 1000})
	slow, fast := must.Get(Run(s, 4, flat))(t), must.Get(Run(s, 4, sample))(t)
	if want := fast.Time + sample.Bandwidth.Time(4000); slow.Time != want {
		t.Errorf("a slow link of a flat network: %v, want %v", slow.Time, want)
	}
}

// The examples of the documentation are valid networks of at least 8 ranks.
func TestExamples(t *testing.T) {
	files := must.Get(filepath.Glob("../../../examples/networks/*.yaml"))(t)
	for _, file := range files {
		n := must.Get(Load(file))(t)
		machine(t, n, min(n.MaxRanks(), 64))
	}
	if len(files) != 7 {
		t.Errorf("%d files", len(files))
	}
}

// Files of all forms are read; faults have their positions.
func TestNetworkFiles(t *testing.T) {
	n := parse(t, "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 25.0 ]\nlatency: [ "+
		"500.0, 700.0 ]\n")
	if n.Graph.Ranks != 8 || n.Name != "astra-sim" || n.Graph.Text != "Ring of 4 x Switch of 2" {
		t.Errorf("%+v", n)
	}
	n = parse(t, "name: x\ntorus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}\nfaults: {slow_rank: [3:2x, \"1:3x\"], "+
		"dead_link: 0-1}\n")
	if len(n.Faults) != 3 || n.Faults[0].Rank != 3 || n.Faults[1].Factor != 3000 || n.Faults[2].Link != "0-1" {
		t.Errorf("%+v", n.Faults)
	}
	for text, want := range map[string]string{
		"topology: [ Mesh ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 5 ]": "n.yaml:1:13: topology: " +
			"unknown kind of dimension \"Mesh\"",
		"topology: [ Ring ]\nnpus_count: [ 4, 5 ]\nbandwidth: [ 50.0 ]\nlatency: [ 5 ]": "n.yaml:2:13: " +
			"npus_count: 2 dimensions, but topology has 1",
		"topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]": `the key "latency" is missing`,
		"topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ -1 ]\nlatency: [ 5 ]": "n.yaml:3:14: bandwidth: " +
			"want a number",
		"topology: [ FullyConnected ]\nnpus_count: [ 9999 ]\nbandwidth: [ 1 ]\nlatency: [ 5 ]": "npus_count: more than " +
			"2097152 nodes or links",
		"name: x\ntorus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}\nfat_tree: {radix: 4}": "the network has " +
			"fat_tree already",
		"name: x\ntorus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}\nlatency_ns: 3": `n.yaml:3:1: the network: unknown key`,
		"name: x\ntorus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}\nfaults: {slow_rank: 3}": "n.yaml:3:21: " +
			"faults.slow_rank: slow-rank \"3\": want a colon and a value",
		"torus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}": `the key "name" is missing`,
	} {
		if _, err := Parse("n.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := NewMachine(parse(t, "name: x\ntorus: {shape: [4], bandwidth_gbs: 1, latency_ns: 1}"), 5); err == nil ||
		!strings.Contains(err.Error(), "network x: it has 4 ranks, want 5") {
		t.Error(err)
	}
}
