package dataset

import (
	"math"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/result/journal"
)

func TestMergeTrials(t *testing.T) {
	merge := func(rows ...journal.Row) Set { return All(rows).MergeTrials() }
	row := func(key string, trial int, status journal.Status, us float64) journal.Row {
		return journal.Row{Key: key, Part: key, Trial: trial, Status: status, Metrics: map[string]float64{"time_us": us}}
	}
	rows := []journal.Row{
		row("a", 0, journal.OK, 3), row("b", 0, journal.Failed, 0), row("c", 0, journal.OK, 7),
		row("a", 1, journal.OK, 1), row("b", 1, journal.Failed, 0), row("a", 2, journal.Failed, 99),
		row("a", 3, journal.OK, 2), row("a", 4, journal.OK, 4),
	}
	got := merge(rows...)
	if len(got) != 3 || got[0].Key != "a" || got[1].Status != journal.Failed || got[2].Metrics["time_us"] != 7 {
		t.Fatalf("%+v", got)
	}
	st := got[0].Stats.Get("time_us")
	if got[0].Metrics["time_us"] != 2.5 || *st.CILow != 1 || *st.CIHigh != 4 || st.Mean != 2.5 {
		t.Errorf("trials 1,2,3,4 merge to %v, %+v: a failed trial must not count", got[0].Metrics, st)
	}
	// 1000 bytes in 1 us and in 3 us: the bandwidth belongs to the median time of 2 us.
	two := []journal.Row{row("d", 0, journal.OK, 1), row("d", 1, journal.OK, 3)}
	two[0].Metrics["algbw"], two[1].Metrics["algbw"] = 1, 1.0/3
	if m := merge(two...)[0].Metrics; m["time_us"] != 2 || m["algbw"] != 0.5 {
		t.Errorf("the merged time and bandwidth contradict each other: %v", m)
	}
	// Disturbed trials count only if all are disturbed.
	calm, noisy := row("e", 0, journal.OK, 5), row("e", 1, journal.OK, 50)
	calm.Quality, noisy.Quality = journal.QualitySettled, journal.QualityDisturbed
	if m := merge(noisy, calm, noisy)[0]; m.Metrics["time_us"] != 5 || m.Quality != journal.QualitySettled {
		t.Errorf("one calm trial of three merges to %v, %s", m.Metrics, m.Quality)
	}
	if m := merge(noisy, noisy)[0]; m.Metrics["time_us"] != 50 || m.Quality != journal.QualityDisturbed {
		t.Errorf("disturbed trials alone merge to %v, %s", m.Metrics, m.Quality)
	}
	// A metric that only later trials have is merged too.
	late := []journal.Row{row("f", 0, journal.OK, 1), row("f", 1, journal.OK, 1), row("f", 2, journal.OK, 1)}
	late[1].Metrics["gap"], late[2].Metrics["gap"] = 4, 6
	late[1].Units = map[string]string{"gap": "ns"}
	if m := merge(late...)[0]; m.Metrics["gap"] != 5 || m.Stats.Get("gap").Max != 6 || m.Units["gap"] != "ns" {
		t.Errorf("a metric without a first trial merges to %+v", m)
	}
	if rows[0].Metrics["time_us"] != 3 {
		t.Error("the rows themselves were changed")
	}
}

// TestMedianOfBandwidth checks that a bandwidth belongs to the median time if every trial has a time.
func TestMedianOfBandwidth(t *testing.T) {
	for metric, want := range map[string]float64{"busbw": 0.5, "algbw": 0.5, "other": 2.0 / 3} {
		trials := Set{{Status: journal.OK, Metrics: map[string]float64{metric: 1, "time_us": 1}},
			{Status: journal.OK, Metrics: map[string]float64{metric: 1.0 / 3, "time_us": 3}},
			{Status: journal.OK, Metrics: map[string]float64{"time_us": 9}}}
		if got := trials.Median(metric); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
		trials[1].Metrics["time_us"] = 0
		if got := trials.Median(metric); math.Abs(got-2.0/3) > 1e-12 {
			t.Errorf("%s, one time unknown: %v, want 2/3", metric, got)
		}
	}
}

// TestPointsByKey checks that the trials of a point are the rows with the same Key, whatever key is stored in them.
func TestPointsByKey(t *testing.T) {
	row := func(stored, part string, us float64) journal.Row {
		return journal.Row{Key: stored, Part: part, Status: journal.OK, Metrics: map[string]float64{"time_us": us}}
	}
	rows := All([]journal.Row{row("a", "x", 1), row("b", "x", 3), row("", "y", 10), row("", "z", 100)})
	var got []float64
	for _, r := range rows.MergeTrials() {
		got = append(got, r.Metrics["time_us"])
	}
	if !slices.Equal(got, []float64{2, 10, 100}) {
		t.Errorf("the points have %v, want 2, 10 and 100", got)
	}
}

// TestBuildsAreNotTrials checks that rows of two builds are two points.
func TestBuildsAreNotTrials(t *testing.T) {
	row := func(build string, us float64) journal.Row {
		return journal.Row{Key: "a", Status: journal.OK, Metrics: map[string]float64{"time_us": us},
			Origin: &journal.Origin{Build: build}}
	}
	rows := []journal.Row{row("1", 10), row("2 (current)", 20), row("1", 12)}
	if got := All(rows).MergeTrials(); len(got) != 2 || got[0].Metrics["time_us"] != 11 {
		t.Errorf("two builds merge to %d rows", len(got))
	}
}

// TestLaunches checks that samples of a program are launches only if it could be launched more than once.
func TestLaunches(t *testing.T) {
	for want, r := range map[int]journal.Row{
		1: {Clock: "program", Samples: 5, Sampling: &journal.Sampling{MaxSamples: 1}}, 5: {Clock: "program", Samples: 5,
			Sampling: &journal.Sampling{MaxSamples: 2}},
	} {
		if got := Launches(&r); got != want {
			t.Errorf("at most %d: %d launches, want %d", r.Sampling.MaxSamples, got, want)
		}
		r.Clock = "monotonic"
		if got := Launches(&r); got != 1 {
			t.Errorf("samples of a worker: %d launches", got)
		}
	}
	if got := Launches(&journal.Row{Clock: "program", Samples: 5}); got != 1 {
		t.Errorf("without a rule: %d launches", got)
	}
}
