package solvescaling

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/solve"
)

// made is a row as a run would leave it, with the given coordinates and numbers.
func made(mode string, p int, dof, seconds, iterations float64) journal.Row {
	var pt point.Point
	for _, a := range Bench().Parts[0].Axes {
		if a.Name != "num_ranks" {
			pt = append(pt, point.Coord{Name: a.Name, Value: a.Values[0]})
		}
	}
	pt = pt.With(modeAxis, point.StringValue(mode))
	us := 1e6 * seconds / iterations
	m := map[string]float64{"solve_time_s": seconds, "iterations": iterations, "time_us": us, "dof_global": dof, "dof_per_rank": dof / float64(p),
		"throughput_dof_s": dof / seconds, "rel_residual": 1e-9, "triad_gbps": 10*float64(p) + 1, "triad_typical_gbps": 9 * float64(p), "gbps": 8 * float64(p), "triad_fraction": 0.8,
		"reductions_per_iteration": 2, "row_imbalance": 1, "nnz_imbalance": 1}
	for ph, share := range map[solve.Phase]float64{solve.SpMV: 0.6, solve.Updates: 0.3, solve.Dots: 0.1} {
		m[meanOf(ph)], m[slowestOf(ph)] = share*us, share*us
	}
	return journal.Row{Run: "r", Bench: "solve-scaling", Point: pt, NumRanks: &p, Backend: "cpu", Status: journal.OK, Metrics: m,
		Details: map[string]string{"problem": "poisson 2-D 5-point", "history": "0:1 10:1e-3 20:1e-9"}, Options: point.Point{{Name: rtolOption, Value: point.FloatValue(1e-8)}}}
}

func TestDerive(t *testing.T) {
	rows := []journal.Row{
		made(weak, 1, 1000, 1, 100), made(weak, 4, 4000, 2.5, 200), // half algorithmic, 80 % implementation
		made(strong, 1, 9000, 6, 300), made(strong, 2, 9000, 4, 300),
		made(throughput, 2, 2000, 1, 100), // against the weak row of one rank
	}
	other := made(weak, 2, 2000, 1, 100)
	other.Point = other.Point.With(methodAxis, point.StringValue("gmres")) // no row of one rank
	failed := made(weak, 8, 8000, 1, 1)
	failed.Status = journal.Failed
	rows = append(rows, other, failed)
	got := derive(rows)
	for i, want := range []struct{ speedup, efficiency, algorithmic, implementation float64 }{
		{1, 1, 1, 1}, {1.6, 0.4, 0.5, 0.8}, {1, 1, 1, 1}, {1.5, 0.75, 1, 0.75}, {2, 1, 1, 1},
	} {
		m := got[i].Metrics
		for name, w := range map[string]float64{"speedup": want.speedup, "efficiency": want.efficiency, "efficiency_algorithmic": want.algorithmic, "efficiency_implementation": want.implementation, "bandwidth_scaling": 1} {
			if math.Abs(m[name]-w) > 1e-12 {
				t.Errorf("row %d: %s is %v, want %v", i, name, m[name], w)
			}
		}
		if _, leaked := rows[i].Metrics["speedup"]; leaked {
			t.Error("derive wrote into the rows it was given")
		}
	}
	for _, r := range got[5:] {
		if _, has := r.Metrics["efficiency"]; has {
			t.Errorf("%s: an efficiency out of nothing", r.Point)
		}
	}
	if w := got[5].Warnings; len(w) != 1 || w[0] != noBaseline {
		t.Errorf("warnings %q", w)
	}
}

// Every row of one rank is a baseline, also the slower one of two.
func TestBaselineIsWhole(t *testing.T) {
	again := made(weak, 1, 1000, 1.5, 100)
	again.Trial = 1
	for _, r := range derive([]journal.Row{made(weak, 1, 1000, 1, 100), again}) {
		if r.Metrics["efficiency"] != 1 || r.Metrics["efficiency_implementation"] != 1 || r.Metrics["speedup"] != 1 {
			t.Errorf("trial %d: %v", r.Trial, r.Metrics)
		}
	}
}

