package verdict

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

func ptr[T any](v T) *T { return &v }

// rowOf returns a measured ok row. size identifies the point.
func rowOf(size int64, trial int, us float64) journal.Row {
	return journal.Row{Bench: "allreduce", Part: "latency", Backend: "cpu", NumRanks: ptr(2), Trial: trial,
		Point:  point.Point{{Name: "size", Value: point.BytesValue(size)}},
		Env:    point.Env{{Name: "NCCL_ALGO", Value: "Ring", Set: true}},
		Status: journal.OK, Kind: journal.Measured, Samples: 100,
		Metrics: map[string]float64{dataset.TimeMetric: us, "busbw": 1000 / us},
		Units:   map[string]string{dataset.TimeMetric: "us", "busbw": "GB/s"}}
}

// trialsOf returns six trials of a point that vary by ±0.2 %.
func trialsOf(size int64, us float64) []journal.Row {
	var rows []journal.Row
	for i, f := range []float64{0.998, 1.002, 0.999, 1.001, 1, 1.0005} {
		rows = append(rows, rowOf(size, i, us*f))
	}
	return rows
}

func bad(r journal.Row, status journal.Status, reason string) journal.Row {
	r.Status, r.Reason, r.Metrics = status, journal.Text(reason), nil
	return r
}

func simulated(r journal.Row) journal.Row {
	r.Kind, r.Samples = journal.Simulated, 1
	return r
}

func runOf(id string, rows ...[]journal.Row) dataset.Named {
	return sideOf("", &journal.Header{Run: id, Bench: "allreduce", Metrics: []journal.MetricInfo{
		{Name: dataset.TimeMetric, Unit: "us", Better: "lower"}, {Name: "busbw", Unit: "GB/s", Better: "higher"},
		{Name: "color"}}}, dataset.All(slices.Concat(rows...)))
}

func compare(t *testing.T, old, new dataset.Named, opts Options) Report {
	t.Helper()
	return must.Get(Compare(old, new, opts))(t)
}

func one(r journal.Row) []journal.Row { return []journal.Row{r} }

// withInterval returns a row with a stored interval of ±half.
func withInterval(r journal.Row, half float64) journal.Row {
	us := r.Metrics[dataset.TimeMetric]
	r.Stats = journal.NewObject(map[string]journal.Stat{dataset.TimeMetric: {P50: us, CILow: ptr(us * (1 - half)),
		CIHigh: ptr(us * (1 + half))}})
	return r
}

