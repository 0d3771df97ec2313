package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

const us = event.Microsecond

// cost is the time of a collective or message on a simple machine.
func cost(bytes int64) event.Time { return us + event.Time(bytes) }

// simple returns a machine without contention: a collective or a message ends a fixed time after its last member has
// started, and a send takes no time.
func simple() Machine {
	return NewTimed(func(_ int64, c Call, _ []int32) (Times, error) { return Together(cost(c.Bytes)), nil },
		func(_ int64, _, _ int, bytes int64) Times {
			return func(member int) (event.Time, bool) { return cost(bytes) * event.Time(member), member == 0 }
		})
}

func trace(rank int, nodes ...chakra.Node) *chakra.Trace {
	return &chakra.Trace{File: fmt.Sprintf("x.%d.et", rank), Rank: rank, Nodes: nodes}
}

func comp(id uint64, d event.Time, deps ...uint64) chakra.Node {
	return chakra.Node{ID: id, Name: fmt.Sprint("comp", id), Type: chakra.Comp, Duration: d, DataDeps: deps}
}

func coll(id uint64, kind chakra.Collective, bytes int64, group string, deps ...uint64) chakra.Node {
	return chakra.Node{ID: id, Name: fmt.Sprint("coll", id), Type: chakra.Coll, Collective: kind, Bytes: bytes,
		Group:    group,
		CtrlDeps: deps}
}

func send(id uint64, from, to int, bytes int64, deps ...uint64) chakra.Node {
	return chakra.Node{ID: id, Name: fmt.Sprint("send", id), Type: chakra.Send, Src: from, Dst: to, Bytes: bytes,
		DataDeps: deps}
}

func recv(id uint64, from, to int, bytes int64, deps ...uint64) chakra.Node {
	return chakra.Node{ID: id, Name: fmt.Sprint("recv", id), Type: chakra.Recv, Src: from, Dst: to, Bytes: bytes,
		DataDeps: deps}
}

// load checks the traces and matches them.
func load(o Options, traces ...*chakra.Trace) (*Workload, error) {
	for _, t := range traces {
		if err := t.Check(len(traces)); err != nil {
			return nil, err
		}
	}
	return New(traces, o)
}

// TestStep replays a step that can be computed by hand: two ranks compute, all-reduce while computing on, and
// rank 1 is slower. Rank 0 then sends to rank 1.
func TestStep(t *testing.T) {
	w := must.Get(load(Options{},
		trace(0, comp(1, 10*us), coll(2, chakra.AllReduce, 0+4e6, "", 1), comp(3, 2*us, 1), comp(4, 5*us, 2, 3),
			send(5, 0, 1, 1e6, 4)),
		trace(1, comp(1, 12*us), coll(2, chakra.AllReduce, 0+4e6, "", 1), comp(3, 2*us, 1), comp(4, 5*us, 2, 3),
			recv(5, 0, 1, 1e6, 4))))(t)
	r := must.Get(w.Run(simple()))(t)
	// Rank 1 is ready for the all-reduce at 12, which takes 1+4 us. Computation 4 ends at 22 and the message at 24.
	want := []Breakdown{
		{Compute: 17 * us, Comm: 7 * us, Exposed: 5 * us, Idle: 2 * us},
		{Compute: 19 * us, Comm: 7 * us, Exposed: 5 * us}}
	if r.Time != 24*us || !slices.Equal(r.Ranks, want) {
		t.Errorf("%v: %+v, want %+v", r.Time, r.Ranks, want)
	}
	var path []string
	for _, l := range r.Path {
		path = append(path, fmt.Sprintf("%d>%d %s %g-%g", l.From, l.Rank, l.Node.Name, Micros(l.Start), Micros(l.End)))
	}
	// Both ranks end computation 4 at the same time, and the message waits for the receiver as well as for the sender.
	if want := []string{"1>1 comp1 0-12", "1>0 coll2 12-17", "0>0 comp4 17-22", "0>1 recv5 22-24"}; !slices.Equal(path,
		want) {
		t.Errorf("path %v, want %v", path, want)
	}
	kinds := []Share{{"allreduce", 8 * us}, {"recv", 2 * us}, {"send", 0}}
	if !slices.Equal(r.Kinds, kinds) {
		t.Errorf("kinds %+v, want %+v", r.Kinds, kinds)
	}
}

