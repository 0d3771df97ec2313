package dataset

import (
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestOneUnit checks that the rows of a run whose builds declared different units are shown in one.
func TestOneUnit(t *testing.T) {
	low, high := 1.0, 3.0
	row := func(index int, unit string) journal.Row {
		return journal.Row{Key: string(rune('a' + index)), Index: index, Status: journal.OK, Inputs: unit,
			Metrics: map[string]float64{"lat": 2, "n": 7}, Units: map[string]string{"lat": unit, "n": ""},
			Stats: journal.Stats{{Name: "lat", Value: journal.Stat{Min: 1, P50: 2, P90: 3, P99: 3, Max: 3, Mean: 2, CILow: &low,
				CIHigh: &high,
				Modes:  []stats.Mode{{Center: 1, Share: 0.5}, {Center: 3, Share: 0.5}}}}},
			Measurements: []journal.Measurement{{Metrics: journal.Numbers{{Name: "lat", Value: 2}, {Name: "n", Value: 7}}}}}
	}
	h := journal.Header{Metrics: []journal.MetricInfo{{Name: "lat", Unit: "s", Better: "higher"}, {Name: "n"}}}
	h.Redefine([]journal.MetricInfo{{Name: "lat", Unit: "us", Better: "lower"}})
	stored := []journal.Row{row(0, "us"), row(1, "ms"), row(2, "GB/s"), row(3, "µs"), row(4, "")}
	rows := inUnits(All(stored), h.Metrics)
	for i, want := range []float64{2, 2000, 0, 2, 2} {
		v, has := rows[i].Metrics["lat"]
		s, hasStat := rows[i].Stats.Find("lat")
		if v != want || has != (want > 0) || hasStat != has || rows[i].Metrics["n"] != 7 || s.P50 != want {
			t.Errorf("row %d: %v %v, median %v", i, v, has, s.P50)
		}
	}
	ms := rows[1]
	s := ms.Stats.Get("lat")
	if ms.Units["lat"] != "us" || *s.CILow != 1000 || *s.CIHigh != 3000 || s.Max != 3000 || s.Modes[1].Center != 3000 ||
		s.Modes[1].Share != 0.5 || ms.Measurements[0].Metrics.Get("lat") != 2000 || ms.Measurements[0].Metrics.Get("n") != 7 {
		t.Errorf("converted: %+v", ms)
	}
	const left = "unit: lat is in GB/s, not in us like the run's: left out"
	if !slices.Equal(rows[2].Conditions.Sentences(), []string{left}) {
		t.Errorf("warnings %q", rows[2].Conditions.Sentences())
	}
	// The stored rows stay as they are.
	if stored := stored[1]; stored.Metrics["lat"] != 2 || stored.Units["lat"] != "ms" ||
		*stored.Stats.Get("lat").CILow != 1 || stored.Stats.Get("lat").Modes[0].Center != 1 ||
		stored.Measurements[0].Metrics.Get("lat") != 2 || len(rows[2].Metrics) != 1 {
		t.Errorf("stored: %+v", stored)
	}
}
