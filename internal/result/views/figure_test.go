package views

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func mustParse(t *testing.T, text string) Plot {
	t.Helper()
	return must.Get(ParsePlot(text))(t)
}

// Each golden file is the description of one figure.
func TestFigureGolden(t *testing.T) {
	run := fixtureRun()
	perSeries := sweep(sizes[:3], []string{"f32", "f16"}, []int{2}, []string{""}, 1)
	for i := range perSeries {
		perSeries[i].Limits = map[string]float64{"peak": perSeries[i].Metrics[dataset.TimeMetric] / 2}
	}
	level := sweep(sizes, []string{"f32"}, []int{2}, []string{""}, 1)
	for i := range level {
		level[i].Limits = map[string]float64{"wire": 4}
	}
	parts := sweep(sizes[:3], []string{"f32"}, []int{2}, []string{""}, 1)
	for i, kind := range []string{"host", "device"} {
		r := fixtureRow(coords{0, "f32", 2, "", 0})
		r.Part, r.Point = "kinds", point.Point{{Name: "buffer", Value: point.StringValue(kind)}}
		r.Metrics[dataset.TimeMetric] = 100 + 10*float64(i)
		parts = append(parts, r)
	}
	noTime := fixtureRow(coords{1 << 25, "f32", 2, "", 0})
	delete(noTime.Metrics, dataset.TimeMetric)
	parts = append(parts, noTime)
	split := sweep(sizes[:2], []string{"f32"}, []int{2}, []string{""}, 1)
	s := split[1].Stats.Get(dataset.TimeMetric)
	s.Modes = []stats.Mode{{Center: 5, Share: 0.52}, {Center: 10, Share: 0.48}}
	split[1].Stats = split[1].Stats.With(dataset.TimeMetric, s)
	four := []string{"f32", "f16", "bf16", "i32"}
	for _, c := range []struct {
		name, plot string
		rows       []journal.Row
	}{
		{"time_by_dtype", "x=size,by=dtype", run.Rows},
		{"trials", "x=size,by=num_ranks", sweep(sizes, []string{"f32"}, []int{2, 4}, []string{"Ring"}, 3)},
		{"by_trial", "x=size,by=trial", sweep(sizes[:2], []string{"f32"}, []int{2}, []string{"Ring"}, 2)},
		{"category_bars", "x=NCCL_ALGO,y=busbw",
			sweep(sizes[2:4], []string{"f32"}, []int{2}, []string{"", "Ring", "Tree"}, 1)},
		{"category_points", "x=dtype,y=time_us", sweep(sizes, []string{"f32", "f16"}, []int{2}, []string{""}, 1)},
		{"linear_ranks", "x=num_ranks,y=time_us.p99", sweep(sizes[:1], []string{"f32"}, []int{1, 2, 4, 8}, []string{""}, 1)},
		{"limit_per_series", "x=size,by=dtype", perSeries},
		{"limit_level", "x=size", level},
		{"panels", "x=size,by=dtype", sweep(sizes[:2], four, []int{1, 2, 4, 8}, []string{""}, 1)},
		{"panels_log", "x=size,by=dtype,y=time_us.p50",
			append(sweep(sizes[:2], four, []int{1, 2, 4}, []string{""}, 1), sweep(sizes, four, []int{8}, []string{""}, 1)...)},
		{"parts", "x=size", parts},
		{"modes", "x=size", split},
		{"all_failed", "x=size,y=whatever", []journal.Row{notOK(parts[0], journal.Failed, "no")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fig := must.Get(mustParse(t, c.plot).Figure(fixtureHeader(), dataset.All(c.rows)))(t)
			must.Do(t, fig.Validate())
			golden.Check(t, c.name+".json", string(must.Get(json.MarshalIndent(fig, "", " "))(t))+"\n")
		})
	}
}

func TestFigureErrors(t *testing.T) {
	h := fixtureHeader()
	rows := sweep(sizes, []string{"f32", "f16"}, []int{2}, []string{"Ring", "Tree"}, 1)
	many := func(n int) (out []journal.Row) {
		for i := range n {
			for k := range n {
				r := fixtureRow(coords{1024, "f32", 2, fmt.Sprint(i), 0})
				out = append(out, journal.Row{Status: journal.OK, Metrics: r.Metrics, Env: r.Env, Backend: fmt.Sprint(k),
					Point: r.Point})
			}
		}
		return out
	}
	for _, c := range []struct {
		plot string
		rows []journal.Row
		want []string
	}{
		{"x=sise", rows, []string{`plot x=sise,y=time_us`, `unknown coordinate "sise"`, `did you mean "size"`, "num_ranks",
			"NCCL_ALGO", "check", "trial"}},
		{"x=size,by=dtyp", rows, []string{`by: unknown coordinate "dtyp"`, `"dtype"`}},
		{"x=size,y=time", rows, []string{`unknown metric "time"`, `"time_us"`, "busbw", "time_us.p99"}},
		{"x=size,y=busbw.p99", rows, []string{`unknown metric "busbw.p99"`}},
		{"x=size,by=size", rows, []string{"size is both x and by"}},
		{"x=size,by=axis.size", rows, []string{"both x and by"}},
		{"x=size", many(13), []string{"169 series", "backend, NCCL_ALGO", "at most 12"}},
	} {
		_, err := mustParse(t, c.plot).Figure(h, dataset.All(c.rows))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want it to say %q", c.plot, err, want)
			}
		}
	}
	// Names from the header are known even without rows.
	for _, good := range []string{"x=size", "x=size,by=env.NCCL_ALGO", "x=run,by=size+dtype"} {
		if _, err := mustParse(t, good).Figure(h, nil); err != nil {
			t.Error(err)
		}
	}
}