// TestRates computes durations from operations and bytes.
func TestRates(t *testing.T) {
	n := chakra.Node{Type: chakra.Comp, Ops: 2e9, TensorBytes: 6e6, Duration: 7 * us}
	load := chakra.Node{Type: chakra.MemLoad, TensorBytes: 4e6}
	for _, c := range []struct {
		o    Options
		n    chakra.Node
		want event.Time
	}{
		{Options{}, n, 7 * us}, {Options{Flops: 1e15}, n, 2 * us}, {Options{Flops: 1e15, MemoryBandwidth: 2e12}, n, 3 * us},
		{Options{MemoryBandwidth: 2e12}, n, 7 * us}, {Options{MemoryBandwidth: 2e12}, load, 2 * us}, {Options{}, load, 0},
	} {
		if got, _ := c.o.duration(&c.n); got != c.want {
			t.Errorf("%+v: %v, want %v", c.o, got, c.want)
		}
	}
	_, err := New([]*chakra.Trace{trace(0, chakra.Node{ID: 4, Name: "mm", Type: chakra.Comp, Ops: 5})}, Options{})
	if err == nil || !strings.Contains(err.Error(), `x.0.et: node 4 "mm": it has num_ops 5 and no duration: --flops`) {
		t.Error(err)
	}
}

