package stats

import "math"

// minInterval is the least sample with a 95 % interval of its median: all six
// values lie on one side of it with probability 2/64.
const minInterval = 6

// MedianInterval is the interval between two order statistics, equally far from
// either end, that holds the median of the distribution with at least 95 %
// confidence whatever the distribution is: how many of n values lie below the
// median is binomial(n, 1/2).
func MedianInterval[T int64 | float64](sorted []T) (low, high float64, ok bool) {
	n := len(sorted)
	if n < minInterval {
		return 0, 0, false
	}
	i := intervalIndex(n)
	return float64(sorted[i]), float64(sorted[n-1-i]), true
}

// intervalIndex is the largest i, counted from 0, such that at most i of n fair
// coins show heads with probability 2.5 % or less.
func intervalIndex(n int) int {
	// Twelve standard deviations (of sqrt(n)/2) below the middle nothing is lost by starting.
	first := max(0, n/2-int(6*math.Sqrt(float64(n)))-1)
	i, below := first-1, 0.0
	for k := first; ; k++ {
		if below += fairCoins(n, k); below > 0.025 {
			return max(i, 0)
		}
		i = k
	}
}

// fairCoins is the probability of exactly k heads among n fair coins.
func fairCoins(n, k int) float64 {
	all, _ := math.Lgamma(float64(n + 1))
	heads, _ := math.Lgamma(float64(k + 1))
	tails, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(all - heads - tails - float64(n)*math.Ln2)
}
