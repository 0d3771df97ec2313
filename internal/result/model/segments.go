package model

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// minNoise is the relative error that times of one line have at least: launches of
// the same call differ by as much, whatever the interval within a launch says.
const minNoise = 0.02

// seriesNoise is the relative error to expect of a series: the median of what its samples'
// intervals say.
func seriesNoise(samples []Sample) float64 {
	return max(minNoise, stats.Median(lists.Map(samples, func(s Sample) float64 { return s.noise() })))
}

// segments cuts sizes where one line ends and another begins. Of all ways to cut them
// into parts of at least leastSizes it takes that with the least Bayesian information
// criterion,
//
//	BIC = 2 sum |error| / (noise t)  +  p ln n
//
// the first term being the likelihood of errors that are distributed as Laplace's with a
// known scale, for which least absolute deviations are the best estimate; p = 3 k - 1
// parameters of k lines, two for each line and one for each cut; n sizes.
func segments(ds []fitPoint, noise float64) (out [][]fitPoint) {
	few := spread(ds, maxCutSizes)
	perLine := 3 * math.Log(float64(len(few)))
	worth := noise / 2 // of a unit of the criterion, in deviations
	_, _, whole := leastDeviations(few, math.Inf(1))
	if whole <= perLine*worth { // no cut can win more than that
		return [][]fitPoint{ds}
	}
	// best[j] is the least criterion of the first j sizes, and from[j] where its last
	// segment begins.
	n := len(few)
	best, from := make([]float64, n+1), make([]int, n+1)
	for j := 1; j <= n; j++ {
		best[j] = math.Inf(1)
		for i := 0; i <= j-minSegmentSizes; i++ {
			bound := (best[j] - best[i] - perLine) * worth
			if math.IsInf(best[i], 1) || bound <= 0 {
				continue
			}
			if _, _, sum := leastDeviations(few[i:j], bound); sum < bound {
				best[j], from[j] = best[i]+perLine+sum/worth, i
			}
		}
	}
	last := len(ds)
	for j := n; j > 0; j = from[j] {
		first := slices.Index(ds, few[from[j]])
		out = append([][]fitPoint{ds[first:last]}, out...)
		last = first
	}
	return out
}

// maxCutSizes bounds the sizes among which segments are looked for: of very many, evenly
// spread ones serve.
const maxCutSizes = 48
