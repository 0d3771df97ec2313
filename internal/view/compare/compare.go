// Package compare shows what became faster or slower: between two runs of a bench (Compare), between the
// values of one axis (By), and between a run and other programs that do the same work (Speedups). It
// works on stored rows and never runs or times anything.
//
// The package pairs rows, asks package judge for a verdict on each pair, and prints the answer as a
// table, JSON, JUnit XML or Markdown. Package judge explains the statistics.
//
// Rows belong to the same point if bench, part, axes, number of ranks, backend, environment and options
// are equal. Options.Ignore names coordinates that differ on purpose. Disturbed trials are left out,
// because a disturbance during one run would look like a change.
package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Defaults of Options.
const (
	DefaultMetric = "time_us"
	DefaultFloor  = 0.02
	DefaultAlpha  = 0.05
)

// Run is one side of a comparison.
type Run struct {
	Name   string // shown in reports; "" means the run's id
	Header *journal.Header
	Rows   dataset.Set
	// Earlier has the headers of other runs that some rows belong to.
	Earlier []journal.Header
	// Incomplete describes which part of the run there is; "" if it is complete.
	Incomplete string
}

// Options sets what is compared and how strictly. The zero value means the defaults.
type Options struct {
	Metric string
	Floor  float64 // smallest relative change that matters
	Alpha  float64 // probability of any false verdict in the whole report
	// Ignore names coordinates that differ on purpose (axes, variables, options, num_ranks, backend),
	// and differences that should not make points incomparable.
	Ignore []string

	Sort    []string // columns to sort the pairs by; "-change" sorts in descending order
	Columns []string // columns of the table, in this order; nil means all

	// Mean also judges the geometric mean over all points. The mean uses a part of Alpha, so the tests
	// of the points become a little stricter.
	Mean bool

	sides    [2]string // names of the sides in notes and warnings; OLD and NEW by default
	compared []string  // what the comparison is about; it is not listed as a difference
}

// Verdicts that follow from the status of the rows. Package judge has the others.
const (
	Lost   judge.Verdict = "lost"   // ok in OLD; absent, or failed in half of the trials, in NEW
	New    judge.Verdict = "new"    // absent from OLD
	Fixed  judge.Verdict = "fixed"  // not ok in OLD, ok in NEW
	Broken judge.Verdict = "broken" // not ok on either side
	Failed judge.Verdict = "failed" // not run in OLD, failed in NEW
	// NotComparable: a decisive Difference, such as another CPU, makes a ratio meaningless.
	NotComparable judge.Verdict = "not comparable"
)

// verdicts lists all verdicts, the most urgent first.
var verdicts = []judge.Verdict{judge.Slower, Lost, Failed, NotComparable, judge.Ambiguous, Broken, judge.Faster,
	judge.Same, Fixed, New}

// Side summarizes the rows of one run at a point.
type Side struct {
	Status  journal.Status `json:"status"` // ok if more trials are ok than failed
	Reason  string         `json:"reason,omitempty"`
	Value   float64        `json:"value"`            // median over the undisturbed ok trials, or all ok ones
	Trials  int            `json:"trials"`           // trials that are ok and have the metric
	NotOK   int            `json:"not_ok,omitempty"` // trials that are not ok
	Samples int            `json:"samples"`          // total over Trials
	// Unit is the unit of Value if it cannot be converted to the report's unit, and "" otherwise.
	Unit string `json:"unit,omitempty"`

	quiet int // number of undisturbed trials among Trials
}

// Pair is one point on both sides. A side that does not have the point is nil.
type Pair struct {
	Name     string        `json:"name"`
	Bench    string        `json:"bench"`
	Part     string        `json:"part,omitempty"`
	NumRanks *int          `json:"num_ranks"`
	Backend  string        `json:"backend"`
	Point    point.Point   `json:"point"`
	Env      point.Env     `json:"env"`
	Verdict  judge.Verdict `json:"verdict"`
	Old      *Side         `json:"old"`
	New      *Side         `json:"new"`
	Effect   *judge.Effect `json:"effect,omitempty"`
	Notes    []string      `json:"notes,omitempty"`

	key    string   // dataset.Key of its rows
	group  string   // bench or bench/part, with which Name begins
	fields []string // the other fields of Name
}

