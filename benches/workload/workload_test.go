package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/internal/result/dataset"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/workload/chakra"
)

// round is a network with round numbers: 10 bytes per nanosecond and 1 µs.
const round = "name: round\nlatency_ns: 1000\noverhead_ns: 0\ngap_ns: 0\nbandwidth_gbs: 10\n"

func write(t testing.TB, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// stored writes traces of two ranks: a computation, an all-reduce of 1,000 bytes beside another computation, and a
// broadcast.
func stored(t testing.TB, change func(rank int, nodes []chakra.Node) []chakra.Node) string {
	prefix := filepath.Join(t.TempDir(), "step")
	var traces []*chakra.Trace
	for rank := range 2 {
		nodes := []chakra.Node{
			{ID: 1, Name: "forward", Type: chakra.Comp, Duration: 10e6, Ops: 4e9},
			{ID: 2, Name: "reduce", Type: chakra.Coll, Collective: chakra.AllReduce, Bytes: 1000, Group: "dp",
				DataDeps: []uint64{1}},
			{ID: 3, Name: "backward", Type: chakra.Comp, Duration: 1e6, DataDeps: []uint64{1}},
			{ID: 4, Name: "parameters", Type: chakra.Coll, Collective: chakra.Broadcast, Bytes: 500, CtrlDeps: []uint64{2, 3},
				Extra: []chakra.Attr{chakra.Integer("stream", 7)}}}
		if change != nil {
			nodes = change(rank, nodes)
		}
		traces = append(traces, &chakra.Trace{Rank: rank, Nodes: nodes})
	}
	must.Do(t, chakra.Write(prefix, traces))
	return prefix
}

func run(t testing.TB, words ...string) dataset.Set {
	t.Helper()
	rows := must.Get(benchtest.Rows(t, Bench(), "flat", words...))(t)
	for _, r := range rows {
		if r.Status != journal.OK {
			t.Fatalf("%v: %s", r.Status, r.Reason)
		}
	}
	return rows
}

// TestRow checks every number of a step that can be computed by hand. The ring all-reduce of two ranks takes
// 2 (1 µs + 500 B / 10 B/ns) = 2.1 µs and the broadcast 1.05 µs; 1 µs of the all-reduce is hidden.
func TestRow(t *testing.T) {
	timeline := filepath.Join(t.TempDir(), "t.json")
	rows := run(t, "--trace="+stored(t, nil), "--topology="+write(t, "n.yaml", round), "flops=0,2e15",
		"--perfetto="+timeline)
	for name, want := range map[string]float64{timeMetric: 13.15, computeMetric: 11, commMetric: 2.1 + (1.05+0.05)/2,
		exposedMetric: 1.1 + (1.05+0.05)/2, hostMetric: 0, idleMetric: 0.5, "exposed_allreduce_us": 1.1,
		"exposed_broadcast_us": 0.55, "exposed_group_dp_us": 1.1, "exposed_group_all_us": 0.55, "messages": 5,
		"bytes": 2500} {
		if got := rows[0].Metrics[name]; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	if got := rows[1].Metrics[timeMetric]; math.Abs(got-5.15) > 1e-9 { // forward takes 2 µs at 2 PFLOP/s
		t.Errorf("with --flops the step takes %g µs", got)
	}
	for name, want := range map[string]string{"critical_path": "rank 0 forward 10 µs; rank 0 reduce 2.1 µs; " +
		"rank 0 to 1 parameters 1.05 µs", "unused": "attribute stream is not used (2 times)",
		"algorithms": "allreduce ring, broadcast tree",
		"machine":    "network round: latency 1000 ns, overhead 0 ns, gap 0 ns, 10 GB/s"} {
		if got := rows[0].Details[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var events struct{ TraceEvents []struct{ Name, Ph string } }
	name := strings.TrimSuffix(timeline, ".json") + "-auto-2e+15-step.json"
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(name))(t), &events))
	if n := len(events.TraceEvents); n < 15 {
		t.Errorf("the timeline has %d events", n)
	}
	if figs := benchtest.Figures(t, Bench(), rows); len(figs) != 2 || len(figs[1].Panels[0].Series) != 4 ||
		figs[0].Validate() != nil ||
		figs[1].Validate() != nil {
		t.Errorf("figures: %+v", figs)
	}
	if text := benchtest.Sections(t, Bench(), rows)[1].Table; len(text) != 3 || strings.Join(text[0], " ") !=
		"times in µs step compute allreduce broadcast idle" {
		t.Errorf("%q", text)
	}
}

// TestWritten writes the traces of a replay and replays them: the step takes the same time, also with the recorded
// times of communication.
func TestWritten(t *testing.T) {
	prefix, network := filepath.Join(t.TempDir(), "out"), "--topology="+write(t, "n.yaml", round)
	first := run(t, "--trace="+stored(t, nil), network, "flops=3e14", "--trace-et="+prefix)[0].Metrics[timeMetric]
	for _, algorithm := range []string{"auto", "recorded"} {
		row := run(t, "--trace="+prefix+"-auto-3e+14-step", network, "algorithm="+algorithm)[0]
		if got := row.Metrics[timeMetric]; got != first {
			t.Errorf("%s: %g µs, want %g", algorithm, got, first)
		}
	}
	rows := must.Get(benchtest.Rows(t, Bench(), "flat", "--trace="+stored(t, nil), "algorithm=recorded"))(t)
	if want := `step.0.et: node 4 "parameters": its duration was not recorded`; !strings.Contains(string(rows[0].Reason), want) {
		t.Errorf("%s, want %s", rows[0].Reason, want)
	}
}

// TestAccelerator replays all-reduces of two group sizes on the simulated accelerator. The other rank records the same
// time. Operations that it does not have are refused.
func TestAccelerator(t *testing.T) {
	one := func(_ int, nodes []chakra.Node) []chakra.Node { return nodes[:2] }
	rows := must.Get(benchtest.Rows(t, Bench(), "ahbm", "--trace="+stored(t, one)))(t)
	if r := rows[0]; r.Status != journal.OK || !(r.Metrics[timeMetric] > 10) ||
		math.Abs(r.Metrics[timeMetric]-10-r.Metrics["exposed_allreduce_us"]) > 1e-9 {
		t.Errorf("%v %s: %v", r.Status, r.Reason, r.Metrics)
	}
	for _, c := range [][2]string{{"--trace=" + stored(t, nil),
		"the traces have broadcast, and backend ahbm has only the all-reduce"},
		{"algorithm=halving-doubling", "unknown algorithm"}} {
		if _, err := benchtest.Rows(t, Bench(), "ahbm", c[0]); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%v, want %s", err, c[1])
		}
	}
}

