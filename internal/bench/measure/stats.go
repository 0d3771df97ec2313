package measure

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// All rules below are pure functions of data that the ranks have exchanged. So all ranks make the same
// decision without another exchange.

// StopReason is the rule that ended the sampling.
type StopReason string

const (
	// Precise means that the median is known as well as Stop.RelNoise requires.
	Precise StopReason = "precise"
	// Settled means that more samples would hardly improve the precision.
	Settled StopReason = "settled"
	// MaxSamples and MaxTime are the limits of Stop.
	MaxSamples StopReason = "max-samples"
	MaxTime    StopReason = "max-time"
	// Exact means that the clock is deterministic, so that one sample is enough.
	Exact StopReason = "exact"
)

const (
	// blockTime is how long a block should take: long enough that the exchange after it is a small part
	// of the time.
	blockTime = 20 * time.Millisecond
	// deviceBlockTime is the block time for a device's clock. It is longer because a GPU that draws much
	// power lowers its clock rate while it works, and raises it again while it waits for the next block.
	deviceBlockTime = 100 * time.Millisecond
	// maxBlock limits the memory for the samples of a block.
	maxBlock = 4096

	// The noise has settled when its own relative standard deviation over the last settledBlocks blocks
	// is below settledNoise, as in NVBench's stdrel criterion. Noise falls with the square root of the
	// number of samples, so this happens after about 60 blocks, which take a little more than a second.
	settledBlocks = 16
	settledNoise  = 0.05

	// maxWarmRatio ends the warm-up: it continues as long as the time per call is below this fraction
	// of the time in the previous block, which had half as many calls.
	maxWarmRatio = 0.95

	// clockMargin is the minimum length of a sample, as a multiple of the clock's error.
	clockMargin = 100
	// minCallTime limits the batch if a call is too short to be measured.
	minCallTime = 1000 // ps
)

// blockSize returns how many iterations fill a block without exceeding the budget: at least 1 and at
// most limit. cost is the time of an iteration; cost and budget are in picoseconds.
func blockSize(block time.Duration, cost float64, budget int64, limit int) int {
	room := float64(min(picoseconds(block), budget))
	if fit := room / max(cost, 1); fit < float64(min(limit, maxBlock)) {
		return max(1, int(fit))
	}
	return max(1, min(limit, maxBlock))
}

// warmupRule decides how long the warm-up continues.
type warmupRule struct {
	limits Warmup
	block  time.Duration
	calls  int
	last   float64 // median time per call in the previous block, in ps
}

// next takes the times of the slowest rank in a block and the time since the start of the warm-up. It
// returns the size of the next block, or 0 at the end of the warm-up.
func (w *warmupRule) next(maxima []int64, elapsed int64) int {
	w.calls += len(maxima)
	now := stats.Median(maxima)
	falling := w.last == 0 || now < maxWarmRatio*w.last
	w.last = now
	budget := picoseconds(w.limits.MaxTime) - elapsed
	if budget <= 0 || w.calls >= w.limits.MaxCalls || w.calls >= w.limits.MinCalls && !falling {
		return 0
	}
	cost := float64(elapsed) / float64(w.calls)
	return min(blockSize(w.block, cost, budget, w.limits.MaxCalls-w.calls), 2*len(maxima))
}

// batchFor returns how many calls make a sample long enough for the clock. call is the time of a call;
// both are in picoseconds.
func batchFor(call float64, clockError int64) int {
	return max(1, int(math.Ceil(clockMargin*float64(clockError)/max(call, minCallTime))))
}

// samplingRule decides how many samples are taken.
type samplingRule struct {
	stop   Stop
	block  time.Duration
	exact  bool      // the clock is deterministic
	series []int64   // time of the slowest rank in each iteration so far, in the order they were taken
	sorted []int64   // series in increasing order
	noises []float64 // noise of the median after each of the last settledBlocks blocks

	span        float64 // of the first estimatedAt samples; see [stats.Span]
	estimatedAt int
}

// estimateGrowth is the relative growth of the number of samples between two tests of their precision.
// Each test is another chance to stop too early by luck, and estimating the dependence takes time.
const estimateGrowth = 0.1

// first returns the size of the first block. cost is the time of a sample in the warm-up, in picoseconds.
func (s *samplingRule) first(cost float64) int {
	if s.exact {
		return 1
	}
	return blockSize(s.block, cost, picoseconds(s.stop.MaxTime), s.stop.MaxSamples)
}

