package solvescaling

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// newRow returns a row with the given coordinates and numbers.
func newRow(mode string, p int, dof, seconds, iterations float64) journal.Row {
	var pt point.Point
	for _, a := range Bench().Parts[0].Axes {
		if a.Name != "num_ranks" {
			pt = append(pt, point.Coord{Name: a.Name, Value: a.Values[0]})
		}
	}
	pt = pt.With(modeAxis, point.StringValue(mode))
	us := 1e6 * seconds / iterations
	m := map[string]float64{"solve_time_s": seconds, "iterations": iterations, "time_us": us, "dof_global": dof,
		"dof_per_rank":     dof / float64(p),
		"throughput_dof_s": dof / seconds, "rel_residual": 1e-9, "triad_gbps": 10*float64(p) + 1,
		"triad_typical_gbps": 9 * float64(p), "gbps": 8 * float64(p), "triad_fraction": 0.8,
		"reductions_per_iteration": 2, "row_imbalance": 1, "nnz_imbalance": 1}
	for ph, share := range map[krylov.Phase]float64{krylov.SpMV: 0.6, krylov.Updates: 0.3, krylov.Dots: 0.1} {
		m[meanOf(ph)], m[slowestOf(ph)] = share*us, share*us
	}
	m[workShare], m[imbalanceShare], m[waitingShare] = 1, 0, 0
	return journal.Row{Run: "r", Bench: "solve-scaling", Samples: 3, Point: pt, NumRanks: &p, Backend: "cpu", Host: "vm",
		Status: journal.OK, Metrics: m,
		Details: map[string]string{"problem": "poisson 2-D 5-point", historyDetail: "[[0,1],[10,1e-3],[20,1e-9]]"},
		Options: point.Point{{Name: rtolOption, Value: point.FloatValue(1e-8)}}}
}

// drawn returns the panel of a title, or false.
func drawn(t *testing.T, rows dataset.Set, title string) (figure.Panel, bool) {
	t.Helper()
	for _, f := range benchtest.Figures(t, Bench(), rows) {
		if p, ok := lists.First(f.Panels, func(p figure.Panel) bool { return strings.HasPrefix(p.Title, title) }); ok {
			return p, true
		}
	}
	return figure.Panel{}, false
}

// A panel with only its baseline is left out.
func TestBaselineAlone(t *testing.T) {
	rows := []journal.Row{newRow(weak, 1, 1000, 1, 100)}
	if p, ok := drawn(t, derive(dataset.All(rows)), "weak scaling"); ok {
		t.Errorf("a baseline alone is drawn: %+v", p)
	}
	rows = append(rows, newRow(weak, 2, 2000, 1.1, 110))
	all := derive(dataset.All(rows))
	if p, ok := drawn(t, all, "weak scaling: 100k unknowns per rank"); !ok || p.Lines[0].Label != "ideal" {
		t.Errorf("two ranks are drawn as %+v", p)
	}
	if _, ok := drawn(t, all, "weak scaling of an iteration"); !ok {
		t.Error("another number of iterations is not drawn")
	}
	rows[1] = newRow(weak, 2, 2000, 1.1, 100)
	if p, ok := drawn(t, derive(dataset.All(rows)), "weak scaling of an iteration"); ok {
		t.Errorf("the same curve is drawn twice: %+v", p)
	}
}

