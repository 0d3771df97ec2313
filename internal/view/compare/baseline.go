package compare

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// BaselineFile is the name of the file, inside a RUN folder, that lists its baseline runs.
const BaselineFile = "baseline.json"

// Baseline names the runs of a folder that later runs are checked against. Their rows stay
// in the journal.
type Baseline struct {
	Bench string    `json:"bench"`
	Runs  []string  `json:"runs"` // ids, the oldest first
	Saved time.Time `json:"saved"`
}

// ErrNoBaseline means that no baseline is saved in a folder.
var ErrNoBaseline = errors.New("no baseline is saved in it")

// ReadBaseline reads the baseline of a RUN folder.
func ReadBaseline(dir string) (Baseline, error) {
	var b Baseline
	text, err := os.ReadFile(filepath.Join(dir, BaselineFile))
	if errors.Is(err, fs.ErrNotExist) {
		return b, fmt.Errorf("%s: %w", dir, ErrNoBaseline)
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err == nil && len(b.Runs) == 0 {
		err = errors.New("it names no run")
	}
	if err != nil {
		return b, fmt.Errorf("reading the baseline %s: %w", filepath.Join(dir, BaselineFile), err)
	}
	return b, nil
}

// Write saves the baseline in a RUN folder, replacing the previous one.
func (b Baseline) Write(dir string) error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return journal.WriteFileAtomic(filepath.Join(dir, BaselineFile), append(text, '\n'))
}

// LastRuns returns up to most runs of last's bench that have rows: last and those before it.
func LastRuns(j *journal.Journal, last *journal.Run, most int) []*journal.Run {
	var out []*journal.Run
	for _, r := range j.Runs {
		if r.Header.Bench == last.Header.Bench && len(r.Rows) > 0 {
			out = append(out, r)
		}
		if r == last {
			break
		}
	}
	return out[max(0, len(out)-most):]
}

// Split returns the runs of the baseline, up to most runs after it until last, and the ids
// of baseline runs that the journal no longer has.
func (b Baseline) Split(j *journal.Journal, last *journal.Run, most int) (base, recent []*journal.Run, gone []string) {
	gone = slices.Clone(b.Runs)
	for _, r := range j.Runs {
		if slices.Contains(b.Runs, r.ID()) {
			base = append(base, r)
			gone = slices.DeleteFunc(gone, func(id string) bool { return id == r.ID() })
		}
	}
	recent = LastRuns(j, last, len(j.Runs))
	for i, r := range slices.Backward(recent) {
		if slices.Contains(b.Runs, r.ID()) {
			recent = recent[i+1:]
			break
		}
	}
	return base, recent[max(0, len(recent)-most):], gone
}

// DefaultCheckAlpha is the default probability of a false alarm in a baseline check. In
// simulated checks of an unchanged build it gives less than one alarm in a hundred.
const DefaultCheckAlpha = 0.008

