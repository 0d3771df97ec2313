package collectives

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/tune"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/view/tuned"
)

// studied returns a study of two sizes. At the small one, the gain of ring in chunks was confirmed; at
// the large one, it won the race but its gain was not confirmed.
func studied(t *testing.T) (tune.Result, []journal.Row) {
	t.Helper()
	r := tune.Result{Metric: "time_us", Per: []string{"size"},
		Variables: []tune.Variable{{Names: []string{"algorithm"}, Env: []bool{false},
			Values: [][]string{{auto}, {"ring@1Ki"}, {"one-stage"}}, Unset: [][]bool{{false}, {false}, {false}}}}}
	for _, size := range []string{"size=4096", "size=65536"} {
		confirmed := &judge.Interval{Mid: -0.5, Low: -0.6, High: -0.4, Known: true, Count: 6}
		if size == "size=65536" {
			confirmed = &judge.Interval{Mid: -0.5, Low: -1, High: 0.1, Known: true, Count: 6}
		}
		r.Findings = append(r.Findings, tune.Finding{Per: size, Levels: map[int][]int{0: {0}, 1: {1}, 2: {2}},
			Answer: tune.Answer{Best: 1, Done: true, Confirmed: confirmed}})
	}
	var rows []journal.Row
	two := 2
	for _, size := range []int64{4096, 65536} {
		for algorithm, us := range map[string]float64{auto: 10, "ring@1Ki": 6, "one-stage": 4} {
			for trial := range 6 {
				us := us * (1 + 0.001*float64(trial))
				row := journal.Row{Bench: "collectives", NumRanks: &two, Backend: "cpu", Host: "here", Trial: trial,
					Status: journal.OK,
					Kind:   journal.Measured, Samples: 100, Metrics: map[string]float64{"time_us": us},
					Details: map[string]string{"algorithm": algorithm},
					Point: point.Point{{Name: "op", Value: point.StringValue(allReduce)},
						{Name: "algorithm", Value: point.StringValue(algorithm)},
						{Name: "dtype", Value: point.StringValue("f32")}, {Name: "reduction", Value: point.StringValue("sum")},
						{Name: "size", Value: point.BytesValue(size)}, {Name: "inplace", Value: point.BoolValue(false)},
						{Name: "buffers", Value: point.StringValue(private)}}}
				if algorithm == auto {
					row.Details["algorithm"] = "two-stage"
				}
				rows = append(rows, row)
			}
		}
	}
	return r, rows
}

// The table has the winners with a confirmed gain and leaves the choice to auto elsewhere. It has
// neither winners without a confirmed gain nor algorithms that merely looked fast.
func TestTuneWritesTheTable(t *testing.T) {
	r, rows := studied(t)
	files, err := tuned.Files(r, Bench(), dataset.All(rows))
	if err != nil || len(files) == 0 || files[0].Name != TuningFile {
		t.Fatalf("%v: %+v", err, files)
	}
	path := filepath.Join(t.TempDir(), TuningFile)
	must.Do(t, os.WriteFile(path, files[0].Data, 0o600))
	table := must.Get(tuning.Load(path))(t)
	at := func(bytes int) string {
		e := table.For(tuning.Group{Host: "here"}).Choose("cpu", allReduce, 2, dist.F32, bytes, false)
		return e.Choice().String()
	}
	builtIn := tuning.Default().Choose("cpu", allReduce, 2, dist.F32, 65536, false).Algorithm
	if at(4096) != "ring@1Ki" || at(65536) != builtIn {
		t.Errorf("auto takes %s and %s", at(4096), at(65536))
	}
	if table.For(tuning.Group{Host: "elsewhere"}).Choose("cpu", allReduce, 2, dist.F32, 4096, false).Algorithm == "ring" {
		t.Error("another host takes what was measured here")
	}
	for i := range r.Findings {
		r.Findings[i].Answer.Done = false // interrupted
	}
	if files, err := tuned.Files(r, Bench(), dataset.All(rows)); err != nil || len(files) > 0 {
		t.Errorf("a study without proof writes %v, %v", files, err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// Every algorithm of a backend is tried, with several chunk sizes if both the algorithm and the
// backend support chunks.
func TestTunedAlgorithms(t *testing.T) {
	for _, backend := range dist.Backends(nil) {
		can := dist.Describe(backend).Capabilities
		values := strings.Split(tuningDefaults().Axes(backend)[0][1], ",")
		pieces := slices.ContainsFunc(values, func(v string) bool {
			choice, err := tuning.ParseChoice(v)
			return err == nil && choice.ChunkBytes > 0
		})
		if values[0] != auto || pieces && !can.Has(dist.Pipelining) {
			t.Errorf("%s: %v", backend, values)
		}
		for _, a := range can.Algorithms[dist.AllReduce] {
			if !slices.Contains(values, a) {
				t.Errorf("%s: %s is not tried", backend, a)
			}
		}
	}
	if values := tuningDefaults().Axes("cuda")[0][1]; !strings.Contains(values,
		"two-stage-push,two-stage-push#1,two-stage-push#4,two-stage-push#16") {
		t.Error(values)
	}
	if values := tuningDefaults().Axes("cpu")[0][1]; strings.Contains(values, "#") ||
		!strings.Contains(values, "ring,ring@16Ki,ring@128Ki,ring@1Mi") {
		t.Error(values)
	}
}

// If the table names chunks, auto runs with them and the row says so: a study takes effect in the next
// run.
func TestTableWithPieces(t *testing.T) {
	r, rows := studied(t)
	for i := range rows {
		rows[i].Host = ""
	}
	files := must.Get(tuned.Files(r, Bench(), dataset.All(rows)))(t)
	path := filepath.Join(t.TempDir(), TuningFile)
	must.Do(t, os.WriteFile(path, files[0].Data, 0o600))
	p := planned(t, plan.Request{Axes: axes("size=4K", "buffers=private", "algorithm=auto,ring@512"),
		Options: axes("probe="+scriptedFile(t), "tuning="+path)})
	for _, task := range p.Groups[0].Tasks {
		want := map[string]string{auto: "ring@1Ki", "ring@512": "ring@512"}[task.Point.At("algorithm").String()]
		if o := perform(t, task, p.Options, "cpu")[0]; o.Status != journal.OK || o.Details["algorithm"] != want ||
			o.Metrics["wrong"] != 0 {
			t.Errorf("%s: %s %s, took %s", task.Point, o.Status, o.Reason, o.Details["algorithm"])
		}
	}
}

// TestBrokenTuning checks that a table that cannot be read is refused when planning, before any rank
// would fail on it.
func TestBrokenTuning(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"good.json":    {`{"entries": [{"op": "allreduce", "algorithm": "ring"}]}`, ""},
		"broken.json":  {`{"entries": [`, "reading a tuning table"},
		"unknown.json": {`{"entries": [{"op": "allredcue", "algorithm": "ring"}]}`, `did you mean "allreduce"?`},
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(c.text), 0o644))
		_, err := plan.Outline(Bench(), plan.Request{Backend: "cpu",
			Options: []plan.Assign{{Name: "tuning", Text: path}}, Inputs: map[string]string{"tuning": "sum"}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "--tuning")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