func TestDerive(t *testing.T) {
	rows := []journal.Row{
		newRow(weak, 1, 1000, 1, 100), newRow(weak, 4, 4000, 2.5, 200), // half algorithmic, 80 % implementation
		newRow(strong, 1, 9000, 6, 300), newRow(strong, 2, 9000, 4, 300),
		newRow(throughput, 2, 2000, 1, 100), // compared with the weak row of one rank
	}
	other := newRow(weak, 2, 2000, 1, 100)
	other.Point = other.Point.With(methodAxis, point.StringValue("gmres")) // there is no such row of one rank
	failed := newRow(weak, 8, 8000, 1, 1)
	failed.Status = journal.Failed
	rows = append(rows, other, failed)
	got := derive(dataset.All(rows))
	for i, want := range []struct{ speedup, efficiency, algorithmic, implementation float64 }{
		{1, 1, 1, 1}, {1.6, 0.4, 0.5, 0.8}, {1, 1, 1, 1}, {1.5, 0.75, 1, 0.75}, {2, 1, 1, 1},
	} {
		m := got[i].Metrics
		for name, w := range map[string]float64{"speedup": want.speedup, "efficiency": want.efficiency,
			"efficiency_algorithmic": want.algorithmic, "efficiency_implementation": want.implementation,
			"bandwidth_scaling": 1} {
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
	if c := got[5].Conditions; len(c) != 1 || c[0].Code != journal.CodeNoBaseline {
		t.Errorf("conditions %v", c)
	}
}

// Every row of one rank is its own baseline, including the slower one of two.
func TestBaselineIsWhole(t *testing.T) {
	again := newRow(weak, 1, 1000, 1.5, 100)
	again.Trial = 1
	for _, r := range derive(dataset.All([]journal.Row{newRow(weak, 1, 1000, 1, 100), again})) {
		if r.Metrics["efficiency"] != 1 || r.Metrics["efficiency_implementation"] != 1 || r.Metrics["speedup"] != 1 {
			t.Errorf("trial %d: %v", r.Trial, r.Metrics)
		}
	}
}

// Table, figure, sentence and columns show the same speed-up, whatever the number of trials: that of the median times.
func TestOneMedian(t *testing.T) {
	var rows []journal.Row
	for ranks, seconds := range map[int][]float64{1: {4, 6}, 2: {2, 6}} {
		for trial, s := range seconds {
			r := newRow(strong, ranks, 9000, s, 100)
			r.Trial, r.Metrics["triad_fraction"] = trial, 1+float64(trial)
			rows = append(rows, r)
		}
	}
	rows = derive(dataset.All(rows)).Copy()
	for _, r := range rows {
		want := map[int]float64{1: 1, 2: 1.25}[dataset.Ranks(&r)] // (4 + 6) / (2 + 6)
		if r.Metrics["speedup"] != want {
			t.Errorf("%d ranks, trial %d: %v, want %v", dataset.Ranks(&r), r.Trial, r.Metrics["speedup"], want)
		}
	}
	s := sections(dataset.All(rows))[0]
	if line := strings.Join(s.Table[2], " "); line != "2 9000 100 40000 4 0.625 1.5 own work" {
		t.Errorf("the table has %q", line)
	}
	if text := benchtest.Text(s); !strings.Contains(text, "it is about 0.625.") {
		t.Errorf("the text is %q", text)
	}
	if p, _ := drawn(t, dataset.All(rows), "strong scaling"); p.Series[0].Points[1].Y != 1.25 {
		t.Errorf("the figure has %v", p.Series[0].Points)
	}
}

// Of several trials, the median one is on the curve and is the baseline, and intervals span the solves of all. A
// disturbed trial counts for neither.
func TestMedianTrial(t *testing.T) {
	var rows []journal.Row
	for ranks, seconds := range map[int][]float64{1: {4, 2, 3, 0.1}, 2: {2, 9, 2.5}} {
		for trial, s := range seconds {
			r := newRow(strong, ranks, 9000, s, 100)
			r.Trial = trial
			r.Stats = r.Stats.With("time_us", journal.Stat{Min: r.Metrics["time_us"], Max: 1.1 * r.Metrics["time_us"]})
			if s == 0.1 {
				r.Quality = journal.QualityDisturbed
			}
			rows = append(rows, r)
		}
	}
	rows = derive(dataset.All(rows)).Copy()
	all := curves(dataset.All(rows))
	if len(all) != 1 || len(all[0].rows) != 2 {
		t.Fatalf("%d curves: %v", len(all), all)
	}
	one, two := all[0].rows[0].Metrics, all[0].rows[1].Metrics
	if one["solve_time_s"] != 3 || two["solve_time_s"] != 2.5 {
		t.Errorf("the curve has %v s and %v s, want the medians 3 and 2.5", one["solve_time_s"], two["solve_time_s"])
	}
	for name, want := range map[string]float64{"efficiency": 0.6, "efficiency_low": 2 / 9.9 / 2,
		"efficiency_high": 4.4 / 2 / 2} {
		if math.Abs(two[name]-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", name, two[name], want)
		}
	}
	p, _ := drawn(t, dataset.All(rows), "strong scaling")
	if q := p.Series[0].Points[1]; math.Abs(q.Low-2/9.9) > 1e-12 || math.Abs(q.High-4.4/2) > 1e-12 {
		t.Errorf("the figure has the interval %v to %v", q.Low, q.High)
	}
}

// The numbers of a row determine its cause: exactly one is named.
func TestVerdict(t *testing.T) {
	waiting := func(m map[string]float64, _ float64) { m[workShare], m[waitingShare] = 0.5, 0.5 }
	for _, c := range []struct {
		name   string
		change func(m map[string]float64, us float64)
		want   string
	}{
		{"memory bandwidth", func(map[string]float64, float64) {}, "bound by memory bandwidth: 16.0 GB/s by the model, 0.8 times"},
		{"caches", func(m map[string]float64, _ float64) {
			m["triad_fraction"] = 1.6
		}, "works from the caches, not from memory: 16.0 GB/s"},
		{"own work", func(m map[string]float64, _ float64) { m["triad_fraction"] = 0.3 }, "own work"},
		{"messages", func(m map[string]float64, us float64) { waiting(m, us); m["communication_us"] = 0.45 * us },
			"bound by messages and reductions (2 reductions per iteration): ranks wait for 0.5 of its 11 ms, and the " +
				"messages by themselves take 4.95 ms"},
		{"late ranks", func(m map[string]float64, us float64) { waiting(m, us); m["communication_us"] = 0.02 * us },
			"bound by late ranks: ranks wait for 0.5 of its 11 ms, though the messages by themselves take 220 µs"},
		{"waiting", waiting, "bound by waiting, 0.5 of its 11 ms: whether for messages or for late ranks was not measured"},
		{"a slow rank", func(m map[string]float64, us float64) {
			m[workShare], m[imbalanceShare] = 0.7, 0.3
		}, "bound by a slow rank: the slowest works 0.3 of it longer than the mean rank, though the largest part has " +
			"only 1.00 times"},
		{"imbalance", func(m map[string]float64, us float64) {
			m[workShare], m[imbalanceShare], m["row_imbalance"] = 0.7, 0.3, 1.6
		}, "the slowest rank works 0.3 of it longer than the mean rank; the largest part has 1.60"},
		{"traced", func(m map[string]float64, us float64) { m["traced_us"], m["gpu"] = 2*us, 1 },
			"not resolved: its phases were only traced, and the traced iteration took 22 ms, the timed one 11 ms"},
		{"not counted", func(m map[string]float64, _ float64) { delete(m, waitingShare) },
			"not resolved: its solves did not count how long ranks work and wait"},
	} {
		rows := []journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 2, 2000, 1.1, 100)}
		rows[1].Metrics["efficiency_communication"] = 0.7
		if c.change(rows[1].Metrics, rows[1].Metrics["time_us"]); rows[1].Metrics["gpu"] > 0 {
			rows[0].Details[gpuDetail], rows[1].Details[gpuDetail] = "H200", "H200"
		}
		s := sections(derive(dataset.All(rows)))
		if len(s) != 1 || !strings.Contains(benchtest.Text(s[0]), c.want) || !s[0].Headline || len(s[0].Table) != 3 {
			t.Errorf("%s: %+v", c.name, s)
		}
		if got := strings.Count(benchtest.Text(s[0]), "bound by") + strings.Count(benchtest.Text(s[0]), "works from") +
			strings.Count(benchtest.Text(s[0]), "limit of an iteration is not resolved"); got != 1 ||
			strings.Contains(benchtest.Text(s[0]), "-bound") {
			t.Errorf("%s: %d causes: %s", c.name, got, benchtest.Text(s[0]))
		}
	}
}

