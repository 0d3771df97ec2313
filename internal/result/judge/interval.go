package judge

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// MinPairs is the smallest number of pairs for which a goal is decided.
const MinPairs = 10

// Outcome is the decision whether a ratio reaches a goal.
type Outcome string

// A goal is Met if the lower end of the interval reaches it, NotMet if the upper end does not reach it,
// and NotResolved otherwise. NotComparable means that the sides differ in something that makes their
// ratio meaningless.
const (
	Met           Outcome = "met"
	NotMet        Outcome = "not met"
	NotResolved   Outcome = "not resolved"
	NotComparable Outcome = "not comparable"
)

// Worse returns the worse of two outcomes: NotComparable, NotMet, then NotResolved, then Met.
func (o Outcome) Worse(other Outcome) Outcome {
	for _, worst := range []Outcome{NotComparable, NotMet, NotResolved} {
		if o == worst || other == worst {
			return worst
		}
	}
	return Met
}

// Ratio is a median of ratios of paired measurements, with its 95 % interval. Low and
// High are NaN if there are too few pairs to know them.
type Ratio struct {
	Median, Low, High float64
	Pairs             int
}

// Reaches decides whether the ratio is at least goal.
func (r Ratio) Reaches(goal float64) Outcome {
	switch { // unknown ends are NaN, so both conditions are false
	case r.Low >= goal:
		return Met
	case r.High < goal:
		return NotMet
	}
	return NotResolved
}

// Interval is an estimated difference of logarithms with its confidence interval. Less is better.
type Interval struct {
	Mid   float64 `json:"mid"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Known bool    `json:"known"` // there were enough launches for Low and High
	Count int     `json:"count"` // number of launches or pairs
}

// Verdict decides whether the difference is a gain or a loss.
func (i Interval) Verdict() Verdict {
	switch {
	case i.Known && i.High < 0:
		return Faster
	case i.Known && i.Low > 0:
		return Slower
	}
	return Ambiguous
}

// Within reports whether the interval is known and lies within the relative change floor in both
// directions.
func (i Interval) Within(floor float64) bool {
	return i.Known && max(i.High, -i.Low) <= math.Log1p(floor)
}

// MeanDifference returns the mean of paired differences between logarithms, with its interval at
// confidence 1-alpha from Student's t distribution. Each difference is from one launch. If exact is set,
// the differences have no noise: their interval is their range, and one is enough.
func MeanDifference(d []float64, alpha float64, exact bool) Interval {
	if len(d) == 0 {
		return Interval{}
	}
	mean := stat.Mean(d, nil)
	if exact {
		return Interval{mean, slices.Min(d), slices.Max(d), true, len(d)}
	}
	if len(d) < MinLaunches {
		return Interval{Mid: mean, Count: len(d)}
	}
	n := float64(len(d))
	half := stat.StdDev(d, nil) / math.Sqrt(n) * distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(1-alpha/2)
	return Interval{mean, mean - half, mean + half, true, len(d)}
}

// Range is an interval in which a time lies: a confidence interval, or the smallest and the largest time
// of several launches.
type Range struct{ Low, High float64 }

// Below reports whether r lies entirely below other.
func (r Range) Below(other Range) bool { return r.High < other.Low }

// Include returns the range extended to contain other. The zero Range is empty.
func (r Range) Include(other Range) Range {
	if r == (Range{}) {
		return other
	}
	return Range{min(r.Low, other.Low), max(r.High, other.High)}
}