// Report is the result of Compare.
type Report struct {
	OldRun string                `json:"old_run"`
	NewRun string                `json:"new_run"`
	Metric string                `json:"metric"`
	Unit   string                `json:"unit,omitempty"`
	Better string                `json:"better"`
	Floor  float64               `json:"floor"`
	Alpha  float64               `json:"alpha"`
	Counts map[judge.Verdict]int `json:"counts"`
	Pairs  []Pair                `json:"pairs"`
	// Mean is the geometric mean over the points. It is nil unless Options.Mean is set and at least two
	// points are measured.
	Mean *Mean `json:"geomean,omitempty"`
	// Differences lists how the sides differ besides what is compared.
	Differences []Difference `json:"differences,omitempty"`
	Warnings    []string     `json:"warnings,omitempty"`

	columns []column // columns of the table
}

// Compare pairs the points of two runs and judges each pair.
func Compare(old, new Run, opts Options) (Report, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return Report{}, err
	}
	metric, err := metricInfo(old, new, opts.Metric)
	if err != nil {
		return Report{}, err
	}
	columns, err := chooseColumns(opts.Columns)
	if err != nil {
		return Report{}, err
	}
	target := targetUnit(metric)
	ours, _ := old.onlyBench()
	theirs, _ := new.onlyBench()
	new = new.asBench(old)
	old, new = old.InUnit(metric), new.InUnit(metric)
	points, err := match(old, new, opts)
	if err != nil {
		return Report{}, err
	}
	if ours != "" && theirs != "" && ours != theirs && !slices.ContainsFunc(points, inBoth) {
		return Report{}, fmt.Errorf("%s is a run of %s and %s is a run of %s, and they have no point in common: "+
			"compare two runs of one bench", old.ID(), ours, new.ID(), theirs)
	}
	differ, decisive := differences(old, new, points, opts)
	report := Report{
		OldRun: old.ID(), NewRun: new.ID(), Metric: metric.Name, Unit: metric.Unit, Better: metric.Better,
		Floor: opts.Floor, Alpha: opts.Alpha, Counts: map[judge.Verdict]int{}, columns: columns,
		Differences: differ, Warnings: warnings(old, new, points, opts),
	}
	report.judgePairs(points, decisive, opts)
	for i := range report.Pairs {
		p := &report.Pairs[i]
		report.Counts[p.Verdict]++
		p.Old.setUnit(old, points[i][0], metric.Name, target)
		p.New.setUnit(new, points[i][1], metric.Name, target)
	}
	return report, report.sort(opts.Sort)
}

