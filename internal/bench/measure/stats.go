package measure

import (
	"fmt"
	"math"
	"slices"
)

// PerIterationMax is the slowest rank's time of each iteration, in
// microseconds: an operation of all ranks is done when the last has done its part.
func PerIterationMax(m Matrix) []float64 {
	values := make([]float64, m.Iterations())
	for i, d := range m.maxima() {
		values[i] = float64(d) / 1e6
	}
	return values
}

// Summary describes a sample. Percentiles are interpolated linearly between
// order statistics (the value at position p(n-1), counted from 0); CILow and
// CIHigh bound the median with 95 % confidence, or are NaN.
type Summary struct {
	Min, P50, P90, P99, Max, Mean float64
	CILow, CIHigh                 float64
}

// Map gives the summary by the names a row uses, without what is NaN.
func (s Summary) Map() map[string]float64 {
	all := map[string]float64{
		"min": s.Min, "p50": s.P50, "p90": s.P90, "p99": s.P99, "max": s.Max, "mean": s.Mean,
		"ci_low": s.CILow, "ci_high": s.CIHigh,
	}
	for name, v := range all {
		if math.IsNaN(v) {
			delete(all, name)
		}
	}
	return all
}

// Summarize describes the values, with warnings for what they cannot tell.
func Summarize(values []float64) (Summary, []string) {
	nan := math.NaN()
	s := Summary{nan, nan, nan, nan, nan, nan, nan, nan}
	if len(values) == 0 {
		return s, []string{"no samples"}
	}
	sorted := slices.Sorted(slices.Values(values))
	s.Min, s.Max = sorted[0], sorted[len(sorted)-1]
	s.P50, s.P90, s.P99 = percentile(sorted, 0.50), percentile(sorted, 0.90), percentile(sorted, 0.99)
	s.Mean = 0
	for _, v := range sorted {
		s.Mean += v / float64(len(sorted))
	}
	low, high, ok := medianInterval(sorted)
	if !ok {
		return s, []string{fmt.Sprintf("%d samples: too few for an interval of the median, which takes %d", len(sorted), minInterval)}
	}
	s.CILow, s.CIHigh = low, high
	return s, nil
}

// percentile interpolates in sorted values, of which there is at least one.
func percentile[T int64 | float64](sorted []T, p float64) float64 {
	at := p * float64(len(sorted)-1)
	below := int(at)
	low := float64(sorted[below])
	if below+1 == len(sorted) {
		return low
	}
	return low + (at-float64(below))*(float64(sorted[below+1])-low)
}

func median[T int64 | float64](values []T) float64 {
	return percentile(slices.Sorted(slices.Values(values)), 0.5)
}

// Analysis is what a matrix of samples tells. Times are in microseconds.
type Analysis struct {
	// Summary is of the per-iteration maximum over ranks.
	Summary Summary
	// Skew is the median over iterations of (slowest - fastest) / slowest rank.
	Skew float64
	// Straggler is the rank that is most often the slowest, StragglerShare its
	// share of the iterations (1/ranks if all are alike). Of equally slow ranks
	// the lowest counts.
	Straggler      int
	StragglerShare float64
	// Drift is by how much the median of the second half differs from that of
	// the first, relative to the first.
	Drift float64
	// Warnings are for the reader of the numbers.
	Warnings []string
}

// driftWorthSaying keeps the drift warning for changes that matter: with
// thousands of samples the intervals separate a tenth of a percent.
const driftWorthSaying = 0.05

// Analyze describes the samples. It does not warn of a single sample: that
// comes of a deterministic clock, or [Run] has warned already.
func Analyze(m Matrix) Analysis {
	values := PerIterationMax(m)
	var a Analysis
	a.Summary, a.Warnings = Summarize(values)
	if len(values) == 1 {
		a.Warnings = nil
	}
	a.Skew, a.Straggler, a.StragglerShare = imbalance(m)
	var sure bool
	if a.Drift, sure = drift(values); sure && math.Abs(a.Drift) > driftWorthSaying {
		a.Warnings = append(a.Warnings, fmt.Sprintf("drift: the median of the second half of the samples is %+.1f %% off the first's", 100*a.Drift))
	}
	return a
}

// imbalance says how unevenly the ranks share the time.
func imbalance(m Matrix) (skew float64, straggler int, share float64) {
	if m.Iterations() == 0 {
		return 0, 0, 0
	}
	skews := make([]float64, m.Iterations())
	slowest := make([]int, m.Ranks())
	for i := range skews {
		row := m.Row(i)
		most := slices.Max(row)
		slowest[slices.Index(row, most)]++
		if most > 0 {
			skews[i] = float64(most-slices.Min(row)) / float64(most)
		}
	}
	count := slices.Max(slowest)
	return median(skews), slices.Index(slowest, count), float64(count) / float64(len(skews))
}

// drift compares the halves of the values in the order they were taken. It is
// sure of a change when the intervals of the two medians do not meet.
func drift(values []float64) (change float64, sure bool) {
	half := len(values) / 2
	if half == 0 {
		return 0, false
	}
	first := slices.Sorted(slices.Values(values[:half]))
	second := slices.Sorted(slices.Values(values[len(values)-half:]))
	before, after := percentile(first, 0.5), percentile(second, 0.5)
	if before > 0 {
		change = after/before - 1
	}
	low1, high1, ok := medianInterval(first)
	low2, high2, _ := medianInterval(second)
	return change, ok && (high1 < low2 || high2 < low1)
}
