package measure

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// PerIterationMax is the slowest rank's time of each iteration, in
// microseconds: an operation of all ranks is done when the last has done its part.
func PerIterationMax(m Matrix) []float64 {
	return lists.Map(m.maxima(), func(d int64) float64 { return float64(d) / 1e6 })
}

// Analysis is what a matrix of samples shows. Times are in microseconds.
type Analysis struct {
	// Summary is of the per-iteration maximum over ranks.
	Summary stats.Summary
	// Skew is the median over iterations of (slowest - fastest) / slowest rank.
	Skew float64
	// Straggler is the rank that is most often the slowest, StragglerShare its
	// share of the iterations (1/ranks if all are alike). Of equally slow ranks
	// the lowest counts.
	Straggler      int
	StragglerShare float64
	// Drift is by how much the median of the second half differs from that of
	// the first, relative to the first. Drifts: beyond doubt, and by enough to matter.
	Drift  float64
	Drifts bool
	// Warnings are for the reader of the numbers.
	Warnings []string
}

// minDrift keeps the drift warning for changes that matter: with
// thousands of samples the intervals separate a tenth of a percent.
const minDrift = 0.05

// Analyze describes the samples. It does not warn of a single sample: that
// comes of a deterministic clock, or [Run] has warned already.
func Analyze(m Matrix) Analysis {
	values := PerIterationMax(m)
	var a Analysis
	a.Summary, a.Warnings = stats.Summarize(values)
	if len(values) == 1 {
		a.Warnings = nil
	}
	a.Skew, a.Straggler, a.StragglerShare = imbalance(m)
	var sure bool
	a.Drift, sure = drift(values)
	if a.Drifts = sure && math.Abs(a.Drift) > minDrift; a.Drifts {
		a.Warnings = append(a.Warnings,
			fmt.Sprintf("drift: the median of the second half of the samples differs by %+.1f %% from that of the first",
				100*a.Drift))
	}
	return a
}

// imbalance is how unevenly the ranks share the time.
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

// drift compares the halves of the values in the order they were taken. It is
// sure of a change when the intervals of the two medians do not overlap.
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
