package journal

import (
	"testing"
	"time"
)

// TestAccumulated checks that runs of the same bench, version and seed are merged: the latest
// row of each key, good or bad, in order of appearance.
func TestAccumulated(t *testing.T) {
	row := func(run, key string, status Status, value float64) Row {
		return Row{Run: run, Bench: "b", Key: key, Status: status, Metrics: map[string]float64{"v": value}, Index: 7}
	}
	make := func(id, bench, version string, seed uint64, rows ...Row) *Run {
		r := &Run{open: map[pointTrial]int{}}
		r.addHeader(Header{Run: id, Bench: bench, Version: version, Seed: seed, Time: time.Unix(1, 0),
			Metrics: []MetricInfo{{Name: "of " + id}}})
		for _, x := range rows {
			r.addRow(&x)
		}
		return r
	}
	j := &Journal{Runs: []*Run{
		make("1", "b", "1", 1, row("1", "x", OK, 1), row("1", "y", OK, 2)),
		make("2", "b", "2", 1, row("2", "x", OK, 100)),
		make("3", "c", "1", 1, row("3", "x", OK, 100)),
		make("4", "b", "1", 9, row("4", "x", OK, 100)),
		make("5", "b", "1", 1, row("5", "z", OK, 3), row("5", "x", Failed, 4)),
		make("6", "b", "1", 1, row("6", "y", OK, 5)),
	}}
	sum := j.Accumulated(j.Runs[4])
	var got string
	for _, r := range sum.Latest() {
		got += r.Key + " " + string(r.Status) + " of " + r.Run + ", "
	}
	if want := "x failed of 5, y ok of 1, z ok of 5, "; got != want {
		t.Errorf("have %s want %s", got, want)
	}
	if sum.ID() != "5" || len(sum.Header.Metrics) != 2 {
		t.Errorf("header %+v", sum.Header)
	}
	if len(sum.Earlier) != 1 || sum.Earlier[0].Run != "1" {
		t.Errorf("rows also of %+v, want run 1", sum.Earlier)
	}
	if r := j.Runs[0].Rows[0]; r.Index != 7 {
		t.Error("the run's own rows were changed")
	}
}
