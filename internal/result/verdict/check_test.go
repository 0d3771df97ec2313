package verdict

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// nights returns runs of 3 points with 4 trials, on a machine where launches differ by 2 %.
func nights(n int) []dataset.Named {
	rng := rand.New(rand.NewPCG(3, 1))
	var runs []dataset.Named
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		run := sideOf("", &journal.Header{Run: id, Bench: "b", Commit: strings.Repeat(fmt.Sprint(i%10), 40),
			Time: time.Date(2026, 11, i+1, 0, 0, 0, 0, time.UTC)}, nil)
		for p := range 3 {
			for trial := range 4 {
				run.Rows = append(run.Rows, &journal.Row{Run: id, Bench: "b", Trial: trial, Status: journal.OK,
					Kind:    journal.Measured,
					Samples: 100, Point: point.Point{{Name: "size", Value: point.IntValue(int64(p))}},
					Metrics: map[string]float64{"time_us": 10 * float64(p+1) * math.Exp(0.02*rng.NormFloat64())}})
			}
		}
		runs = append(runs, run)
	}
	return runs
}

// each calls f for the rows of a point; -1 means all points.
func each(runs []dataset.Named, p int64, f func(*journal.Row)) {
	for _, run := range runs {
		for i := range run.Rows {
			if p < 0 || run.Rows[i].Point[0].Value == point.IntValue(p) {
				f(run.Rows[i])
			}
		}
	}
}

func scale(runs []dataset.Named, p int64, by float64) {
	each(runs, p, func(r *journal.Row) { r.Metrics["time_us"] *= by })
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(runs []dataset.Named)
		want  string // verdicts on all points together and on point 1, exit code
		says  string // expected in the table
	}{
		"nothing": {func([]dataset.Named) {}, "no slowdown, no slowdown, 0", "no slowdown of "},
		"all slower since three runs": {func(runs []dataset.Named) { scale(runs[9:], -1, 1.06) }, "slower, slower, 1",
			"all points together are slower by "},
		"one point slower since three runs": {func(runs []dataset.Named) { scale(runs[9:], 1, 1.12) },
			"no slowdown, slower, 1", "b size=1 is slower by "},
		"tripled in the latest run": {func(runs []dataset.Named) { scale(runs[11:], 1, 3) }, "cannot tell, slower, 1",
			"since run r11 (commit 111111111111)"},
		"faster": {func(runs []dataset.Named) {
			scale(runs[9:], -1, 0.9)
		}, "faster, faster, 0", "faster by"},
		"repaired in the latest run": {func(runs []dataset.Named) {
			scale(runs[8:11], 1, 1.2)
		}, "no slowdown, no slowdown, 0", ""},
		"failed in the latest run": {func(runs []dataset.Named) {
			each(runs[11:], 1, func(r *journal.Row) { r.Status, r.Reason = journal.Failed, "killed" })
		}, "no slowdown, lost, 1", "latest run: failed (killed)"},
		"absent from the latest run": {func(runs []dataset.Named) {
			runs[11].Rows = slices.DeleteFunc(runs[11].Rows, func(r *journal.Row) bool { return r.Point.String() == "size=1" })
			cutShort(runs[11])
		}, "no slowdown, lost, 1", "warning: latest run: " + isCutShort},
		"failed in the baseline": {func(runs []dataset.Named) {
			each(runs[:11], 1, func(r *journal.Row) { r.Status = journal.Failed })
		}, "no slowdown, fixed, 0", "the baseline: failed (1 line)"},
		"crashed, not in the baseline": {func(runs []dataset.Named) {
			for i := range runs[:11] {
				runs[i].Rows = slices.DeleteFunc(runs[i].Rows, func(r *journal.Row) bool { return r.Point.String() == "size=1" })
			}
			each(runs[11:], 1, func(r *journal.Row) { r.Status, r.Reason = journal.Failed, "killed" })
		}, "no slowdown, failed, 1", "the latest run: failed (killed)"},
		"never ok": {func(runs []dataset.Named) { each(runs, 1, func(r *journal.Row) { r.Status = journal.Failed }) },
			"no slowdown, broken, 0", ""},
		"one trial failed": {func(runs []dataset.Named) { runs[11].Rows[5].Status = journal.Failed },
			"no slowdown, no slowdown, 0", "latest run: 1 of 4 trials not ok: failed"},
		"half of the trials failed": {func(runs []dataset.Named) {
			runs[11].Rows[5].Status, runs[11].Rows[6].Status = journal.Failed, journal.Timeout
		}, "no slowdown, lost, 1", "latest run: 2 of 4 trials not ok: timeout"},
		"the latest run was disturbed": {func(runs []dataset.Named) {
			scale(runs[11:], 1, 2)
			each(runs[11:], 1, func(r *journal.Row) { r.Quality = journal.QualityDisturbed })
		}, "no slowdown, cannot tell, 3", "latest run: 4 of 4 trials disturbed and left out"},
		"the baseline was disturbed now and then": {func(runs []dataset.Named) {
			for _, i := range []int{2, 5} {
				scale(runs[i:i+1], 1, 2)
				each(runs[i:i+1], 1, func(r *journal.Row) { r.Quality = journal.QualityDisturbed })
			}
		}, "no slowdown, no slowdown, 0", ""},
		"the latest run is from another machine": {func(runs []dataset.Named) {
			scale(runs[11:], -1, 4)
			runs[11].Header.Host.CPU.Model = "another"
		}, "cannot tell, cannot tell, 3", "11 runs on another kind of machine"},
		"earlier runs are from another machine": {func(runs []dataset.Named) {
			scale(runs[:4], -1, 2)
			for _, r := range runs[:4] {
				r.Header.Host.CPU.Model = "another"
			}
		}, "no slowdown, no slowdown, 0", "4 runs on another kind of machine"},
		"no value is positive": {func(runs []dataset.Named) { scale(runs, 1, 0) }, "no slowdown, cannot tell, 3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			runs := nights(12)
			c.plant(runs)
			r := must.Get(Check(runs[:8], runs[8:], Options{}))(t)
			i := slices.IndexFunc(r.Points, func(p Point) bool { return p.Point.String() == "size=1" })
			if got := fmt.Sprintf("%s, %s, %d", r.Whole.Verdict, r.Points[i].Verdict, r.ExitCode()); got != c.want {
				t.Errorf("%s, want %s\nwhole %+v\npoint %+v", got, c.want, r.Whole, r.Points[i].Finding)
			}
			var b bytes.Buffer
			must.Do(t, r.Write(&b, "table", "", 0))
			if !strings.Contains(b.String(), c.says) {
				t.Errorf("the table lacks %q:\n%s", c.says, b.String())
			}
		})
	}
}

