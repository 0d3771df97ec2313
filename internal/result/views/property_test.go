package views

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

var (
	anyName  = rapid.SampledFrom([]string{"size", "kind", "num_ranks", "trial", "E", "", "<b>", "日本"})
	anyText  = rapid.SampledFrom([]string{"", "a", "b", "64", "(unset)", "-", "x y", "</td>", "\xff\x00"})
	anyFloat = rapid.OneOf(rapid.Float64(),
		rapid.SampledFrom([]float64{0, 1, 2, 4096, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324}))
	anyValue = rapid.Custom(func(t *rapid.T) point.Value {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return point.IntValue(rapid.Int64().Draw(t, "int"))
		case 1:
			return point.BytesValue(1 << rapid.IntRange(0, 40).Draw(t, "bytes"))
		case 2:
			return point.FloatValue(anyFloat.Draw(t, "float"))
		case 3:
			return point.StringValue(anyText.Draw(t, "text"))
		case 4:
			return point.BoolValue(rapid.Bool().Draw(t, "bool"))
		}
		return point.Value{}
	})
	anyCoords = rapid.Custom(func(t *rapid.T) (p point.Point) {
		for _, name := range rapid.SliceOfNDistinct(anyName, 0, 3, rapid.ID[string]).Draw(t, "names") {
			p = append(p, point.Coord{Name: name, Value: anyValue.Draw(t, "value")})
		}
		return p
	})
	anyStat = rapid.Custom(func(t *rapid.T) journal.Stat {
		f := func() float64 { return anyFloat.Draw(t, "stat") }
		return journal.Stat{Min: f(), P50: f(), P90: f(), P99: f(), Max: f(), Mean: f(),
			CILow: rapid.Ptr(anyFloat, true).Draw(t, "low"), CIHigh: rapid.Ptr(anyFloat, true).Draw(t, "high")}
	})
	anyMetric = rapid.SampledFrom([]string{"time_us", "busbw", "a.p99", ""})
	anyRow    = rapid.Custom(func(t *rapid.T) journal.Row {
		r := journal.Row{
			Run: anyText.Draw(t, "run"), Bench: anyText.Draw(t, "bench"), Part: anyText.Draw(t, "part"),
			Backend: anyText.Draw(t, "backend"),
			Point:   anyCoords.Draw(t, "point"), Options: anyCoords.Draw(t, "options"),
			NumRanks: rapid.Ptr(rapid.IntRange(-1, 4), true).Draw(t, "ranks"), Trial: rapid.IntRange(0, 2).Draw(t, "trial"),
			Status: rapid.SampledFrom([]journal.Status{journal.OK, journal.OK, journal.OK, journal.Failed, journal.NotExecuted,
				"odd"}).Draw(t, "status"),
			Kind: rapid.SampledFrom([]journal.Kind{"", journal.Measured, journal.Simulated}).Draw(t, "kind"),
			Rank: rapid.Ptr(rapid.Int(), true).Draw(t, "rank"), Reason: journal.Text(anyText.Draw(t, "reason")),
			Output:  anyText.Draw(t, "output"),
			Metrics: rapid.MapOfN(anyMetric, anyFloat, 0, 3).Draw(t, "metrics"),
			Units:   rapid.MapOfN(anyMetric, anyText, 0, 2).Draw(t, "units"),
			Stats:   journal.NewObject(rapid.MapOfN(anyMetric, anyStat, 0, 2).Draw(t, "stats")),
			Limits:  rapid.MapOfN(anyText, anyFloat, 0, 2).Draw(t, "limits"),
		}
		for _, text := range rapid.SliceOfN(anyText, 0, 2).Draw(t, "remarks") {
			r.Conditions.Add(journal.Remarkf("%s", text))
		}
		for _, name := range rapid.SliceOfNDistinct(anyName, 0, 2, rapid.ID[string]).Draw(t, "env") {
			r.Env = append(r.Env, point.EnvVar{Name: name, Value: anyText.Draw(t, "value"), Set: rapid.Bool().Draw(t, "set")})
		}
		return r
	})
)

// Any rows can be drawn, and every point is drawn once: only trials are merged.
func TestAnyRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(anyRow, 0, 12).Draw(t, "rows")
		h := &journal.Header{Bench: "b", Axes: []journal.AxisInfo{{Name: "size", Kind: point.Bytes}}, Envs: []string{"E"}}
		if rapid.Bool().Draw(t, "no header") {
			h = nil
		}
		plots := []Plot{{X: anyName.Draw(t, "x"), Y: []string{anyMetric.Draw(t, "y")},
			By: rapid.SliceOfN(anyName, 0, 2).Draw(t, "by")}, {X: "trial", Y: []string{dataset.TimeMetric}}}
		if p, ok := AutoPlot(h, dataset.All(rows)); ok {
			plots = append(plots, p)
		}
		for _, p := range plots {
			fig, err := p.Figure(h, dataset.All(rows))
			if err != nil {
				continue
			}
			if err := fig.Validate(); err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			if got, want := points(fig), distinct(h, rows, p); got != want {
				t.Fatalf("%s: %d points, want %d", p, got, want)
			}
		}
	})
}

// distinct counts the points that a figure must have: good rows that differ in more than
// their trial.
func distinct(h *journal.Header, rows []journal.Row, p Plot) int {
	coords := dataset.All(rows).Coords(h)
	x, _ := dataset.FindCoord(coords, p.X)
	byTrial := x.Is(dataset.Trial)
	for _, name := range p.By {
		c, _ := dataset.FindCoord(coords, name)
		byTrial = byTrial || c.Is(dataset.Trial)
	}
	if h == nil {
		h = &journal.Header{}
	}
	y, _ := quantityOf(h, dataset.All(rows), p.Y[0])
	type identity struct {
		key, run string
		kind     journal.Kind
		trial    int
	}
	seen := map[identity]bool{}
	for i := range rows {
		r := &rows[i]
		_, _, _, ok := y.value(r)
		if r.Status != journal.OK || !ok || !x.Of(r).Has {
			continue
		}
		bare := *r
		bare.Point, bare.Options = present(r.Point), present(r.Options)
		id := identity{key: dataset.Key(&bare), run: r.Run, kind: r.Kind}
		if byTrial {
			id.trial = r.Trial
		}
		seen[id] = true
	}
	return len(seen)
}

// present drops coordinates without a value, which count as absent.
func present(p point.Point) (out point.Point) {
	for _, c := range p {
		if !c.Value.IsZero() {
			out = append(out, c)
		}
	}
	return out
}

// Every figure that a plot describes can be drawn.
func TestAnyPlotIsDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(anyRow, 1, 6).Draw(t, "rows")
		p, ok := AutoPlot(nil, dataset.All(rows))
		if !ok {
			return
		}
		fig := must.Get(p.Figure(nil, dataset.All(rows)))(t)
		var b bytes.Buffer
		must.Do(t, figure.SVG(&b, fig))
	})
}