// next takes the times of the slowest rank in a block and the time since the start of the sampling. It
// returns the size of the next block, or 0 and the reason to stop.
func (s *samplingRule) next(maxima []int64, elapsed int64) (int, StopReason) {
	s.series = append(s.series, maxima...)
	s.sorted = mergeSorted(s.sorted, maxima)
	n := len(s.sorted)
	spent := time.Duration(elapsed / 1000)
	due := float64(n) >= (1+estimateGrowth)*float64(s.estimatedAt) && s.stop.enough(n, spent)
	if due || s.estimatedAt == 0 {
		s.span = stats.Span(s.series)
		s.estimatedAt = n
	}
	noise := relativeWidth(s.sorted, s.span)
	if !math.IsNaN(noise) {
		s.noises = append(s.noises, noise)
		s.noises = s.noises[max(0, len(s.noises)-settledBlocks):]
	}
	precision := math.NaN()
	if due && noise <= s.stop.RelNoise && s.reliable() && s.oneMode() {
		precision = noise
	}
	reason := s.stop.Reason(n, precision, spent)
	settled := s.stop.enough(n, spent) && len(s.noises) == settledBlocks && relativeDeviation(s.noises) < settledNoise
	switch {
	case s.exact:
		return 0, Exact
	case settled && (reason == "" || reason == MaxTime):
		return 0, Settled
	case reason != "":
		return 0, reason
	}
	return blockSize(s.block, float64(elapsed)/float64(n), picoseconds(s.stop.MaxTime)-elapsed, s.stop.MaxSamples-n), ""
}

// The autocorrelation time of a series is estimated too low unless the series is much longer. As in
// Markov chain Monte Carlo, require longSeries times its length if it is above longSpan samples
// (A. Sokal, Monte Carlo Methods in Statistical Mechanics, 1997; the convergence criterion of emcee).
const (
	longSpan   = 3  // samples
	longSeries = 50 // autocorrelation times
)

// reliable reports whether there are enough samples to trust the estimate of their dependence.
func (s *samplingRule) reliable() bool {
	need := s.stop.MinSamples
	if s.span > longSpan {
		need = max(need, longSeries)
	}
	return stats.Effective(len(s.series), s.span) >= float64(need)
}

// oneMode reports whether it is certain in which mode of the samples the median lies.
func (s *samplingRule) oneMode() bool {
	modes := stats.FindModes(floats(s.series))
	low, high := stats.CoverModes(math.Inf(1), math.Inf(-1), modes, stats.Effective(len(s.series), s.span))
	return low > high
}

// Reason returns the rule that ends the sampling after n samples, or "" if more samples are needed. noise
// is the relative noise of their median. It is NaN if it is unknown or unreliable.
func (s Stop) Reason(n int, noise float64, spent time.Duration) StopReason {
	switch {
	case s.enough(n, spent) && noise <= s.RelNoise:
		return Precise
	case n >= s.MaxSamples:
		return MaxSamples
	case s.MaxTime < NoTimeLimit && spent >= s.MaxTime:
		return MaxTime
	}
	return ""
}

// enough reports whether there are enough samples and time for noise to end the sampling.
func (s Stop) enough(n int, spent time.Duration) bool {
	return s.RelNoise > 0 && n >= s.MinSamples && spent >= s.MinTime
}

// Noise returns half the width of the median's 95 % confidence interval, relative to the median, or
// NaN if there are too few samples. The samples are in the order they were taken.
func Noise(series []float64) float64 {
	if len(series) == 0 {
		return math.NaN()
	}
	s := stats.SummarizeSeries(series)
	return relative(s.CILow, s.CIHigh, s.P50)
}

// relativeWidth is Noise for sorted values whose Span is known.
func relativeWidth(sorted []int64, span float64) float64 {
	low, high, ok := stats.DependentInterval(sorted, span)
	if !ok {
		return math.NaN()
	}
	return relative(low, high, stats.Percentile(sorted, 0.5))
}

// relative returns half the width of an interval relative to the median. Equal ends give 0 even if the
// median is 0.
func relative(low, high, median float64) float64 {
	if low == high {
		return 0
	}
	return (high - low) / 2 / median
}

// relativeDeviation returns the standard deviation relative to the mean.
func relativeDeviation(values []float64) float64 {
	mean, sd := stat.MeanStdDev(values, nil)
	return sd / mean
}

func floats(values []int64) []float64 {
	return lists.Map(values, func(v int64) float64 { return float64(v) })
}

// mergeSorted merges values into a sorted slice.
func mergeSorted(sorted, values []int64) []int64 {
	values = slices.Sorted(slices.Values(values))
	i, j := len(sorted)-1, len(values)-1
	sorted = append(sorted, values...)
	for at := len(sorted) - 1; j >= 0; at-- {
		if i >= 0 && sorted[i] > values[j] {
			sorted[at], i = sorted[i], i-1
		} else {
			sorted[at], j = values[j], j-1
		}
	}
	return sorted
}