// TestModel generates steps of a model instead of reading traces.
func TestModel(t *testing.T) {
	rows := run(t, "--model=llama3-8b", "--tp=1,2", "--pp=2", "--micro-batches=2", "--sequence=128", "flops=1e15")
	for i, ranks := range []int{2, 4} {
		m := rows[i].Metrics
		if _, has := m["exposed_allreduce_us"]; has != (i == 1) || !(m["exposed_recv_us"] > 0) || !(m[computeMetric] > 0) ||
			benchtest.Figures(t, Bench(), rows)[1].Panels[0].X.Categories[i] != fmt.Sprint("tp ", i+1) {
			t.Errorf("%d ranks: %v", ranks, m)
		}
	}
	for want, words := range map[string][]string{
		"--tp 2 needs --model":     {"--tp=2"},
		"exclude each other":       {"--model=llama3-8b", "--trace=" + stored(t, nil)},
		`did you mean "llama3-8b"`: {"--model=llama3-8"},
		"tp must divide them":      {"--model=llama3-8b", "--tp=3"},
		"--pp two":                 {"--model=llama3-8b", "--pp=two"},
	} {
		if _, err := benchtest.Rows(t, Bench(), "flat", words...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", words, err, want)
		}
	}
}

// TestCluster takes the network and the GPU from a cluster.
func TestCluster(t *testing.T) {
	words := []string{"--model=llama3-8b", "--tp=8", "--pp=2", "--sequence=128"}
	rows := run(t, append(words, "--cluster=h100-8x2,a100-8x2")...)
	for i, want := range []string{"2 x 8 GPUs, NVLink 4 at 370.8 GB/s", "2 x 8 GPUs, NVLink 3 at 240 GB/s"} {
		if got := rows[i].Details["machine"]; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// The step is limited by reading weights, at 3350 and 2039 GB/s.
	a, b := rows[0].Metrics, rows[1].Metrics
	if got, want := b[computeMetric]/a[computeMetric], 3350.0/2039; math.Abs(got-want) > 0.01 ||
		!(b["exposed_allreduce_us"] > a["exposed_allreduce_us"]) {
		t.Errorf("%g, want %g: %v %v", got, want, a, b)
	}
	if c := benchtest.Figures(t, Bench(), rows)[1].Panels[0].X.Categories; strings.Join(c, " ") != "h100-8x2 a100-8x2" {
		t.Errorf("%v", c)
	}
	file := write(t, "mine.yaml", "name: mine\ngpus_per_node: 8\nnodes: 2\nnvlink_gbs: 370.8\nnics_per_node: 4\n"+
		"nic_gbs: 50\nswitch_levels: 1\nsources: [a test]\n")
	row := run(t, append(words, "--cluster="+file, "--gpu=h100", "--slow-link=none,island0-leaf0:2x")...)[1]
	if got := row.Details["busiest_links"]; !strings.Contains(got, "busy with") || !(row.Metrics["fault_cost_us"] >= 0) {
		t.Errorf("%s: %v", got, row.Metrics)
	}
	for _, c := range []struct {
		backend, want string
		words         []string
	}{
		{"flat", "--cluster h100-8x1 has 8 GPUs, and the step has 16 ranks", append(words, "--cluster=h100-8x1")},
		{"flat", "--cluster mine does not name its GPU", append(words, "--cluster="+file)},
		{"flat", `did you mean "h100"`, append(words, "--cluster=h1000-8x2")},
		{"flat", `unknown link "x-y"`, append(words, "--cluster=h100-8x2", "--dead-link=x-y")},
		{"ahbm", "--cluster is not for backend ahbm", []string{"--cluster=h100-8x1"}},
	} {
		if _, err := benchtest.Rows(t, Bench(), c.backend, c.words...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.words, err, c.want)
		}
	}
}

