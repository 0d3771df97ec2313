package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The defaults of Options and the constants of the method.
const (
	DefaultMetric = "time_us"
	DefaultFloor  = 0.02
	DefaultAlpha  = 0.05

	// MinTrials on both sides are the least that show how launches differ: fewer
	// cannot reach 5 % in a rank test.
	MinTrials = 4
	// AdvisedTrials find a change of 10 % through a spread of 3 % between launches.
	AdvisedTrials = 6
)

// Run is one side of a comparison.
type Run struct {
	Name   string // in reports; "" is the run's id
	Header *journal.Header
	Rows   []journal.Row
	// Incomplete is what to say of a run that was cut short.
	Incomplete string
	// Several marks rows of several runs together: how many there are of a point says nothing.
	Several bool
}

// Options say what is compared and how strictly. The zero value means the
// defaults.
type Options struct {
	Metric string
	Floor  float64  // the smallest relative change that matters
	Alpha  float64  // the chance of any false verdict in the whole report
	Ignore []string // axes, variables, options, num_ranks or backend that differ on purpose

	Sort    []string // columns of the table to order the pairs by; "-change" is largest first
	Columns []string // of the table, in this order; none means all

	Sides [2]string // what notes and warnings call them; none means OLD and NEW
}

// Verdict is the judgement of one pair.
type Verdict string

// The verdicts. Faster and slower follow the metric's better direction, so a
// bandwidth that falls is slower.
const (
	Faster    Verdict = "faster"
	Slower    Verdict = "slower"
	Same      Verdict = "same"
	Ambiguous Verdict = "ambiguous"
	Lost      Verdict = "lost"   // ok in OLD, not ok or absent in NEW
	New       Verdict = "new"    // absent from OLD
	Fixed     Verdict = "fixed"  // not ok in OLD, ok in NEW
	Broken    Verdict = "broken" // not ok on either side
)

// verdicts in the order a reader wants to hear of them.
var verdicts = []Verdict{Slower, Lost, Ambiguous, Broken, Faster, Same, Fixed, New}

// Side is what one run says of a point.
type Side struct {
	Status  journal.Status `json:"status"` // ok when any trial is
	Reason  string         `json:"reason,omitempty"`
	Value   float64        `json:"value"`  // median over the trials that are ok
	Trials  int            `json:"trials"` // that are ok and have the metric
	NotOK   int            `json:"not_ok,omitempty"`
	Samples int            `json:"samples"` // over those trials
}

// Effect is the change of a pair. Low and High are 0 when there is no interval.
type Effect struct {
	Ratio  float64  `json:"ratio"` // NEW / OLD
	Low    float64  `json:"ci_low,omitempty"`
	High   float64  `json:"ci_high,omitempty"`
	P      *float64 `json:"p,omitempty"` // corrected after Holm; absent for exact values
	Method Method   `json:"method"`
}

// Method is the kind of evidence behind an effect.
type Method string

// The methods, strongest first.
const (
	Exact Method = "exact" // values without noise
	Ranks Method = "ranks" // Mann-Whitney U over trials
	TTest Method = "t"     // Welch's t over trials, U agreeing
	None  Method = "none"  // too few trials to show how launches differ
)

// Pair is one point on both sides. A side that has no such point is nil.
type Pair struct {
	Name     string      `json:"name"`
	Bench    string      `json:"bench"`
	Part     string      `json:"part,omitempty"`
	NumRanks *int        `json:"num_ranks"`
	Backend  string      `json:"backend"`
	Point    point.Point `json:"point"`
	Env      point.Env   `json:"env"`
	Verdict  Verdict     `json:"verdict"`
	Old      *Side       `json:"old"`
	New      *Side       `json:"new"`
	Effect   *Effect     `json:"effect,omitempty"`
	Notes    []string    `json:"notes,omitempty"`

	Key    string   `json:"-"` // rowset.Key of its rows
	group  string   // bench or bench/part
	fields []string // the words of Name after it
}

// Report is a whole comparison.
type Report struct {
	OldRun   string          `json:"old_run"`
	NewRun   string          `json:"new_run"`
	Metric   string          `json:"metric"`
	Unit     string          `json:"unit,omitempty"`
	Better   string          `json:"better"`
	Floor    float64         `json:"floor"`
	Alpha    float64         `json:"alpha"`
	Counts   map[Verdict]int `json:"counts"`
	Pairs    []Pair          `json:"pairs"`
	Warnings []string        `json:"warnings,omitempty"`

	columns []string // Options.Columns
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
	points, err := match(old, new, opts)
	if err != nil {
		return Report{}, err
	}
	report := Report{
		OldRun: old.ID(), NewRun: new.ID(), Metric: metric.Name, Unit: metric.Unit, Better: metric.Better,
		Floor: opts.Floor, Alpha: opts.Alpha, Counts: map[Verdict]int{},
	}
	j := judge{opts: opts, lowerIsBetter: metric.Better == "lower"}
	report.Pairs = j.pairs(points)
	for _, p := range report.Pairs {
		report.Counts[p.Verdict]++
	}
	report.Warnings = warnings(old, new, points, opts)
	for _, name := range opts.Columns {
		if _, err := column(name); err != nil {
			return Report{}, err
		}
	}
	report.columns = opts.Columns
	return report, report.sort(opts.Sort)
}

// ExitCode is 1 when anything is slower or lost, else 3 when anything is
// ambiguous, else 0.
func (r Report) ExitCode() int {
	switch {
	case r.Counts[Slower]+r.Counts[Lost] > 0:
		return 1
	case r.Counts[Ambiguous] > 0:
		return 3
	}
	return 0
}

func (o Options) withDefaults() (Options, error) {
	o.Metric = cmp.Or(o.Metric, DefaultMetric)
	o.Floor = cmp.Or(o.Floor, DefaultFloor)
	o.Alpha = cmp.Or(o.Alpha, DefaultAlpha)
	o.Sides = cmp.Or(o.Sides, [2]string{"OLD", "NEW"})
	// Written so that NaN is refused too.
	if !(o.Floor > 0 && o.Floor < 1) {
		return o, fmt.Errorf("a floor of %v: want a relative change between 0 and 1, such as 0.02", o.Floor)
	}
	if !(o.Alpha > 0 && o.Alpha < 0.5) {
		return o, fmt.Errorf("an alpha of %v: want a probability between 0 and 0.5, such as 0.05", o.Alpha)
	}
	return o, nil
}

// ID names the run in reports.
func (r Run) ID() string {
	if r.Name != "" {
		return r.Name
	}
	if r.Header != nil {
		return r.Header.Run
	}
	if len(r.Rows) > 0 {
		return r.Rows[0].Run
	}
	return ""
}

// metricInfo finds what is known of the metric; NEW's word counts, as it is
// the newer declaration.
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
		return info, fmt.Errorf("metric %s is declared neither better lower nor better higher, so there is no "+
			"faster or slower", name)
	}
	return info, nil
}
