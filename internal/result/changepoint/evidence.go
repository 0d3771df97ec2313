package changepoint

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/stats"
)

// Assumptions about a machine whose runs have not yet shown how much they differ. They weigh as much as
// priorRuns runs, so the data soon outweigh them. Without them, a few runs that agree by chance would
// turn the next run into an alarm.
const (
	priorRuns   = 6
	priorRun    = 0.01 // standard deviation between runs beyond their launches, as a logarithm
	priorLaunch = 0.03 // standard deviation between the launches of a run
)

// table holds one value for each run and point of a Series, and the noise of the launches.
type table struct {
	values [][]float64 // by point and run: center of the launches; NaN if there are none
	counts [][]int     // launches by point and run
	launch []float64   // by point: variance of one launch
}

// newTable summarizes the launches of the points that have noise. Exact points have no values.
func newTable(s Series) table {
	var t table
	for p, exact := range s.Exact {
		values, counts := make([]float64, len(s.Runs)), make([]int, len(s.Runs))
		squares, dof := priorRuns*priorLaunch*priorLaunch, float64(priorRuns)
		for r, run := range s.Runs {
			values[r] = math.NaN()
			if exact || len(run[p]) == 0 {
				continue
			}
			values[r], counts[r] = center(run[p]), len(run[p])
			own := spreadOf(run[p])
			squares, dof = squares+own.squares, dof+own.dof
		}
		t.values, t.counts, t.launch = append(t.values, values), append(t.counts, counts), append(t.launch, squares/dof)
	}
	return t
}

// center returns the Hodges-Lehmann estimate of the center, which is the median of all pairwise means. It
// changes little even if one launch in four is far off.
func center(launches []float64) float64 {
	var buffer [64]float64 // on the stack for the usual numbers of trials
	means := buffer[:0]
	for i, a := range launches {
		for _, b := range launches[i:] {
			means = append(means, (a+b)/2)
		}
	}
	slices.Sort(means)
	return stats.Percentile(means, 0.5)
}

// noise is a sum of squared deviations with its degrees of freedom.
type noise struct{ squares, dof float64 }

func (n noise) add(other noise) noise { return noise{n.squares + other.squares, n.dof + other.dof} }

// spreadOf returns the noise of values around their mean. It leaves out NaN.
func spreadOf(values []float64) (n noise) {
	mean, count := meanOf(values)
	for _, v := range values {
		if !math.IsNaN(v) {
			n.squares += (v - mean) * (v - mean)
		}
	}
	n.dof = float64(max(count-1, 0))
	return n
}

// meanOf returns the mean and the number of the values that are not NaN.
func meanOf(values []float64) (mean float64, count int) {
	for _, v := range values {
		if !math.IsNaN(v) {
			mean += v
			count++
		}
	}
	return mean / float64(count), count
}

// estimate is a change between a reference and later runs, as a logarithm.
type estimate struct {
	change   float64
	variance float64 // variance of the value of one run
	dof      float64 // degrees of freedom of variance
	n, m     int     // number of runs in the reference and after it
	level    float64 // mean of the reference
	last     float64 // change of only the last run; NaN if it has no value
	own      noise   // noise of the reference
	ranks    bool    // the ranks of the runs confirm the change
}

// known reports whether there are values on both sides.
func (e estimate) known() bool { return e.n > 0 && e.m > 0 }

// deviation returns the standard deviation of the change.
func (e estimate) deviation() float64 {
	return math.Sqrt(e.variance * (1/float64(e.n) + 1/float64(e.m)))
}

// chance returns the probability that noise alone gives such a change or a larger one in the
// same direction.
func (e estimate) chance() float64 {
	t := math.Abs(e.change) / e.deviation()
	if t < 2 { // never significant; saves time in most cases
		return 1
	}
	return distuv.StudentsT{Sigma: 1, Nu: min(e.dof, tailDof*float64(e.m))}.Survival(t)
}

// tailDof limits the degrees of freedom of a test to this many for each recent run. The mean of many runs
// is close to normal. But on many machines a single bad night is far more frequent than the normal
// distribution predicts.
const tailDof = 6

