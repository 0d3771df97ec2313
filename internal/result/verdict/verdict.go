// Package verdict says what became faster or slower. It chooses the sides of a comparison, asks package judge or
// changepoint for a decision on each point, and knows what follows from it: words, exit status and formats.
//
//   - Compare: two runs of a bench. By: the values of one coordinate of a run.
//   - Speedups: a run and other programs that do the same work.
//   - Check and Steps: the latest run and a baseline, and every change over many runs.
//   - Effects: the variables that a run sweeps.
//
// It works on stored rows and never runs or times anything. Rows belong to the same point if [dataset.Key] is equal.
// Options.Ignore names coordinates that differ on purpose. Disturbed trials follow one rule: see [Disturbed].
package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/changepoint"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Defaults of Options. DefaultAlpha is for comparisons; a check and a history use changepoint.DefaultAlpha.
const (
	DefaultFloor = changepoint.DefaultFloor
	DefaultAlpha = 0.05
)

// The verdicts that package judge does not have. Lost, New, Failed, Fixed and Broken follow from the status of the
// rows.
const (
	Lost   judge.Verdict = "lost"   // ok before; absent, or failed in half of the trials, now
	New    judge.Verdict = "new"    // absent before
	Failed judge.Verdict = "failed" // not run before, failed now
	Fixed  judge.Verdict = "fixed"  // not ok before, ok now
	Broken judge.Verdict = "broken" // not ok on either side
	// NotComparable: a decisive Difference, such as another CPU, makes a ratio meaningless.
	NotComparable judge.Verdict = "not comparable"

	NoSlowdown = judge.Verdict(changepoint.NoSlowdown)
	CannotTell = judge.Verdict(changepoint.CannotTell)
)

// Outcome is what follows from a verdict: for the exit status, and for the tests that a CI server shows.
type Outcome uint8

// The outcomes. An undecided point is a skipped test.
const (
	Passed Outcome = iota
	Equal          // a short text need not list the point
	Bad
	Undecided
)

// verdicts lists all verdicts, the most urgent first.
var verdicts = []struct {
	verdict judge.Verdict
	outcome Outcome
}{
	{judge.Slower, Bad}, {Lost, Bad}, {Failed, Bad}, {NotComparable, Undecided}, {judge.Ambiguous, Undecided},
	{CannotTell, Undecided}, {Broken, Undecided}, {judge.Faster, Passed}, {judge.Same, Equal}, {NoSlowdown, Equal},
	{Fixed, Passed}, {New, Passed},
}

// urgency returns the index of a verdict in verdicts.
func urgency(v judge.Verdict) int {
	for i, w := range verdicts {
		if w.verdict == v {
			return i
		}
	}
	return len(verdicts)
}

func outcomeOf(v judge.Verdict) Outcome {
	if i := urgency(v); i < len(verdicts) {
		return verdicts[i].outcome
	}
	return Passed
}

// Options sets what is compared and how strictly. The zero value means the defaults.
type Options struct {
	Metric string  // "" means the main metric; see dataset.MainMetric
	Floor  float64 // smallest relative change that matters
	Alpha  float64 // probability of any false verdict in the whole report
	// Tolerance is the largest slow-down of all points together that a good check may miss.
	Tolerance float64
	// Ignore names coordinates that differ on purpose (axes, variables, options, num_ranks, backend),
	// and differences that should not make points incomparable.
	Ignore []string
	Disturbed

	Sort    []string // columns to sort the points by; "-change" sorts in descending order
	Columns []string // columns of the table, in this order; nil means all

	// Mean also judges the geometric mean over all points. The mean uses a part of Alpha, so the tests
	// of the points become a little stricter.
	Mean bool

	sides    [2]string // names of the sides in notes and warnings; OLD and NEW by default
	compared []string  // what the comparison is about; it is not listed as a difference
}

// withDefaults fills in the defaults and refuses impossible values. alpha is the default of Alpha, and below its limit.
func (o Options) withDefaults(alpha, below float64) (Options, error) {
	o.Floor = cmp.Or(o.Floor, DefaultFloor)
	o.Alpha = cmp.Or(o.Alpha, alpha)
	o.Tolerance = cmp.Or(o.Tolerance, changepoint.DefaultTolerance)
	o.sides = cmp.Or(o.sides, [2]string{"OLD", "NEW"})
	for _, x := range []struct {
		name, kind           string
		value, limit, advice float64
	}{
		{"a floor", "relative change", o.Floor, 1, DefaultFloor},
		{"an alpha", "probability", o.Alpha, below, alpha},
		{"a tolerance", "relative change", o.Tolerance, 1, changepoint.DefaultTolerance},
	} {
		if !(x.value > 0 && x.value < x.limit) { // refuses NaN too
			return o, fmt.Errorf("%s of %v: want a %s between 0 and %v, such as %v", x.name, x.value, x.kind, x.limit, x.advice)
		}
	}
	return o, o.Disturbed.check()
}

// Finding is the decision on one point, or on all points together.
type Finding struct {
	Verdict judge.Verdict `json:"verdict"`
	Effect  *judge.Effect `json:"effect,omitempty"`
	Since   *RunName      `json:"since,omitempty"` // the first run at the present level, if it changed over runs
	// RulesOut is the smallest slow-down that is excluded with a confidence of 95 %, as a ratio minus 1.
	RulesOut *float64 `json:"rules_out,omitempty"`
	Notes    []string `json:"notes,omitempty"`
}