// sized returns rows of 1 and 2 ranks at the given sizes and efficiencies.
func sized(all ...[2]float64) (rows []journal.Row) {
	for _, c := range all {
		one, two := newRow(weak, 1, c[0], 1, 100), newRow(weak, 2, 2*c[0], 1/c[1], 100)
		for _, r := range []*journal.Row{&one, &two} {
			r.Point = r.Point.With(perRankAxis, point.IntValue(int64(c[0])))
		}
		us := two.Metrics["time_us"]
		two.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {Min: us, Max: us * 1.1}})
		one.Stats = journal.NewObject(map[string]journal.Stat{"time_us": {Min: 10000, Max: 10500}})
		rows = append(rows, one, two)
	}
	return derive(dataset.All(rows)).Copy()
}

// The knee lists every efficient range of sizes, with the cause and the interval of the loss next to it.
func TestKnee(t *testing.T) {
	at := func(rows []journal.Row) string {
		return knee(&curve{rows: []*journal.Row{&rows[0], &rows[1]}}, dataset.All(rows)).text
	}
	rows := sized([2]float64{1000, 0.8}, [2]float64{10000, 0.9}, [2]float64{100000, 0.93}, [2]float64{1000000, 0.44})
	want := "The knee of 2 ranks, in unknowns per rank, by the time of an iteration: " +
		"0.8 from 10k to 100k, lost above at 1M to memory bandwidth: 0.44 (0.4 to 0.46), not resolved at 1k: 0.8 (0.73 " +
		"to 0.84); 0.5 from 1k to 100k, lost above at 1M to memory bandwidth: 0.44 (0.4 to 0.46)."
	if got := at(rows); got != want {
		t.Errorf("have %s\nwant %s", got, want)
	}
	crowded := rows[7]
	// on several hosts, and on one
	for _, host := range []string{"a", ""} {
		crowded.Conditions = []journal.Condition{journal.NewCondition(journal.CodeCrowded, nil, host)}
		if got := at(append(slices.Clone(rows[:6]), crowded)); !strings.Contains(got,
			"0.5 from 1k to 100k, all that was measured") {
			t.Errorf("%s: %s", host, got)
		}
	}
	other := newRow(weak, 8, 8*800000, 10, 100) // another number of ranks is not part of this knee
	other.Point = other.Point.With(perRankAxis, point.IntValue(800000))
	if got := at(derive(dataset.All(append(slices.Clone(rows), other))).Copy()); got != want {
		t.Error(got)
	}
	for _, c := range []struct {
		sizes [][2]float64
		want  string
	}{
		{[][2]float64{{5000, 0.95}, {10000, 0.4}, {50000, 0.6}, {100000, 0.95}},
			"0.8 at 5k and at 100k, lost above at 10k to memory bandwidth: 0.4 (0.36 to 0.42), lost below at 50k to memory " +
				"bandwidth: 0.6 (0.55 to 0.63); 0.5 at 5k and from 50k to 100k, lost above at 10k"},
		{[][2]float64{{800000, 0.95}, {400000, 0.9}}, "0.8 from 400k to 800k, all that was measured"},
		{[][2]float64{{10000, 0.4}}, "0.8 at no measured size, the most is 0.4 (0.36 to 0.42) at 10k"},
		{[][2]float64{{10000, 2.5}}, "whether 0.8 is reached is not resolved at 10k: 2.5 (2.3 to 2.6)"},
		{[][2]float64{{10000, 0.8}}, "whether 0.8 is reached is not resolved at 10k: 0.8 (0.73 to 0.84); 0.5 at 10k, all"},
	} {
		if got := at(sized(c.sizes...)); !strings.Contains(got, c.want) {
			t.Error(got)
		}
	}
}