// TestExperts divides the experts of a model among replicas.
func TestExperts(t *testing.T) {
	rows := run(t, "--model=mixtral-8x7b", "--dp=2", "--ep=1,2", "--sequence=128", "--cluster=h200-8x1")
	if a, b := rows[0].Metrics, rows[1].Metrics; a["exposed_alltoall_us"] > 0 || !(b["exposed_alltoall_us"] > 0) ||
		!(b["exposed_allreduce_us"] < a["exposed_allreduce_us"]) {
		t.Errorf("%v\n%v", a, b)
	}
}

// TestColours draws the same activity in the same colour in all panels of the timeline.
func TestColours(t *testing.T) {
	rows := run(t, "--model=mixtral-8x7b", "--dp=2", "--pp=2", "--ep=1,2", "--sequence=128", "--cluster=h200-8x1")
	panels := timelines(rows)[0].Panels
	a, b := panels[0].Content.(*figure.Timeline), panels[1].Content.(*figure.Timeline)
	if strings.Join(a.Kinds, " ") != "compute allreduce alltoall send recv" || !slices.Equal(a.Kinds, b.Kinds) {
		t.Errorf("%v, %v", a.Kinds, b.Kinds)
	}
	// The last stage receives first.
	first := slices.MinFunc(a.Rows[3].Spans, func(a, b figure.TimelineSpan) int { return cmp.Compare(a.From, b.From) })
	if a.Kinds[first.Kind] != "recv" {
		t.Errorf("%+v", first)
	}
}

// TestTimelineShowsTheTable compares the area of each colour in the timeline with the parts of the step. The layers of
// the model are shorter than the intervals of the timeline.
func TestTimelineShowsTheTable(t *testing.T) {
	r := run(t, "--model=llama3-70b", "--tp=4", "--sequence=512", "--cluster=h200-4x1")[0]
	timeline := timelines(dataset.Set{r})[0].Panels[0].Content.(*figure.Timeline)
	area := map[string]float64{}
	for _, row := range timeline.Rows {
		for _, s := range row.Spans {
			area[timeline.Kinds[s.Kind]] += (s.To - s.From) * (s.Top - s.Bottom) / float64(len(timeline.Rows))
		}
	}
	for kind, metric := range map[string]string{"compute": computeMetric, "allreduce": "exposed_allreduce_us"} {
		if want := r.Metrics[metric]; !(want > 0) || math.Abs(area[kind]/want-1) > 0.002 {
			t.Errorf("the timeline shows %g us of %s, the table %g", area[kind], kind, want)
		}
	}
}

// TestRefused plants faults that a run must refuse before it starts.
func TestRefused(t *testing.T) {
	good := stored(t, nil)
	missing := stored(t, nil)
	must.Do(t, os.Remove(missing+".0.et"))
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"--trace=" + missing}, "step.0.et of rank 0 is missing"},
		{[]string{"--trace=nowhere/x"}, "looking for the traces nowhere/x.RANK.et"},
		{[]string{"--trace=" + good, "num_ranks=3"}, "--ranks 3: there are 2 traces"},
		{[]string{"--trace=" + good, "algorithm=rnig"}, `did you mean "ring"`},
		{[]string{"--trace=" + good, "algorithm=pairwise"}, "no collective of the traces has this algorithm: allreduce of 2"},
		{[]string{"--trace=" + good, "streams=0"}, "--streams 0: want 1 to"},
		{[]string{"--trace=" + good, "--gpu=h100"}, "--gpu h100 needs --model"},
		{[]string{"--model=llama3-8b", "--gpu=h1000"}, `did you mean "h100"`},
		{[]string{"--trace=" + good, "--sips=2:ring"}, "--sips is not for backend flat"},
		{[]string{"--trace=" + good, "--groups=" + write(t, "g.json", "[1]")}, `want {"NAME": [RANK, ...]}`},
		{[]string{"--trace=" + good, "--groups=" + write(t, "g.json", `{"dp": [0]}`)}, "rank 1 is not a member"},
		{[]string{"--trace=" + good, "--perfetto=/nowhere/t.json"}, "--perfetto /nowhere/t.json"},
		{[]string{"--trace=" + stored(t, func(rank int, nodes []chakra.Node) []chakra.Node {
			nodes[1].Bytes = int64(1+rank) << 36
			return nodes
		})}, "the matching collective of process group dp is"},
	} {
		if _, err := benchtest.Rows(t, Bench(), "flat", c.words...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.words, err, c.want)
		}
	}
}
