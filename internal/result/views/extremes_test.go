package views

import (
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The fastest and the slowest point follow from the medians of their undisturbed launches. Points without a
// narrow interval are ignored if others have one. With one launch of a point there is no ranking, however
// narrow its interval is.
func TestExtremesNeedLaunches(t *testing.T) {
	of := func(size int64, us, percent float64) journal.Row {
		r := measuredRow(us)
		r.Point = point.Point{}.With("size", point.IntValue(size))
		r.Key = r.Point.String()
		low, high := us*(1-percent/100), us*(1+percent/100)
		r.Stats = journal.NewObject(map[string]journal.Stat{dataset.TimeMetric: {CILow: &low, CIHigh: &high}})
		if percent == 0 {
			r.Stats = nil
		}
		return r
	}
	stolen := of(1, 1, 1)
	stolen.Quality = journal.QualityDisturbed
	simulated := func(size int64, us float64) journal.Row {
		r := of(size, us, 0)
		r.Kind, r.Samples = journal.Simulated, 1
		return r
	}
	until := func(size int64, us float64) journal.Row {
		r := of(size, us, 1)
		r.Clock, r.Samples, r.Sampling = "program", 30, &journal.Sampling{MaxSamples: 50}
		return r
	}
	// four returns launches that are spread evenly.
	four := func(size int64, from, to float64) (rows []journal.Row) {
		for i := range 4 {
			rows = append(rows, of(size, from+(to-from)*float64(i)/3, 0.1))
		}
		return rows
	}
	const unresolved = "The fastest and the slowest point are not resolved: "
	header := &journal.Header{Metrics: []journal.MetricInfo{{Name: dataset.TimeMetric, Unit: "us"}}}
	for name, c := range map[string]struct {
		rows []journal.Row
		want string
	}{
		"the luckiest launch is not quoted": {[]journal.Row{stolen, of(1, 0.98, 0.1), of(1, 1.02, 0.1), of(1, 1, 0.1),
			of(1, 1.01, 0.1), of(2, 20, 2), of(2, 22, 2), of(2, 21, 2), of(2, 21, 2), of(2, 99, 60)},
			"The fastest took 1 µs (4 launches from 0.98 µs to 1.02 µs) at size=1. The slowest took 21 µs (5 launches from 20 µs " +
				"to 99 µs) at size=2."},
		"the calm mode of two is not quoted": {slices.Concat(four(1, 10, 10), []journal.Row{of(1, 40, 60), of(1, 41, 60),
			of(1, 42, 60), of(1, 43, 60), of(1, 44, 60)}, four(2, 100, 101)),
			"The fastest took 40 µs (9 launches from 10 µs to 44 µs) at size=1. The slowest took 100 µs (4 launches from 100 µs to " +
				"101 µs) at size=2."},
		"one launch": {[]journal.Row{of(1, 10, 1), of(2, 20, 1)},
			unresolved + "2 points have one settled launch, which does not show how launches differ (--trials 4 does)."},
		"few launches": {[]journal.Row{of(1, 10, 1), of(1, 10, 1), of(1, 10, 1), of(2, 20, 1), of(2, 20, 1)},
			unresolved + "2 points have fewer than 4 settled launches, which do not show how launches differ (--trials 6 do)."},
		"launches that overlap": {slices.Concat(four(1, 1, 1.04), four(2, 1.02, 1.06)),
			unresolved + "the launches of all points overlap (1 µs to 1.06 µs)."},
		"values below zero overlap": {slices.Concat(four(1, -5, -1), four(2, -4, 0)),
			unresolved + "the launches of all points overlap (-5 µs to 0 µs)."},
		"many equal points": {slices.Concat(four(1, 1, 4), four(2, 3, 6), four(3, 4.1, 7), four(4, 2, 5), four(5, 2.1, 5.1),
			four(6, 3.1, 6.1)),
			unresolved + "equal points would differ as much with a probability of 5.9 % (Kruskal-Wallis test)."},
		"two points that are equally fast": {slices.Concat(four(1, 1, 1.04), four(2, 1.02, 1.06), four(3, 9, 9.2)),
			"The fastest took 1.02 µs (4 launches from 1 µs to 1.04 µs) at size=1; 1 other point is within the spread of its " +
				"launches. The slowest took 9.1 µs (4 launches from 9 µs to 9.2 µs) at size=3."},
		"launches until the time is precise": {[]journal.Row{until(1, 10), until(2, 20)},
			"The fastest took 10 µs (30 launches, 95 % interval from 9.9 µs to 10.1 µs) at size=1. The slowest took 20 µs (30 " +
				"launches, 95 % interval from 19.8 µs to 20.2 µs) at size=2."},
		"one point": {[]journal.Row{of(1, 10, 1), of(1, 11, 1)}, ""},
		"simulated": {[]journal.Row{simulated(1, 10), simulated(2, 20)},
			"The fastest took 10 µs at size=1. The slowest took 20 µs at size=2."},
		"simulated, equal": {[]journal.Row{simulated(1, 10), simulated(2, 10)}, "All points have the same time_us, 10 µs."},
		"simulated, one of two": {[]journal.Row{simulated(1, 10), simulated(2, 10), simulated(3, 20)},
			"The fastest took 10 µs at size=1; 1 other point has the same value. The slowest took 20 µs at size=3."},
	} {
		if got := Extremes(header, dataset.All(c.rows)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func measuredRow(us float64) journal.Row {
	return journal.Row{Status: journal.OK, Kind: journal.Measured, Samples: 7,
		Metrics: map[string]float64{dataset.TimeMetric: us}}
}
