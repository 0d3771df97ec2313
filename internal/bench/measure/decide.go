package measure

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/kernbench/kernbench/internal/base/stats"
)

// Everything here is a pure function of what all ranks have exchanged, so every
// rank makes the same decision by itself.

// StopReason says which rule ended the sampling.
type StopReason string

const (
	// Precise: the median is known as well as Stop.RelNoise demands.
	Precise StopReason = "precise"
	// Settled: more samples would not make it known much better.
	Settled StopReason = "settled"
	// MaxSamples and MaxTime: the limits of Stop.
	MaxSamples StopReason = "max-samples"
	MaxTime    StopReason = "max-time"
	// Exact: the clock is deterministic, one sample is all.
	Exact StopReason = "exact"
)

const (
	// blockTime makes the exchange after a block a small part of the whole.
	blockTime = 20 * time.Millisecond
	// maxBlock bounds the memory that samples of a block take.
	maxBlock = 4096

	// The noise has settled, as in NVBench's stdrel criterion, when its own
	// relative deviation over the last settledBlocks is below settledNoise. It
	// shrinks with the root of the number of samples, so this comes after some
	// sixty blocks: a good second.
	settledBlocks = 16
	settledNoise  = 0.05

	// stillFalling: a warm-up goes on while doubling the calls makes them faster
	// than this share of what they took before.
	stillFalling = 0.95

	// A sample must be this many times the error of the clock.
	clockMargin = 100
	// leastCall bounds the batch when a call is too short to be seen.
	leastCall = 1000 // ps
)

// blockSize is how many iterations of the given cost (in picoseconds) fill
// blockTime without passing the budget, at least one and at most limit.
func blockSize(cost float64, budget int64, limit int) int {
	room := float64(min(picoseconds(blockTime), budget))
	if fit := room / max(cost, 1); fit < float64(min(limit, maxBlock)) {
		return max(1, int(fit))
	}
	return max(1, min(limit, maxBlock))
}

// warming decides on the warm-up.
type warming struct {
	limits Warmup
	calls  int
	last   float64 // median time per call in the block before
}

// next takes the per-call maxima of a block and the time since the warm-up
// started. It returns the size of the next block, 0 at the end of the warm-up.
func (w *warming) next(maxima []int64, elapsed int64) int {
	w.calls += len(maxima)
	now := stats.Median(maxima)
	falling := w.last == 0 || now < stillFalling*w.last
	w.last = now
	budget := picoseconds(w.limits.MaxTime) - elapsed
	if budget <= 0 || w.calls >= w.limits.MaxCalls || w.calls >= w.limits.MinCalls && !falling {
		return 0
	}
	cost := float64(elapsed) / float64(w.calls)
	return min(blockSize(cost, budget, w.limits.MaxCalls-w.calls), 2*len(maxima))
}

// batchFor is how many calls of the given time make a sample long enough for a
// clock of the given overhead or resolution, whichever is more.
func batchFor(call float64, clockError int64) int {
	return max(1, int(math.Ceil(clockMargin*float64(clockError)/max(call, leastCall))))
}

// sampling decides on the samples.
type sampling struct {
	stop   Stop
	exact  bool      // the clock is deterministic
	sorted []int64   // all per-iteration maxima so far
	noises []float64 // of the median, after each of the last blocks
}

// first is the size of the first block of samples that took cost picoseconds
// in the warm-up.
func (s *sampling) first(cost float64) int {
	if s.exact {
		return 1
	}
	return blockSize(cost, picoseconds(s.stop.MaxTime), s.stop.MaxSamples)
}

// next takes the per-iteration maxima of a block and the time since the
// sampling started. It returns the size of the next block, or 0 and a reason.
func (s *sampling) next(maxima []int64, elapsed int64) (int, StopReason) {
	s.sorted = merge(s.sorted, maxima)
	noise := Noise(s.sorted)
	if !math.IsNaN(noise) {
		s.noises = append(s.noises, noise)
		s.noises = s.noises[max(0, len(s.noises)-settledBlocks):]
	}
	n := len(s.sorted)
	spent := time.Duration(elapsed / 1000)
	reason := s.stop.Met(n, noise, spent)
	settled := s.stop.enough(n, spent) && len(s.noises) == settledBlocks && deviation(s.noises) < settledNoise
	switch {
	case s.exact:
		return 0, Exact
	case settled && (reason == "" || reason == MaxTime):
		return 0, Settled
	case reason != "":
		return 0, reason
	}
	return blockSize(float64(elapsed)/float64(n), picoseconds(s.stop.MaxTime)-elapsed, s.stop.MaxSamples-n), ""
}

// Met tells which bound ends the sampling after n samples, "" for none yet. The noise is that of
// their median, not a number when it is not known.
func (s Stop) Met(n int, noise float64, spent time.Duration) StopReason {
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

// enough tells whether noise may end the sampling.
func (s Stop) enough(n int, spent time.Duration) bool {
	return s.RelNoise > 0 && n >= s.MinSamples && spent >= s.MinTime
}

// Noise is half the width of the median's 95 % interval over the median; not a number where
// there are too few samples for one.
func Noise[T int64 | float64](sorted []T) float64 {
	low, high, ok := stats.MedianInterval(sorted)
	switch {
	case !ok:
		return math.NaN()
	case low == high:
		return 0 // also when the median is 0
	}
	return (high - low) / 2 / stats.Percentile(sorted, 0.5)
}

// deviation is the standard deviation over the mean.
func deviation(values []float64) float64 {
	mean, sd := stat.MeanStdDev(values, nil)
	return sd / mean
}

// merge adds values to a sorted slice.
func merge(sorted, values []int64) []int64 {
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