// TestFewRuns checks that a baseline of one run gives no verdict on small changes but one on a
// tripled time, and that values without noise are judged on any machine.
func TestFewRuns(t *testing.T) {
	runs := nights(2)
	r := must.Get(Check(runs[:1], runs[1:], Options{}))(t)
	const reason = "cannot tell: earlier runs: 1; at least 4 are needed"
	if r.ExitCode() != 3 || !strings.Contains(r.Sentence(), reason) {
		t.Errorf("%d %s", r.ExitCode(), r.Sentence())
	}
	scale(runs[1:], -1, 3)
	if r := must.Get(Check(runs[:1], runs[1:], Options{}))(t); r.ExitCode() != 1 || r.Whole.Verdict != judge.Slower ||
		!r.Suspected {
		t.Errorf("a tripled time: %d %+v", r.ExitCode(), r.Whole)
	}
	each(runs, -1, func(r *journal.Row) {
		r.Kind, r.Samples, r.Metrics = journal.Simulated, 1, map[string]float64{"time_us": 5}
	})
	scale(runs[1:], 1, 1.1)
	runs[1].Header.Host.CPU.Model = "another"
	r = must.Get(Check(runs[:1], runs[1:], Options{}))(t)
	if r.Points[0].Verdict != NoSlowdown || r.Points[1].Verdict != judge.Slower || r.Points[1].Effect.Method != "exact" {
		t.Errorf("%+v", r)
	}
	// Simulated values that differ between the trials of a run have noise.
	runs[1].Rows[5].Metrics["time_us"] = 5
	r = must.Get(Check(runs[:1], runs[1:], Options{Ignore: []string{"cpu"}}))(t)
	if p := r.Points[1]; p.Verdict != CannotTell || p.Effect.Method != "steps" {
		t.Errorf("unequal simulated trials: %+v", p)
	}
}

