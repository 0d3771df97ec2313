package dataset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func row(op string, size int64, us float64) journal.Row {
	return journal.Row{Status: journal.OK, Part: "times", Metrics: map[string]float64{"time_us": us}, Point: point.Point{
		{Name: "op", Value: point.StringValue(op)}, {Name: "size", Value: point.BytesValue(size)}}}
}

func sample() []journal.Row {
	failed := row("sum", 2, 99)
	failed.Status = journal.Failed
	return []journal.Row{row("sum", 4, 40), failed, row("copy", 2, 20), row("sum", 2, 18), row("sum", 4, 60),
		row("sum", 4, 41)}
}

func TestLookups(t *testing.T) {
	s := All(sample()).Good()
	if len(s) != 5 {
		t.Fatalf("%d good rows, want 5", len(s))
	}
	if d := cmp.Diff([]string{"sum", "copy"}, s.Distinct("op")); d != "" {
		t.Errorf("operations (-want +got):\n%s", d)
	}
	if got := s.At("op", "sum", "size", "4").Median("time_us"); got != 41 {
		t.Errorf("median over the trials of a point is %v, want 41", got)
	}
	if r := s.First("op", "sum", "size", "2"); r == nil || r.Metrics["time_us"] != 18 {
		t.Errorf("the row of a point is %v", r)
	}
	idle := row("sum", 2, 0)
	idle.Status = journal.Skipped
	if r := append(Set{&idle}, s...).First("op", "sum", "size", "2"); r == nil || r.Metrics["time_us"] != 18 {
		t.Errorf("a row that was skipped hides %v", r)
	}
	if r := (Set{&idle}).First("op", "sum"); r != &idle {
		t.Errorf("the only row of a point is %v", r)
	}
	if r := s.First("op", "max"); r != nil {
		t.Errorf("a point that was not run has the row %v", r)
	}
	if got := s.At("op", "sum").Median("gbps"); got != 0 {
		t.Errorf("median of a metric that no row has is %v", got)
	}
	if got := len(s.Part("times")) + len(s.Part("other")); got != 5 {
		t.Errorf("parts have %d rows, want 5", got)
	}
	r := s[0]
	r.Options = point.Point{{Name: "seed", Value: point.IntValue(3)}}
	if Text(r, "seed") != "3" || Number(r, "size") != 4 || Ranks(r) != 0 || Text(r, "none") != "" {
		t.Errorf("seed %q, size %v, ranks %d, none %q", Text(r, "seed"), Number(r, "size"), Ranks(r), Text(r, "none"))
	}
}

func TestSeries(t *testing.T) {
	got := Series(All(sample()).Good(), func(r *journal.Row) string {
		return strings.ToUpper(Text(r, "op"))
	}, func(r *journal.Row) (figure.Point, bool) {
		return figure.Point{X: Number(r, "size"), Y: r.Metrics["time_us"]}, r.Metrics["time_us"] != 20
	})
	want := []figure.Series{{Name: "SUM",
		Points: []figure.Point{{X: 2, Y: 18}, {X: 4, Y: 40}, {X: 4, Y: 60}, {X: 4, Y: 41}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("series (-want +got):\n%s", d)
	}
	disturbed := journal.Row{Status: journal.OK, Quality: journal.QualityDisturbed}
	got = Series(Set{&disturbed}, func(*journal.Row) string {
		return ""
	}, func(*journal.Row) (figure.Point, bool) { return figure.Point{X: 1, Y: 2}, true })
	if !got[0].Points[0].Hollow {
		t.Error("a point of a disturbed row looks like any other")
	}
}
