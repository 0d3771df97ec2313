package baseline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
	"github.com/kernbench/kernbench/internal/view/compare"
)

// DefaultAlpha is the chance of a false alarm in a check: who counts finds less than one in
// a hundred.
const DefaultAlpha = 0.008

// Options say what is checked and how strictly. The zero value means the defaults.
type Options struct {
	Metric string
	Floor  float64 // the smallest relative change that matters
	Alpha  float64 // the chance that a check of an unchanged build has any point slower
}

// Point is what a check says of a point.
type Point struct {
	compare.Pair        // its sides are the baseline and the latest run
	Over         string `json:"over,omitempty"` // which runs the effect is of
}

// Report is a whole check.
type Report struct {
	Baseline []string                `json:"baseline_runs"`
	Recent   []string                `json:"recent_runs"` // the latest last
	Metric   string                  `json:"metric"`
	Unit     string                  `json:"unit,omitempty"`
	Better   string                  `json:"better"`
	Floor    float64                 `json:"floor"`
	Alpha    float64                 `json:"alpha"`
	Counts   map[compare.Verdict]int `json:"counts"`
	Points   []Point                 `json:"points"`
	Warnings []string                `json:"warnings,omitempty"`
}

// ExitCode is 1 when anything is slower or lost, else 3 when anything cannot be told,
// else 0.
func (r Report) ExitCode() int { return compare.Report{Counts: r.Counts}.ExitCode() }

// Check judges the latest run, the last of recent, and those before it against the runs
// of the baseline. There is at least one run on either side.
func Check(baseline, recent []compare.Run, opts Options) (Report, error) {
	opts.Alpha = cmp.Or(opts.Alpha, DefaultAlpha)
	if !(opts.Alpha > 0 && opts.Alpha < 0.25) {
		return Report{}, fmt.Errorf("an alpha of %v: want a probability between 0 and 0.25, such as 0.01", opts.Alpha)
	}
	latest := recent[len(recent)-1]
	c := check{opts: opts}
	moved := c.sameHost(&baseline, &recent)
	c.incomplete(baseline)
	// compare's alpha is that of both directions.
	now, err := c.compare(together(baseline), latest, 2*opts.Alpha)
	if err != nil {
		return Report{}, err
	}
	c.observe(baseline, recent)
	share := 2 * opts.Alpha
	if slices.ContainsFunc(now.Pairs, judged) {
		share /= 2
		if now, err = c.compare(together(baseline), latest, share); err != nil {
			return Report{}, err
		}
	}
	window := compare.Report{}
	if !moved {
		if window, err = c.compare(each(baseline), each(recent), share); err != nil {
			return Report{}, err
		}
	}
	r := Report{
		Baseline: lists.Map(baseline, compare.Run.ID), Recent: lists.Map(recent, compare.Run.ID),
		Metric: now.Metric, Unit: now.Unit, Better: now.Better, Floor: now.Floor,
		Alpha: opts.Alpha, Counts: map[compare.Verdict]int{}, Warnings: append(c.warnings, now.Warnings...),
	}
	if moved {
		r.Recent = []string{latest.ID()}
	}
	c.limit(now, share)
	over := map[string]compare.Pair{}
	for _, p := range window.Pairs {
		over[p.Key] = p
	}
	for _, p := range now.Pairs {
		judgement := c.judge(p, over[p.Key], moved)
		r.Counts[judgement.Verdict]++
		r.Points = append(r.Points, judgement)
	}
	return r, nil
}

// check is what the points of a check share.
type check struct {
	opts     Options
	warnings []string
	values   map[string][2][]float64 // logarithms of the runs' values that count, by point: baseline and recent
	usual    float64                 // standard deviation between the runs of the baseline, the median over the points
	level    float64                 // of the test whether the latest run is one more of the baseline's
}

func (c *check) compare(old, new compare.Run, alpha float64) (compare.Report, error) {
	return compare.Compare(old, new, compare.Options{Metric: c.opts.Metric, Floor: c.opts.Floor, Alpha: alpha,
		Sides: [2]string{"baseline", "latest run"}})
}

// judged reports whether the launches of a pair were tested.
func judged(p compare.Pair) bool {
	return p.Effect != nil && p.Effect.Method != compare.None && p.Effect.Method != compare.Exact
}

// sameHost leaves out the runs on other kinds of host than the last run of the baseline,
// and reports whether the latest run is one of them.
func (c *check) sameHost(baseline, recent *[]compare.Run) (moved bool) {
	home := (*baseline)[len(*baseline)-1].Header
	latest := (*recent)[len(*recent)-1]
	for i, side := range []*[]compare.Run{baseline, recent} {
		kept := slices.DeleteFunc(slices.Clone(*side), func(r compare.Run) bool {
			return r.Header != nil && home != nil && r.Header.Host.Class() != home.Host.Class()
		})
		if away := len(*side) - len(kept); away > 0 {
			c.warnings = append(c.warnings, fmt.Sprintf("%s: %s on other kinds of host left out of the statistics",
				[]string{"baseline", "recent"}[i], unit.Plural(away, "run")))
		}
		*side = kept
	}
	moved = len(*recent) == 0 || (*recent)[len(*recent)-1].ID() != latest.ID()
	if moved {
		c.warnings = append(c.warnings, "the latest run is from another kind of host: what it measured is not judged")
	}
	return moved
}