// PerIterationMax returns the slowest rank's time of each iteration in microseconds. A collective
// operation is done when its last rank is done.
func PerIterationMax(m Matrix) []float64 {
	return lists.Map(m.maxima(), func(d int64) float64 { return float64(d) / 1e6 })
}

// Analysis describes a matrix of samples. Times are in microseconds.
type Analysis struct {
	// Summary is of the per-iteration maximum over ranks.
	Summary stats.Summary
	// Skew is the median over iterations of (slowest - fastest) / slowest rank.
	Skew float64
	// Straggler is the rank that is most often the slowest, and StragglerShare the share of iterations
	// in which it is. If all ranks are alike, the share is 1/ranks. Of equally slow ranks, the lowest
	// counts.
	Straggler      int
	StragglerShare float64
	// Drift is the relative change of the median from the first half of the samples to the second.
	// Drifts means that the change is significant and larger than minDrift.
	Drift      float64
	Drifts     bool
	Conditions journal.Conditions
}

// minDrift is the smallest relative drift that is reported. With thousands of samples, even 0.1 % is
// statistically significant but not important.
const minDrift = 0.05

// fewEffective is the effective number of samples below which a row gets a warning.
const fewEffective = 20

// Analyze describes the samples. It does not warn about a single sample: either the clock is
// deterministic, or [Run] has already warned.
func Analyze(m Matrix) Analysis {
	values := PerIterationMax(m)
	n := float64(len(values))
	a := Analysis{Summary: stats.SummarizeSeries(values)}
	if len(values) < stats.MinInterval && len(values) != 1 {
		a.note(journal.CodeNoInterval, journal.Named{"samples": n, "needed": stats.MinInterval})
	}
	if m := a.Summary.Modes; m != nil {
		a.Conditions = append(a.Conditions, TwoModes(m, "us"))
	}
	a.Conditions = append(a.Conditions, Dependence(len(values), a.Summary.Effective)...)
	a.Skew, a.Straggler, a.StragglerShare = imbalance(m)
	if a.Drift, a.Drifts = Drift(values); a.Drifts {
		a.note(journal.CodeDrift, journal.Named{"change": a.Drift})
	}
	return a
}

func (a *Analysis) note(code journal.Code, values journal.Named) {
	a.Conditions = append(a.Conditions, journal.NewCondition(code, values))
}

// Drift returns the relative change of the median from the first half of the values to the second, in
// the order they were taken. drifts reports whether the change is significant and larger than 5 %.
func Drift(values []float64) (change float64, drifts bool) {
	change, significant := drift(values)
	return change, significant && math.Abs(change) > minDrift
}

// Dependence returns the condition that n samples contain few independent ones, if that is so.
func Dependence(n int, effective float64) journal.Conditions {
	values := journal.Named{"samples": float64(n), "effective": math.Floor(effective)}
	switch {
	case n < stats.MinInterval:
		return nil
	case effective < stats.MinInterval:
		values["needed"] = stats.MinInterval
	case effective >= fewEffective || effective >= float64(n)/2:
		return nil
	}
	return journal.Conditions{journal.NewCondition(journal.CodeDependence, values)}
}

// TwoModes is the condition that a metric with a unit has two modes.
func TwoModes(m []stats.Mode, unit string) journal.Condition {
	return journal.NewCondition(journal.CodeModes, journal.Named{"first": m[0].Center, "first_share": m[0].Share,
		"second": m[1].Center, "second_share": m[1].Share}, unit)
}

// imbalance returns how unevenly the ranks share the time; see [Analysis].
func imbalance(m Matrix) (skew float64, straggler int, share float64) {
	if m.Iterations() == 0 {
		return 0, 0, 0
	}
	skews := make([]float64, m.Iterations())
	slowest := make([]int, m.Ranks())
	for i := range skews {
		row := m.Row(i)
		longest := slices.Max(row)
		slowest[slices.Index(row, longest)]++
		if longest > 0 {
			skews[i] = float64(longest-slices.Min(row)) / float64(longest)
		}
	}
	count := slices.Max(slowest)
	return stats.Median(skews), slices.Index(slowest, count), float64(count) / float64(len(skews))
}

// drift compares the two halves of the values, in the order they were taken. significant means that the
// confidence intervals of the two medians do not overlap.
func drift(values []float64) (change float64, significant bool) {
	half := len(values) / 2
	if half == 0 {
		return 0, false
	}
	first := slices.Sorted(slices.Values(values[:half]))
	second := slices.Sorted(slices.Values(values[len(values)-half:]))
	before, after := stats.Percentile(first, 0.5), stats.Percentile(second, 0.5)
	if before > 0 {
		change = after/before - 1
	}
	low1, high1, ok := stats.MedianInterval(first)
	low2, high2, _ := stats.MedianInterval(second)
	return change, ok && (high1 < low2 || high2 < low1)
}