// Titles state what the rows have in common, and whether the matrix is a stencil. There is a table of the phases.
func TestTitlesAndPhases(t *testing.T) {
	rows := []journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 2, 2000, 1, 100)}
	for i := range rows {
		rows[i].Metrics["matrix_bytes_per_dof"] = 0.08
	}
	if got, want := common(dataset.All(rows), problemOf, sizeOf, stored, hostOf),
		": poisson 2-D 5-point, 100k unknowns per rank, stored as a stencil, vm"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	all := benchtest.Sections(t, Bench(), derive(dataset.All(rows)))
	s := all[len(all)-1]
	if len(s.Table) != 3 || strings.Join(s.Table[0], " ") != "point timed spmv dots updates" ||
		s.Table[2][0] != "2 ranks" || s.Table[2][2] != "6 ms" || !s.Headline {
		t.Errorf("%q", s.Table)
	}
}

// Rows whose solves were stopped have the time of an iteration, but none of a solve.
func TestStoppedIsNoSolve(t *testing.T) {
	rows := []journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 2, 2000, 1.25, 100)}
	for i := range rows {
		rows[i].Conditions = []journal.Condition{{Code: journal.CodeEarlyStop}}
		delete(rows[i].Metrics, "solve_time_s")
		delete(rows[i].Metrics, "throughput_dof_s")
		us := rows[i].Metrics["time_us"]
		rows[i].Stats = journal.NewObject(map[string]journal.Stat{"time_us": {Min: us, Max: us * 1.05}})
	}
	got := derive(dataset.All(rows))
	m := got[1].Metrics
	for _, name := range []string{"solve_time_s", "throughput_dof_s", "speedup", "efficiency", "efficiency_algorithmic"} {
		if v, has := m[name]; has {
			t.Errorf("%s is %v", name, v)
		}
	}
	if math.Abs(m["efficiency_implementation"]-0.8) > 1e-12 {
		t.Errorf("efficiency of an iteration %v", m["efficiency_implementation"])
	}
	if s := sections(got)[0]; s.Table[2][4] != "-" ||
		!strings.Contains(benchtest.Text(s), "2 ranks keep 0.8 (0.76 to 0.84) of one rank's efficiency by the time of an "+
			"iteration; the solves were stopped") {
		t.Errorf("%q: %s", s.Table[2], benchtest.Text(s))
	}
	if p, ok := drawn(t, got, "throughput"); ok {
		t.Errorf("drawn as throughput: %+v", p.Series)
	}
	if e := entryOf(got[1]); e["solved"] != false || e["efficiency_reason"] != "a solve was stopped without a solution" {
		t.Errorf("%v", e)
	}
}