func TestVerdicts(t *testing.T) {
	nan := rowOf(1, 0, 0)
	cases := []struct {
		name     string
		old, new []journal.Row
		want     judge.Verdict
		method   judge.Method // "" if there is no effect
		exit     int
	}{
		{"slower", trialsOf(1, 10), trialsOf(1, 11), judge.Slower, judge.Ranks, 1},
		{"faster", trialsOf(1, 11), trialsOf(1, 10), judge.Faster, judge.Ranks, 0},
		{"same", trialsOf(1, 10), trialsOf(1, 10.02), judge.Same, judge.Ranks, 0},
		{"a real change below the floor is the same", trialsOf(1, 10), trialsOf(1, 10.1), judge.Same, judge.Ranks, 0},
		{"lost to a failure", trialsOf(1, 10), one(bad(rowOf(1, 0, 0), journal.Failed, "crashed")), Lost, "", 1},
		{"lost to a time-out", trialsOf(1, 10), one(bad(rowOf(1, 0, 0), journal.Timeout, "30 s")), Lost, "", 1},
		{"lost to a skip", trialsOf(1, 10), one(bad(rowOf(1, 0, 0), journal.Skipped, "no GPU")), Lost, "", 1},
		{"fixed", one(bad(rowOf(1, 0, 0), journal.Failed, "crashed")), trialsOf(1, 10), Fixed, "", 0},
		{"broken", one(bad(rowOf(1, 0, 0), journal.Failed, "a")), one(bad(rowOf(1, 0, 0), journal.Failed, "b")), Broken, "",
			3},
		{"exact, equal", one(simulated(rowOf(1, 0, 10))), one(simulated(rowOf(1, 0, 10*(1+1e-12)))), judge.Same, judge.Exact,
			0},
		{"exact, below the floor", one(simulated(rowOf(1, 0, 10))), one(simulated(rowOf(1, 0, 10.1))), judge.Same,
			judge.Exact, 0},
		{"exact, slower", one(simulated(rowOf(1, 0, 10))), one(simulated(rowOf(1, 0, 10.3))), judge.Slower, judge.Exact, 1},
		{"exact, faster", one(simulated(rowOf(1, 0, 10))), one(simulated(rowOf(1, 0, 9.7))), judge.Faster, judge.Exact, 0},
		{"one launch, twice as slow", one(withInterval(rowOf(1, 0, 10), .005)), one(withInterval(rowOf(1, 0, 20), .005)),
			judge.Ambiguous, judge.None, 3},
		{"one launch, equal", one(withInterval(rowOf(1, 0, 10), .005)), one(withInterval(rowOf(1, 0, 10), .005)),
			judge.Ambiguous,
			judge.None, 3},
		{"three launches", trialsOf(1, 10)[:3], trialsOf(1, 20)[:3], judge.Ambiguous, judge.None, 3},
		{"enough launches on one side only", trialsOf(1, 10), trialsOf(1, 20)[:3], judge.Ambiguous, judge.None, 3},
		{"four launches", trialsOf(1, 10)[:4], trialsOf(1, 20)[:4], judge.Slower, judge.Ranks, 1},
		{"one simulated, one measured", one(simulated(rowOf(1, 0, 10))), one(rowOf(1, 0, 20)), judge.Ambiguous, judge.None,
			3},
		{"not positive", one(nan), trialsOf(1, 10), judge.Ambiguous, "", 3},
		{"no longer positive", trialsOf(1, 10), one(nan), judge.Ambiguous, "", 3},
		{"negative", trialsOf(1, 10), trialsOf(1, -10), judge.Ambiguous, "", 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := compare(t, runOf("a", c.old), runOf("b", c.new), Options{})
			p := r.Points[0]
			if len(r.Points) != 1 || p.Verdict != c.want || r.ExitCode() != c.exit {
				t.Errorf("%d pairs, verdict %s, exit %d; want %s and %d: %+v %v", len(r.Points), p.Verdict, r.ExitCode(), c.want,
					c.exit, p.Effect, p.Notes)
			}
			if c.method == "" && p.Effect != nil || c.method != "" && (p.Effect == nil || p.Effect.Method != c.method) {
				t.Errorf("effect %+v, want method %q", p.Effect, c.method)
			}
		})
	}
}

func TestNewAndAbsentPoints(t *testing.T) {
	r := compare(t, runOf("a", trialsOf(1, 10), trialsOf(2, 10)), runOf("b", trialsOf(2, 10), trialsOf(3, 10)), Options{})
	got := []judge.Verdict{r.Points[0].Verdict, r.Points[1].Verdict, r.Points[2].Verdict}
	if want := []judge.Verdict{Lost, judge.Same, New}; !slices.Equal(got, want) || r.ExitCode() != 1 {
		t.Errorf("verdicts %v, want %v; exit %d", got, want, r.ExitCode())
	}
}

