package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Dependence describes how strongly the values of a series depend on the values before them.
//
// The estimator is Geyer's initial monotone sequence (Practical Markov Chain Monte Carlo, Statistical Science 7, 1992,
// section 3.3), applied to the ranks of the values. Ranks make it independent of the distribution, so that a single
// outlier neither hides nor feigns dependence. Batch means would need a batch size that is longer than the dependence,
// which is not known in advance.
type Dependence struct {
	// Span is the integrated autocorrelation time: this many successive values contain as much information about the
	// median as one independent value. It is 1 for independent values.
	Span float64
	// DoF is the number of degrees of freedom of the estimated Span; infinite for independent values.
	DoF float64
}

// independent is the Dependence of values that do not depend on each other.
var independent = Dependence{Span: 1, DoF: math.Inf(1)}

const (
	// visibleDependence is the smallest correlation of neighbours, in standard deviations under
	// independence, that counts as dependence. One independent series in twenty exceeds it, which
	// widens the intervals of 20 or more independent values by at most 10 % on average.
	visibleDependence = 1.68
	// strongDependence is the correlation of neighbours from which the Span is at least the one of an
	// autoregressive process with that correlation. Few independent series of 20 values reach it.
	strongDependence = 0.38
	// noisePair is the smallest sum of two neighbouring autocorrelations, in standard deviations
	// under independence, that is added to the Span. Geyer stops at 0.
	noisePair = 0.5
	// maxSeries limits the work: longer series are replaced by the means of successive values.
	maxSeries = 4096
)

// SeriesDependence estimates the dependence of values in the order in which they were taken.
func SeriesDependence[T int64 | float64](series []T) Dependence {
	return dependence(series, visibleDependence)
}

// CautiousDependence is like SeriesDependence, but it counts any positive correlation of neighbours as dependence, with
// the Span of an autoregressive process that has this correlation. Half of all independent series have a positive
// correlation. The stopping rule uses it, because it tests repeatedly and would otherwise stop at the luckiest moment.
func CautiousDependence[T int64 | float64](series []T) Dependence {
	return dependence(series, 0)
}

func dependence[T int64 | float64](series []T, visible float64) Dependence {
	if len(series) < MinInterval {
		return independent
	}
	values := make([]float64, len(series))
	for i, v := range series {
		values[i] = float64(v)
	}
	ranks := doubledRanks(values)
	for i, r := range ranks {
		values[i] = float64(r - len(ranks) - 1) // doubled ranks have the mean n+1
	}
	variance := autocovariance(values, 0)
	if variance == 0 {
		return independent
	}
	means, size := means(values)
	between := autocovariance(means, 0)
	d := initialSequence(means, between, visible)
	// The variance of the mean of a long series is the same from its values and from the means of
	// successive values, which gives the Span of the values.
	d.Span = max(1, d.Span*between*float64(size)/variance)
	return d
}

// means returns the means of size successive values each, at most maxSeries of them.
func means(values []float64) (out []float64, size int) {
	size = (len(values) + maxSeries - 1) / maxSeries
	if size == 1 {
		return values, 1
	}
	out = make([]float64, len(values)/size)
	for i := range out {
		for _, v := range values[i*size : (i+1)*size] {
			out[i] += v / float64(size)
		}
	}
	return out, size
}

// initialSequence sums the autocorrelations of a series with mean 0. Sums of two neighbouring
// autocorrelations of a reversible process are positive and fall with the lag, so the first that
// is not marks where the estimates are noise.
func initialSequence(series []float64, variance, visible float64) Dependence {
	n := float64(len(series))
	if variance == 0 {
		return independent
	}
	first := autocovariance(series, 1) / variance
	if first < visible/math.Sqrt(n) {
		return independent
	}
	span, before, lags := -1.0, math.Inf(1), 0
	for ; lags+1 < len(series); lags += 2 {
		pair := (autocovariance(series, lags) + autocovariance(series, lags+1)) / variance
		if pair < noisePair*math.Sqrt(2/n) {
			break
		}
		before = min(before, pair)
		span += 2 * before
	}
	used := float64(2*lags - 1) // autocorrelations in the sum, counting both signs of the lag
	// The mean was taken from the same values, which lowers every autocovariance by Span/n.
	span /= max(0.1, 1-used/n)
	if first > strongDependence || visible == 0 {
		span = max(span, autoregressiveSpan(first, n))
	}
	return Dependence{Span: max(1, span), DoF: n / used}
}

