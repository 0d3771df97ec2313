// Package stats summarises samples (percentiles and a confidence interval of the median) and
// compares two samples. Unless a function says otherwise, it assumes nothing about
// the distribution.
package stats

import (
	"math"
	"slices"
)

// Summary describes a sample. Percentiles are interpolated linearly between order statistics:
// percentile p is at position p(n-1), counted from 0. CILow and CIHigh bound the median with
// 95 % confidence, or are NaN if there are too few values. Effective is the number of independent
// values that would give the same interval, or NaN without one. Modes is nil unless there are two.
type Summary struct {
	Min, P50, P90, P99, Max, Mean float64
	CILow, CIHigh                 float64
	Effective                     float64
	Modes                         []Mode
}

// Summarize computes the summary of independent values in any order. Statistics that they are too few for are NaN.
// [SummarizeSeries] is for values that may depend on each other.
func Summarize(values []float64) Summary {
	nan := math.NaN()
	s := Summary{nan, nan, nan, nan, nan, nan, nan, nan, nan, nil}
	if len(values) == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(values))
	s.Min, s.Max = sorted[0], sorted[len(sorted)-1]
	s.P50, s.P90, s.P99 = Percentile(sorted, 0.50), Percentile(sorted, 0.90), Percentile(sorted, 0.99)
	s.Mean = 0
	for _, v := range sorted {
		s.Mean += v / float64(len(sorted))
	}
	low, high, ok := MedianInterval(sorted)
	if !ok {
		return s
	}
	s.CILow, s.CIHigh, s.Effective = low, high, float64(len(sorted))
	return s
}

// Percentile returns percentile p (0 to 1) of sorted values. There must be at least one.
func Percentile[T int64 | float64](sorted []T, p float64) float64 {
	at := p * float64(len(sorted)-1)
	below := int(at)
	low := float64(sorted[below])
	if below+1 == len(sorted) {
		return low
	}
	return low + (at-float64(below))*(float64(sorted[below+1])-low)
}

// Median returns the median of values in any order, which are not changed. There must be at least one.
func Median[T int64 | float64](values []T) float64 {
	s := slices.Sorted(slices.Values(values))
	return (float64(s[(len(s)-1)/2]) + float64(s[len(s)/2])) / 2
}

// MinInterval is the smallest number of values whose range is a 95 % interval of the median:
// six values all lie on one side of it with probability 2/64.
const MinInterval = 6

// MedianInterval returns an interval that contains the median of the distribution with at least
// 95 % confidence. Its ends are two order statistics, equally far from either end. This holds
// for any distribution, because the number of values below the median is binomial(n, 1/2).
// There is no interval for fewer than six values.
func MedianInterval[T int64 | float64](sorted []T) (low, high float64, ok bool) {
	n := len(sorted)
	if n < MinInterval {
		return 0, 0, false
	}
	i := OrderIndex(n, 0.025)
	return float64(sorted[i]), float64(sorted[n-1-i]), true
}

// OrderIndex returns the largest i such that P(at most i heads in n fair coin tosses) is at most tail, or 0 if there is
// none. The median of a distribution is below value i of n sorted values with this probability.
func OrderIndex(n int, tail float64) int {
	// Start twelve standard deviations (of sqrt(n)/2) below the mean: smaller counts have no weight.
	first := max(0, n/2-int(6*math.Sqrt(float64(n))))
	below, p := 0.0, fairCoins(n, first)
	for k := first; ; k++ {
		if below += p; below > tail {
			return max(k-1, 0)
		}
		p *= float64(n-k) / float64(k+1) // binomial(n, k+1) / binomial(n, k)
	}
}

// fairCoins returns the probability of exactly k heads in n fair coin tosses.
func fairCoins(n, k int) float64 {
	all, _ := math.Lgamma(float64(n + 1))
	heads, _ := math.Lgamma(float64(k + 1))
	tails, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(all - heads - tails - float64(n)*math.Ln2)
}