// Configurations that differ in any respect have different legends, and are not each other's baseline.
func TestConfigurationsApart(t *testing.T) {
	for word, change := range map[string]func(r *journal.Row){
		// The best of more solves is not comparable.
		"repeat 9":     func(r *journal.Row) { r.Options = r.Options.With(repeatOption, point.IntValue(9)) },
		"restart 50":   func(r *journal.Row) { r.Options = r.Options.With(restartOption, point.IntValue(50)) },
		"maxiter 7":    func(r *journal.Row) { r.Options = r.Options.With(maxIterOption, point.IntValue(7)) },
		"stop-after 9": func(r *journal.Row) { r.Options = r.Options.With(stopOption, point.IntValue(9)) },
		"plain":        func(r *journal.Row) { r.Point = r.Point.With(storageAxis, point.StringValue("plain")) },
		"Xeon":         func(r *journal.Row) { r.Details = map[string]string{cpuDetail: "Xeon"} },
		"kernbench 2":  func(r *journal.Row) { r.Details = map[string]string{versionDetail: "kernbench 2"} },
		"mpi":          func(r *journal.Row) { r.Backend = "mpi" },
	} {
		rows := []journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 2, 2000, 1, 100)}
		change(&rows[1])
		if r := derive(dataset.All(rows))[1]; r.Metrics["efficiency"] != 0 {
			t.Errorf("%s: held against a row of another configuration", word)
		}
		rows = append(rows, newRow(weak, 2, 2000, 1, 100), newRow(weak, 1, 1000, 1, 100))
		change(&rows[3])
		if all := curves(derive(dataset.All(rows))); len(all) != 2 {
			t.Errorf("%s: %d curves", word, len(all))
		}
		if rows[1].Details[cpuDetail]+rows[1].Details[versionDetail] != "" {
			continue // a run has one build, and the figure one machine
		}
		if p, _ := drawn(t, derive(dataset.All(rows)), "weak scaling"); len(p.Series) != 2 ||
			!slices.ContainsFunc(p.Series, func(s figure.Series) bool { return strings.HasSuffix(s.Name, ", "+word) }) {
			t.Errorf("%s: legends %+v", word, p.Series)
		}
	}
}