// TestHigherIsBetter checks that a falling bandwidth is slower.
func TestHigherIsBetter(t *testing.T) {
	runs := nights(12)
	for _, run := range runs {
		run.Header.Metrics = []journal.MetricInfo{{Name: "gbps", Unit: "GB/s", Better: "higher"}}
	}
	each(runs, -1, func(r *journal.Row) { r.Metrics["gbps"] = 1000 / r.Metrics["time_us"] })
	each(runs[9:], -1, func(r *journal.Row) { r.Metrics["gbps"] *= 0.9 })
	r := must.Get(Check(runs[:8], runs[8:], Options{Metric: "gbps"}))(t)
	if r.Whole.Verdict != judge.Slower || r.Whole.Effect.Ratio > 0.95 || !strings.Contains(r.Sentence(), "slower by 1") {
		t.Errorf("%+v: %s", r.Whole, r.Sentence())
	}
}

func TestWrite(t *testing.T) {
	runs := nights(12)
	scale(runs[9:], 1, 1.15)
	r := must.Get(Check(runs[:8], runs[8:], Options{}))(t)
	for format, want := range map[string][]string{
		"table": {"4 runs since the accepted baseline of 8 runs, latest r11:", "baseline time_us", "rules out", "r9",
			"3 points: 1 slower, 2 no slowdown"},
		"markdown": {"### 4 runs since the accepted baseline of 8 runs, latest r11", "| b size=1 | slower | ",
			"<details><summary>3 without a finding</summary>"},
		"github": {"### kernbench: 4 runs since the accepted", "**b size=1 is slower by ", "| b size=1 | slower |",
			"Equal: 3 points, no slowdown (all points; size=0; size=2)", "[Report](https://ci/%28x%29)"},
		"junit": {`failures="1"`, `<failure message="slower by 1`, "since run r9 (commit 999999999999)"},
		"json":  {`"baseline_runs": [`, `"verdict": "slower"`, `"commit": "9999`, `"rules_out": 0.0`},
	} {
		var b bytes.Buffer
		must.Do(t, r.Write(&b, format, "https://ci/(x)", 0))
		for _, text := range want {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%s lacks %q:\n%s", format, text, b.String())
			}
		}
		if format == "junit" {
			must.Do(t, xml.Unmarshal(b.Bytes(), new(struct{})))
		}
	}
	for _, bad := range []Options{{Alpha: -1}, {Alpha: 0.3}, {Floor: 2}, {Tolerance: math.NaN()}, {Metric: "tiem_us"}} {
		if _, err := Check(runs[:8], runs[8:], bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// TestSteps checks that each machine has a history of its own, and that a change is named with
// its commit.
func TestSteps(t *testing.T) {
	runs := nights(30)
	for i := range runs {
		if i%2 == 1 {
			runs[i].Header.Host.CPU.Model = "another"
			scale(runs[i:i+1], -1, 2)
		}
	}
	scale(runs[20:], -1, 1.08)
	h := must.Get(Steps(runs, Options{}))(t)
	if len(h.Machines) != 2 {
		t.Fatalf("%+v", h)
	}
	for i, m := range h.Machines {
		if len(m.Runs) != 15 || len(m.Changes) != 1 || m.Changes[0].Key != "" || m.Changes[0].Verdict != judge.Slower ||
			m.Changes[0].First.Run != fmt.Sprintf("r%d", 20+i) {
			t.Errorf("machine %d: %+v", i, m.Changes)
		}
	}
	var b bytes.Buffer
	must.Do(t, h.Write(&b, "table", "", 0))
	if !strings.Contains(b.String(), "r20") || !strings.Contains(b.String(), "all points") {
		t.Error(b.String())
	}
	h = must.Get(Steps(nights(3), Options{}))(t)
	if m := h.Machines[0]; len(m.Changes) > 0 ||
		!strings.HasPrefix(m.Sentence(h.Floor), "3 undisturbed runs: at least 5 are needed") {
		t.Errorf("%+v", m)
	}
}
