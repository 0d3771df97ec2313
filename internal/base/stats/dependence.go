package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// caution is the number of standard errors that are added to the correlation of neighbours, and batchCaution to the
	// one of neighbouring batches. A series of few values may look independent by luck, and its interval would then be
	// too narrow.
	caution      = 0.6
	batchCaution = 0.5
	// minBatches is the smallest number of batches whose correlation is estimated.
	minBatches = 20
	// medianShare is the least ratio of the Span of a median to the Span of a mean: signs of normal values whose
	// correlation is small have a correlation that is smaller by 2/pi.
	medianShare = 0.7
)

// Span returns the integrated autocorrelation time of the median of a series: this many successive values contain as
// much information about the median as one independent value. It is 1 for values that do not depend on each other.
//
// The series is taken for an autoregressive process of first order, and so are the means of batches of 2, 4, 8, ...
// successive values (the blocking of H. Flyvbjerg and H. G. Petersen, Error Estimates on Averages of Correlated Data,
// Journal of Chemical Physics 91, 1989). The largest Span of all batch sizes counts. Single values show a fast process,
// and batches a slow one that noise hides. The estimate uses ranks, so that a single outlier neither hides nor feigns
// dependence. The constants were chosen by simulation; docs/statistics.md has the results.
func Span[T int64 | float64](series []T) float64 { return autocorrelationTime(series, 1) }

// autocorrelationTime is Span with more caution, or with less: the dip test needs a Span that is not too large.
func autocorrelationTime[T int64 | float64](series []T, more float64) float64 {
	if len(series) < MinInterval {
		return 1
	}
	values := make([]float64, len(series))
	for i, v := range series {
		values[i] = float64(v)
	}
	for i, r := range doubledRanks(values) {
		values[i] = float64(r - len(values) - 1) // doubled ranks have the mean n+1
	}
	variance := autocovariance(values, 0)
	if variance == 0 {
		return 1
	}
	span := signSpan(correlation(values, more*caution))
	for size := 2; len(values)/2 >= minBatches; size *= 2 {
		values = pairMeans(values)
		rho := correlation(values, more*batchCaution)
		growth := float64(size) * autocovariance(values, 0) / variance
		span = max(span, medianShare*growth*(1+rho)/(1-rho))
	}
	return span
}

// pairMeans returns the means of every two successive values, less their own mean.
func pairMeans(values []float64) []float64 {
	out, mean := make([]float64, len(values)/2), 0.0
	for i := range out {
		out[i] = (values[2*i] + values[2*i+1]) / 2
		mean += out[i] / float64(len(out))
	}
	for i := range out {
		out[i] -= mean
	}
	return out
}

// correlation estimates the correlation of neighbours in a series with mean 0, plus some standard errors, between
// 0 and 0.99. Short series show too little of it: on average (1+4 rho)/n less, because the mean is taken from the same
// values (M. G. Kendall, Note on Bias in the Estimation of Autocorrelation, Biometrika 41, 1954).
func correlation(values []float64, errors float64) float64 {
	variance := autocovariance(values, 0)
	if variance == 0 {
		return 0
	}
	n, rho := float64(len(values)), autocovariance(values, 1)/variance
	bias := (1 + 4*max(rho, 0)) / n
	return min(max(rho+bias+errors*math.Sqrt(max(0, 1-rho*rho)/n), 0), 0.99)
}

// signSpan returns the Span of the signs of a normal autoregressive process of first order. Two signs have the
// correlation 2/pi asin(rho) (W. F. Sheppard, On the Application of the Theory of Error, 1899).
func signSpan(rho float64) float64 {
	span := 1.0
	for power := rho; power > 1e-6; power *= rho {
		span += 4 / math.Pi * math.Asin(power)
	}
	return span
}

// autocovariance returns the autocovariance of values with mean 0.
func autocovariance(values []float64, lag int) float64 {
	sum := 0.0
	for i, v := range values[lag:] {
		sum += v * values[i]
	}
	return sum / float64(len(values))
}

// Effective returns the number of independent values that contain as much information about the median as n values of
// a series with the given Span.
func Effective(n int, span float64) float64 { return max(1, float64(n)/span) }

// DependentInterval is like [MedianInterval] for the sorted values of a series with the given [Span]. There is no
// interval if the values count as fewer than six independent ones: then they cannot tell where the median is.
func DependentInterval[T int64 | float64](sorted []T, span float64) (low, high float64, ok bool) {
	n := len(sorted)
	effective := Effective(n, span)
	if n < MinInterval || effective < MinInterval && span > 1 {
		return 0, 0, false
	}
	if span == 1 {
		return MedianInterval(sorted)
	}
	// The number of values below the median has Span times the variance of independent values. That factor is an
	// estimate, therefore Student's t and not the normal distribution.
	half := studentQuantile(effective-1) * math.Sqrt(float64(n)*span) / 2
	at := max(0, int(math.Floor(float64(n)/2-half)))
	return float64(sorted[at]), float64(sorted[n-1-at]), true
}

// studentQuantile returns the 97.5 % quantile of Student's t distribution.
func studentQuantile(dof float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: min(max(1, dof), 1e6)}.Quantile(0.975)
}

// SummarizeSeries is like [Summarize] for values in the order in which they were taken. Its interval allows for their
// dependence and for two modes, and Effective is their effective number.
func SummarizeSeries(series []float64) Summary {
	s := Summarize(series)
	if math.IsNaN(s.CILow) {
		return s
	}
	span := Span(series)
	s.Effective, s.Modes = Effective(len(series), span), FindModes(series)
	low, high, ok := DependentInterval(slices.Sorted(slices.Values(series)), span)
	if !ok {
		low, high = math.NaN(), math.NaN()
	}
	s.CILow, s.CIHigh = CoverModes(low, high, s.Modes, s.Effective)
	return s
}
