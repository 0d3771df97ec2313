package changepoint

import (
	"fmt"
	"math"
	"slices"
)

// Series is a sequence of runs of one bench on one kind of machine, the oldest first.
type Series struct {
	// Runs has, for each run and point, the logarithms of the values of its launches, with the sign
	// chosen so that larger is slower. A point without launches was not measured in that run. The
	// caller must leave out disturbed launches.
	Runs [][][]float64
	// Exact marks the points whose values have no noise. Its length is the number of points.
	Exact []bool
}

// Rule sets how strictly a series is judged.
type Rule struct {
	Alpha     float64 // probability that a check of an unchanged build finds anything slower
	Floor     float64 // smallest relative change that matters
	Tolerance float64 // largest slow-down of all points together that a good check may miss
}

// Defaults of a Rule.
const (
	DefaultAlpha     = 0.001
	DefaultFloor     = 0.02
	DefaultTolerance = 0.05
)

// PointTolerance returns the largest slow-down of a single point that a good check may miss.
func (r Rule) PointTolerance() float64 { return 2 * r.Tolerance }

// Verdict is the decision on the latest run.
type Verdict string

// The verdicts.
const (
	Slower     Verdict = "slower"
	Faster     Verdict = "faster"
	NoSlowdown Verdict = "no slowdown" // of Finding.Bound or more
	CannotTell Verdict = "cannot tell"
)

// Finding is the decision on one point, or on all of them together.
type Finding struct {
	Verdict Verdict
	// First is the first run at the current level if Verdict is Slower or Faster, else the latest run.
	First int
	// Change is the change from the runs before First to the runs since First, Low and High are its
	// 95 % interval; all are logarithms. They are NaN if the latest run or the reference has no value.
	// Low and High are also NaN if there are too few runs to estimate how much runs differ.
	Change, Low, High float64
	P                 float64 // for Slower and Faster: probability of such a change by chance
	// Bound is the smallest slow-down that is excluded with a confidence of 95 %, as a ratio minus
	// 1. It is NaN if nothing is excluded.
	Bound   float64
	Missing string // for CannotTell: what is needed for a decision
}

// Result is the decision on the latest run of a series.
type Result struct {
	AllPoints Finding // all points together
	Points    []Finding
	// Suspected reports whether the latest runs may be at another level. This is not certain enough for
	// an alarm, but too likely to make these runs part of the reference.
	Suspected bool
}

// Verdict returns the worst verdict: Slower, then CannotTell, then Faster, then NoSlowdown.
func (r Result) Verdict() Verdict {
	for _, worst := range []Verdict{Slower, CannotTell, Faster} {
		if r.AllPoints.Verdict == worst || slices.ContainsFunc(r.Points, func(f Finding) bool { return f.Verdict == worst }) {
			return worst
		}
	}
	return NoSlowdown
}

// Check judges the latest run of a series. The first accepted runs are the reference. A step among them
// is not a finding; the runs since the last such step are then the reference. The series must have at
// least one run after them.
func (r Rule) Check(s Series, accepted int) Result {
	last := len(s.Runs) - 1
	q := newSearch(s, r)
	accepted = max(accepted, 1)
	start := 0
	if firsts, _ := q.levels(s, accepted); accepted-firsts[len(firsts)-1] >= minRuns {
		start = firsts[len(firsts)-1]
	}
	steps, latest := q.best(start, accepted, last), q.at(start, last, last)
	known := 0
	for _, c := range latest[:len(s.Exact)] {
		if c.known() {
			known++
		}
	}
	var out Result
	for p, c := range steps {
		f := q.bound(latest[p], p == len(s.Exact) && known > 1)
		switch {
		case p < len(s.Exact) && s.Exact[p]:
			f = r.exact(s, p, accepted)
		case p < len(s.Exact) && gross(s, p, start, accepted, last) != "":
			v := gross(s, p, start, accepted, last)
			first := last
			for first > accepted && gross(s, p, start, accepted, first-1) == v {
				first--
			}
			f = q.certain(v, p, start, first, last)
			out.Suspected = true
		case q.step(c):
			f = q.finding(q.locate(p, c, start, accepted, last))
			out.Suspected = true
		case q.suspected(c, max(known, 1)):
			out.Suspected = true
		}
		if p < len(s.Exact) {
			out.Points = append(out.Points, f)
			out.Suspected = out.Suspected || s.Exact[p] && (f.Verdict == Slower || f.Verdict == Faster)
		} else {
			out.AllPoints = f
		}
	}
	if known == 0 {
		out.AllPoints = r.exactAllPoints(out.Points)
	}
	for _, v := range []Verdict{Slower, Faster} {
		if out.AllPoints.Verdict == CannotTell && 2*count(out.Points, v) > known && known > 0 {
			out.AllPoints = q.certain(v, len(s.Exact), start, since(out.Points, v), last)
		}
	}
	return out
}

// certain returns the finding for a change that needs no test, because it is very large or most points show it.
func (s search) certain(v Verdict, p, start, first, last int) Finding {
	f := s.bound(s.at(start, first, last)[p], false)
	f.Verdict, f.Missing, f.Bound = v, "", math.NaN()
	return f
}

// since returns the smallest First of the findings with the verdict v.
func since(points []Finding, v Verdict) int {
	first := math.MaxInt
	for _, f := range points {
		if f.Verdict == v {
			first = min(first, f.First)
		}
	}
	return first
}