func (c *check) incomplete(baseline []compare.Run) {
	for _, r := range baseline {
		if r.Incomplete != "" {
			c.warnings = append(c.warnings, fmt.Sprintf("baseline: run %s: %s", r.ID(), r.Incomplete))
		}
	}
}

// together is all launches of several runs as those of one.
func together(runs []compare.Run) compare.Run {
	last := runs[len(runs)-1]
	all := compare.Run{Name: last.Name, Header: last.Header, Several: true}
	for _, r := range runs {
		all.Rows = append(all.Rows, r.Rows...)
	}
	return all
}

// each is the runs as trials of one: a row for every run and point.
func each(runs []compare.Run) compare.Run {
	last := runs[len(runs)-1]
	all := compare.Run{Name: last.Name, Header: last.Header, Several: true}
	for i, r := range runs {
		for _, g := range points(r.Rows) {
			row := condense(g.Rows)
			row.Trial = i
			all.Rows = append(all.Rows, row)
		}
	}
	return all
}

func points(rows []journal.Row) []rowset.Group[string] {
	return rowset.GroupBy(rowset.All(rows), func(r *journal.Row) string { return rowset.Key(r) })
}

// condense is one row of a run's trials of a point: the medians of what counts.
func condense(trials rowset.Set) journal.Row {
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

// observe gathers the runs' values that count, and how the runs of the baseline differ.
func (c *check) observe(baseline, recent []compare.Run) {
	c.values = map[string][2][]float64{}
	metric := cmp.Or(c.opts.Metric, compare.DefaultMetric)
	for side, runs := range [][]compare.Run{baseline, recent} {
		for _, r := range runs {
			for _, g := range points(r.Rows) {
				row := condense(g.Rows)
				if v := row.Metrics[metric]; row.Status == journal.OK && row.Disturbed() == "" && v > 0 {
					both := c.values[g.Key]
					both[side] = append(both[side], math.Log(v))
					c.values[g.Key] = both
				}
			}
		}
	}
	var spreads []float64
	for _, v := range c.values {
		if len(v[0]) >= compare.MinTrials {
			spreads = append(spreads, stat.StdDev(v[0], nil))
		}
	}
	if len(spreads) > 0 {
		c.usual = stats.Median(spreads)
	}
}

// limit is the level of one point's test of the latest run, so that all of them together
// have the share.
func (c *check) limit(now compare.Report, share float64) {
	c.level = share / float64(max(len(lists.Filter(now.Pairs, judged)), 1))
}

// judge makes one verdict of what the latest run and the last runs say of a point.
func (c *check) judge(now, window compare.Pair, moved bool) Point {
	p := Point{Pair: now, Over: "latest run"}
	p.Notes = slices.DeleteFunc(slices.Clone(now.Notes), func(n string) bool { return n == compare.TooFewTrials })
	if now.Old == nil || now.New == nil || now.Effect == nil || now.Effect.Method == compare.Exact {
		if now.Effect == nil {
			p.Over = ""
		}
		return p
	}
	if moved {
		p.Verdict, p.Effect, p.Over = compare.Ambiguous, nil, ""
		p.Notes = append(p.Notes, "measured on another kind of host")
		return p
	}
	runs := c.values[now.Key]
	alone := now.Verdict
	if changed(alone) && !c.unlike(runs) {
		alone = compare.Ambiguous
	}
	switch {
	case changed(alone), alone == compare.Same:
		p.Verdict = alone
		if changed(window.Verdict) && alone == compare.Same {
			p.Notes = append(p.Notes, fmt.Sprintf("%s over the last %s, but not the latest", window.Verdict,
				unit.Plural(len(runs[1]), "run")))
		}
	case window.Effect != nil && window.Effect.Method != compare.None:
		p.Verdict, p.Effect, p.Over = window.Verdict, window.Effect, "last "+unit.Plural(len(runs[1]), "run")
	default:
		p.Verdict = compare.Ambiguous
	}
	if few := c.tooFew(runs, now); p.Verdict == compare.Ambiguous && few != "" {
		p.Notes = append(p.Notes, few)
	}
	return p
}

func changed(v compare.Verdict) bool { return v == compare.Slower || v == compare.Faster }

// unlike reports whether the latest run is not one more of the baseline's.
func (c *check) unlike(runs [2][]float64) bool {
	old, new := runs[0], runs[1]
	return len(old) >= compare.MinTrials && len(new) > 0 && stats.OneMore(old, new[len(new)-1], c.usual) <= c.level
}

// tooFew says how many runs there are where they do not show how runs differ.
func (c *check) tooFew(runs [2][]float64, now compare.Pair) string {
	switch old, new := len(runs[0]), len(runs[1]); {
	case old < compare.MinTrials:
		return fmt.Sprintf("the baseline has %s: how runs differ takes %d",
			unit.Counted(old, "run that counts", "runs that count"), compare.MinTrials)
	case new < compare.MinTrials && !judged(now):
		return fmt.Sprintf("%s: it takes %d, or --trials %d in each",
			unit.Counted(new, "run since the baseline that counts", "runs since the baseline that count"),
			compare.MinTrials, compare.AdvisedTrials)
	}
	return ""
}
