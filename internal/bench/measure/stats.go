package measure

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// All rules below are pure functions of data that the ranks have exchanged, so every rank makes the
// same decision by itself.

// StopReason says which rule ended the sampling.
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
	// blockTime is long enough that the exchange after a block takes a small part of the time.
	blockTime = 20 * time.Millisecond
	// deviceBlockTime is the same for a clock of a device. A GPU that draws much power lowers its clock while
	// it works, and raises it again while it waits for the next block.
	deviceBlockTime = 100 * time.Millisecond
	// maxBlock limits the memory for the samples of a block.
	maxBlock = 4096

	// The noise has settled, as in NVBench's stdrel criterion, when its own relative deviation over
	// the last settledBlocks blocks is below settledNoise. Noise shrinks with the square root of the
	// number of samples, so this happens after some sixty blocks, a good second.
	settledBlocks = 16
	settledNoise  = 0.05

	// The warm-up continues while the time per call falls below this share of its value in the
	// previous block, which was half as long.
	minSpeedup = 0.95

	// clockMargin is the minimum length of a sample in units of the clock's error.
	clockMargin = 100
	// minCallTime limits the batch if a call is too short to be seen.
	minCallTime = 1000 // picoseconds
)

// blockSize returns how many iterations of the given cost (in picoseconds) fill a block without
// exceeding the budget, at least 1 and at most limit.
func blockSize(block time.Duration, cost float64, budget int64, limit int) int {
	room := float64(min(picoseconds(block), budget))
	if fit := room / max(cost, 1); fit < float64(min(limit, maxBlock)) {
		return max(1, int(fit))
	}
	return max(1, min(limit, maxBlock))
}

// warmupRule decides how long the warm-up goes on.
type warmupRule struct {
	limits Warmup
	block  time.Duration
	calls  int
	last   float64 // median time per call in the previous block
}

// next takes the per-call maxima of a block and the time since the warm-up started. It returns the
// size of the next block, or 0 at the end of the warm-up.
func (w *warmupRule) next(maxima []int64, elapsed int64) int {
	w.calls += len(maxima)
	now := stats.Median(maxima)
	falling := w.last == 0 || now < minSpeedup*w.last
	w.last = now
	budget := picoseconds(w.limits.MaxTime) - elapsed
	if budget <= 0 || w.calls >= w.limits.MaxCalls || w.calls >= w.limits.MinCalls && !falling {
		return 0
	}
	cost := float64(elapsed) / float64(w.calls)
	return min(blockSize(w.block, cost, budget, w.limits.MaxCalls-w.calls), 2*len(maxima))
}

// batchFor returns how many calls of the given time make a sample long enough for a clock with the
// given error.
func batchFor(call float64, clockError int64) int {
	return max(1, int(math.Ceil(clockMargin*float64(clockError)/max(call, minCallTime))))
}

// samplingRule decides how many samples are taken.
type samplingRule struct {
	stop   Stop
	block  time.Duration
	exact  bool      // the clock is deterministic
	series []int64   // all per-iteration maxima so far, in the order they were taken
	sorted []int64   // the same in increasing order
	noises []float64 // noise of the median after each of the last blocks

	// dependence of the first lookedAt samples, which is estimated at every look.
	dependence, cautious stats.Dependence
	lookedAt             int
}

// lookEvery is the relative growth of the samples between two looks at their precision. Each
// look is another chance to stop by luck, and costs time.
const lookEvery = 0.1

// first returns the size of the first block, for samples that took cost picoseconds in the warm-up.
func (s *samplingRule) first(cost float64) int {
	if s.exact {
		return 1
	}
	return blockSize(s.block, cost, picoseconds(s.stop.MaxTime), s.stop.MaxSamples)
}