// Point is a point on both sides. A side that does not have it is nil.
type Point struct {
	Name     string      `json:"name"`
	Bench    string      `json:"bench"`
	Part     string      `json:"part,omitempty"`
	NumRanks *int        `json:"num_ranks"`
	Backend  string      `json:"backend"`
	Point    point.Point `json:"point"`
	Env      point.Env   `json:"env"`
	Finding
	Old *Side `json:"old"`
	New *Side `json:"new"`

	row    *journal.Row // a row of the point
	ignore []string     // coordinates that its name leaves out
}

// Whole is the finding on all points together. For two runs it is about the geometric mean over the points.
type Whole struct {
	Points int `json:"points"`
	Finding
}

// Report is the result of Compare or of Check.
type Report struct {
	OldRun string `json:"old_run,omitempty"` // of Compare
	NewRun string `json:"new_run,omitempty"`

	Bench     string   `json:"bench,omitempty"` // of Check
	Baseline  []string `json:"baseline_runs,omitempty"`
	Recent    []string `json:"recent_runs,omitempty"` // the latest last
	Tolerance float64  `json:"tolerance,omitempty"`

	Metric string                `json:"metric"`
	Unit   string                `json:"unit,omitempty"`
	Better string                `json:"better"`
	Floor  float64               `json:"floor"`
	Alpha  float64               `json:"alpha"`
	Counts map[judge.Verdict]int `json:"counts"`
	// Whole is nil in a comparison unless Options.Mean is set and at least two points are measured.
	Whole  *Whole  `json:"whole,omitempty"`
	Points []Point `json:"points"`
	// Differences lists how the sides differ besides what is compared.
	Differences []Difference `json:"differences,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`
	// Suspected means that the latest runs of a check may be at another level, so they should not become part of
	// the baseline.
	Suspected bool `json:"suspected,omitempty"`
	// Usable has the runs of Recent with undisturbed values on the latest run's kind of machine.
	Usable []string `json:"-"`

	columns []column // columns of the table
}

// ExitCode returns 1 if any point is slower, lost or failed or the whole is slower, else 3 if any is undecided or if
// all failed on both sides, else 0.
func (r Report) ExitCode() int {
	var counts [Undecided + 1]int
	for v, n := range r.Counts {
		counts[outcomeOf(v)] += n
	}
	whole := judge.Verdict("")
	if r.Whole != nil {
		whole = r.Whole.Verdict
	}
	broken := r.Counts[Broken]
	switch {
	case counts[Bad] > 0 || whole == judge.Slower:
		return 1
	case counts[Undecided] > broken, whole == CannotTell, broken > 0 && broken == len(r.Points):
		return 3
	}
	return 0
}

// metricInfo returns the metric with its unit and direction, as the latest run that declares it has them. If the
// name is "", it chooses the main metric of the latest run. Metrics without a direction are ignored.
func metricInfo(name string, runs ...dataset.Named) (journal.MetricInfo, error) {
	if name == "" {
		name = mainMetric(runs)
	}
	info := journal.MetricInfo{Name: name}
	seen := map[string]bool{}
	for _, run := range runs {
		for _, r := range run.Rows {
			for m := range r.Metrics {
				seen[m] = true
			}
			info.Unit = cmp.Or(r.Units[name], info.Unit)
		}
		for _, m := range run.Header.Metrics {
			if seen[m.Name] = true; m.Name == name {
				info = m
			}
		}
	}
	if !seen[name] {
		return info, suggest.Unknown("metric", name, slices.Collect(maps.Keys(seen)))
	}
	if name == dataset.TimeMetric && info.Better == "" {
		info.Better = "lower"
	}
	if info.Better != "lower" && info.Better != "higher" {
		return info, fmt.Errorf("the bench does not declare whether lower or higher values of metric %s are better, so it "+
			"cannot be compared", name)
	}
	return info, nil
}

// mainMetric returns the main metric of the latest run with a metric or, if no row of any run is ok, the declared one.
func mainMetric(runs []dataset.Named) string {
	directed := func(m journal.MetricInfo) bool { return m.Better != "" }
	var declared []journal.MetricInfo
	for _, run := range slices.Backward(runs) {
		found := run.Rows.Metrics(&run.Header)
		if some := lists.Filter(found, directed); len(some) > 0 {
			found = some
		}
		if main, ok := dataset.Main(found); ok {
			return main.Name
		}
		if len(declared) == 0 {
			declared = lists.Filter(run.Header.Metrics, directed)
		}
	}
	if main, ok := dataset.Main(declared); ok {
		return main.Name
	}
	return dataset.TimeMetric
}

// targetUnit returns the unit in which a metric is compared.
func targetUnit(metric journal.MetricInfo) string {
	if metric.Name == dataset.TimeMetric {
		return "us"
	}
	return cmp.Or(metric.Unit, noUnit)
}

// InUnit returns a side with the values of a metric converted to the unit of info. Rows in a unit that
// cannot be converted stay unchanged; their points are not comparable.
func InUnit(side dataset.Named, info journal.MetricInfo) dataset.Named {
	metric, target, rows := info.Name, targetUnit(info), side.Rows
	for i, row := range side.Rows {
		v, has := row.Metrics[metric]
		factor, ok := unit.Conversion(unitOf(side.HeaderOf(row), row, metric), target)
		if !has || !ok || factor == 1 {
			continue
		}
		if &rows[0] == &side.Rows[0] { // copy once, and only if something changes
			rows = slices.Clone(rows)
		}
		converted := *row
		converted.Metrics = maps.Clone(row.Metrics)
		converted.Metrics[metric] = v * factor
		rows[i] = &converted
	}
	return side.WithRows(rows)
}