// By compares values of an axis, a variable or an option within one run: the first value with each of the
// others. spec is NAME for all values, or NAME=A,B for these values in this order. The comparisons share
// Options.Alpha, the probability of a false verdict.
func By(run Run, spec string, opts Options) ([]Report, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	name, list, chosen := strings.Cut(spec, "=")
	if known := dataset.CoordNames(run.Rows); !slices.Contains(known, name) {
		return nil, suggest.Unknown("coordinate of this run", name, known)
	}
	parts := map[string]*Run{}
	var values []string
	for i := range run.Rows {
		value, has := dataset.CoordText(run.Rows[i], name)
		if !has {
			continue
		}
		if parts[value] == nil {
			parts[value] = &Run{Header: run.Header, Earlier: run.Earlier, Name: name + "=" + value}
			values = append(values, value)
		}
		parts[value].Rows = append(parts[value].Rows, run.Rows[i])
	}
	if chosen {
		requested := strings.Split(list, ",")
		for i, text := range requested {
			if requested[i] = valueOf(text, values); parts[requested[i]] == nil {
				return nil, suggest.Unknown("value of "+name, text, values)
			}
		}
		if values = lists.Distinct(requested); len(values) < len(requested) {
			return nil, fmt.Errorf("--by %s names a value twice: want different values", spec)
		}
	}
	if len(values) < 2 {
		return nil, fmt.Errorf("%s has only the value %s: want at least two values to compare", name,
			strings.Join(values, ", "))
	}
	opts.Ignore, opts.compared = append(slices.Clip(opts.Ignore), name), append(slices.Clip(opts.compared), name)
	opts.Alpha /= float64(len(values) - 1)
	var reports []Report
	for _, value := range values[1:] {
		report, err := Compare(*parts[values[0]], *parts[value], opts)
		if err != nil {
			return nil, err
		}
		if run.Incomplete != "" { // the table shows which values lack points
			report.Warnings = slices.Insert(report.Warnings, 0, "the run: "+run.Incomplete)
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// valueOf returns the value that a text from the command line stands for, or the text itself if there is none. The
// text may be the value as rows show it, or use the notation of the flags of run: "-" for an unset variable, "1K" for
// 1Ki bytes, and the name of a file without its digest.
func valueOf(text string, values []string) string {
	if slices.Contains(values, text) {
		return text
	}
	var found []string
	for _, v := range values {
		if text == "-" && v == "(unset)" || text+"i" == v || strings.HasPrefix(v, text+"#") {
			found = append(found, v)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return text
}

// ExitCode returns 1 if any point is slower, lost or failed or the mean is slower, else 3 if any is ambiguous or not
// comparable or if all failed on both sides, else 0.
func (r Report) ExitCode() int {
	switch {
	case r.Counts[judge.Slower]+r.Counts[Lost]+r.Counts[Failed] > 0, r.Mean != nil && r.Mean.Verdict == judge.Slower:
		return 1
	case r.Counts[judge.Ambiguous]+r.Counts[NotComparable] > 0, len(r.Pairs) > 0 && r.Counts[Broken] == len(r.Pairs):
		return 3
	}
	return 0
}

func (o Options) withDefaults() (Options, error) {
	o.Metric = cmp.Or(o.Metric, DefaultMetric)
	o.Floor = cmp.Or(o.Floor, DefaultFloor)
	o.Alpha = cmp.Or(o.Alpha, DefaultAlpha)
	o.sides = cmp.Or(o.sides, [2]string{"OLD", "NEW"})
	// The conditions are negated so that NaN is refused too.
	if !(o.Floor > 0 && o.Floor < 1) {
		return o, fmt.Errorf("a floor of %v: want a relative change between 0 and 1, such as 0.02", o.Floor)
	}
	if !(o.Alpha > 0 && o.Alpha < 0.5) {
		return o, fmt.Errorf("an alpha of %v: want a probability between 0 and 0.5, such as 0.05", o.Alpha)
	}
	return o, nil
}

// ID returns the name of the run in reports.
func (r Run) ID() string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Header != nil:
		return r.Header.Run
	case len(r.Rows) > 0:
		return r.Rows[0].Run
	}
	return ""
}

// metricInfo returns the unit and direction of a metric. If the runs declare them differently, it uses
// the declaration of new.
func metricInfo(old, new Run, name string) (journal.MetricInfo, error) {
	info := journal.MetricInfo{Name: name}
	seen := map[string]bool{}
	for _, run := range []Run{old, new} {
		for i := range run.Rows {
			for m := range run.Rows[i].Metrics {
				seen[m] = true
			}
			if u := run.Rows[i].Units[name]; u != "" {
				info.Unit = u
			}
		}
		if run.Header == nil {
			continue
		}
		for _, m := range run.Header.Metrics {
			seen[m.Name] = true
			if m.Name == name {
				info = m
			}
		}
	}
	if len(old.Rows) == 0 {
		return info, fmt.Errorf("run %s has no rows to compare with", old.ID())
	}
	if !seen[name] {
		return info, suggest.Unknown("metric", name, slices.Collect(maps.Keys(seen)))
	}
	if name == DefaultMetric && info.Better == "" {
		info.Better = "lower"
	}
	if info.Better != "lower" && info.Better != "higher" {
		return info, fmt.Errorf("the bench does not declare whether lower or higher values of metric %s are better, so it "+
			"cannot be compared", name)
	}
	return info, nil
}
