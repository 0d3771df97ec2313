// Package speedup holds one run against the same work done by others: how many
// times faster it is at each point than the best of them, with an interval, and
// whether that meets a goal. It is pure; the runs are stored already.
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

	"github.com/kernbench/kernbench/internal/base/stats"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// MinPairs is the least number of pairs a verdict rests on.
const MinPairs = 10

// The number of ranks of a program that starts its own is an axis of that name.
const (
	ranksAxis = "np"
	metric    = "time_us"
)

// Goals are what is to be reached.
type Goals struct {
	Least float64 // times as fast at every point; 0 is 1, not slower
	Mean  float64 // in the geometric mean over the points
	// Except are axes that may differ between the sides, where the comparison is
	// of their values, such as of element types.
	Except []string
}

func (g Goals) least() float64 {
	if g.Least == 0 {
		return 1
	}
	return g.Least
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

// place is where both sides must agree to be the same work: the ranks, and the
// common axes' values in a form in which those of any kind can be compared.
type place struct {
	ranks int
	rest  string
}

// series is the time of every trial at one place.
type series map[int]float64

// Compare pairs our run with those of the peers, per number of ranks and point.
// Each peer counts once per setting it was run with (environment, axes of its
// own), and the best at each point, by its median, is the one to beat.
func Compare(ours Side, peers []Side, goals Goals) ([]Table, error) {
	terms := common(append([]Side{ours}, peers...), goals.Except)
	mine, err := collect(ours, terms, goals.Except)
	if err != nil {
		return nil, err
	}
	if len(mine) != 1 {
		return nil, fmt.Errorf("%s holds %d settings (%s): want one, so that each point is one time", ours.Name, len(mine), strings.Join(slices.Sorted(maps.Keys(mine)), "; "))
	}
	theirs := map[string]map[place]series{}
	for _, p := range peers {
		settings, err := collect(p, terms, goals.Except)
		if err != nil {
			return nil, err
		}
		maps.Copy(theirs, settings)
	}
	own := mine[slices.Collect(maps.Keys(mine))[0]]
	points, limits := terms.pointsOf(ours.Rows), terms.ofLimit(ours.Rows)
	byRanks := map[int][]place{}
	for at := range own {
		byRanks[at.ranks] = append(byRanks[at.ranks], at)
	}
	var tables []Table
	for _, ranks := range slices.Sorted(maps.Keys(byRanks)) {
		places := byRanks[ranks]
		slices.SortFunc(places, func(a, b place) int { return inOrder(points[a], points[b]) })
		if t := table(ranks, places, points, own, theirs, limits, goals); len(t.Lines) > 0 {
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 {
		return nil, fmt.Errorf("no point of %s was measured by a peer with as many ranks; they have these axes in common: %s", ours.Name, strings.Join(terms.axes, ", "))
	}
	return tables, nil
}

func table(ranks int, places []place, points map[place]point.Point, own map[place]series, theirs map[string]map[place]series, limits map[place]float64, goals Goals) Table {
	t := Table{Ranks: ranks, Slower: Met}
	logs := map[int]float64{} // trial: sum of the logarithms over points
	seen := map[int]int{}     // trial: points
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
		l := Line{Point: points[at], Ours: own[at].median(), Theirs: theirs[best][at].median(), Peer: best, Ratio: ratioOf(ratios), OfLimit: limits[at]}
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

// collect sorts a run's good rows by setting and place.
func collect(s Side, t terms, except []string) (map[string]map[place]series, error) {
	out := map[string]map[place]series{}
	apart := slices.Concat(constants(s.Rows), t.axes, except, []string{ranksAxis})
	for i := range s.Rows {
		r := &s.Rows[i]
		if !good(r) {
			continue
		}
		at := t.placeOf(r)
		name := setting(s.Name, r, apart)
		if out[name] == nil {
			out[name] = map[place]series{}
		}
		if out[name][at] == nil {
			out[name][at] = series{}
		}
		if _, twice := out[name][at][r.Trial]; twice {
			return nil, fmt.Errorf("%s: two rows of %s on %d ranks in trial %d", name, r.Point, at.ranks, r.Trial)
		}
		out[name][at][r.Trial] = r.Metrics[metric]
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no good row with a %s", s.Name, metric)
	}
	return out, nil
}

func good(r *journal.Row) bool { return r.Status == journal.OK && r.Metrics[metric] > 0 }

// terms are what places are made of: the axes that all good rows of all sides
// have, in our order, and whether all of them say the number of ranks.
type terms struct {
	axes  []string
	ranks bool
}

func common(sides []Side, except []string) terms {
	t := terms{ranks: true}
	first := true
	for _, s := range sides {
		for k := range s.Rows {
			r := &s.Rows[k]
			if !good(r) {
				continue
			}
			for _, c := range r.Point {
				if first && c.Name != ranksAxis && !slices.Contains(except, c.Name) {
					t.axes = append(t.axes, c.Name)
				}
			}
			first = false
			t.axes = slices.DeleteFunc(t.axes, func(name string) bool { _, has := r.Point.Get(name); return !has })
			_, known := ranksOf(r)
			t.ranks = t.ranks && known
		}
	}
	return t
}

// ranksOf is the number of ranks of a row; a program that starts its own has it
// as an axis, or does not say.
func ranksOf(r *journal.Row) (n int, known bool) {
	if r.NumRanks != nil {
		return *r.NumRanks, true
	}
	np, known := r.Point.Get(ranksAxis)
	return int(np.Float()), known
}

// placeOf finds the place of a row.
func (t terms) placeOf(r *journal.Row) place {
	at := place{}
	if t.ranks {
		at.ranks, _ = ranksOf(r)
	}
	var values []string
	for _, name := range t.axes {
		v, _ := r.Point.Get(name)
		values = append(values, plain(v))
	}
	at.rest = strings.Join(values, " ")
	return at
}

// plain is a value without its kind: a size in bytes is also a number, and a
// shape is the same whatever it is called.
func plain(v point.Value) string {
	switch {
	case v.Kind().Numeric():
		return fmt.Sprint(v.Float())
	case v.Kind() == point.Tuple:
		return fmt.Sprint(v.Dims())
	}
	return v.String()
}

// pointsOf are the places as they are shown.
func (t terms) pointsOf(rows []journal.Row) map[place]point.Point {
	out := map[place]point.Point{}
	for i := range rows {
		if at := t.placeOf(&rows[i]); out[at] == nil && good(&rows[i]) {
			p := point.Point{}
			for _, name := range t.axes {
				v, _ := rows[i].Point.Get(name)
				p = append(p, point.Coord{Name: name, Value: v})
			}
			out[at] = p
		}
	}
	return out
}

// inOrder sorts points by their values, the first axis first.
func inOrder(a, b point.Point) int {
	for i := range a {
		x, y := a[i].Value, b[i].Value
		c := 0
		switch {
		case x.Kind().Numeric() && y.Kind().Numeric():
			c = cmp.Compare(x.Float(), y.Float())
		case x.Kind() == point.Tuple && y.Kind() == point.Tuple:
			c = slices.Compare(x.Dims(), y.Dims())
		default:
			c = strings.Compare(x.String(), y.String())
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

// setting names a run together with everything about the row that varies
// within the run and is no place.
func setting(name string, r *journal.Row, apart []string) string {
	parts := []string{name}
	if p := r.Point.Without(apart...); len(p) > 0 {
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
func (t terms) ofLimit(rows []journal.Row) map[place]float64 {
	all := map[place]series{}
	for i := range rows {
		r := &rows[i]
		at := t.placeOf(r)
		if pct, ok := r.Metrics["pct_of_limit"]; ok && good(r) {
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
	return stats.Median(slices.Collect(maps.Values(s)))
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