// CheckBaseline judges whether the latest runs became slower than the baseline. Neither
// list is empty, and the latest run is the last of recent. Alpha is the probability that a
// check of an unchanged build finds any point slower.
//
// A run is one observation: its trials share a build and the load of that hour, and
// differences from run to run must not raise an alarm. The value of a run at a point is
// the median over its trials that count. Two tests share Alpha:
//
//   - The recent runs against the baseline runs, each run being one launch of package
//     judge. It finds small changes and needs four runs on either side.
//   - The latest run alone, so that a large change is found at once: its launches against
//     those of the baseline, at least four on either side. The run's value must also lie
//     outside what the spread between baseline runs predicts for one more run. If the
//     latest run has too few launches, the first test gets all of Alpha.
//
// Which tests are used depends on counts only, and both correct for the number of points,
// so Alpha holds as long as runs differ by nothing but chance.
//
// A point that is not ok in the latest run, or absent from it, is lost. Values without
// noise are taken from the latest run. Runs on another kind of host than the baseline's
// are left out. If the latest run is one of them, no measured value is judged.
func CheckBaseline(baseline, recent []Run, opts Options) (Report, error) {
	opts.Alpha = cmp.Or(opts.Alpha, DefaultCheckAlpha)
	opts.sides = [2]string{"baseline", "latest run"}
	if !(opts.Alpha > 0 && opts.Alpha < 0.25) {
		return Report{}, fmt.Errorf("an alpha of %v: want a probability between 0 and 0.25, such as 0.01", opts.Alpha)
	}
	latest := recent[len(recent)-1]
	c := check{metric: cmp.Or(opts.Metric, DefaultMetric)}
	c.leaveOutOtherHosts(&baseline, &recent)
	for _, r := range baseline {
		if r.Incomplete != "" {
			c.warnings = append(c.warnings, fmt.Sprintf("baseline: run %s: %s", r.ID(), r.Incomplete))
		}
	}
	compare := func(old, new Run, alpha float64) (Report, error) {
		opts := opts
		opts.Alpha = 2 * alpha // Compare's alpha covers both directions, ours only slower
		return Compare(old, new, opts)
	}
	alpha := opts.Alpha // of each test
	r, err := compare(mergeLaunches(baseline), latest, alpha)
	if err != nil {
		return Report{}, err
	}
	c.collectValues(baseline, recent)
	if slices.ContainsFunc(r.Pairs, tested) {
		alpha /= 2
		if r, err = compare(mergeLaunches(baseline), latest, alpha); err != nil {
			return Report{}, err
		}
	}
	overRuns := map[string]Pair{} // results of the test over recent runs, by key
	if !c.otherHost {
		window, err := compare(runsAsLaunches(baseline), runsAsLaunches(recent), alpha)
		if err != nil {
			return Report{}, err
		}
		for _, p := range window.Pairs {
			overRuns[p.key] = p
		}
	}
	c.level = 2 * alpha / float64(max(len(lists.Filter(r.Pairs, tested)), 1))
	r.Counts = map[judge.Verdict]int{}
	for i, p := range r.Pairs {
		r.Pairs[i] = c.combine(p, overRuns[p.key])
		r.Counts[r.Pairs[i].Verdict]++
	}
	r.Alpha, r.Warnings = opts.Alpha, append(c.warnings, r.Warnings...)
	r.baseline, r.recent = lists.Map(baseline, Run.ID), lists.Map(recent, Run.ID)
	if c.otherHost {
		r.recent = []string{latest.ID()}
	}
	return r, nil
}

// check holds the state shared by all points of a check.
type check struct {
	metric    string
	warnings  []string
	otherHost bool                    // the latest run is from another kind of host than the baseline
	values    map[string][2][]float64 // logarithms of the run values by point: baseline and recent
	spread    float64                 // standard deviation between baseline runs, the median over the points
	level     float64                 // p of the test whether the latest run is an outlier
}

// tested reports whether the launches of a pair were tested.
func tested(p Pair) bool { return p.Effect != nil && p.Effect.Method.Tested() }

// leaveOutOtherHosts removes the runs on other kinds of host than the last baseline run.
func (c *check) leaveOutOtherHosts(baseline, recent *[]Run) {
	home := (*baseline)[len(*baseline)-1].Header
	latest := (*recent)[len(*recent)-1]
	for i, side := range []*[]Run{baseline, recent} {
		kept := lists.Filter(*side, func(r Run) bool {
			return r.Header == nil || home == nil || r.Header.Host.Class() == home.Host.Class()
		})
		if n := len(*side) - len(kept); n > 0 {
			c.warnings = append(c.warnings, fmt.Sprintf("%s: %s on other kinds of host left out of the statistics",
				[]string{"baseline", "recent"}[i], unit.Plural(n, "run")))
		}
		*side = kept
	}
	if c.otherHost = len(*recent) == 0 || (*recent)[len(*recent)-1].ID() != latest.ID(); c.otherHost {
		c.warnings = append(c.warnings, "the latest run is from another kind of host: its measured values are not judged")
	}
}

// mergeLaunches returns all launches of several runs as one run.
func mergeLaunches(runs []Run) Run {
	last := runs[len(runs)-1]
	all := Run{Name: last.Name, Header: last.Header, merged: true}
	for _, r := range runs {
		all.Rows = append(all.Rows, r.Rows...)
	}
	return all
}

// runsAsLaunches returns one run that has each of the runs as a trial.
func runsAsLaunches(runs []Run) Run {
	last := runs[len(runs)-1]
	all := Run{Name: last.Name, Header: last.Header, merged: true}
	for i, r := range runs {
		for _, g := range groupByPoint(r.Rows) {
			row := medianRow(g.Rows)
			row.Trial = i
			all.Rows = append(all.Rows, row)
		}
	}
	return all
}

func groupByPoint(rows []journal.Row) []rowset.Group[string] {
	return rowset.GroupBy(rowset.All(rows), func(r *journal.Row) string { return rowset.Key(r) })
}

