package compare

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/rowkey"
)

// exactTolerance is the relative difference up to which two values without
// noise are equal; it covers a sum done in another order.
const exactTolerance = 1e-9

// contest is the numbers of one pair: the logarithms of the trials' values,
// and the method they allow.
type contest struct {
	x, y   []float64
	method Method
	// Of too few trials, the uncertainty within the launches of each side.
	oldNoise, newNoise spread
	notes              []string
}

// newContest picks the method from counts and kinds alone.
func (j judge) newContest(m rowkey.Matched) *contest {
	old, new := withMetric(m[0], j.opts.Metric), withMetric(m[1], j.opts.Metric)
	c := &contest{method: None}
	var positive, sampled [2]bool
	c.x, positive[0] = logs(old, j.opts.Metric)
	c.y, positive[1] = logs(new, j.opts.Metric)
	switch {
	case !positive[0] || !positive[1]:
		c.notes = append(c.notes, "values that are not positive have no ratio")
	case deterministic(old, c.x) && deterministic(new, c.y):
		c.method = Exact
	case min(len(c.x), len(c.y)) >= MinTrials:
		c.method = Ranks
	default:
		c.oldNoise, sampled[0] = c.noise(j.old, old, j.opts.Metric)
		c.newNoise, sampled[1] = c.noise(j.new, new, j.opts.Metric)
		if sampled[0] && sampled[1] {
			c.method = Blocks
			break
		}
		c.notes = append(c.notes, fmt.Sprintf("values without samples or an interval do not show their noise; %d or more trials would", MinTrials))
	}
	return c
}

// noisy reports whether the pair is one of the tests that are corrected for.
func (c *contest) noisy() bool { return c.method == Ranks || c.method == Blocks }

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
	tests  int    // that are corrected for
	launch spread // between the trials of the pairs that have too few
}

func newFamily(contests []*contest) family {
	f := family{}
	ss := 0.0
	for _, c := range contests {
		if c.noisy() {
			f.tests++
		}
		if c.method == Blocks {
			own := trialSpread(c.x, c.y)
			ss += own.sd * own.sd * own.dof
			f.launch.dof += own.dof
		}
	}
	if f.launch.dof > 0 {
		f.launch.sd = math.Sqrt(ss / f.launch.dof)
	}
	return f
}

// weigh gathers the evidence of a pair.
func (j judge) weigh(c *contest, f family) evidence {
	e := evidence{method: c.method, floor: j.opts.Floor, sameFloor: j.opts.Floor, notes: c.notes}
	switch c.method {
	case Exact:
		e.exact(c)
	case Ranks:
		e.trials(c, j.opts.Alpha, f.tests)
	case Blocks:
		e.blocks(c, f.launch)
	}
	return e
}

// exact compares values that have no noise.
func (e *evidence) exact(c *contest) {
	e.change = c.y[0] - c.x[0]
	e.low, e.high = e.change, e.change
	if a := math.Abs(e.change); a > exactTolerance && a <= math.Log1p(e.floor) {
		e.notes = append(e.notes, fmt.Sprintf("differs by %.2g %%, below the floor", 100*math.Expm1(a)))
	}
}

// trials takes each launch for one observation.
func (e *evidence) trials(c *contest, alpha float64, tests int) {
	e.p = stats.UTest(c.x, c.y)
	e.change, e.low, e.high = stats.Shift(c.x, c.y)
	// Ranks of few trials cannot reach the level that many points ask for.
	if least := stats.LeastP(len(c.x), len(c.y)); least*float64(tests) > alpha {
		e.method = TTest
		e.disagrees = e.p > max(alpha, least)
		e.p = welch(c.x, c.y)
	}
}

// blocks makes do with the samples within too few launches: to their noise it
// adds what other launches may have given. Two or three trials say little of
// that by themselves, hence the spread over all points beside their own.
func (e *evidence) blocks(c *contest, overall spread) {
	e.change = stat.Mean(c.y, nil) - stat.Mean(c.x, nil)
	within := combined(c.oldNoise, c.newNoise)
	width := within.halfWidth()
	e.low, e.high = e.change-width, e.change+width

	launch := spread{LaunchSpread, certain}
	for _, s := range []spread{overall, trialSpread(c.x, c.y)} {
		if s.sd > launch.sd {
			launch = s
		}
	}
	between := launch.scaled(math.Sqrt(1/float64(len(c.x)) + 1/float64(len(c.y))))
	e.p = combined(within, between).p(e.change)

	e.sameFloor = max(e.floor, WideFloor)
	e.floor = max(e.sameFloor, math.Expm1(2*max(c.oldNoise.halfWidth(), c.newNoise.halfWidth())))
	e.notes = append(e.notes, fmt.Sprintf("%d and %d trials: %.0f %% assumed between launches, floor %.0f %%; %d or more trials would show",
		len(c.x), len(c.y), 100*launch.sd, 100*e.floor, MinTrials))
}

// noise is the uncertainty of the mean over the rows' logarithms, as far as
// samples within the launches tell; ok is false when they do not.
func (c *contest) noise(run Run, rows []*journal.Row, metric string) (s spread, ok bool) {
	parts := make([]spread, len(rows))
	for i, r := range rows {
		if parts[i], ok = c.rowNoise(run, r, metric); !ok {
			return spread{}, false
		}
	}
	return combined(parts...).scaled(1 / float64(len(rows))), true
}

// rowNoise takes the larger of two estimates: from the samples in blocks,
// which shows how they hang together, and from the stored interval, which
// takes them for independent.
func (c *contest) rowNoise(run Run, r *journal.Row, metric string) (s spread, ok bool) {
	if r.Kind != journal.Measured && r.Samples <= 1 {
		return spread{0, certain}, true
	}
	if st := r.Stats[metric]; st.CILow != nil && st.CIHigh != nil && *st.CILow > 0 {
		s, ok = spread{math.Log(*st.CIHigh / *st.CILow) / 2 / normal975, float64(max(1, r.Samples-1))}, true
	}
	if run.Samples == nil {
		return s, ok
	}
	samples, err := run.Samples(r, metric)
	if err != nil {
		c.notes = append(c.notes, fmt.Sprintf("samples of trial %d not loaded: %v", r.Trial, err))
	}
	positive := make([]float64, 0, len(samples))
	for _, v := range samples {
		if v > 0 {
			positive = append(positive, math.Log(v))
		}
	}
	if b, enough := blockSpread(positive); enough && (!ok || b.sd > s.sd) {
		s, ok = b, true
	}
	return s, ok
}

// trialSpread is the standard deviation between the trials of a pair, pooled
// over its sides; no degrees of freedom where neither has two.
func trialSpread(x, y []float64) spread {
	ss, dof := 0.0, 0.0
	for _, v := range [][]float64{x, y} {
		if len(v) > 1 {
			ss += stat.Variance(v, nil) * float64(len(v)-1)
			dof += float64(len(v) - 1)
		}
	}
	if dof == 0 {
		return spread{}
	}
	return spread{math.Sqrt(ss / dof), dof}
}