// Failed rows are named, and are in no curve, baseline or figure.
func TestFailedRowsAreInNoCurve(t *testing.T) {
	good, bad := newRow(weak, 1, 1000, 1, 100), newRow(weak, 2, 2000, 0.01, 1)
	bad.Status, bad.Reason = journal.Failed, "the solution is wrong"
	rows := derive(dataset.All([]journal.Row{good, bad}))
	s := sections(rows)
	if len(s) != 1 || len(s[0].Table) != 2 ||
		!strings.Contains(benchtest.Text(s[0]), "The row of 2 ranks failed and is in no curve: the solution is wrong") {
		t.Errorf("%+v", s)
	}
	for _, f := range benchtest.Figures(t, Bench(), rows) {
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
	bad.Metrics = nil
	only := []journal.Row{bad}
	if benchtest.Figures(t, Bench(), derive(dataset.All(only))) != nil {
		t.Error("a figure of nothing")
	}
}

// The figure has the expected panels and is valid.
func TestFigure(t *testing.T) {
	rows := derive(dataset.All([]journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 4, 4000, 2, 150),
		newRow(strong, 1, 9000, 6, 300),
		newRow(strong, 2, 9000, 4, 300), newRow(throughput, 2, 2000, 1, 100)}))
	all := benchtest.Figures(t, Bench(), rows)
	var titles []string
	for _, f := range all {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		for _, p := range f.Panels {
			titles = append(titles, p.Title)
		}
	}
	want := "|weak scaling: 100k unknowns per rank|weak scaling of an iteration: 100k unknowns per rank|" +
		"strong scaling: 9k unknowns|throughput: 100k unknowns per rank|time per iteration"
	if strings.Join(titles, "|") != want || all[1].Name != figureName {
		t.Errorf("panels %q of %s", titles, all[1].Name)
	}
	if all[1].Title != "Distributed solve scaling: poisson 2-D 5-point, compressed, vm" {
		t.Errorf("the title is %q", all[1].Title)
	}
	tp := all[1].Panels[3]
	if len(tp.Series) != 1 || len(tp.Series[0].Points) != 3 {
		t.Errorf("the throughput panel has %+v, want weak and throughput rows in one curve", tp.Series)
	}
	if ideal := tp.Lines[0].Points; ideal[0] != (figure.Point{X: 1, Y: 1000}) ||
		ideal[1] != (figure.Point{X: 4, Y: 4000}) {
		t.Errorf("the ideal throughput is %+v", ideal)
	}
}

func TestExport(t *testing.T) {
	bad := newRow(weak, 2, 2000, 1, 100)
	bad.Status, bad.Reason = journal.Failed, "no"
	skipped := newRow(weak, 3, 1, 1, 1)
	skipped.Status, skipped.Reason = journal.Skipped, "cannot work"
	files, err := exports(derive(dataset.All([]journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(strong, 2,
		1000, 1, 100), bad,
		skipped})))
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
	if doc.Schema != 1 || len(doc.Rows) != 4 || doc.Rows[3]["status"] != "skipped" ||
		doc.Rows[3]["reason"] != "cannot work" {
		t.Fatalf("schema %d, %d rows", doc.Schema, len(doc.Rows))
	}
	a, b, c := doc.Rows[0], doc.Rows[1], doc.Rows[2]
	noBaseline := journal.Condition{Code: journal.CodeNoBaseline}.Sentence()
	if a["mode"] != weak || a["world_size"] != 1.0 || a["solve_time_s"] != 1.0 || a["efficiency"] != 1.0 ||
		a["method"] != "cg" || a["partitioner"] != "simple" || a["rtol"] != 1e-8 {
		t.Errorf("%v", a)
	}
	if b["efficiency"] != nil || b["efficiency_reason"] != noBaseline || c["efficiency_reason"] != "the row failed" ||
		c["status"] != "failed" {
		t.Errorf("%v and %v", b, c)
	}
	for _, name := range []string{"restart", "maxiter", "stop_after", "repeat", "threads", "storage", "version", "cpu",
		"solved"} {
		if _, has := a[name]; !has {
			t.Errorf("no field %s", name)
		}
	}
	for _, m := range metrics {
		if _, has := a[m.name]; !has && !strings.HasSuffix(m.name, "_us") {
			t.Errorf("no field %s", m.name)
		}
	}
}

