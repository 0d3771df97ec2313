package compare

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

// exactTolerance is the relative difference up to which two values without
// noise are equal; it covers a sum done in another order.
const exactTolerance = 1e-9

// contest is the numbers of one pair: the logarithms of the trials' values,
// and the method they allow.
type contest struct {
	x, y   []float64
	method Method
	notes  []string
}

// newContest picks the method from counts and kinds alone.
func (j judge) newContest(m rowset.Matched) *contest {
	old, new := withMetric(m[0], j.opts.Metric), withMetric(m[1], j.opts.Metric)
	c := &contest{method: None}
	var positive [2]bool
	c.x, positive[0] = logs(old, j.opts.Metric)
	c.y, positive[1] = logs(new, j.opts.Metric)
	switch {
	case !positive[0] || !positive[1]:
		c.notes = append(c.notes, "values that are not positive have no ratio")
		return c
	case deterministic(old, c.x) && deterministic(new, c.y):
		c.method = Exact
		return c
	}
	c.x, c.y = c.undisturbed(j.opts.Sides[0], old, c.x), c.undisturbed(j.opts.Sides[1], new, c.y)
	if min(len(c.x), len(c.y)) >= MinTrials {
		c.method = Ranks
		return c
	}
	c.notes = append(c.notes, TooFewTrials)
	return c
}

// TooFewTrials is the note on a pair that has no verdict for want of trials.
var TooFewTrials = fmt.Sprintf("run with --trials %d: fewer than %d a side do not show how launches differ",
	AdvisedTrials, MinTrials)

// undisturbed are the values of the rows that nothing is known to have disturbed.
// What went on beside one run and not the other would pass for a change.
func (c *contest) undisturbed(side string, rows []*journal.Row, values []float64) []float64 {
	var quiet []float64
	why := ""
	for i, r := range rows {
		if d := r.Disturbed(); d == "" {
			quiet = append(quiet, values[i])
		} else if why == "" {
			why = d
		}
	}
	if why != "" {
		c.notes = append(c.notes, fmt.Sprintf("%s: %d of %d trials disturbed and left out (%s)", side, len(rows)-len(quiet),
			len(rows), texttab.Shorten(why, maxWhy)))
	}
	return quiet
}

// maxWhy keeps the note on a disturbance short: its first words say what it was.
const maxWhy = 60

// noisy reports whether the pair is one of the tests that are corrected for.
func (c *contest) noisy() bool { return c.method == Ranks }

// logs are the logarithms of the rows' values; ok is false when one has none.
func logs(rows []*journal.Row, metric string) (out []float64, ok bool) {
	for _, r := range rows {
		v := r.Metrics[metric]
		if !(v > 0) || math.IsInf(v, 0) {
			return nil, false
		}
		out = append(out, math.Log(v))
	}
	return out, len(out) > 0
}

// deterministic reports whether the rows come from a model without noise:
// not measured, a single sample each, and every trial alike.
func deterministic(rows []*journal.Row, logs []float64) bool {
	for i, r := range rows {
		if r.Kind == journal.Measured || r.Samples > 1 || math.Abs(logs[i]-logs[0]) > exactTolerance {
			return false
		}
	}
	return true
}

// family is what the pairs of a report have to know of each other.
type family struct {
	tests  int     // that are corrected for
	launch float64 // standard deviation between launches, the median over the pairs
}

func newFamily(contests []*contest) family {
	var spreads []float64
	for _, c := range contests {
		if c.noisy() {
			spreads = append(spreads, pooled(c.x, c.y))
		}
	}
	if len(spreads) == 0 {
		return family{}
	}
	return family{len(spreads), stats.Median(spreads)}
}

// pooled is the standard deviation between the trials of a pair over its sides.
func pooled(x, y []float64) float64 {
	n, m := float64(len(x)-1), float64(len(y)-1)
	return math.Sqrt((stat.Variance(x, nil)*n + stat.Variance(y, nil)*m) / (n + m))
}

// weigh gathers the evidence of a pair.
func (j judge) weigh(c *contest, f family) evidence {
	e := evidence{method: c.method, notes: c.notes}
	switch c.method {
	case Exact:
		e.exact(c, j.opts.Floor)
	case Ranks:
		e.trials(c, j.opts.Alpha, f)
	}
	return e
}

// exact compares values that have no noise.
func (e *evidence) exact(c *contest, floor float64) {
	e.change = c.y[0] - c.x[0]
	e.low, e.high = e.change, e.change
	if a := math.Abs(e.change); a > exactTolerance && a <= math.Log1p(floor) {
		e.notes = append(e.notes, fmt.Sprintf("differs by %.2g %%, below the floor", 100*math.Expm1(a)))
	}
}

// trials takes each launch for one observation.
func (e *evidence) trials(c *contest, alpha float64, f family) {
	e.p = stats.UTest(c.x, c.y)
	e.change, e.low, e.high = stats.Shift(c.x, c.y)
	// Ranks of few trials cannot reach the level that many points ask for, or
	// only where no trial of one side overlaps with the other.
	if least := stats.LeastP(len(c.x), len(c.y)); f.tests > 1 && least*float64(f.tests) > alpha/rankReserve {
		e.method = TTest
		e.disagrees = e.p > max(alpha, least)
		e.p = stats.Welch(c.x, c.y, f.launch)
	}
}

// rankReserve is how far below the level that is asked for the ranks must be able
// to reach before they decide alone.
const rankReserve = 4
