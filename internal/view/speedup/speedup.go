// Package speedup holds one run against the same work done by others: how many
// times faster it is at each point than the best of them, with an interval, and
// whether that meets a goal. It works on stored rows.
//
// Rows are of the same work when they have the same number of ranks, as far as
// every side says it, and the same values of all axes that every side has. What
// only one side has is how it does the work: a setting.
//
// Trials are pairs: the runs were interleaved, so the k-th trial of both sides
// was measured within the same minute, and their ratio is free of what drifts
// slower than that. The interval is that of the median ratio over the pairs.
// Package compare, in contrast, judges two builds of one bench, whose trials
// are not paired.
package speedup

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// MinPairs is the least number of pairs a verdict rests on.
const MinPairs = 10

// metric is what is compared.
const metric = "time_us"

// Goals are what is to be reached.
type Goals struct {
	Least float64 // times as fast at every point; 0 is 1, not slower
	Mean  float64 // in the geometric mean over the points
	// Except are axes that may differ between the sides, where the comparison is
	// of their values, such as of element types.
	Except []string
}

func (g Goals) least() float64 {
	return cmp.Or(g.Least, 1)
}

// Verdict says whether a goal is reached.
type Verdict string

// A goal is met when the interval's lower end reaches it, not met when its upper
// end does not, and otherwise not resolved.
const (
	Met         Verdict = "met"
	NotMet      Verdict = "not met"
	NotResolved Verdict = "not resolved"
)

// Side is a run under the name it is shown by.
type Side struct {
	Name string
	Rows []journal.Row
}

// Ratio is how many times faster, with the 95 % interval of its median.
type Ratio struct {
	Median, Low, High float64 // NaN ends: too few pairs for an interval
	Pairs             int
}

// Line is one point.
type Line struct {
	Point   point.Point // the axes of the table
	Ours    float64     // median time in microseconds
	Theirs  float64     // of the best peer
	Peer    string
	Ratio   Ratio   // theirs over ours
	OfLimit float64 // per cent, the median; 0 where the rows have no limit
	Verdict Verdict // on Goals.Least
}

// Table is one number of ranks.
type Table struct {
	Ranks   int // 0 where a side does not say it
	Lines   []Line
	Geomean Ratio   // of the ratios of all points
	Slower  Verdict // on Goals.Least at every point
	Faster  Verdict // on the geometric mean
}

// series is the time of every trial of one work.
type series map[int]float64

func (s series) median() float64 { return stats.Median(slices.Collect(maps.Values(s))) }

// contender is what a peer did at one point with one setting.
type contender struct {
	name  string
	times series
}

// contest is one point: our times and those of all who did the same work.
type contest struct {
	ranks   int
	point   point.Point
	ours    series
	ofLimit float64
	peers   []contender // by name
}

// best is the peer to beat: the least median.
func (c contest) best() contender {
	return slices.MinFunc(c.peers, func(a, b contender) int { return cmp.Compare(a.times.median(), b.times.median()) })
}

// Compare pairs our run with those of the peers, per number of ranks and point.
// Each peer counts once per setting it was run with (environment, axes of its
// own), and the best at each point, by its median, is the one to beat.
func Compare(ours Side, peers []Side, goals Goals) ([]Table, error) {
	sides := append([]Side{ours}, peers...)
	runs := make([]rowset.Set, len(sides))
	for i, s := range sides {
		runs[i] = rowset.Good(s.Rows).Where(func(r *journal.Row) bool { return r.Metrics[metric] > 0 })
		if len(runs[i]) == 0 {
			return nil, fmt.Errorf("%s holds no good row with a %s", s.Name, metric)
		}
	}
	shared := rowset.FindCommonAxes(runs, goals.Except)
	settings := make([]func(*journal.Row) string, len(sides))
	for i, s := range sides {
		fixed := append(constants(s.Rows), goals.Except...)
		settings[i] = func(r *journal.Row) string { return setting(s.Name, r, shared.Rest(r, fixed...)) }
	}
	if mine := rowset.GroupBy(runs[0], settings[0]); len(mine) != 1 {
		names := lists.Map(mine, func(g rowset.Group[string]) string { return g.Key })
		slices.Sort(names)
		return nil, fmt.Errorf("%s holds %d settings (%s): want one, so that each point is one time", ours.Name, len(mine),
			strings.Join(names, "; "))
	}
	contests, err := contestsOf(rowset.Match(shared.Work, runs...), shared, settings)
	if err != nil {
		return nil, err
	}
	if len(contests) == 0 && rowset.SharingDiffers(runs...) {
		return nil, fmt.Errorf("ranks shared a GPU in some of %s and its peers and not in others: times of one GPU's "+
			"memory are not compared with those of links", ours.Name)
	}
	if len(contests) == 0 {
		return nil, fmt.Errorf("no point of %s was measured by a peer with as many ranks; they have these axes in common: %s",
			ours.Name, strings.Join(shared.Axes, ", "))
	}
	slices.SortStableFunc(contests, func(a, b contest) int {
		return cmp.Or(cmp.Compare(a.ranks, b.ranks), rowset.ComparePoints(a.point, b.point))
	})
	byRanks := lists.GroupBy(contests, func(c contest) int { return c.ranks })
	return lists.Map(byRanks, func(g lists.Group[int, contest]) Table { return table(g.Items, goals) }), nil
}