// ranksAgree reports whether the ranks of the values confirm a change: all recent values are beyond all
// values of the reference, or the one-sided probability of such ranks by chance is at most rankChance.
func ranksAgree(ref, recent []float64, change float64) bool {
	_, n := meanOf(ref)
	_, m := meanOf(recent)
	inversions := 0
	for _, y := range recent {
		for _, x := range ref {
			if (y-x)*change <= 0 { // false for NaN
				inversions++
			}
		}
	}
	if inversions == 0 {
		return true
	}
	// Normal approximation of Mann-Whitney's U, with the correction for continuity.
	pairs := float64(n * m)
	z := (pairs/2 - float64(inversions) - 0.5) / math.Sqrt(pairs*float64(n+m+1)/12)
	return distuv.UnitNormal.Survival(z) <= rankChance
}

// rankChance is the largest probability by chance at which the ranks confirm a step. The ranks only guard
// the t test against single outliers, so rankChance is not part of the error probability.
const rankChance = 0.02

// quantiles caches quantiles of Student's t, since all points of a check need the same few.
type quantiles map[[2]float64]float64

// interval returns the confidence interval of a change with a tail probability on each side.
func (q quantiles) interval(e estimate, tail float64) (low, high float64) {
	key := [2]float64{e.dof, tail}
	t, ok := q[key]
	if !ok {
		t = distuv.StudentsT{Sigma: 1, Nu: e.dof}.Quantile(1 - tail)
		q[key] = t
	}
	return e.change - t*e.deviation(), e.change + t*e.deviation()
}

// newEstimate compares two series of values, one for each run. prior is the assumed variance of a
// run, and carried is noise from runs at other levels.
func newEstimate(ref, recent []float64, prior float64, carried noise) (e estimate) {
	e.level, e.n = meanOf(ref)
	mean, m := meanOf(recent)
	e.m = m
	if !e.known() {
		return e
	}
	e.own = spreadOf(ref)
	sum := noise{priorRuns * prior, priorRuns}.add(carried).add(e.own).add(spreadOf(recent))
	e.change, e.last = mean-e.level, recent[len(recent)-1]-e.level
	e.variance, e.dof = sum.squares/sum.dof, sum.dof
	// Compare the ranks only for changes that may be significant, which are rare.
	e.ranks = math.Abs(e.change) > 3*e.deviation() && ranksAgree(ref, recent, e.change)
	return e
}

// launchVariance returns the variance of a point's value that the launches alone cause, for the usual
// number of launches in the runs from a to b.
func (t table) launchVariance(p, a, b int) float64 {
	runs, inverse := 0.0, 0.0
	for _, n := range t.counts[p][a:b] {
		if n > 0 {
			runs++
			inverse += 1 / float64(n)
		}
	}
	return t.launch[p] * inverse / max(runs, 1)
}

// point estimates the change of a point from the runs [a, b) to the runs [b, c).
func (t table) point(p, a, b, c int, carried noise) estimate {
	prior := t.launchVariance(p, a, c) + priorRun*priorRun
	return newEstimate(t.values[p][a:b], t.values[p][b:c], prior, carried)
}

// allPoints estimates the change of all points together: their mean, with more weight for points that
// vary less from run to run. points holds the points' own estimates for the same runs.
func (t table) allPoints(points []estimate, a, b, c int, carried noise) estimate {
	prior, total := 0.0, 0.0
	sums, weights := make([]float64, c-a), make([]float64, c-a)
	for p, e := range points {
		if !e.known() {
			continue
		}
		weight := 1 / e.variance
		prior += weight * weight * t.launchVariance(p, a, c)
		total += weight
		for i, v := range t.values[p][a:c] {
			if !math.IsNaN(v) {
				sums[i] += weight * (v - e.level)
				weights[i] += weight
			}
		}
	}
	if total == 0 {
		return estimate{}
	}
	for i := range sums {
		sums[i] /= weights[i] // NaN for a run without any of the points
	}
	return newEstimate(sums[:b-a], sums[b-a:], prior/(total*total)+priorRun*priorRun, carried)
}