// The levels of a cycle are shown with their share of it.
func TestLevelTable(t *testing.T) {
	r := journal.Row{Details: map[string]string{levelsDetail: `[{"Rows":1000,"Entries":4980,"US":300},{"Rows":250,"Entries":2200,"US":100}]`}}
	got := levelTable(&r)
	want := [][]string{{"level", "rows", "entries/row", "µs", "share"}, {"0", "1000", "4.98", "300", "75 %"},
		{"1", "250", "8.8", "100", "25 %"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if none := levelTable(&journal.Row{}); len(none) != 1 {
		t.Errorf("a row without levels has %v", none)
	}
}

// Disturbed rows are marked in every figure. The roofline shows the product and the iteration under the roof for the
// same number of ranks.
func TestDisturbedRowsAreHollow(t *testing.T) {
	rows := []journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 2, 2000, 1, 100), newRow(strong, 2, 2000, 1, 100),
		newRow(throughput, 2, 2000, 1, 100)}
	for i := range rows {
		m := rows[i].Metrics
		m["product_flops"], m["product_bytes"], m["product_plain_bytes"], m["product_us"], m["product_plain_us"] = 1e6, 2e6,
			8e6, 400, 900
		m["flops_model"], m["bytes_model"], m["peak_gflops"] = 3e6, 1e7, 40
		if dataset.Ranks(&rows[i]) == 2 {
			rows[i].Quality = journal.QualityDisturbed
		}
	}
	drawn, hollow := 0, 0
	all := benchtest.Figures(t, Bench(), derive(dataset.All(rows)))
	for _, f := range all {
		if err := f.Validate(); err != nil {
			t.Error(err)
		}
		for _, p := range f.Panels {
			for _, s := range p.Series {
				for _, q := range s.Points {
					two := p.X.Scale == figure.Log2 && q.X == 2 ||
						p.X.Scale == figure.Category && strings.HasPrefix(p.X.Categories[int(q.X)], "2 ranks") ||
						p.Title == "2 ranks"
					if p.Title == "" { // residuals, which are never disturbed
						continue
					}
					if drawn++; q.Hollow {
						hollow++
					}
					if q.Hollow != two {
						t.Errorf("%s, %s: %s, %s at %g is hollow: %v", f.Name, p.Title, s.Name, p.X.Label, q.X, q.Hollow)
					}
				}
			}
		}
	}
	if drawn == 0 || hollow == 0 || hollow == drawn {
		t.Errorf("%d of %d points are hollow", hollow, drawn)
	}
	roof := all[0]
	if roof.Name != "distributed_solve_roofline" || len(roof.Panels) != 2 || len(roof.Panels[0].Series) != 3 {
		t.Fatalf("%+v", roof)
	}
	if got := roof.Panels[0].Series[0].Points[0]; got.X != 0.5 || got.Y != 2.5 {
		t.Errorf("the product is at %+v", got)
	}
}

// A method that hides its reductions reports how much was hidden, even if nothing was.
func TestHiddenReductions(t *testing.T) {
	rows := []journal.Row{newRow(weak, 1, 1000, 1, 100), newRow(weak, 2, 2000, 1, 100)}
	m := rows[1].Metrics
	for _, c := range []struct {
		blocking, left float64
		want           string
	}{{0, 5, ""}, {20, 5, "which take 20 µs of a traced iteration where ranks wait for them at once, 75 % are hidden " +
		"behind the product: 5 µs are left."},
		{20, 25, "None of the reductions was hidden: they take 25 µs"}} {
		m["allreduce_blocking_us"], m[meanOf(krylov.AllReduce)] = c.blocking, c.left
		if text := benchtest.Text(sections(derive(dataset.All(rows)))[0]); c.want != "" && !strings.Contains(text, c.want) ||
			c.want == "" && strings.Contains(text, "hidden") {
			t.Errorf("%g of %g us: %s", c.left, c.blocking, text)
		}
	}
}

// The warning says that all rows add up to zero only if they do. A row without entries is a piece of its own.
func TestDescribeNullSpace(t *testing.T) {
	for _, c := range []struct {
		pieces, rows int
		want         string
	}{
		{1, 50, "its rows add up to zero"},
		{2, 50, "the rows of 2 uncoupled pieces add up to zero"},
		{1, 1, "the rows of 1 of its uncoupled pieces (1 of 50 rows) add up to zero"},
	} {
		if got, _ := describeNullSpace(c.pieces, c.rows, 50); got != c.want {
			t.Errorf("%d pieces with %d of 50 rows: %q, want %q", c.pieces, c.rows, got, c.want)
		}
	}
}