// next takes the per-iteration maxima of a block and the time since the sampling started. It
// returns the size of the next block, or 0 and the reason.
func (s *samplingRule) next(maxima []int64, elapsed int64) (int, StopReason) {
	s.series = append(s.series, maxima...)
	s.sorted = mergeSorted(s.sorted, maxima)
	n := len(s.sorted)
	spent := time.Duration(elapsed / 1000)
	look := float64(n) >= (1+lookEvery)*float64(s.lookedAt) && s.stop.enough(n, spent)
	if look || s.lookedAt == 0 {
		s.dependence, s.cautious = stats.SeriesDependence(s.series), stats.CautiousDependence(s.series)
		s.lookedAt = n
	}
	noise := relativeWidth(s.sorted, s.dependence)
	if !math.IsNaN(noise) {
		s.noises = append(s.noises, noise)
		s.noises = s.noises[max(0, len(s.noises)-settledBlocks):]
	}
	precision := math.NaN()
	if look && noise <= s.stop.RelNoise && s.reliable() && s.oneMode() {
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

// A long autocorrelation time is estimated reliably from a series that is longSeries times as long:
// the rule of Markov chain Monte Carlo (A. Sokal, Monte Carlo Methods in Statistical Mechanics, 1997,
// and the convergence criterion of emcee). Shorter series show too little of it.
const (
	longSpan   = 3
	longSeries = 50
)

// reliable reports whether there are enough samples to trust their estimated dependence.
func (s *samplingRule) reliable() bool {
	need := s.stop.MinSamples
	if s.cautious.Span > longSpan {
		need = max(need, longSeries)
	}
	return s.cautious.Effective(len(s.series)) >= float64(need)
}

// oneMode reports whether the median lies in one mode of the samples beyond doubt.
func (s *samplingRule) oneMode() bool {
	modes := stats.FindModes(floats(s.series))
	low, high := stats.CoverModes(math.Inf(1), math.Inf(-1), modes, s.dependence.Effective(len(s.series)))
	return low > high
}

// Reason returns which rule ends the sampling after n samples, or "" for none yet. noise is the
// relative noise of their median, NaN if it is unknown or not to be relied upon.
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

// enough reports whether noise may end the sampling.
func (s Stop) enough(n int, spent time.Duration) bool {
	return s.RelNoise > 0 && n >= s.MinSamples && spent >= s.MinTime
}

// Noise returns half the width of the median's 95 % confidence interval, relative to the median, or
// NaN if there are too few samples. The samples are in the order they were taken.
func Noise(series []float64) float64 {
	if len(series) == 0 {
		return math.NaN()
	}
	s, _ := stats.SummarizeSeries(series)
	return relative(s.CILow, s.CIHigh, s.P50)
}

func relativeWidth(sorted []int64, d stats.Dependence) float64 {
	low, high, ok := stats.DependentInterval(sorted, d)
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
	// Straggler is the rank that is most often the slowest, and StragglerShare its share of the
	// iterations, 1/ranks if all ranks are equal. Of equally slow ranks the lowest counts.
	Straggler      int
	StragglerShare float64
	// Drift is the relative difference of the median of the second half from the median of the first.
	// Drifts means that it is significant and larger than minDrift.
	Drift  float64
	Drifts bool
	// Warnings are for the reader of the numbers.
	Warnings []string
}

// minDrift suppresses the warning for unimportant drift: with thousands of samples, a tenth of a
// percent is statistically significant.
const minDrift = 0.05

// fewEffective is the effective number of samples below which the reader is warned.
const fewEffective = 20

// Analyze describes the samples. It does not warn about a single sample: either the clock is
// deterministic, or [Run] has already warned.
func Analyze(m Matrix) Analysis {
	values := PerIterationMax(m)
	var a Analysis
	a.Summary, a.Warnings = stats.SummarizeSeries(values)
	if len(values) == 1 {
		a.Warnings = nil
	}
	if m := a.Summary.Modes; m != nil {
		a.Warnings = append(a.Warnings, ModesWarning(m, unit.FormatMicros))
	}
	if e := a.Summary.Effective; e < fewEffective && e < float64(len(values))/2 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("dependence: successive samples are correlated, so %d of them count "+
			"as %.0f independent ones", len(values), e))
	}
	a.Skew, a.Straggler, a.StragglerShare = imbalance(m)
	if a.Drift, a.Drifts = Drift(values); a.Drifts {
		a.Warnings = append(a.Warnings, DriftWarning(a.Drift))
	}
	return a
}

// Drift returns the relative difference of the median of the second half of the values, in the order
// they were taken, from the median of the first, and whether it is significant and large enough to matter.
func Drift(values []float64) (change float64, drifts bool) {
	change, sure := drift(values)
	return change, sure && math.Abs(change) > minDrift
}

// DriftWarning describes a drift.
func DriftWarning(change float64) string {
	return fmt.Sprintf("drift: from the first to the second half of the samples, the median changed by %+.1f %%",
		100*change)
}

// ModesWarning describes two modes of a metric, whose values format writes with their unit.
func ModesWarning(m []stats.Mode, format func(float64) string) string {
	return fmt.Sprintf("two modes: %s (%.0f %% of the samples) and %s (%.0f %%)", format(m[0].Center), 100*m[0].Share,
		format(m[1].Center), 100*m[1].Share)
}

// imbalance describes how unevenly the ranks share the time.
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
	return stats.Median(skews), slices.Index(slowest, count), float64(count) / float64(len(skews))
}

// drift compares the two halves of the values in the order they were taken. sure means that the
// confidence intervals of the two medians do not overlap.
func drift(values []float64) (change float64, sure bool) {
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