// contestsOf are the points that we and a peer have measured.
func contestsOf(works []rowset.Matched, shared rowset.CommonAxes, settings []func(*journal.Row) string) (out []contest,
	err error) {
	for _, m := range works {
		r := m.AnyRow()
		c := contest{ranks: shared.Work(r).Ranks, point: shared.Point(r), ofLimit: m[0].Median("pct_of_limit")}
		for i, rows := range m {
			for _, g := range rowset.GroupBy(rows, settings[i]) {
				times, err := byTrial(g, c.ranks)
				if err != nil {
					return nil, err
				}
				if i == 0 {
					c.ours = times
				} else {
					c.peers = append(c.peers, contender{g.Key, times})
				}
			}
		}
		slices.SortStableFunc(c.peers, func(a, b contender) int { return strings.Compare(a.name, b.name) })
		if c.ours != nil && c.peers != nil {
			out = append(out, c)
		}
	}
	return out, nil
}

func byTrial(g rowset.Group[string], ranks int) (series, error) {
	s := series{}
	for _, r := range g.Rows {
		if _, twice := s[r.Trial]; twice {
			return nil, fmt.Errorf("%s: two rows of %s on %d ranks in trial %d", g.Key, r.Point, ranks, r.Trial)
		}
		s[r.Trial] = r.Metrics[metric]
	}
	return s, nil
}

func table(contests []contest, goals Goals) Table {
	t := Table{Ranks: contests[0].ranks, Slower: Met}
	logs := map[int]float64{} // trial: sum of the logarithms over points
	seen := map[int]int{}     // trial: points
	for _, c := range contests {
		best := c.best()
		var ratios []float64
		for trial, us := range c.ours {
			if them, ok := best.times[trial]; ok {
				ratios = append(ratios, them/us)
				logs[trial] += math.Log(them / us)
				seen[trial]++
			}
		}
		l := Line{Point: c.point, Ours: c.ours.median(), Theirs: best.times.median(), Peer: best.name, Ratio: ratioOf(ratios),
			OfLimit: c.ofLimit}
		l.Verdict = l.Ratio.judge(goals.least())
		t.Slower = worse(t.Slower, l.Verdict)
		t.Lines = append(t.Lines, l)
	}
	var means []float64
	for trial, sum := range logs {
		if seen[trial] == len(t.Lines) { // a trial that lacks a point has another mean
			means = append(means, math.Exp(sum/float64(len(t.Lines))))
		}
	}
	t.Geomean = ratioOf(means)
	t.Faster = t.Geomean.judge(goals.Mean)
	return t
}

// setting names a run together with everything about the row that varies
// within the run and is not its work.
func setting(name string, r *journal.Row, rest point.Point) string {
	set := lists.Filter(r.Env, func(e point.EnvVar) bool { return e.Set })
	return strings.Join(lists.NonEmpty(name, rest.String(), set.String()), " ")
}

// constants are the axes with the same value in all rows.
func constants(rows []journal.Row) []string {
	values := map[string]map[string]bool{}
	for i := range rows {
		for _, c := range rows[i].Point {
			if values[c.Name] == nil {
				values[c.Name] = map[string]bool{}
			}
			values[c.Name][c.Value.String()] = true
		}
	}
	var fixed []string
	for name, distinct := range values {
		if len(distinct) == 1 {
			fixed = append(fixed, name)
		}
	}
	return fixed
}

func ratioOf(values []float64) Ratio {
	if len(values) == 0 {
		return Ratio{Median: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	slices.Sort(values) // maps come in no order
	sum, _ := stats.Summarize(values)
	return Ratio{Median: sum.P50, Low: sum.CILow, High: sum.CIHigh, Pairs: len(values)}
}

func (r Ratio) judge(goal float64) Verdict {
	switch {
	case r.Pairs < MinPairs || math.IsNaN(r.Low):
		return NotResolved
	case r.Low >= goal:
		return Met
	case r.High < goal:
		return NotMet
	}
	return NotResolved
}

// worse joins verdicts: one that is not met decides, then one not resolved.
func worse(a, b Verdict) Verdict {
	for _, v := range []Verdict{NotMet, NotResolved} {
		if a == v || b == v {
			return v
		}
	}
	return Met
}
