// Package history shows when a bench became slower or faster over its runs. Check judges the latest run
// against a baseline, and Steps lists every change in a history. Package changepoint has the statistics;
// this package chooses the rows and formats the answer.
//
// Disturbed rows are left out. Runs on different kinds of machine are never compared with each other,
// except for simulated and modelled values, which do not depend on the machine.
package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/view/compare"
)

// Options sets what is judged and how strictly. The zero value means the defaults.
type Options struct {
	Metric    string
	Floor     float64 // smallest relative change that matters
	Alpha     float64 // probability of a false alarm in a check
	Tolerance float64 // largest slow-down of all points together that a good check may miss
	// Ignore names differences, such as cpu, that should not prevent a comparison of runs.
	Ignore []string
}

// withDefaults fills in the defaults and refuses impossible values. The conditions are negated so
// that NaN is refused too.
func (o Options) withDefaults() (Options, error) {
	o.Metric = cmp.Or(o.Metric, compare.DefaultMetric)
	o.Floor = cmp.Or(o.Floor, changepoint.DefaultFloor)
	o.Alpha = cmp.Or(o.Alpha, changepoint.DefaultAlpha)
	o.Tolerance = cmp.Or(o.Tolerance, changepoint.DefaultTolerance)
	switch {
	case !(o.Floor > 0 && o.Floor < 1):
		return o, fmt.Errorf("a floor of %v: want a relative change between 0 and 1, such as 0.02", o.Floor)
	case !(o.Alpha > 0 && o.Alpha < 0.25):
		return o, fmt.Errorf("an alpha of %v: want a probability between 0 and 0.25, such as 0.001", o.Alpha)
	case !(o.Tolerance > 0 && o.Tolerance < 1):
		return o, fmt.Errorf("a tolerance of %v: want a relative change between 0 and 1, such as 0.05", o.Tolerance)
	}
	return o, nil
}

func (o Options) rule() changepoint.Rule {
	return changepoint.Rule{Alpha: o.Alpha, Floor: o.Floor, Tolerance: o.Tolerance}
}

// RunName names a run and the state of the program that it measured.
type RunName struct {
	Run    string     `json:"run"`
	Commit string     `json:"commit,omitempty"`
	Time   *time.Time `json:"time,omitempty"`
}

func nameOf(r compare.Run) RunName {
	n := RunName{Run: r.ID()}
	if h := r.Header; h != nil {
		n.Commit = h.Commit
		if !h.Time.IsZero() {
			n.Time = &h.Time
		}
	}
	return n
}

// String returns "run 20261115-014233-7f3a (commit 1a2b3c4d5e6f)".
func (n RunName) String() string {
	if n.Commit == "" {
		return "run " + n.Run
	}
	return fmt.Sprintf("run %s (commit %s)", n.Run, n.Commit[:min(12, len(n.Commit))])
}

// timeline is the rows of several runs by point. The last run is the latest.
type timeline struct {
	runs         []compare.Run
	metric       journal.MetricInfo
	keys         []string                 // of the points: first the latest run's, in its order, then the others
	rows         []map[string]dataset.Set // by run and key
	series       changepoint.Series
	otherMachine int // number of runs on another kind of machine than the latest run
	// otherUnit is the number of runs whose values cannot be compared with the values of the latest run,
	// because they have another direction or a unit that cannot be converted.
	otherUnit int
}

// newTimeline collects the values of runs, the oldest first.
func newTimeline(runs []compare.Run, opts Options) (*timeline, error) {
	t := &timeline{runs: runs}
	err := compare.CheckIgnore(opts.Ignore, runs...)
	if err == nil {
		t.metric, err = metricInfo(runs, opts.Metric)
	}
	if err != nil {
		return nil, err
	}
	runs = lists.Map(runs, func(r compare.Run) compare.Run { return r.InUnit(t.metric) })
	t.runs = runs
	seen := map[string]bool{}
	t.rows = make([]map[string]dataset.Set, len(runs))
	for i, run := range slices.Backward(runs) {
		t.rows[i] = map[string]dataset.Set{}
		for _, row := range run.Rows {
			key := dataset.Key(row)
			t.rows[i][key] = append(t.rows[i][key], row)
			if !seen[key] {
				seen[key] = true
				t.keys = append(t.keys, key)
			}
		}
	}
	t.fillSeries(opts.Ignore)
	return t, nil
}

