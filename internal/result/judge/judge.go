// Package judge decides whether one side is faster than another, by how much, and whether the data can
// tell. Commands and reports choose the rows and print the answer. The statistics are in this package
// and, as plain functions of numbers, in package stats.
//
// # Observations
//
// Samples of one launch share its memory layout, its core placement and the load at that time, so they
// say little about the next launch. The statistical unit is the launch: every value given to this package
// is the result of one launch. At least MinLaunches on each side are needed to estimate how much launches
// differ.
//
// # Two independent sides
//
// Rule.Decide compares the launches of two builds or settings, for many points at once. All tests use
// logarithms, so that a factor of 2 up and a factor of 2 down count the same.
//
//   - Four or more launches on each side: the exact Mann-Whitney U test gives p, the Hodges-Lehmann shift
//     gives the effect, and the inverted U test gives its 95 % interval. With many points, Holm's
//     correction requires a smaller p than a rank test of few launches can give (0.0022 for six against
//     six). Then Welch's t test gives p, which is raised to the p that the median standard deviation of
//     all points would give. The U test must agree at the uncorrected level. The choice of the test
//     depends only on counts, never on the values.
//   - Fewer launches: the verdict is Ambiguous, however large the difference looks.
//   - Values without noise (simulated or modelled): their ratio is exact.
//
// A point is Slower or Faster if its corrected p is at most Alpha and its effect exceeds Floor. So a
// comparison of two equal builds has any such verdict with a probability of at most Alpha, for any
// number of points. A point is Same if its interval lies within Floor. Everything else is Ambiguous. The
// reported interval is not corrected.
//
// # Paired launches
//
// Ratio and MeanDifference judge launches that ran in pairs, one shortly after the other, so that slow
// drift cancels.
package judge

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

const (
	// MinLaunches is the smallest number of launches per side for a verdict. With fewer, a rank test
	// cannot reach 5 %.
	MinLaunches = 4
	// AdvisedLaunches is the number of launches per side that error messages advise. It is enough to
	// find a change of 10 % if launches differ by 3 %.
	AdvisedLaunches = 6

	// exactTolerance is the relative difference up to which two values without noise are equal. A sum
	// may have been added in a different order.
	exactTolerance = 1e-9
	// rankReserve decides between the rank test and the t test. The rank test is used if its smallest
	// possible p is at least this many times smaller than required. Without the reserve, only sides that
	// do not overlap at all would reach the required p.
	rankReserve = 4
)

// Verdict is the decision on one point.
type Verdict string

// The verdicts. Faster and Slower take the direction of the metric into account: a lower bandwidth is
// slower.
const (
	Faster    Verdict = "faster"
	Slower    Verdict = "slower"
	Same      Verdict = "same"
	Ambiguous Verdict = "ambiguous"
)

// Method is the evidence behind an effect.
type Method string

// The methods, strongest first.
const (
	Exact Method = "exact" // values without noise
	Ranks Method = "ranks" // Mann-Whitney U over launches
	TTest Method = "t"     // Welch's t over launches, confirmed by U
	None  Method = "none"  // too few launches
)

// Tested reports whether the effect comes from a statistical test.
func (m Method) Tested() bool { return m == Ranks || m == TTest }

// Effect is the change between two sides. Low and High are the 95 % interval of the ratio, or 0 if there
// is none.
type Effect struct {
	Ratio  float64  `json:"ratio"` // new / old
	Low    float64  `json:"ci_low,omitempty"`
	High   float64  `json:"ci_high,omitempty"`
	P      *float64 `json:"p,omitempty"` // after Holm's correction; nil for exact values
	Method Method   `json:"method"`
}

// Case holds the measurements of one point on both sides, one value per launch.
type Case struct {
	Old, New []float64
	Exact    bool // the values have no noise: only the first of each side is used
}

// Result is the decision on a Case.
type Result struct {
	Verdict Verdict
	Effect  Effect // if Method is None, the other fields are not set
	Note    string // why there is no verdict, or a remark on it; may be ""
}

// Rule sets how strictly cases are judged.
type Rule struct {
	Floor          float64 // smallest relative change that matters
	Alpha          float64 // probability of any false Faster or Slower among all cases
	HigherIsBetter bool
}

// Notes on cases without a verdict.
var (
	// TooFewLaunches advises how many launches to make.
	TooFewLaunches = fmt.Sprintf("run with --trials %d: fewer than %d a side do not show how launches differ",
		AdvisedLaunches, MinLaunches)
	notPositive = "values that are not positive have no ratio"
)