// TestMismatch plants a fault between the traces of two ranks, and expects an error that names both nodes.
func TestMismatch(t *testing.T) {
	groups := must.Get(chakra.GroupNode(9, []chakra.Group{{Name: "tp", Ranks: []int{1}}}))(t)
	const ar = chakra.AllReduce
	for _, c := range []struct {
		a, b []chakra.Node
		want string
	}{
		{[]chakra.Node{send(1, 0, 1, 8)}, []chakra.Node{comp(1, us)},
			`x.0.et: node 1 "send1": no receive matches this send to rank 1 with tag 0: rank 1 has 0 of them`},
		{[]chakra.Node{comp(1, us)}, []chakra.Node{recv(1, 0, 1, 8)},
			`x.1.et: node 1 "recv1": no send matches this receive from rank 0 with tag 0`},
		{[]chakra.Node{send(1, 0, 1, 8)}, []chakra.Node{recv(1, 0, 1, 9)},
			`x.0.et: node 1 "send1" sends 8 bytes, but the matching receive expects 9: x.1.et: node 1 "recv1"`},
		{[]chakra.Node{coll(1, ar, 8, "")}, []chakra.Node{coll(2, ar, 16, "")}, `x.0.et: node 1 "coll1" is allreduce of 8 ` +
			`bytes, but the matching collective of process group all is allreduce of 16 bytes: x.1.et: node 2 "coll2"`},
		{[]chakra.Node{coll(1, ar, 8, "")}, []chakra.Node{coll(2, chakra.AllGather, 8, "")},
			`is allgather of 8 bytes: x.1.et`},
		{[]chakra.Node{coll(1, ar, 8, ""), coll(2, ar, 8, "")}, []chakra.Node{coll(2, ar, 8, "")},
			`x.0.et: node 2 "coll2": rank 1 takes no part in this allreduce: it issues 1 collectives in process group all, ` +
				`and rank 0 issues 2`},
		{[]chakra.Node{coll(1, ar, 8, "tp"), groups}, []chakra.Node{coll(1, ar, 8, "tp"), groups},
			`x.0.et has collectives of process group tp, but its rank 0 is not a member: [1]`},
		{[]chakra.Node{{ID: 1, Name: "b", Type: chakra.Coll, Collective: chakra.Broadcast, Bytes: 8, Root: 2}},
			[]chakra.Node{{ID: 1, Name: "b", Type: chakra.Coll, Collective: chakra.Broadcast, Bytes: 8, Root: 2}},
			`x.0.et: node 1 "b": comm_root is 2, but process group all has 2 ranks`},
	} {
		if _, err := load(Options{}, trace(0, c.a...), trace(1, c.b...)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// TestDeadlock plants orders in which ranks wait for each other, and expects the nodes of the circle.
func TestDeadlock(t *testing.T) {
	const ar = chakra.AllReduce
	for _, c := range []struct {
		o    Options
		a, b []chakra.Node
		want string
	}{
		{Options{}, []chakra.Node{coll(1, ar, 8, "x"), coll(2, ar, 8, "y", 1)},
			[]chakra.Node{coll(1, ar, 8, "y"), coll(2, ar, 8, "x", 1)},
			`for ever: x.0.et: node 1 "coll1" waits for x.1.et: node 2 "coll2", which needs x.1.et: node 1 "coll1", ` +
				`which waits for x.0.et: node 2 "coll2", which needs x.0.et: node 1 "coll1"`},
		{Options{CommStreams: 1}, []chakra.Node{coll(1, ar, 8, "x"), coll(2, ar, 8, "y")},
			[]chakra.Node{coll(1, ar, 8, "y"), coll(2, ar, 8, "x")},
			`waits for the stream of`},
	} {
		w := must.Get(load(c.o, trace(0, c.a...), trace(1, c.b...)))(t)
		if _, err := w.Run(simple()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v\nwant %s", err, c.want)
		}
	}
}

// draw makes traces of a few ranks: each has some computations, takes part in the same collectives of two groups,
// and sends to and receives from its neighbours. Dependencies are random and without cycles.
func draw(t *rapid.T) []*chakra.Trace {
	ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	kinds := make([]int, n)
	for k := range kinds {
		kinds[k] = rapid.IntRange(0, 4).Draw(t, "kind")
	}
	var traces []*chakra.Trace
	for rank := range ranks {
		tr := trace(rank)
		for k, kind := range kinds {
			id := uint64(2 * k)
			var deps []uint64
			for d := range tr.Nodes {
				if rapid.IntRange(0, 3).Draw(t, "dep") == 0 {
					deps = append(deps, tr.Nodes[d].ID)
				}
			}
			bytes := int64(1+k) * 100
			half := fmt.Sprint("half", rank%2)
			switch {
			case kind == 0:
				tr.Nodes = append(tr.Nodes, coll(id, chakra.AllReduce, bytes, "", deps...))
			case kind == 1:
				tr.Nodes = append(tr.Nodes, coll(id, chakra.AllGather, bytes, half, deps...))
			case kind == 2 && ranks > 1:
				tr.Nodes = append(tr.Nodes, send(id, rank, (rank+1)%ranks, bytes, deps...),
					recv(id+1, (rank+ranks-1)%ranks, rank, bytes, deps...))
			default:
				tr.Nodes = append(tr.Nodes, comp(id, event.Time(rapid.IntRange(0, 5).Draw(t, "us"))*us, deps...))
			}
		}
		traces = append(traces, tr)
	}
	return traces
}

// reference computes the ends of all nodes without limits on streams: it relaxes until nothing changes.
func reference(w *Workload) []event.Time {
	end := make([]event.Time, len(w.nodes))
	start := func(i int32) (t event.Time) {
		rank, n := w.origin(i)
		for j := range w.traces[rank].Nodes {
			if id := w.traces[rank].Nodes[j].ID; slices.Contains(n.CtrlDeps, id) || slices.Contains(n.DataDeps, id) {
				t = max(t, end[w.base[rank]+int32(j)])
			}
		}
		if n.Type == chakra.Coll { // after the collectives of its group with smaller ids, which is the issue order here
			for j := range w.traces[rank].Nodes {
				if o := w.traces[rank].Nodes[j]; o.Type == chakra.Coll && o.Group == n.Group && o.ID < n.ID {
					t = max(t, end[w.base[rank]+int32(j)])
				}
			}
		}
		return t
	}
	for changed := true; changed; {
		changed = false
		for i := range end {
			_, n := w.origin(int32(i))
			at := start(int32(i))
			switch n.Type {
			case chakra.Comp:
				at += n.Duration
			case chakra.Coll, chakra.Recv:
				o := w.operations[w.nodes[i].operation]
				for _, other := range o.nodes {
					at = max(at, start(other))
				}
				at += cost(o.call.Bytes)
			}
			changed = changed || at != end[i]
			end[i] = at
		}
	}
	return end
}

// TestReference compares random graphs with the reference, and checks what holds for every number of streams.
func TestReference(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		traces := draw(rt)
		w := must.Get(load(Options{Streams: 100}, traces...))(rt)
		free := must.Get(w.Run(simple()))(rt)
		want := reference(w)
		for i := range w.nodes {
			if w.nodes[i].end != want[i] {
				rt.Fatalf("%s ends at %v, want %v", w.describe(int32(i)), w.nodes[i].end, want[i])
			}
		}
		streams := rapid.IntRange(1, 2).Draw(rt, "streams")
		w = must.Get(load(Options{Streams: streams}, traces...))(rt)
		r := must.Get(w.Run(simple()))(rt)
		if r.Time < free.Time {
			rt.Fatalf("%d streams take %v, any number %v", streams, r.Time, free.Time)
		}
		checkResult(rt, w, r, streams)
		if again := must.Get(w.Run(simple()))(rt); again.Time != r.Time || !slices.Equal(again.Ranks, r.Ranks) {
			rt.Fatalf("the second replay takes %v, the first %v", again.Time, r.Time)
		}
		checkResult(rt, w, r, streams)
	})
}

// checkResult verifies what holds for every replay.
func checkResult(t *rapid.T, w *Workload, r *Result, streams int) {
	for i := range w.nodes {
		n := &w.nodes[i]
		for _, s := range w.successors[w.first[i]:w.first[i+1]] {
			if w.nodes[s].start < n.end {
				t.Fatalf("%s starts before %s ends", w.describe(s), w.describe(int32(i)))
			}
		}
		if n.end < n.start {
			t.Fatalf("%s ends before it starts", w.describe(int32(i)))
		}
		at := 0 // computations under way when this one starts, itself included
		for j := range w.nodes {
			if o := &w.nodes[j]; o.rank == n.rank && o.lane == computeLane && o.start <= n.start && n.start < o.end {
				at++
			}
		}
		if n.lane == computeLane && at > streams {
			t.Fatalf("%d computations run at %v on %d streams", at, n.start, streams)
		}
	}
	var exposed, byKind event.Time
	for rank, b := range r.Ranks {
		exposed += b.Exposed
		if b.Compute+b.Exposed+b.Host+b.Idle != r.Time || b.Idle < 0 || b.Exposed > b.Comm {
			t.Fatalf("rank %d: %+v of %v", rank, b, r.Time)
		}
	}
	for _, s := range r.Kinds {
		byKind += s.Exposed
	}
	if exposed != byKind {
		t.Fatalf("%v are exposed, and the kinds have %v", exposed, byKind)
	}
	at := event.Time(0)
	for _, l := range r.Path {
		if l.Start != at {
			t.Fatalf("the critical path has a gap from %v to %v", at, l.Start)
		}
		at = l.End
	}
	if at != r.Time {
		t.Fatalf("the critical path ends at %v, the step at %v", at, r.Time)
	}
}

// TestNotes lists what is not used.
func TestNotes(t *testing.T) {
	n := comp(1, us)
	n.Extra = []chakra.Attr{chakra.Integer("rf_id", 1)}
	w := must.Get(load(Options{}, trace(0, n, comp(2, 0), chakra.Node{ID: 3, Name: "s", Type: chakra.Storage},
		chakra.Node{ID: 4, Name: "c", Type: chakra.Checkpoint, Duration: us},
		chakra.Node{ID: 5, Name: "l", Type: chakra.MemLoad},
		chakra.Node{ID: 6, Name: "new", Type: 77})))(t)
	want := []string{"CHECKPOINT node counts as work of the host (1 times)",
		"COMP node without duration and num_ops takes no time (1 times)",
		"MEM_LOAD node without duration and --memory-bandwidth takes no time (1 times)",
		"STORAGE node takes no time (1 times)",
		"attribute rf_id is not used (1 times)", "type 77 node takes no time (1 times)"}
	if !slices.Equal(w.Notes(), want) {
		t.Errorf("%q", w.Notes())
	}
	r := must.Get(w.Run(simple()))(t)
	if b := r.Ranks[0]; b.Host != 0 || b.Compute != us || cmp.Compare(r.Time, us) != 0 {
		t.Errorf("%+v", b) // the host works while the rank computes
	}
}

// TestCycle names all nodes of a cycle and no others.
func TestCycle(t *testing.T) {
	tr := &chakra.Trace{File: "x.0.et", Nodes: []chakra.Node{{ID: 1, Name: "a"},
		{ID: 2, Name: "b", CtrlDeps: []uint64{1, 4}},
		{ID: 3, Name: "c", DataDeps: []uint64{2}}, {ID: 4, Name: "d", DataDeps: []uint64{3}}}}
	want := `x.0.et: nodes depend on each other in a cycle: node 2 "b", which needs node 4 "d", which needs node 3 "c", ` +
		`which needs node 2 "b"`
	if _, err := New([]*chakra.Trace{tr}, Options{}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