func count(findings []Finding, v Verdict) (n int) {
	for _, f := range findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// finding returns the finding of a step.
func (s search) finding(c candidate) Finding {
	f := Finding{Verdict: Faster, First: c.first, Change: c.change, P: c.p, Bound: math.NaN()}
	if c.change > 0 {
		f.Verdict = Slower
	}
	f.Low, f.High = s.interval(c.estimate, 0.025)
	return f
}

// bound decides whether a slow-down of the latest run can be excluded. The estimate uses only the latest
// run, because only this run shows the latest change of the program.
func (s search) bound(c candidate, allPoints bool) Finding {
	nan := math.NaN()
	f := Finding{Verdict: CannotTell, First: c.first, Change: nan, Low: nan, High: nan, Bound: nan}
	switch {
	case c.m == 0:
		f.Missing = "the latest run has no undisturbed launch of it"
		return f
	case c.n == 0:
		f.Missing = "no earlier run has an undisturbed launch of it"
		return f
	}
	f.Change = c.change
	if c.n < minRuns {
		f.Missing = fmt.Sprintf("earlier runs: %d; at least %d are needed to show how much runs differ", c.n, minRuns)
		return f
	}
	f.Low, f.High = s.interval(c.estimate, 0.025)
	_, high := s.interval(c.estimate, 0.05)
	f.Bound = max(math.Expm1(high), leastBound)
	limit := s.rule.PointTolerance()
	if allPoints {
		limit = s.rule.Tolerance
	}
	if f.Bound <= limit {
		f.Verdict = NoSlowdown
		return f
	}
	f.Missing = fmt.Sprintf("a slow-down of up to %.1f %% is possible, because runs differ by %.1f %%",
		100*f.Bound, 100*math.Sqrt(c.variance))
	if math.Expm1(c.change) > limit/2 {
		f.Missing = fmt.Sprintf("the latest run is %.1f %% slower than the runs before (up to %.1f %%): more runs "+
			"will show whether it stays slower", 100*math.Expm1(c.change), 100*f.Bound)
	}
	return f
}

// leastBound is the smallest Bound. Smaller ones would depend too much on the model of the noise.
const leastBound = 0.005

// Ratios from which a change is certain, even if it is unknown how much runs differ. Every launch of the
// latest run must differ by this ratio from every earlier launch. GrossFactor requires minRuns launches
// on either side.
const (
	GrossFactor       = 1.5
	grossSingleFactor = 2.5
)

// gross returns Slower or Faster if all launches of a run differ by a large factor from all launches of the accepted
// runs since start, and "" otherwise. If the accepted runs have no launches, it uses the first later run that has some.
func gross(s Series, p, start, accepted, run int) Verdict {
	latest := s.Runs[run][p]
	var reference []float64
	for i, before := range s.Runs[start:run] {
		if start+i < accepted || len(reference) == 0 {
			reference = append(reference, before[p]...)
		}
	}
	factor := grossSingleFactor
	switch n := min(len(latest), len(reference)); {
	case n == 0:
		return ""
	case n >= minRuns:
		factor = GrossFactor
	}
	switch {
	case slices.Min(latest)-slices.Max(reference) >= math.Log(factor):
		return Slower
	case slices.Min(reference)-slices.Max(latest) >= math.Log(factor):
		return Faster
	}
	return ""
}

// exact compares a point without noise with the last accepted run that has the point.
func (r Rule) exact(s Series, p, accepted int) Finding {
	last := len(s.Runs) - 1
	f := Finding{Verdict: CannotTell, First: last, Change: math.NaN(), Low: math.NaN(), High: math.NaN(),
		Bound: math.NaN()}
	reference := accepted - 1
	for reference >= 0 && len(s.Runs[reference][p]) == 0 {
		reference--
	}
	switch {
	case len(s.Runs[last][p]) == 0:
		f.Missing = "the latest run does not have it"
		return f
	case reference < 0:
		f.Missing = "no earlier run has it"
		return f
	}
	value := s.Runs[last][p][0]
	f.Change = value - s.Runs[reference][p][0]
	f.Low, f.High = f.Change, f.Change
	floor := math.Log1p(r.Floor)
	switch {
	case f.Change > floor:
		f.Verdict = Slower
	case f.Change < -floor:
		f.Verdict = Faster
	default:
		f.Verdict, f.Bound = NoSlowdown, max(math.Expm1(f.Change), leastBound)
		return f
	}
	for f.First > reference+1 && len(s.Runs[f.First-1][p]) > 0 && math.Abs(s.Runs[f.First-1][p][0]-value) <= floor {
		f.First--
	}
	return f
}

// exactAllPoints returns the finding for all points together if no point has noise.
func (r Rule) exactAllPoints(points []Finding) Finding {
	f := Finding{Verdict: CannotTell, Change: math.NaN(), Low: math.NaN(), High: math.NaN(), Bound: math.NaN(),
		Missing: "no point has an undisturbed launch in the latest run and in an earlier one"}
	sum, n := 0.0, 0
	for _, p := range points {
		if f.First = p.First; p.Verdict != CannotTell {
			sum += p.Change
			n++
		}
	}
	if n > 0 {
		f.Verdict, f.Missing, f.Change = NoSlowdown, "", sum/float64(n)
		f.Low, f.High, f.Bound = f.Change, f.Change, max(math.Expm1(f.Change), leastBound)
		// All points together have changed if most points have. Otherwise only the points are reported.
		for _, v := range []Verdict{Slower, Faster} {
			if 2*count(points, v) > n && n > 1 {
				f.Verdict, f.Bound, f.First = v, math.NaN(), since(points, v)
			}
		}
	}
	return f
}
