package report

import (
	"io"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
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

// Any rows can be shown.
func TestAnyRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(anyRow, 0, 12).Draw(t, "rows")
		run := &journal.Run{Header: journal.Header{Bench: "b"}, Rows: rows}
		must.Do(t, newPage(run, rows, nil, nil, "").WriteHTML(io.Discard))
	})
}