// medianRow returns one row for the trials of a point: the median of each metric over the
// trials that count.
func medianRow(trials rowset.Set) journal.Row {
	counting := journal.Counting(trials)
	if len(counting) == 0 {
		return *trials[0]
	}
	row := *counting[0]
	row.Metrics = map[string]float64{}
	for name := range counting[0].Metrics {
		row.Metrics[name] = journal.Median(counting, name)
	}
	return row
}

// collectValues fills in values and spread.
func (c *check) collectValues(baseline, recent []Run) {
	c.values = map[string][2][]float64{}
	for side, runs := range [][]Run{baseline, recent} {
		for _, r := range runs {
			for _, g := range groupByPoint(r.Rows) {
				row := medianRow(g.Rows)
				if v := row.Metrics[c.metric]; row.Status == journal.OK && row.Disturbed() == "" && v > 0 {
					both := c.values[g.Key]
					both[side] = append(both[side], math.Log(v))
					c.values[g.Key] = both
				}
			}
		}
	}
	c.spread = judge.Spread(lists.Map(slices.Collect(maps.Values(c.values)),
		func(v [2][]float64) []float64 { return v[0] }))
}

// combine returns the verdict on a point from two comparisons: latest is about the
// launches of the latest run, window about the recent runs.
func (c *check) combine(latest, window Pair) Pair {
	p := latest
	p.Notes = lists.Filter(p.Notes, func(n string) bool { return n != judge.TooFewLaunches })
	if p.Effect != nil {
		p.Over = "latest run"
	}
	if p.Old == nil || p.New == nil || p.Effect == nil || p.Effect.Method == judge.Exact {
		return p
	}
	if c.otherHost {
		p.Verdict, p.Effect, p.Over = judge.Ambiguous, nil, ""
		p.Notes = append(p.Notes, "measured on another kind of host")
		return p
	}
	runs := c.values[p.key]
	baseline, recent := runs[0], runs[1]
	outlier := len(recent) > 0 && judge.IsOutlier(baseline, recent[len(recent)-1], c.spread, c.level)
	switch {
	case p.Verdict == judge.Same:
		if changed(window.Verdict) {
			p.Notes = append(p.Notes, fmt.Sprintf("%s over the last %s, but not the latest", window.Verdict,
				unit.Plural(len(recent), "run")))
		}
	case changed(p.Verdict) && outlier:
	case window.Effect != nil && window.Effect.Method != judge.None:
		p.Verdict, p.Effect, p.Over = window.Verdict, window.Effect, "last "+unit.Plural(len(recent), "run")
	default:
		p.Verdict = judge.Ambiguous
	}
	if p.Verdict == judge.Ambiguous {
		p.Notes = append(p.Notes, tooFewRuns(len(baseline), len(recent), tested(latest))...)
	}
	return p
}

func changed(v judge.Verdict) bool { return v == judge.Slower || v == judge.Faster }

// tooFewRuns says how many runs are missing for a verdict, if any are.
func tooFewRuns(baseline, recent int, launchesTested bool) []string {
	switch {
	case baseline < judge.MinLaunches:
		return []string{fmt.Sprintf("the baseline has %s, but at least %d are needed to see how runs differ",
			unit.Counted(baseline, "run that counts", "runs that count"), judge.MinLaunches)}
	case recent < judge.MinLaunches && !launchesTested:
		return []string{fmt.Sprintf("%s, but at least %d are needed, or --trials %d in each",
			unit.Counted(recent, "run since the baseline that counts", "runs since the baseline that count"),
			judge.MinLaunches, judge.AdvisedLaunches)}
	}
	return nil
}

// checkData returns the JSON form of a baseline check.
func (r Report) checkData() any {
	return struct {
		Baseline []string              `json:"baseline_runs"`
		Recent   []string              `json:"recent_runs"` // the latest last
		Metric   string                `json:"metric"`
		Unit     string                `json:"unit,omitempty"`
		Better   string                `json:"better"`
		Floor    float64               `json:"floor"`
		Alpha    float64               `json:"alpha"`
		Counts   map[judge.Verdict]int `json:"counts"`
		Points   []Pair                `json:"points"`
		Warnings []string              `json:"warnings,omitempty"`
	}{r.baseline, r.recent, r.Metric, r.Unit, r.Better, r.Floor, r.Alpha, r.Counts, r.Pairs, r.Warnings}
}