// TestNewPointFails checks that a point that only NEW ran and that crashed is a failure, also for a CI server.
func TestNewPointFails(t *testing.T) {
	skipped := one(bad(rowOf(3, 0, 0), journal.Skipped, "no GPU"))
	for name, c := range map[string]struct {
		old, new []journal.Row
		want     judge.Verdict
		exit     int
	}{
		"absent before, crashed":  {nil, one(bad(rowOf(3, 0, 0), journal.Failed, "crashed")), Failed, 1},
		"skipped before, hung":    {skipped, one(bad(rowOf(3, 0, 0), journal.Timeout, "30 s")), Failed, 1},
		"absent before, skipped":  {nil, skipped, New, 0},
		"skipped in both, broken": {skipped, skipped, Broken, 0},
	} {
		r := compare(t, runOf("a", trialsOf(1, 10), c.old), runOf("b", trialsOf(1, 10), c.new), Options{})
		if r.Points[1].Verdict != c.want || r.ExitCode() != c.exit {
			t.Errorf("%s: %s, exit %d; want %s, %d", name, r.Points[1].Verdict, r.ExitCode(), c.want, c.exit)
		}
		var b bytes.Buffer
		must.Do(t, r.Write(&b, "junit", "", 0))
		if want := fmt.Sprintf(`failures="%d"`, c.exit); !strings.Contains(b.String(), want) {
			t.Errorf("%s: want %s:\n%s", name, want, b.String())
		}
	}
}

// TestMarkdownShowsChanges checks that only equal points are folded.
func TestMarkdownShowsChanges(t *testing.T) {
	r := compare(t, runOf("a", trialsOf(1, 10), trialsOf(2, 10)), runOf("b", trialsOf(1, 10), trialsOf(2, 9)), Options{})
	var b bytes.Buffer
	must.Do(t, r.Write(&b, "markdown", "", 0))
	shown, folded, _ := strings.Cut(b.String(), "<details><summary>1 without a finding</summary>")
	if !strings.Contains(shown, "| faster |") || !strings.Contains(folded, "| same |") {
		t.Error(b.String())
	}
}

// TestExitCodeOfSeveral checks that a slower point outweighs ambiguous ones.
func TestExitCodeOfSeveral(t *testing.T) {
	r := compare(t, runOf("a", trialsOf(1, 10), one(rowOf(2, 0, 5))), runOf("b", trialsOf(1, 12), one(rowOf(2, 0, 5))),
		Options{})
	if r.Counts[judge.Slower] != 1 || r.Counts[judge.Ambiguous] != 1 || r.ExitCode() != 1 {
		t.Errorf("counts %v, exit %d", r.Counts, r.ExitCode())
	}
}

func TestDirectionFollowsTheMetric(t *testing.T) {
	r := compare(t, runOf("a", trialsOf(1, 10)), runOf("b", trialsOf(1, 11)), Options{Metric: "busbw"})
	if r.Points[0].Verdict != judge.Slower || r.Points[0].Effect.Ratio > 0.95 {
		t.Errorf("a falling bandwidth is %s, ratio %v", r.Points[0].Verdict, r.Points[0].Effect.Ratio)
	}
}

// TestEffectSize checks the effect, and that swapping the sides inverts it.
func TestEffectSize(t *testing.T) {
	forth := compare(t, runOf("a", trialsOf(1, 10)), runOf("b", trialsOf(1, 12)), Options{}).Points[0].Effect
	back := compare(t, runOf("a", trialsOf(1, 12)), runOf("b", trialsOf(1, 10)), Options{}).Points[0].Effect
	if math.Abs(forth.Ratio-1.2) > 1e-3 || forth.Low > 1.2 || forth.High < 1.2 {
		t.Errorf("the effect of 10 to 12 is %+v", forth)
	}
	if math.Abs(forth.Ratio*back.Ratio-1) > 1e-9 || math.Abs(forth.Low*back.High-1) > 1e-9 || *forth.P != *back.P {
		t.Errorf("there and back: %+v and %+v", forth, back)
	}
}