// HaveRatio reports whether all values are positive and finite.
func HaveRatio(values []float64) bool {
	for _, v := range values {
		if !(v > 0) || math.IsInf(v, 0) { // also false for NaN
			return false
		}
	}
	return true
}

// AllEqual reports whether the values are equal up to rounding errors.
func AllEqual(values []float64) bool {
	for _, v := range values {
		if !(math.Abs(math.Log(v)-math.Log(values[0])) <= exactTolerance) {
			return false
		}
	}
	return true
}

// evidence holds the test result of one case before the correction for many cases. Changes are
// logarithms of new / old.
type evidence struct {
	old, new          []float64 // logarithms
	method            Method
	note              string
	change, low, high float64
	p                 float64
	disagrees         bool // the U test does not confirm the t test
}

// Decide returns the result of each case. Cases that belong to one comparison must be judged together,
// because each p is corrected for their number.
func (r Rule) Decide(cases []Case) []Result {
	found := lists.Map(cases, newEvidence)
	var spreads []float64
	for _, e := range found {
		if e.method == Ranks {
			spreads = append(spreads, pooledDeviation(e.old, e.new))
		}
	}
	usual := 0.0 // median over the cases of the standard deviation between launches
	if len(spreads) > 0 {
		usual = stats.Median(spreads)
	}
	var ps []float64
	for i := range found {
		switch e := &found[i]; e.method {
		case Exact:
			e.compareExact(r.Floor)
		case Ranks:
			e.test(r.Alpha, len(spreads), usual)
			ps = append(ps, e.p)
		}
	}
	corrected := stats.Holm(ps)
	results := make([]Result, len(cases))
	for i, e := range found {
		if e.method.Tested() {
			e.p, corrected = corrected[0], corrected[1:]
		}
		results[i] = r.decide(e)
	}
	return results
}

// newEvidence chooses the method for a case. It looks only at counts and at whether values are exact.
func newEvidence(c Case) evidence {
	if !HaveRatio(c.Old) || !HaveRatio(c.New) {
		return evidence{method: None, note: notPositive}
	}
	e := evidence{old: lists.Map(c.Old, math.Log), new: lists.Map(c.New, math.Log)}
	switch {
	case c.Exact:
		e.method = Exact
	case min(len(e.old), len(e.new)) >= MinLaunches:
		e.method = Ranks
	default:
		e.method, e.note = None, TooFewLaunches
	}
	return e
}

// pooledDeviation returns the standard deviation between the launches of both sides.
func pooledDeviation(x, y []float64) float64 {
	n, m := float64(len(x)-1), float64(len(y)-1)
	return math.Sqrt((stat.Variance(x, nil)*n + stat.Variance(y, nil)*m) / (n + m))
}

func (e *evidence) compareExact(floor float64) {
	e.change = e.new[0] - e.old[0]
	e.low, e.high = e.change, e.change
	if a := math.Abs(e.change); a > exactTolerance && a <= math.Log1p(floor) {
		e.note = fmt.Sprintf("differs by %.2g %%, below the floor", 100*math.Expm1(a))
	}
}

// test computes p and the effect. tests is the number of tests for which p will be corrected, and usual
// is the median over them of the standard deviation between launches.
func (e *evidence) test(alpha float64, tests int, usual float64) {
	e.p = stats.UTest(e.old, e.new)
	e.change, e.low, e.high = stats.Shift(e.old, e.new)
	if least := stats.LeastP(len(e.old), len(e.new)); tests > 1 && least*float64(tests) > alpha/rankReserve {
		e.method = TTest
		e.disagrees = e.p > max(alpha, least)
		e.p = stats.Welch(e.old, e.new, usual)
	}
}

// decide turns evidence with a corrected p into a result.
func (r Rule) decide(e evidence) Result {
	out := Result{Verdict: Ambiguous, Effect: Effect{Method: e.method}, Note: e.note}
	if e.method == None {
		return out
	}
	out.Effect.Ratio, out.Effect.Low, out.Effect.High = math.Exp(e.change), math.Exp(e.low), math.Exp(e.high)
	if e.method != Exact {
		out.Effect.P = &e.p
	}
	floor := math.Log1p(r.Floor)
	switch {
	case e.p <= r.Alpha && !e.disagrees && math.Abs(e.change) > floor:
		out.Verdict = Faster
		if (e.change < 0) == r.HigherIsBetter {
			out.Verdict = Slower
		}
	case max(e.high, -e.low) <= floor:
		out.Verdict = Same
	}
	return out
}