// What binds a row follows from its phases, and each answer can be had.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(m map[string]float64, us float64)
		want   string
	}{
		{"bandwidth", func(map[string]float64, float64) {}, "bandwidth-bound: 16.0 GB/s by the model, 80 %"},
		{"caches", func(m map[string]float64, _ float64) { m["triad_fraction"] = 1.6 }, "works from the caches, not from memory: 16.0 GB/s"},
		{"own work", func(m map[string]float64, _ float64) { m["triad_fraction"] = 0.3 }, "own work"},
		{"latency", func(m map[string]float64, us float64) {
			for _, p := range []solve.Phase{solve.SpMV, solve.Updates} {
				m[meanOf(p)], m[slowestOf(p)] = 0.2*us, 0.2*us
			}
			m[meanOf(solve.AllReduce)] = 0.5 * us
		}, "latency-bound: 50 %"},
		{"imbalance", func(m map[string]float64, us float64) { m[meanOf(solve.SpMV)], m["row_imbalance"] = 0.3*us, 1.6 }, "imbalance-bound: the slowest rank works 30 %"},
		{"communication", func(m map[string]float64, _ float64) { m["efficiency_communication"] = 0.7 }, "no rank waits for another take 70 % of the time"},
	} {
		rows := []journal.Row{made(weak, 1, 1000, 1, 100), made(weak, 2, 2000, 1.1, 100)}
		c.change(rows[1].Metrics, rows[1].Metrics["time_us"])
		s := sections(derive(rows))
		if len(s) != 1 || !strings.Contains(s[0].Text, c.want) || !s[0].Headline || len(s[0].Table) != 3 {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// The knee is the smallest size per rank that is efficient, with all above it.
func TestKnee(t *testing.T) {
	var rows []journal.Row
	for _, c := range []struct{ dof, efficiency float64 }{{800000, 0.95}, {400000, 0.9}, {100000, 0.85}, {50000, 0.6}, {20000, 0.55}, {10000, 0.4}, {5000, 0.9}} {
		one, two := made(weak, 1, c.dof, 1, 100), made(weak, 2, 2*c.dof, 1/c.efficiency, 100)
		for _, r := range []*journal.Row{&one, &two} {
			r.Point = r.Point.With(perRankAxis, point.IntValue(int64(c.dof)))
		}
		rows = append(rows, one, two)
	}
	rows = derive(rows)
	if got := knee(&rows[1], rows); !strings.Contains(got, "80 % down to 100k; 50 % down to 20k.") {
		t.Error(got)
	}
	other := made(weak, 8, 8*800000, 10, 100) // of another number of ranks: no part of this knee
	other.Point = other.Point.With(perRankAxis, point.IntValue(800000))
	if got := knee(&rows[1], derive(append(slices.Clone(rows), other))); !strings.Contains(got, "80 % down to 100k; 50 % down to 20k.") {
		t.Error(got)
	}
	if got := knee(&rows[1], rows[:4]); !strings.Contains(got, "80 % down to 400k, the fewest measured") {
		t.Error(got)
	}
	if got := knee(&rows[1], rows[10:12]); !strings.Contains(got, "80 % is not reached with 10k") {
		t.Error(got)
	}
}

// Failed rows are named, and are in no curve, no baseline and no figure.
func TestFailedRowsAreInNoCurve(t *testing.T) {
	good, bad := made(weak, 1, 1000, 1, 100), made(weak, 2, 2000, 0.01, 1)
	bad.Status, bad.Reason = journal.Failed, "the solution is wrong"
	rows := derive([]journal.Row{good, bad})
	s := sections(rows)
	if len(s) != 1 || len(s[0].Table) != 2 || !strings.Contains(s[0].Text, "The row of 2 ranks failed and is in no curve: the solution is wrong") {
		t.Errorf("%+v", s)
	}
	for _, f := range figures(rows) {
		for _, p := range f.Panels {
			for _, s := range p.Series {
				for _, q := range s.Points {
					if q.X == 2 && p.X.Scale == figure.Log2 {
						t.Errorf("%s, %s: the failed row is drawn", p.Title, s.Name)
					}
				}
			}
		}
	}
	only := []journal.Row{bad}
	if figures(derive(only)) != nil || len(artifacts(only)) != 1 {
		t.Error("a figure of nothing")
	}
}

// The figure has the panels it promises, and is sound.
func TestFigure(t *testing.T) {
	rows := derive([]journal.Row{made(weak, 1, 1000, 1, 100), made(weak, 4, 4000, 2, 150), made(strong, 1, 9000, 6, 300), made(strong, 2, 9000, 4, 300), made(throughput, 2, 2000, 1, 100)})
	all := figures(rows)
	var titles []string
	for _, f := range all {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		for _, p := range f.Panels {
			titles = append(titles, p.Title)
		}
	}
	want := "weak scaling|strong scaling|throughput|time per iteration: weak, cg, simple|time per iteration: strong, cg, simple|time per iteration: throughput, cg, simple|"
	if strings.Join(titles, "|") != want || all[0].Name != figureName {
		t.Errorf("panels %q of %s", titles, all[0].Name)
	}
	tp := all[0].Panels[2]
	if len(tp.Series) != 1 || len(tp.Series[0].Points) != 3 {
		t.Errorf("the throughput panel has %+v, want weak and throughput rows in one curve", tp.Series)
	}
}

func TestExport(t *testing.T) {
	bad := made(weak, 2, 2000, 1, 100)
	bad.Status, bad.Reason = journal.Failed, "no"
	skipped := made(weak, 3, 1, 1, 1)
	skipped.Status = journal.Skipped
	files, err := exports(derive([]journal.Row{made(weak, 1, 1000, 1, 100), made(strong, 2, 1000, 1, 100), bad, skipped}))
	if err != nil || len(files) != 1 || files[0].Name != "results/distributed_solve_scaling.json" {
		t.Fatal(files, err)
	}
	var doc struct {
		Schema int `json:"schema_version"`
		Rows   []map[string]any
	}
	if err := json.Unmarshal(files[0].Data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != 1 || len(doc.Rows) != 3 {
		t.Fatalf("schema %d, %d rows", doc.Schema, len(doc.Rows))
	}
	a, b, c := doc.Rows[0], doc.Rows[1], doc.Rows[2]
	if a["mode"] != weak || a["world_size"] != 1.0 || a["solve_time_s"] != 1.0 || a["efficiency"] != 1.0 || a["method"] != "cg" || a["partitioner"] != "simple" || a["rtol"] != 1e-8 {
		t.Errorf("%v", a)
	}
	if b["efficiency"] != nil || b["efficiency_reason"] != noBaseline || c["efficiency_reason"] != "the row failed" || c["status"] != "failed" {
		t.Errorf("%v and %v", b, c)
	}
	for _, m := range metrics {
		if _, has := a[m.name]; !has && !strings.HasSuffix(m.name, "_us") {
			t.Errorf("no field %s", m.name)
		}
	}
}
