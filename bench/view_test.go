package bench

import (
	"testing"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A bench may add to its rows what follows from others; without a bench, or
// without that, a run is shown as it is.
func TestView(t *testing.T) {
	r := &journal.Run{Rows: []journal.Row{{Key: "a", Metrics: map[string]float64{"v": 1}},
		{Key: "a", Metrics: map[string]float64{"v": 2}}}}
	j := &journal.Journal{Runs: []*journal.Run{r}}
	var none *Bench
	if none.View(j, r) != r || (&Bench{}).View(j, r) != r {
		t.Error("a plain run is not shown as it is")
	}
	b := New("b", nil, Derive(func(rows []journal.Row) []journal.Row {
		return append(rows, journal.Row{Key: "sum", Metrics: map[string]float64{"n": float64(len(rows))}})
	}), Accumulates())
	if !b.Accumulate {
		t.Error("it does not accumulate")
	}
	b.Accumulate = false
	got := b.View(j, r).Latest()
	if len(got) != 2 || got[1].Metrics["n"] != 1 || len(r.Rows) != 2 {
		t.Errorf("%d rows shown, %d stored", len(got), len(r.Rows))
	}
}

// A metric of which the body took samples has the best as its value.
func TestReportSamples(t *testing.T) {
	s := NewState(Setting{Group: syncgroup.Solo()})
	s.ReportSamples("low", []float64{3, 1, 2}, "s", "lower")
	s.ReportSamples("high", []float64{3, 1, 2}, "", "higher")
	o := s.Finish(nil)
	if o.Metrics["low"] != 1 || o.Metrics["high"] != 3 || o.Samples != 3 || o.Stats["low"].Max != 3 ||
		o.Stats["low"].P50 != 2 {
		t.Errorf("%+v", o)
	}
}
