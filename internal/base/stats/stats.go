// Package stats describes samples, their percentiles and how sure their median
// is, and compares two of them, whatever their distribution.
package stats

import (
	"fmt"
	"math"
	"slices"
)

// Summary describes a sample. Percentiles are interpolated linearly between
// order statistics (the value at position p(n-1), counted from 0); CILow and
// CIHigh bound the median with 95 % confidence, or are NaN.
type Summary struct {
	Min, P50, P90, P99, Max, Mean float64
	CILow, CIHigh                 float64
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
	s.P50, s.P90, s.P99 = Percentile(sorted, 0.50), Percentile(sorted, 0.90), Percentile(sorted, 0.99)
	s.Mean = 0
	for _, v := range sorted {
		s.Mean += v / float64(len(sorted))
	}
	low, high, ok := MedianInterval(sorted)
	if !ok {
		return s, []string{fmt.Sprintf("%d samples: too few for an interval of the median, which takes %d", len(sorted),
			minInterval)}
	}
	s.CILow, s.CIHigh = low, high
	return s, nil
}

// Percentile interpolates in sorted values, of which there is at least one.
func Percentile[T int64 | float64](sorted []T, p float64) float64 {
	at := p * float64(len(sorted)-1)
	below := int(at)
	low := float64(sorted[below])
	if below+1 == len(sorted) {
		return low
	}
	return low + (at-float64(below))*(float64(sorted[below+1])-low)
}

// Median of values in any order, which is kept; there is at least one.
func Median[T int64 | float64](values []T) float64 {
	s := slices.Sorted(slices.Values(values))
	return (float64(s[(len(s)-1)/2]) + float64(s[len(s)/2])) / 2
}