func points(f figure.Figure) (n int) {
	for _, p := range f.Panels {
		for _, s := range p.Series {
			for _, pt := range s.Points {
				if !s.Dashed && !pt.Failed {
					n++
				}
			}
		}
	}
	return n
}

// Disturbed rows have hollow markers. A failed point is
// a gap in the curve, not a straight line between its neighbours.
func TestDisturbedAndFailedRows(t *testing.T) {
	rows := sweep(sizes, []string{"f32"}, []int{2}, []string{"Ring"}, 2)
	for i := range rows {
		switch size, _ := rows[i].Point.Get("size"); {
		case size.Int() == sizes[0]:
			rows[i].Quality = journal.QualityDisturbed
			rows[i].Metrics["time_us"] = 1e-3
		case size.Int() == sizes[1] && rows[i].Trial == 1:
			rows[i].Quality, rows[i].Metrics["time_us"] = journal.QualityDisturbed, 1e9
		case size.Int() == sizes[2]:
			rows[i] = notOK(rows[i], journal.Failed, "crashed")
		}
	}
	fig := must.Get(Plot{X: "size"}.Figure(nil, dataset.All(rows)))(t)
	pts := fig.Panels[0].Series[0].Points
	if len(pts) != len(sizes) || !pts[0].Hollow || pts[1].Hollow || pts[1].Y > 1e6 || !pts[2].Failed || pts[3].Hollow ||
		pts[3].Failed {
		t.Errorf("%+v", pts)
	}
	for _, want := range []string{"hollow: disturbed", "×: the point failed"} {
		if note := fig.Panels[0].Note; !strings.Contains(note, want) {
			t.Errorf("note %q lacks %q", note, want)
		}
	}
}

// Rows that differ in a coordinate outside the plot are never merged. A coordinate that
// changes together with x makes no further series.
func TestNothingIsMixed(t *testing.T) {
	rows := sweep(sizes, []string{"f32", "f16"}, []int{2, 4}, []string{"Ring"}, 2)
	for i := range rows {
		size, _ := rows[i].Point.Get("size")
		rows[i].Point = rows[i].Point.With("count", point.IntValue(size.Int()/4))
	}
	other := slices.Clone(rows[:5])
	for i := range other {
		other[i].Run = "another"
	}
	fig := must.Get(Plot{X: "size"}.Figure(fixtureHeader(), dataset.All(append(rows, other...))))(t)
	if got, want := points(fig), 5*2*2+5; got != want {
		t.Errorf("%d points, want %d", got, want)
	}
	p := fig.Panels[0]
	if got := p.Series[0].Name; got != "num_ranks=2 dtype=f32 run=20261115-014233-7f3a" {
		t.Errorf("series %q", got)
	}
	if !strings.Contains(p.Note, "separated by num_ranks, dtype, run, which") || strings.Contains(p.Note, "count") {
		t.Errorf("note %q", p.Note)
	}
}

// An axis with the name of a field keeps the name; the field gets a prefix.
func TestNameClash(t *testing.T) {
	rows := sweep(sizes, []string{"f32"}, []int{2}, []string{""}, 1)
	for i := range rows {
		rows[i].Point = rows[i].Point.With("kind", point.StringValue(fmt.Sprint("k", i%2)))
	}
	rows[0].Kind = journal.Simulated
	for by, want := range map[string]string{"kind": "kind=k0", "row.kind": "row.kind=simulated", "axis.kind": "kind=k0"} {
		fig := must.Get(Plot{X: "size", By: []string{by}}.Figure(fixtureHeader(), dataset.All(rows)))(t)
		if got := fig.Panels[0].Series[0].Name; got != want {
			t.Errorf("by %s: first series is %q, want %q", by, got, want)
		}
	}
}

// If trials have different limits, the smallest is drawn.
func TestStrictestLimit(t *testing.T) {
	rows := sweep(sizes[:1], []string{"f32"}, []int{2}, []string{""}, 3)
	for i, us := range []float64{3, 1, 2} {
		rows[i].Limits = map[string]float64{"link": us}
	}
	fig := must.Get(Plot{X: "size"}.Figure(fixtureHeader(), dataset.All(rows)))(t)
	if lines := fig.Panels[0].Lines; len(lines) != 1 || lines[0].Y == nil || *lines[0].Y != 1 {
		t.Errorf("limits %+v, want a level one at 1", lines)
	}
}

func TestUnsetIsNotText(t *testing.T) {
	rows := sweep(sizes[:2], []string{"f32"}, []int{2}, []string{"", "(unset)", "2"}, 1)
	fig := must.Get(Plot{X: "NCCL_ALGO", By: []string{"size"}}.Figure(fixtureHeader(), dataset.All(rows)))(t)
	if got := fig.Panels[0].X.Categories; !slices.Equal(got, []string{"2", "(unset)", "(unset)"}) {
		t.Errorf("categories %q", got)
	}
}

// A title with many coordinates ends at a whole one and counts the rest, because a figure has room for two lines.
func TestLongTitle(t *testing.T) {
	row := journal.Row{Bench: "b", Status: journal.OK, Kind: journal.Measured}
	for i := range 12 {
		row.Point = append(row.Point, point.Coord{Name: fmt.Sprintf("coordinate%d", i), Value: point.IntValue(1)})
	}
	rows := []journal.Row{row}
	got := title("b", []dot{{row: &rows[0]}}, dataset.All(rows).Coords(nil), nil)
	if !strings.HasPrefix(got, "b: coordinate0=1, coordinate1=1, ") || !strings.HasSuffix(got, " and 6 more") {
		t.Errorf("title %q", got)
	}
}