// fillSeries sets the launches of every run and point.
func (t *timeline) fillSeries(ignore []string) {
	for _, key := range t.keys {
		t.series.Exact = append(t.series.Exact, t.exact(key))
	}
	for i := range t.runs {
		sameMachine, sameUnit := t.comparable(i, ignore)
		launches := make([][]float64, len(t.keys))
		for p, key := range t.keys {
			if !sameUnit || !sameMachine && !t.series.Exact[p] {
				continue
			}
			for _, v := range t.values(i, key) {
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
func (t *timeline) comparable(i int, ignore []string) (sameMachine, sameUnit bool) {
	run, latest := t.runs[i], t.runs[len(t.runs)-1]
	sameMachine = run.Header == nil || latest.Header == nil || slices.Contains(ignore, "cpu") ||
		run.Header.Host.Class() == latest.Header.Host.Class()
	sameUnit = true
	if i < len(t.runs)-1 {
		for _, d := range compare.Differences(run, latest, t.metric.Name, ignore) {
			if d.Decisive && !d.Ignored {
				sameUnit = sameUnit && !d.OfValues()
				sameMachine = sameMachine && d.OfValues()
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

// values returns the positive values of the undisturbed ok rows of a point in a run.
func (t *timeline) values(run int, key string) (out []float64) {
	for _, row := range t.rows[run][key] {
		v, ok := row.Metrics[t.metric.Name]
		if ok && row.Status == journal.OK && row.Disturbed() == "" && v > 0 && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
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

// exact reports whether the values of a point have no noise: they are not measured, and equal in all trials of a run.
func (t *timeline) exact(key string) bool {
	for i := range t.runs {
		for _, row := range t.rows[i][key] {
			if row.Status == journal.OK && (row.Kind == journal.Measured || row.Samples > 1) {
				return false
			}
		}
		if !judge.AllEqual(t.values(i, key)) {
			return false
		}
	}
	return true
}

// disturbed returns how many ok rows of a point in a run are disturbed, and the first reason.
func (t *timeline) disturbed(run int, key string) (n int, why string) {
	for _, row := range t.rows[run][key] {
		if text := row.Disturbed(); text != "" && row.Status == journal.OK {
			n++
			why = cmp.Or(why, text)
		}
	}
	return n, why
}

// anyRow returns a row of a point, from the latest run that has one.
func (t *timeline) anyRow(key string) *journal.Row {
	for _, rows := range slices.Backward(t.rows) {
		if len(rows[key]) > 0 {
			return rows[key][0]
		}
	}
	return nil
}

// median returns the median value of a point over some runs; ok is false without values.
func (t *timeline) median(from, to int, key string) (v float64, ok bool) {
	var values []float64
	for i := from; i < to; i++ {
		values = append(values, t.values(i, key)...)
	}
	if len(values) == 0 {
		return 0, false
	}
	return stats.Median(values), true
}

// ratio returns a change of the series as a ratio of the metric.
func (t *timeline) ratio(change float64) float64 {
	if t.metric.Better == "higher" {
		return math.Exp(-change)
	}
	return math.Exp(change)
}

// metricInfo returns the unit and direction of a metric as the latest run that declares it has them.
func metricInfo(runs []compare.Run, name string) (journal.MetricInfo, error) {
	info := journal.MetricInfo{Name: name}
	seen := map[string]bool{}
	for _, run := range runs {
		for i := range run.Rows {
			for m := range run.Rows[i].Metrics {
				seen[m] = true
			}
			info.Unit = cmp.Or(run.Rows[i].Units[name], info.Unit)
		}
		if run.Header == nil {
			continue
		}
		for _, m := range run.Header.Metrics {
			if seen[m.Name] = true; m.Name == name {
				info = m
			}
		}
	}
	if !seen[name] {
		return info, suggest.Unknown("metric", name, slices.Sorted(maps.Keys(seen)))
	}
	if name == compare.DefaultMetric && info.Better == "" {
		info.Better = "lower"
	}
	if info.Better != "lower" && info.Better != "higher" {
		return info, fmt.Errorf("the bench does not declare whether lower or higher values of metric %s are better, so it "+
			"has no faster or slower", name)
	}
	return info, nil
}
