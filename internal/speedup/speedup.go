// Package speedup holds one run against the same work done by others: how many
// times faster it is at each size than the best of them, with an interval, and
// whether that meets a goal. It is pure; the runs are stored already.
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

	"github.com/kernbench/kernbench/internal/journal"
	"github.com/kernbench/kernbench/internal/measure"
	"github.com/kernbench/kernbench/internal/point"
)

// MinPairs is the least number of pairs a verdict rests on.
const MinPairs = 10

// The axes that pair rows: size in bytes, and the number of ranks of a program
// that starts its own.
const (
	sizeAxis  = "size"
	ranksAxis = "np"
	metric    = "time_us"
)

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

// Line is one size.
type Line struct {
	Size    int64
	Ours    float64 // median time in microseconds
	Theirs  float64 // of the best peer
	Peer    string
	Ratio   Ratio   // theirs over ours
	OfLimit float64 // per cent, the median; 0 where the rows have no limit
	Verdict Verdict // on not being slower
}

// Table is one number of ranks.
type Table struct {
	Ranks   int
	Lines   []Line
	Geomean Ratio   // of the ratios of all sizes
	Slower  Verdict // on not being slower at any size
	Faster  Verdict // on the geometric mean
}

// place is where both sides must agree to be the same work.
type place struct {
	ranks int
	size  int64
}

// series is the time of every trial at one place.
type series map[int]float64

// Compare pairs our run with those of the peers, per number of ranks and size.
// Each peer counts once per setting it was run with (environment, axes of its
// own), and the best at each size, by its median, is the one to beat. The goal
// is that of the geometric mean.
func Compare(ours Side, peers []Side, goal float64) ([]Table, error) {
	mine, err := collect(ours)
	if err != nil {
		return nil, err
	}
	if len(mine) != 1 {
		return nil, fmt.Errorf("%s holds %d settings (%s): want one, so that each size is one time", ours.Name, len(mine), strings.Join(slices.Sorted(maps.Keys(mine)), "; "))
	}
	theirs := map[string]map[place]series{}
	for _, p := range peers {
		settings, err := collect(p)
		if err != nil {
			return nil, err
		}
		maps.Copy(theirs, settings)
	}
	own := mine[slices.Collect(maps.Keys(mine))[0]]
	limits := ofLimit(ours.Rows)
	byRanks := map[int][]place{}
	for at := range own {
		byRanks[at.ranks] = append(byRanks[at.ranks], at)
	}
	var tables []Table
	for _, ranks := range slices.Sorted(maps.Keys(byRanks)) {
		places := byRanks[ranks]
		slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.size, b.size) })
		if t := table(ranks, places, own, theirs, limits, goal); len(t.Lines) > 0 {
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("no size of %s was measured by a peer with as many ranks", ours.Name)
	}
	return tables, nil
}

func table(ranks int, places []place, own map[place]series, theirs map[string]map[place]series, limits map[place]float64, goal float64) Table {
	t := Table{Ranks: ranks, Slower: Met}
	logs := map[int]float64{} // trial: sum of the logarithms over sizes
	seen := map[int]int{}     // trial: sizes
	for _, at := range places {
		best := ""
		for _, name := range slices.Sorted(maps.Keys(theirs)) {
			if s, ok := theirs[name][at]; ok && (best == "" || s.median() < theirs[best][at].median()) {
				best = name
			}
		}
		if best == "" {
			continue
		}
		var ratios []float64
		for trial, us := range own[at] {
			if them, ok := theirs[best][at][trial]; ok {
				ratios = append(ratios, them/us)
				logs[trial] += math.Log(them / us)
				seen[trial]++
			}
		}
		l := Line{Size: at.size, Ours: own[at].median(), Theirs: theirs[best][at].median(), Peer: best, Ratio: ratioOf(ratios), OfLimit: limits[at]}
		l.Verdict = l.Ratio.judge(1)
		t.Slower = worse(t.Slower, l.Verdict)
		t.Lines = append(t.Lines, l)
	}
	var means []float64
	for trial, sum := range logs {
		if seen[trial] == len(t.Lines) { // a trial that lacks a size has another mean
			means = append(means, math.Exp(sum/float64(len(t.Lines))))
		}
	}
	t.Geomean = ratioOf(means)
	t.Faster = t.Geomean.judge(goal)
	return t
}

// collect sorts a run's good rows by setting and place.
func collect(s Side) (map[string]map[place]series, error) {
	out := map[string]map[place]series{}
	fixed := constants(s.Rows)
	for i := range s.Rows {
		r := &s.Rows[i]
		us, ok := r.Metrics[metric]
		at, placed := placeOf(r)
		if r.Status != journal.OK || !ok || !placed || !(us > 0) {
			continue
		}
		name := setting(s.Name, r, fixed)
		if out[name] == nil {
			out[name] = map[place]series{}
		}
		if out[name][at] == nil {
			out[name][at] = series{}
		}
		if _, twice := out[name][at][r.Trial]; twice {
			return nil, fmt.Errorf("%s: two rows of %d bytes on %d ranks in trial %d", name, at.size, at.ranks, r.Trial)
		}
		out[name][at][r.Trial] = us
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no good row with a %s, a %s and a number of ranks", s.Name, sizeAxis, metric)
	}
	return out, nil
}

// placeOf finds the size and the ranks of a row; a program that starts its own
// ranks has them as an axis.
func placeOf(r *journal.Row) (place, bool) {
	size, ok := r.Point.Get(sizeAxis)
	if !ok {
		return place{}, false
	}
	if r.NumRanks != nil {
		return place{*r.NumRanks, int64(size.Float())}, true
	}
	np, ok := r.Point.Get(ranksAxis)
	return place{int(np.Float()), int64(size.Float())}, ok
}

// setting names a run together with everything about the row that varies
// within the run and is no place.
func setting(name string, r *journal.Row, fixed []string) string {
	parts := []string{name}
	if p := r.Point.Without(append(fixed, sizeAxis, ranksAxis)...); len(p) > 0 {
		parts = append(parts, p.String())
	}
	if set := slices.DeleteFunc(slices.Clone(r.Env), func(e point.EnvVar) bool { return !e.Set }); len(set) > 0 {
		parts = append(parts, set.String())
	}
	return strings.Join(parts, " ")
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
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) == 1 {
			fixed = append(fixed, name)
		}
	}
	return fixed
}

// ofLimit is the median pct_of_limit of each place.
func ofLimit(rows []journal.Row) map[place]float64 {
	all := map[place]series{}
	for i := range rows {
		r := &rows[i]
		at, placed := placeOf(r)
		if pct, ok := r.Metrics["pct_of_limit"]; ok && placed && r.Status == journal.OK {
			if all[at] == nil {
				all[at] = series{}
			}
			all[at][r.Trial] = pct
		}
	}
	out := map[place]float64{}
	for at, s := range all {
		out[at] = s.median()
	}
	return out
}

func (s series) median() float64 {
	sum, _ := measure.Summarize(slices.Collect(maps.Values(s)))
	return sum.P50
}

func ratioOf(values []float64) Ratio {
	if len(values) == 0 {
		return Ratio{Median: math.NaN(), Low: math.NaN(), High: math.NaN()}
	}
	slices.Sort(values) // maps come in no order
	sum, _ := measure.Summarize(values)
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
