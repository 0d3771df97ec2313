package journal

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMergeTrials(t *testing.T) {
	row := func(key string, trial int, status Status, us float64) Row {
		return Row{Key: key, Trial: trial, Status: status, Metrics: map[string]float64{"time_us": us}}
	}
	rows := []Row{
		row("a", 0, OK, 3), row("b", 0, Failed, 0), row("c", 0, OK, 7),
		row("a", 1, OK, 1), row("b", 1, Failed, 0), row("a", 2, Failed, 99), row("a", 3, OK, 2), row("a", 4, OK, 4),
	}
	got := MergeTrials(rows)
	if len(got) != 3 || got[0].Key != "a" || got[1].Status != Failed || got[2].Metrics["time_us"] != 7 {
		t.Fatalf("%+v", got)
	}
	st := got[0].Stats.Get("time_us")
	if got[0].Metrics["time_us"] != 2.5 || *st.CILow != 1 || *st.CIHigh != 4 || st.Mean != 2.5 {
		t.Errorf("trials 1,2,3,4 merge to %v, %+v: a failed trial must not count", got[0].Metrics, st)
	}
	// 1000 bytes in 1 us and in 3 us: the bandwidth belongs to the median time of 2 us.
	two := []Row{row("d", 0, OK, 1), row("d", 1, OK, 3)}
	two[0].Metrics["algbw"], two[1].Metrics["algbw"] = 1, 1.0/3
	if m := MergeTrials(two)[0].Metrics; m["time_us"] != 2 || m["algbw"] != 0.5 {
		t.Errorf("the merged time and bandwidth contradict each other: %v", m)
	}
	// Disturbed trials count only if all are disturbed.
	calm, noisy := row("e", 0, OK, 5), row("e", 1, OK, 50)
	calm.Quality, noisy.Quality = QualitySettled, QualityDisturbed
	if m := MergeTrials([]Row{noisy, calm, noisy})[0]; m.Metrics["time_us"] != 5 || m.Quality != QualitySettled {
		t.Errorf("one calm trial of three merges to %v, %s", m.Metrics, m.Quality)
	}
	if m := MergeTrials([]Row{noisy, noisy})[0]; m.Metrics["time_us"] != 50 || m.Quality != QualityDisturbed {
		t.Errorf("disturbed trials alone merge to %v, %s", m.Metrics, m.Quality)
	}
	// A metric that only later trials have is merged too.
	late := []Row{row("f", 0, OK, 1), row("f", 1, OK, 1), row("f", 2, OK, 1)}
	late[1].Metrics["gap"], late[2].Metrics["gap"] = 4, 6
	late[1].Units = map[string]string{"gap": "ns"}
	if m := MergeTrials(late)[0]; m.Metrics["gap"] != 5 || m.Stats.Get("gap").Max != 6 || m.Units["gap"] != "ns" {
		t.Errorf("a metric without a first trial merges to %+v", m)
	}
	if rows[0].Metrics["time_us"] != 3 {
		t.Error("the rows themselves were changed")
	}
}

// TestMedianOfBandwidth checks that a bandwidth belongs to the median time if every trial has a time.
func TestMedianOfBandwidth(t *testing.T) {
	for metric, want := range map[string]float64{"busbw": 0.5, "algbw": 0.5, "other": 2.0 / 3} {
		trials := []*Row{{Metrics: map[string]float64{metric: 1, "time_us": 1}},
			{Metrics: map[string]float64{metric: 1.0 / 3, "time_us": 3}}, {Metrics: map[string]float64{"time_us": 9}}}
		if got := Median(trials, metric); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: %v, want %v", metric, got, want)
		}
		trials[1].Metrics["time_us"] = 0
		if got := Median(trials, metric); math.Abs(got-2.0/3) > 1e-12 {
			t.Errorf("%s, one time unknown: %v, want 2/3", metric, got)
		}
	}
}

// TestDurations checks that the duration of a point is the time from its latest begin to its
// first row, and that rows not run and other benches are ignored.
func TestDurations(t *testing.T) {
	at := func(s int) string { return fmt.Sprintf("2026-11-16T10:00:%02dZ", s) }
	line := func(typ, run, rest string, s int) string {
		return fmt.Sprintf(`{"type":%q,"schema":1,"run":%q,%s,"time":%q}`, typ, run, rest, at(s))
	}
	j := parseText(t,
		line("run", "r", `"bench":"b"`, 0), line("begin", "r", `"key":"a"`, 1),
		line("begin", "r", `"key":"a","attempt":1`, 5),
		line("row", "r", `"key":"a1","task":"a","status":"ok"`, 8),
		line("row", "r", `"key":"a2","task":"a","status":"ok"`, 20),
		line("begin", "r", `"key":"c"`, 21), line("row", "r", `"key":"c","status":"not-executed"`, 22),
		line("row", "r", `"key":"d","status":"skipped"`, 23), line("begin", "r", `"key":"e"`, 24),
		line("row", "r", `"key":"e","status":"timeout"`, 30),
		line("begin", "r", `"key":"g"`, 31), line("row", "r", `"key":"g","status":"ok"`, 31),
		line("begin", "r", `"key":"h"`, 33), line("row", "r", `"key":"h","status":"ok"`, 32), // the clock was set back
		line("run", "s", `"bench":"other"`, 40), line("begin", "s", `"key":"f"`, 41),
		line("row", "s", `"key":"f","status":"ok"`, 42))
	want := map[string]time.Duration{"a": 3 * time.Second, "e": 6 * time.Second, "g": 0}
	if diff := cmp.Diff(want, j.Durations("b")); diff != "" {
		t.Error(diff)
	}
}
