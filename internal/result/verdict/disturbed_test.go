package verdict

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// allDisturbed sets the times of the rows: one launch every step seconds, beginning at from. All are disturbed.
func allDisturbed(run dataset.Named, from, step int) dataset.Named {
	for i, r := range run.Rows {
		r.Time, r.Quality = time.Unix(int64(from+step*i), 0), journal.QualityDisturbed
	}
	return run
}

// TestDisturbedRule compares runs whose rows are all disturbed: in sequence they are left out, and the report shows the
// raw change; in turns they count; flags force either.
func TestDisturbedRule(t *testing.T) {
	const warning = "12 of 12 rows were disturbed, and count"
	for name, c := range map[string]struct {
		from, step int // of NEW; OLD has a launch at 0, 10, 20 ...
		opts       Options
		want       judge.Verdict
		shows      string
	}{
		"in sequence":         {1000, 10, Options{}, judge.Ambiguous, "NEW: 6 of 6 trials disturbed and left out"},
		"in sequence, raw":    {1000, 10, Options{}, judge.Ambiguous, "+20.00%  +19."},
		"in sequence, forced": {1000, 10, Options{Disturbed: Disturbed{Count: true}}, judge.Slower, warning},
		"in turns":            {5, 10, Options{}, judge.Slower, warning},
		"in turns, refused": {5, 10, Options{Disturbed: Disturbed{Ignore: true}}, judge.Ambiguous,
			"let all trials count, as in this change, with --count-disturbed"},
		"overlapping once": {55, 10, Options{}, judge.Ambiguous, "disturbed and left out"},
	} {
		old := allDisturbed(runOf("a", trialsOf(1, 10)), 0, 10)
		r := compare(t, old, allDisturbed(runOf("b", trialsOf(1, 12)), c.from, c.step), c.opts)
		var b bytes.Buffer
		must.Do(t, r.Write(&b, "table", "", 0))
		if r.Points[0].Verdict != c.want || !strings.Contains(b.String(), c.shows) {
			t.Errorf("%s: want %s and %q in\n%s", name, c.want, c.shows, b.String())
		}
	}
	both := Options{Disturbed: Disturbed{Count: true, Ignore: true}}
	if _, err := Compare(runOf("a", trialsOf(1, 10)), runOf("b", trialsOf(1, 10)), both); err == nil {
		t.Error("both flags are accepted")
	}
}

// TestDisturbedMean checks that the mean over points that are all disturbed has a number.
func TestDisturbedMean(t *testing.T) {
	old := allDisturbed(runOf("a", trialsOf(1, 10), trialsOf(2, 20)), 0, 10)
	r := compare(t, old, allDisturbed(runOf("b", trialsOf(1, 12), trialsOf(2, 24)), 1000, 10), Options{Mean: true})
	const want = "no trial is ok and undisturbed at every point; between all trials it changed by +20.00% (95% interval +1"
	if text := r.Mean(); !strings.Contains(text, want) || r.Whole.Verdict != judge.Ambiguous {
		t.Errorf("%s: %s", r.Whole.Verdict, text)
	}
	for i := range old.Rows { // four trials of each point in turns: too few for the mean
		old.Rows[i].Status = []journal.Status{journal.OK, journal.Failed}[i%6/4]
	}
	new := allDisturbed(runOf("b", trialsOf(1, 12), trialsOf(2, 24)), 5, 10)
	text := compare(t, old, new, Options{Mean: true, Alpha: 0.01}).Mean()
	if !strings.Contains(text, "4 and 6 trials are ok at") {
		t.Errorf("in turns: %s", text)
	}
}

// TestDisturbedCheck checks that a latest run whose rows are all disturbed is shown with its raw change, and counts if
// that is asked for.
func TestDisturbedCheck(t *testing.T) {
	runs := nights(12)
	scale(runs[11:], -1, 3)
	each(runs[11:], -1, func(r *journal.Row) { r.Quality = journal.QualityDisturbed })
	r := must.Get(Check(runs[:8], runs[8:], Options{}))(t)
	if p := r.Points[1]; r.ExitCode() != 3 || p.Effect == nil || p.Effect.Ratio < 2.8 || p.Effect.Method != judge.None ||
		!strings.Contains(strings.Join(p.Notes, "; "), "let them count with --count-disturbed") {
		t.Errorf("exit %d, %+v, %q", r.ExitCode(), p.Effect, p.Notes)
	}
	r = must.Get(Check(runs[:8], runs[8:], Options{Disturbed: Disturbed{Count: true}}))(t)
	if r.Points[1].Verdict != judge.Slower || r.ExitCode() != 1 {
		t.Errorf("counted: %s, exit %d", r.Points[1].Verdict, r.ExitCode())
	}
}

// TestDisturbedSpeedup checks that disturbed pairs count if the programs ran in turns.
func TestDisturbedSpeedup(t *testing.T) {
	for name, c := range map[string]struct {
		from int
		rule Disturbed
		want judge.Outcome
	}{
		"in turns": {5, Disturbed{}, judge.Met}, "in sequence": {1000, Disturbed{}, judge.NotResolved},
		"in turns, refused":   {5, Disturbed{Ignore: true}, judge.NotResolved},
		"in sequence, forced": {1000, Disturbed{Count: true}, judge.Met},
	} {
		ours := allDisturbed(program(nil, "ours", 1, 12, steady(0)), 0, 10)
		peer := allDisturbed(program(nil, "peer", 1, 12, steady(0.7)), c.from, 10)
		tab := must.Get(Speedups(ours, []dataset.Named{peer}, Goals{Mean: 1, Disturbed: c.rule}))(t)[0]
		if tab.Least != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, tab.Least, c.want, tab.Lines)
		}
	}
}

// TestMainMetric checks that a comparison without --metric uses the only time, not the first metric.
func TestMainMetric(t *testing.T) {
	side := func(id string, seconds float64) dataset.Named {
		run := runOf(id, trialsOf(1, seconds))
		run.Header.Metrics = []journal.MetricInfo{{Name: "loss", Better: "lower"},
			{Name: "time_s", Unit: "s", Better: "lower"}}
		for _, r := range run.Rows {
			r.Units = map[string]string{"time_s": "s"}
			r.Metrics = map[string]float64{"loss": 3, "time_s": r.Metrics["time_us"]}
		}
		return run
	}
	if r := compare(t, side("a", 10), side("b", 20), Options{}); r.Metric != "time_s" || r.Counts[judge.Slower] != 1 {
		t.Errorf("%s: %v", r.Metric, r.Counts)
	}
}
