package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestSamplesOf(t *testing.T) {
	rows := []journal.Row{row("ring", dtype.F32, 2, 4096, 8), row("ring", dtype.F32, 2, 1024, 5),
		row("ring", dtype.F32, 2, 1024, 7)}
	rows[2].Trial = 1
	failed, other, untimed := row("ring", dtype.F32, 2, 2048, 1), row("ring", dtype.F32, 2, 2048, 1),
		row("ring", dtype.F32, 2, 2048, 0)
	failed.Status = journal.Failed
	other.Point = other.Point.With("op", point.StringValue("allgather"))
	swept := row("ring", dtype.F32, 2, 1024, 9)
	swept.Env = point.Env{{Name: "NCCL_ALGO", Value: "Tree", Set: true}}
	swept.Point = swept.Point.With("epilogue", point.BoolValue(true))
	swept.Limits = map[string]float64{"link": 3}
	swept.Metrics["pct_of_limit"] = 33
	rows = append(rows, failed, other, untimed, swept)
	all := dataset.All(rows)
	got := SamplesOf(all)
	want := []Sample{
		{Series: Series{Algorithm: "ring", DType: "f32", Backend: "cuda", Ranks: 2}, Bytes: 1024, TimeUS: 6, Samples: 10,
			Traffic: 1024, Kind: "measured", Launches: 2, Rows: all[1:3]},
		{Series: Series{Algorithm: "ring", DType: "f32", Backend: "cuda", Ranks: 2}, Bytes: 4096, TimeUS: 8, Samples: 10,
			Traffic: 4096, Kind: "measured", Launches: 1, Rows: all[:1]},
		{Series: Series{Algorithm: "ring", DType: "f32", Backend: "cuda", Ranks: 2, Variant: "epilogue=true NCCL_ALGO=Tree"},
			Bytes: 1024, TimeUS: 9, Samples: 10, Traffic: 1024,
			Kind: "measured", Launches: 1, Rows: all[6:], Limits: map[string]float64{"link": 3}, Utilisation: 33,
			UtilisationOf: "link"},
	}
	for i := range got { // the tests of package journal check the interval of merged trials
		got[i].LowUS, got[i].HighUS = 0, 0
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b *journal.Row) bool { return a == b })); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// The traffic of our own algorithms is counted from their steps, others have a formula.
func TestTraffic(t *testing.T) {
	const size = 1 << 20
	for _, c := range []struct {
		algorithm string
		ranks     int
		factor    float64
	}{
		{"ring", 4, 1.5}, {"two-stage", 4, 1.5}, {"one-stage", 4, 3}, {"halving-doubling", 4, 1.5},
		{"recursive-doubling", 8, 3}, {"steps:ring", 2, 1},
		{"lamport", 8, 7}, {"multimem", 4, 1.25}, {"two-shot", 8, 1.75}, {"ring", 1, 0},
	} {
		got, known := Traffic(c.algorithm, c.ranks, size)
		if want := int64(c.factor * size); !known || got < want-8 || got > want+8 {
			t.Errorf("%s with %d ranks moves %d bytes, want %d", c.algorithm, c.ranks, got, want)
		}
	}
	if _, known := Traffic("nccl", 2, size); known {
		t.Error("the traffic of nccl should not be known")
	}
	// From three ranks on, a switch that adds needs the least traffic.
	if LeastTraffic(2, size) != size || LeastTraffic(8, size) != 1.125*size {
		t.Error("the least traffic", LeastTraffic(2, size), LeastTraffic(8, size))
	}
}

func TestCeilings(t *testing.T) {
	got, err := Ceilings("nvlink-h100, 123.5 GB/s,nvlink-a100 line")
	if err != nil || len(got) != 5 || got[3] != (Ceiling{"123.5 GB/s", 123.5}) ||
		got[4] != (Ceiling{"nvlink-a100 line", 300}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, l := range Links() {
		if !(l.Raw >= l.Line && l.Line > l.Reachable && l.Reachable > 0) {
			t.Errorf("%+v: want raw >= line > reachable > 0", l)
		}
	}
	for _, bad := range []string{"nvlink-h10", "-3", "0 GB/s", "NaN"} {
		if _, err := Ceilings(bad); err == nil {
			t.Errorf("%q is a link", bad)
		}
	}
	if none, err := Ceilings(""); err != nil || none != nil {
		t.Errorf("no link: %v, %v", none, err)
	}
	s := Sample{Series: series("ring", 2), Bytes: 450e6, TimeUS: 2000, Traffic: 450e6}
	if u := Utilisation(s, Ceiling{"line", 450}); u != 0.5 {
		t.Errorf("450 MB in 2 ms are %v of 450 GB/s", u)
	}
}

// A disturbed time has not settled, however narrow its interval is.
func TestSettled(t *testing.T) {
	low, high := 9.9, 10.1
	row := journal.Row{Status: journal.OK, Kind: journal.Measured, Samples: 50,
		Metrics: map[string]float64{timeMetric: 10},
		Stats:   journal.NewObject(map[string]journal.Stat{timeMetric: {P50: 10, CILow: &low, CIHigh: &high}}),
		Quality: journal.QualitySettled}
	calm := TimeOf([]*journal.Row{&row})
	disturbed := row
	disturbed.Quality = journal.QualityDisturbed
	if doubted := TimeOf([]*journal.Row{&disturbed}); !calm.Settled() || doubted.Settled() {
		t.Errorf("settled %v, and disturbed %v", calm.Settled(), doubted.Settled())
	}
}