// autoregressiveSpan returns the Span of an autoregressive process of first order whose n values have
// a correlation of neighbours. Short series show too little of it: on average (1+4 rho)/n less, because
// the mean is taken from the same values (M. G. Kendall, Note on Bias in the Estimation of
// Autocorrelation, Biometrika 41, 1954). In the shortest series the estimate is so uncertain that twice
// the bias is added.
func autoregressiveSpan(correlation, n float64) float64 {
	rho := min(0.99, correlation+(1+20/n)*(1+4*correlation)/n)
	return (1 + rho) / (1 - rho)
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
// the series.
func (d Dependence) Effective(n int) float64 { return max(1, float64(n)/d.Span) }

// minEffective is the smallest effective number with which an interval of n values is computed. With fewer, Student's t
// would give meaningless widths. The limit is higher for short series, because some of them look dependent although
// they are not.
func minEffective(n int) float64 { return 2.5 + 6/float64(n) }

// outer is the share of values at either end that an interval does not include, even if there are too few effective
// values: the median does not depend on outliers.
const outer = 0.025

// DependentInterval is like [MedianInterval] for the sorted values of a series with dependence d. If
// the effective size is too small for order statistics, the interval contains nearly all values, or
// extends beyond them: it is wide because little is known.
func DependentInterval[T int64 | float64](sorted []T, d Dependence) (low, high float64, ok bool) {
	n := len(sorted)
	if n < MinInterval || d.Span == 1 {
		return MedianInterval(sorted)
	}
	// The number of values below the median has Span times the variance of independent values. That
	// factor is an estimate, therefore Student's t and not the normal distribution.
	t := studentQuantile(d.DoF) / distuv.UnitNormal.Quantile(0.975)
	middle := float64(n) / 2
	at := int(math.Floor(middle - (middle-float64(OrderIndex(n, 0.025)))*math.Sqrt(d.Span)*t))
	if at >= 0 && float64(at+1) >= outer*float64(n) {
		return float64(sorted[at]), float64(sorted[n-1-at]), true
	}
	// The 16th and 84th percentile are one standard deviation from the centre of a normal
	// distribution, the median's standard error is sqrt(pi/2) times the mean's, and the deviation of
	// dependent values from their own centre is too small by 1-1/e.
	e := max(d.Effective(n), minEffective(n))
	sd := (Percentile(sorted, 0.841) - Percentile(sorted, 0.159)) / 2 / math.Sqrt(1-1/e)
	half := studentQuantile(e-1) * math.Sqrt(math.Pi/2/e) * sd
	median := Percentile(sorted, 0.5)
	low, high = min(Percentile(sorted, outer), median-half), max(Percentile(sorted, 1-outer), median+half)
	if sorted[0] >= 0 {
		low = max(low, 0) // durations and rates are never below 0
	}
	return low, high, true
}

// studentQuantile returns the 97.5 % quantile of Student's t distribution.
func studentQuantile(dof float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: min(max(1, dof), 1e6)}.Quantile(0.975)
}

// SummarizeSeries is like [Summarize] for values in the order in which they were taken. Its interval
// allows for their dependence and for two modes, and Effective is their effective number.
func SummarizeSeries(series []float64) Summary {
	s := Summarize(series)
	if math.IsNaN(s.CILow) {
		return s
	}
	d := SeriesDependence(series)
	s.CILow, s.CIHigh, _ = DependentInterval(slices.Sorted(slices.Values(series)), d)
	s.Effective, s.Modes = d.Effective(len(series)), FindModes(series)
	s.CILow, s.CIHigh = CoverModes(s.CILow, s.CIHigh, s.Modes, s.Effective)
	return s
}