func TestIgnore(t *testing.T) {
	changed := trialsOf(1, 10)
	for i := range changed {
		changed[i].Env = point.Env{{Name: "NCCL_ALGO"}}
	}
	old, new := runOf("a", trialsOf(1, 10)), runOf("b", changed)
	r := compare(t, old, new, Options{})
	if r.Counts[Lost] != 1 || !slices.ContainsFunc(r.Warnings, func(w string) bool {
		return strings.Contains(w, "ignore what differs on purpose: NCCL_ALGO")
	}) {
		t.Errorf("without it: %v %q", r.Counts, r.Warnings)
	}
	if r := compare(t, old, new, Options{Ignore: []string{"NCCL_ALGO"}}); r.Counts[judge.Same] != 1 {
		t.Errorf("with it: %v", r.Counts)
	}
	_, err := Compare(runOf("a", trialsOf(1, 10), trialsOf(2, 10)), old, Options{Ignore: []string{"size"}})
	if err == nil || !strings.Contains(err.Error(), "ignoring size makes several points of run a alike") {
		t.Errorf("ignoring a swept axis gives %v", err)
	}
}

// TestMedianOfSide checks that a comparison without a verdict shows the same bandwidths as the tables of both runs.
func TestMedianOfSide(t *testing.T) {
	old := runOf("old", one(rowOf(1, 0, 1)), one(rowOf(1, 1, 3)))
	new := runOf("new", one(rowOf(1, 0, 2)), one(rowOf(1, 1, 10)))
	p := compare(t, old, new, Options{Metric: "busbw"}).Points[0]
	if a, b := old.Rows.Median("busbw"), new.Rows.Median("busbw"); p.Old.Value != a || p.New.Value != b ||
		p.Effect.Ratio != b/a {
		t.Errorf("%v to %v, ratio %v; the tables have %v and %v", p.Old.Value, p.New.Value, p.Effect.Ratio, a, b)
	}
}

func TestErrors(t *testing.T) {
	run := runOf("a", trialsOf(1, 10))
	for _, c := range []struct {
		old  dataset.Named
		opts Options
		want string
	}{
		{run, Options{Metric: "time_u"}, `did you mean "time_us"?`},
		{run, Options{Metric: "color"}, "does not declare whether lower or higher values of metric color are better"},
		{run, Options{Floor: 2}, "a floor of 2"},
		{run, Options{Alpha: math.NaN()}, "an alpha of NaN"},
		{runOf("a"), Options{}, "run a has no rows"},
	} {
		if _, err := Compare(c.old, run, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v lacks %q", c.opts, err, c.want)
		}
	}
	// Lower is better for time_us, even without headers.
	old, new := sideOf("", nil, dataset.All(trialsOf(1, 10))), sideOf("", nil, dataset.All(trialsOf(1, 12)))
	if r := compare(t, old, new, Options{}); r.Counts[judge.Slower] != 1 {
		t.Errorf("without headers: %v", r.Counts)
	}
}

