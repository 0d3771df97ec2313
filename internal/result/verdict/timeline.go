package verdict

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// stepMethod is the method of an effect between levels of a series of runs.
const stepMethod judge.Method = "steps"

// RunName names a run and the state of the program that it measured.
type RunName struct {
	Run    string     `json:"run"`
	Commit string     `json:"commit,omitempty"`
	Time   *time.Time `json:"time,omitempty"`
}

func nameOf(r dataset.Named) RunName {
	n := RunName{Run: r.ID(), Commit: r.Header.Commit}
	if !r.Header.Time.IsZero() {
		n.Time = &r.Header.Time
	}
	return n
}

// String returns "run 20261115-014233-7f3a (commit 1a2b3c4d5e6f)".
func (n RunName) String() string {
	if n.Commit == "" {
		return "run " + n.Run
	}
	return fmt.Sprintf("run %s (commit %s)", n.Run, n.shortCommit())
}

func (n RunName) shortCommit() string { return n.Commit[:min(12, len(n.Commit))] }

// timeline is the rows of several runs by point. The last run is the latest. Runs on different kinds of machine are
// never compared with each other, except for values without noise, which do not depend on the machine.
type timeline struct {
	runs         []dataset.Named
	metric       journal.MetricInfo
	opts         Options
	points       []dataset.Matched // by point and run: first the latest run's points, in its order, then the others
	series       changepoint.Series
	otherMachine int // number of runs on another kind of machine than the latest run
	// otherUnit is the number of runs whose values cannot be compared with the values of the latest run,
	// because they have another direction or a unit that cannot be converted.
	otherUnit int
}

// newTimeline collects the values of runs, the oldest first.
func newTimeline(runs []dataset.Named, opts Options) (*timeline, error) {
	if err := checkIgnore("difference", opts.Ignore, nil, runs...); err != nil {
		return nil, err
	}
	metric, err := metricInfo(opts.Metric, runs...)
	if err != nil {
		return nil, err
	}
	opts.Metric = metric.Name
	t := &timeline{metric: metric, opts: opts}
	t.runs = lists.Map(runs, func(r dataset.Named) dataset.Named { return InUnit(r, t.metric) })
	newestFirst := lists.Map(t.runs, func(r dataset.Named) dataset.Set { return r.Rows })
	slices.Reverse(newestFirst)
	t.points = dataset.Match(func(r *journal.Row) string { return dataset.Key(r) }, newestFirst...)
	for _, m := range t.points {
		slices.Reverse(m)
	}
	t.fillSeries()
	return t, nil
}

// fillSeries sets the launches of every run and point.
func (t *timeline) fillSeries() {
	t.series = changepoint.Series{Exact: lists.Map(t.points, t.exact)}
	t.otherMachine, t.otherUnit = 0, 0
	for i := range t.runs {
		sameMachine, sameUnit := t.comparable(i)
		launches := make([][]float64, len(t.points))
		for p, m := range t.points {
			if !sameUnit || !sameMachine && !t.series.Exact[p] {
				continue
			}
			for _, v := range t.values(m[i]) {
				if t.metric.Better == "higher" {
					v = 1 / v
				}
				launches[p] = append(launches[p], math.Log(v))
			}
		}
		t.series.Runs = append(t.series.Runs, launches)
	}
}

// comparable reports whether the values of a run can be compared with the values of the latest run. It
// counts the runs for which this is not the case.
func (t *timeline) comparable(i int) (sameMachine, sameUnit bool) {
	run, latest := t.runs[i], t.runs[len(t.runs)-1]
	sameMachine = slices.Contains(t.opts.Ignore, cpuProperty) || classOf(run) == classOf(latest)
	sameUnit = true
	if i < len(t.runs)-1 {
		for _, d := range differencesOf(run, latest, t.opts) {
			if d.Decisive && !d.Ignored {
				sameUnit = sameUnit && !d.ofValues()
				sameMachine = sameMachine && d.ofValues()
			}
		}
	}
	if !sameMachine {
		t.otherMachine++
	}
	if !sameUnit {
		t.otherUnit++
	}
	return sameMachine, sameUnit
}

// values returns the positive values of the ok rows that count.
func (t *timeline) values(rows dataset.Set) []float64 {
	all := t.opts.counting(withMetric(rows, t.metric.Name)).Values(t.metric.Name)
	return lists.Filter(all, func(v float64) bool { return v > 0 && !math.IsInf(v, 0) })
}

// usable returns the IDs of the runs, starting at from, that have a value for any point.
func (t *timeline) usable(from int) (ids []string) {
	for i, launches := range t.series.Runs[from:] {
		if slices.ContainsFunc(launches, func(values []float64) bool { return len(values) > 0 }) {
			ids = append(ids, t.runs[from+i].ID())
		}
	}
	return ids
}

// exact reports whether the values of a point have no noise in any run.
func (t *timeline) exact(m dataset.Matched) bool {
	return !slices.ContainsFunc(m, func(rows dataset.Set) bool { return !noiseless(rows.Good(), t.values(rows)) })
}

// ratio returns a change of the series as a ratio of the metric.
func (t *timeline) ratio(change float64) float64 {
	if t.metric.Better == "higher" {
		return math.Exp(-change)
	}
	return math.Exp(change)
}

// finding converts a finding of package changepoint, whose changes are logarithms, to ratios.
func (t *timeline) finding(f changepoint.Finding, exact bool) Finding {
	out := Finding{Verdict: judge.Verdict(f.Verdict), Notes: lists.NonEmpty(f.Missing)}
	if !math.IsNaN(f.Change) {
		out.Effect = &judge.Effect{Ratio: t.ratio(f.Change), Method: stepMethod}
		if exact {
			out.Effect.Method = judge.Exact
		}
		if !math.IsNaN(f.Low) {
			low, high := t.ratio(f.Low), t.ratio(f.High)
			out.Effect.Low, out.Effect.High = min(low, high), max(low, high)
		}
	}
	if out.Verdict == judge.Slower || out.Verdict == judge.Faster {
		since := nameOf(t.runs[f.First])
		out.Since = &since
		if out.Effect != nil && f.P > 0 {
			out.Effect.P = &f.P
		}
	}
	if !math.IsNaN(f.Bound) {
		out.RulesOut = &f.Bound
	}
	return out
}

// warnings returns warnings that concern whole runs. The first accepted runs are the baseline.
func (t *timeline) warnings(accepted int) (out []string) {
	for i, r := range t.runs {
		switch part := r.Incomplete(); {
		case part == "":
		case i == len(t.runs)-1:
			out = append(out, "latest run: "+part)
		case i < accepted:
			out = append(out, fmt.Sprintf("baseline: run %s: %s", r.ID(), part))
		}
	}
	if t.otherMachine > 0 {
		out = append(out, fmt.Sprintf("%s on another kind of machine than the latest: measured values left out",
			unit.Plural(t.otherMachine, "run")))
	}
	if t.otherUnit > 0 {
		out = append(out, fmt.Sprintf("%s with %s in a unit or direction that cannot be compared with the latest: left out",
			unit.Plural(t.otherUnit, "run"), t.metric.Name))
	}
	return append(out, lists.NonEmpty(t.opts.warning(t.runs[len(t.runs)-1].Rows))...)
}

// newest returns a row of a point, from the latest run that has one.
func newest(m dataset.Matched) *journal.Row {
	for _, rows := range slices.Backward(m) {
		if len(rows) > 0 {
			return rows[0]
		}
	}
	return nil
}