// TestRunsInSequence checks the warning that a verdict on two runs in sequence includes what changed between them.
func TestRunsInSequence(t *testing.T) {
	at := func(run dataset.Named, from, step int) dataset.Named {
		for i := range run.Rows {
			run.Rows[i].Time = time.Unix(int64(from+step*i), 0)
		}
		return run
	}
	const advice = ", so a change of the machine in between looks like one of the program: " +
		"kernbench ab alternates their launches"
	slower := func(id string) dataset.Named { return runOf(id, trialsOf(1, 11), trialsOf(2, 22)) }
	same := func(id string) dataset.Named { return runOf(id, trialsOf(1, 10), trialsOf(2, 20)) }
	for name, c := range map[string]struct {
		old, new dataset.Named
		want     string // "" if there is no warning
	}{
		"in sequence":   {at(same("a"), 0, 10), at(slower("b"), 1000, 10), "OLD was measured before NEW"},
		"new first":     {at(same("a"), 1000, 10), at(slower("b"), 0, 10), "NEW was measured before OLD"},
		"faster":        {at(slower("a"), 0, 10), at(same("b"), 1000, 10), "OLD was measured before NEW"},
		"overlapping":   {at(same("a"), 0, 10), at(slower("b"), 110, 10), ""},
		"large change":  {at(same("a"), 0, 10), at(runOf("b", trialsOf(1, 16), trialsOf(2, 32)), 1000, 10), ""},
		"alternating":   {at(same("a"), 0, 10), at(slower("b"), 5, 10), ""},
		"no verdict":    {at(same("a"), 0, 10), at(same("b"), 1000, 10), ""},
		"times unknown": {same("a"), slower("b"), ""},
		"without noise": {at(runOf("a", one(simulated(rowOf(1, 0, 10)))), 0, 10),
			at(runOf("b", one(simulated(rowOf(1, 0, 11)))), 1000, 10), ""},
	} {
		r := compare(t, c.old, c.new, Options{})
		if (len(r.Warnings) > 0) != (c.want != "") || c.want != "" && r.Warnings[0] != c.want+advice {
			t.Errorf("%s: warnings %q, want %q", name, r.Warnings, c.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	old, new := runOf("a", trialsOf(1, 10)), runOf("b", trialsOf(1, 10))
	if r := compare(t, old, new, Options{}); len(r.Warnings) > 0 {
		t.Errorf("two alike runs: %q", r.Warnings)
	}
	new.Rows = append(new.Rows[:5:5], ptr(bad(rowOf(1, 5, 0), journal.Failed, "crashed")))
	r := compare(t, old, new, Options{})
	for _, want := range []string{"different numbers of trials in 1 point", "not ok are left out in 1 point"} {
		if !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("no warning of %q in %q", want, r.Warnings)
		}
	}
	const failed = "NEW: 1 of 6 trials not ok: failed (crashed)"
	if notes := strings.Join(r.Points[0].Notes, "; "); !strings.Contains(notes, failed) {
		t.Errorf("notes %q", notes)
	}
	if r.Points[0].Verdict != judge.Same || r.ExitCode() != 0 {
		t.Errorf("one failed trial: %s, exit %d", r.Points[0].Verdict, r.ExitCode())
	}
	for i := range new.Rows[:3] { // as many failed as are ok
		new.Rows = append(new.Rows, ptr(bad(rowOf(1, 6+i, 0), journal.Failed, "crashed")))
	}
	new.Rows = append(new.Rows, ptr(rowOf(1, 9, 10)), ptr(bad(rowOf(1, 10, 0), journal.Failed, "crashed")),
		ptr(bad(rowOf(1, 11, 0), journal.Failed, "crashed")))
	r = compare(t, old, new, Options{})
	if notes := r.Points[0].Notes; r.Points[0].Verdict != Lost || r.ExitCode() != 1 ||
		!slices.Contains(notes, "NEW: 6 of 12 trials not ok: failed (crashed)") {
		t.Errorf("half of the trials failed: %s, exit %d, %q", r.Points[0].Verdict, r.ExitCode(), notes)
	}
	r = compare(t, runOf("a", one(rowOf(1, 0, 10))), runOf("b", one(rowOf(1, 0, 10))), Options{})
	if len(r.Warnings) > 0 {
		t.Errorf("one trial on each side: %q", r.Warnings)
	}
}

// TestDamagedHeader checks the warning about two runs if only one knows its host.
func TestDamagedHeader(t *testing.T) {
	host := runOf("a", trialsOf(1, 10))
	host.Header = *machineHeader("a")
	damaged := runOf("b", trialsOf(1, 10))
	for _, c := range []struct {
		old, new dataset.Named
		warned   bool
	}{
		{host, damaged, true}, {damaged, host, true}, {host, host, false}, {damaged, damaged, false},
	} {
		warnings := runWarnings(c.old, c.new, [2]string{"OLD", "NEW"})
		warned := len(warnings) == 1 && strings.HasPrefix(warnings[0], "not known to be the same kind of host")
		if warned != c.warned || !warned && len(warnings) > 0 {
			t.Errorf("%s and %s: %q", c.old.ID(), c.new.ID(), warnings)
		}
	}
}

// TestOneTrialSaysWhatToDo checks that the note on too few trials says how many are needed.
func TestOneTrialSaysWhatToDo(t *testing.T) {
	r := compare(t, runOf("a", one(rowOf(1, 0, 10))), runOf("b", one(rowOf(1, 0, 20))), Options{})
	if p := r.Points[0]; p.Verdict != judge.Ambiguous ||
		!strings.Contains(strings.Join(p.Notes, "; "), "run with --trials 6") {
		t.Errorf("%s %q", p.Verdict, p.Notes)
	}
	var b bytes.Buffer
	if err := r.Write(&b, "table", "", 80); err != nil || !strings.Contains(b.String(), "run with --trials 6") {
		t.Errorf("the table does not say it: %v\n%s", err, b.String())
	}
}

// TestDisturbedTrialsAreNoEvidence checks that trials disturbed by CPU steal, drift or another
// kernbench are left out.
func TestDisturbedTrialsAreNoEvidence(t *testing.T) {
	disturb := func(rows []journal.Row, why journal.Condition) []journal.Row {
		for i := range rows {
			rows[i].Quality, rows[i].Conditions = journal.QualityDisturbed, []journal.Condition{journal.Remarkf("x"), why}
		}
		return rows
	}
	for _, why := range []journal.Condition{
		journal.NewCondition(journal.CodeSteal, journal.Named{"share": 0.23}),
		journal.NewCondition(journal.CodeDrift, journal.Named{"change": 0.09}),
		journal.NewCondition(journal.CodeCrowd, journal.Named{"process": 7}),
	} {
		slow := disturb(trialsOf(1, 12), why)
		p := compare(t, runOf("a", trialsOf(1, 10)), runOf("b", slow), Options{}).Points[0]
		if notes := strings.Join(p.Notes, "; "); p.Verdict != judge.Ambiguous ||
			!strings.Contains(notes, "NEW: 6 of 6 trials disturbed and left out") {
			t.Errorf("%v: %s %q", why, p.Verdict, notes)
		}
		// Four undisturbed trials are enough.
		some := append(disturb(trialsOf(1, 12)[:2], why), trialsOf(1, 10)[2:]...)
		if p := compare(t, runOf("a", trialsOf(1, 10)), runOf("b", some), Options{}).Points[0]; p.Verdict != judge.Same ||
			p.New.Value > 10.1 || !strings.HasPrefix(strings.Join(p.Notes, ""), "NEW: 2 of 6 trials disturbed and left out") {
			t.Errorf("%v: two disturbed trials of six make it %s, %v", why, p.Verdict, p.New.Value)
		}
		p = compare(t, runOf("a", some), runOf("b", trialsOf(1, 10)), Options{}).Points[0]
		if !strings.HasPrefix(strings.Join(p.Notes, ""), "OLD: 2 of 6 trials disturbed") {
			t.Errorf("%v: notes %q", why, p.Notes)
		}
	}
	// Other conditions do not disqualify trials.
	unsteady := trialsOf(1, 12)
	for i := range unsteady {
		unsteady[i].Conditions.Add(journal.Remarkf("steal: the clock is coarse"))
	}
	if p := compare(t, runOf("a", trialsOf(1, 10)), runOf("b", unsteady),
		Options{}).Points[0]; p.Verdict != judge.Slower {
		t.Errorf("an unrelated warning makes it %s", p.Verdict)
	}
}

// TestExactPointsAreNoTests checks that exact points do not count in the correction of p values.
func TestExactPointsAreNoTests(t *testing.T) {
	old, new := trialsOf(0, 10), trialsOf(0, 11)
	for size := range int64(100) {
		old, new = append(old, simulated(rowOf(size+1, 0, 10))), append(new, simulated(rowOf(size+1, 0, 10.5)))
	}
	r := compare(t, runOf("a", old), runOf("b", new), Options{})
	if r.Counts[judge.Slower] != 101 || r.Points[0].Effect.Method != judge.Ranks {
		t.Errorf("counts %v, method %s", r.Counts, r.Points[0].Effect.Method)
	}
}

func onGPU(rows []journal.Row, model string) []journal.Row {
	for i := range rows {
		rows[i].Details = map[string]string{journal.DeviceDetail: model}
	}
	return rows
}

// rich returns a report with every verdict.
func rich(t *testing.T) Report {
	old := runOf("20261114-old", trialsOf(1024, 10), trialsOf(2048, 10), trialsOf(4096, 10), trialsOf(8192, 10),
		one(bad(rowOf(16384, 0, 0), journal.Failed, "crashed")),
		one(withInterval(rowOf(32768, 0, 40), .01)), one(bad(rowOf(131072, 0, 0), journal.Skipped, "no GPU")),
		onGPU(trialsOf(262144, 90), "NVIDIA H200"))
	new := runOf("20261115-new", trialsOf(1024, 11), trialsOf(2048, 9), trialsOf(4096, 10.01),
		one(bad(rowOf(8192, 0, 0), journal.Timeout, "no <answer> in 30 s,\nrank 1")), trialsOf(16384, 10),
		one(withInterval(rowOf(32768, 0, 42.2), .01)), trialsOf(65536, 80),
		one(bad(rowOf(131072, 0, 0), journal.Skipped, "no GPU")), onGPU(trialsOf(262144, 30), "NVIDIA L4"),
		one(bad(rowOf(524288, 0, 0), journal.Failed, "crashed")))
	new.Header.Version = "2"
	return compare(t, old, new, Options{})
}

func TestGolden(t *testing.T) {
	r := rich(t)
	if len(r.Counts) != len(verdicts)-2 { // a check has two others
		t.Errorf("the report lacks verdicts: %v", r.Counts)
	}
	for _, format := range Formats() {
		var b bytes.Buffer
		must.Do(t, r.Write(&b, format, "", 140))
		golden.Check(t, "rich."+format, b.String())
	}
	if err := r.Write(&bytes.Buffer{}, "jnuit", "", 0); err == nil || !strings.Contains(err.Error(), `did you mean "junit"?`) {
		t.Errorf("an unknown format gives %v", err)
	}
}

func TestJSONReadsBack(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, rich(t).Write(&b, "json", "", 0))
	var r Report
	must.Do(t, json.Unmarshal(b.Bytes(), &r))
	if r.ExitCode() != 1 || len(r.Points) != 10 || r.Points[0].Effect.P == nil {
		t.Errorf("read back as %+v", r)
	}
}

func TestJUnitCounts(t *testing.T) {
	r := rich(t)
	var b bytes.Buffer
	must.Do(t, r.Write(&b, "junit", "", 0))
	type message struct {
		Message string `xml:"message,attr"`
	}
	var doc struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Skipped  int `xml:"skipped,attr"`
			Cases    []struct {
				Failure *message `xml:"failure"`
				Skipped *message `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	must.Do(t, xml.Unmarshal(b.Bytes(), &doc))
	s := doc.Suites[0]
	failures, skipped := 0, 0
	for _, c := range s.Cases {
		if c.Failure != nil {
			failures++
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	want := []int{10, r.Counts[judge.Slower] + r.Counts[Lost] + r.Counts[Failed],
		r.Counts[judge.Ambiguous] + r.Counts[Broken] + r.Counts[NotComparable]}
	if got := []int{s.Tests, s.Failures, s.Skipped}; !slices.Equal(got, want) || failures != s.Failures ||
		skipped != s.Skipped {
		t.Errorf("tests, failures, skipped are %v (elements %d, %d), want %v", got, failures, skipped, want)
	}
}

func TestEmptyReport(t *testing.T) {
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := (Report{}).Write(&b, f, "", 80); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	if code, text := (Report{}).ExitCode(), (Report{}).Summary(); code != 0 || text != "no points" {
		t.Errorf("exit %d, %q", code, text)
	}
}

// TestRanksMustAgreeWithT checks that the t test, used if ranks are too coarse for the
// correction, does not decide against the ranks: here one trial of each side overlaps.
func TestRanksMustAgreeWithT(t *testing.T) {
	trials := func(size int64, us ...float64) (rows []journal.Row) {
		for i, v := range us {
			rows = append(rows, rowOf(size, i, v))
		}
		return rows
	}
	old := runOf("a", trials(1, 10, 10.1, 10.2, 10.3), trials(2, 10, 10.1, 10.2, 10.6))
	new := runOf("b", trials(1, 20, 20.1, 20.2, 20.3), trials(2, 10.5, 10.9, 11, 11.1))
	r := compare(t, old, new, Options{})
	if p := r.Points[0]; p.Verdict != judge.Slower || p.Effect.Method != judge.TTest {
		t.Errorf("separate trials are %s by %s", p.Verdict, p.Effect.Method)
	}
	if p := r.Points[1]; p.Verdict != judge.Ambiguous || *p.Effect.P > DefaultAlpha {
		t.Errorf("overlapping trials are %s, p %v", p.Verdict, *p.Effect.P)
	}
}

func TestSortAndColumns(t *testing.T) {
	old := runOf("a", trialsOf(1, 10), trialsOf(2, 10), trialsOf(3, 10))
	new := runOf("b", trialsOf(1, 9), trialsOf(2, 12), trialsOf(3, 11))
	for i := range 6 { // the intervals of size=3 overlap, so that its p is the largest
		new.Rows[12+i].Metrics[dataset.TimeMetric] = 10 + 0.3*float64(i)
	}
	for by, want := range map[string]string{"change": "size=1 size=3 size=2", "-change": "size=2 size=3 size=1",
		"verdict": "size=2 size=3 size=1", "-p": "size=3 size=1 size=2", "p": "size=1 size=2 size=3"} {
		r := compare(t, old, new, Options{Sort: []string{by}, Columns: []string{"change", "point"}})
		var got []string
		for _, p := range r.Points {
			got = append(got, point.Point(p.Point).String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %v, want %s", by, got, want)
		}
		var b bytes.Buffer
		if err := r.Write(&b, "table", "", 0); err != nil || !strings.Contains(b.String(), " change  point\n") ||
			strings.Contains(b.String(), "interval") {
			t.Errorf("the table of two columns: %v\n%s", err, b.String())
		}
	}
	for _, opts := range []Options{{Sort: []string{"-chnage"}}, {Columns: []string{"chnage"}}} {
		if _, err := Compare(old, new, opts); err == nil || !strings.Contains(err.Error(), `did you mean "change"?`) {
			t.Errorf("an unknown column gives %v", err)
		}
	}
	if _, err := Compare(old, new, Options{Sort: []string{"p", "notes"}}); err == nil ||
		!strings.Contains(err.Error(), "cannot be sorted by notes: want point, verdict, old, new, change, p") {
		t.Errorf("sorting by notes gives %v", err)
	}
}

// TestNoRowIsOK compares runs in which every row failed: the metric is the declared one.
func TestNoRowIsOK(t *testing.T) {
	side := func(name string) dataset.Named {
		row := journal.Row{Bench: "b", Key: "k", Status: journal.Failed, Reason: "crashed"}
		return sideOf(name, &journal.Header{Run: name, Bench: "b",
			Metrics: []journal.MetricInfo{{Name: "lat", Better: "lower"}}}, dataset.Set{&row})
	}
	if r, err := Compare(side("a"), side("b"), Options{}); err != nil || len(r.Points) != 1 {
		t.Errorf("%+v, %v", r.Points, err)
	}
}

// cutShort makes a side that of a run that has not ended.
func cutShort(side dataset.Named) {
	side.Runs = []*journal.Run{{Header: journal.Header{Points: 24}}}
}

// isCutShort says it in a report.
const isCutShort = "0 of 24 points: the run has not ended"

// sideOf returns a side of a comparison. The header may be nil.
func sideOf(name string, h *journal.Header, rows dataset.Set) dataset.Named {
	if h == nil {
		h = &journal.Header{}
	}
	return dataset.Named{Name: name, Dataset: &dataset.Dataset{Header: *h, Rows: rows}}
}
