package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// The U test is not taken from x/perf's benchmath, which agrees where there are no
// ties (see the test): it doubles one tail, which with ties in groups of unequal size
// is not the two-sided p and can exceed 1, and it has no interval of the shift.

// maxExact is the number of values up to which the U test counts every
// arrangement; beyond it the normal approximation is good to three digits.
const maxExact = 40

// UTest is the two-sided p of the Mann-Whitney U test: how often a random
// split of all the values has a rank sum as far from its mean as this one. Ties
// share their rank and are counted as such.
func UTest(x, y []float64) float64 {
	ranks := doubledRanks(slices.Concat(x, y))
	n, total := len(x), len(ranks)
	sum := 0
	for _, r := range ranks[:n] {
		sum += r
	}
	// Doubled ranks are whole numbers; each is total+1 on average.
	mean := n * (total + 1)
	far := sum - mean
	if far < 0 {
		far = -far
	}
	if total > maxExact {
		return normalU(ranks, n, float64(far))
	}
	counts := sumCounts(ranks, n)
	extreme, all := 0.0, 0.0
	for s, c := range counts {
		all += c
		if s-mean >= far || mean-s >= far {
			extreme += c
		}
	}
	return extreme / all
}

// doubledRanks are twice the mid-ranks of the values, in their order.
func doubledRanks(v []float64) []int {
	order := lists.Range[int](len(v))
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	ranks := make([]int, len(v))
	for i := 0; i < len(v); {
		j := i
		for j < len(v) && v[order[j]] == v[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = i + 1 + j
		}
		i = j
	}
	return ranks
}

// sumCounts[s] is the number of ways to choose n of the ranks with sum s.
func sumCounts(ranks []int, n int) []float64 {
	ranks = slices.Sorted(slices.Values(ranks))
	sums := make([]int, len(ranks)+1) // of the smallest
	for i, r := range ranks {
		sums[i+1] = sums[i] + r
	}
	counts := make([][]float64, n+1)
	for k := range counts {
		counts[k] = make([]float64, sums[len(ranks)]+1)
	}
	counts[0][0] = 1
	for i, r := range ranks {
		for k := min(i+1, n); k > max(0, n-len(ranks)+i); k-- { // from fewer, those that are left do not make n
			least, most := sums[k-1], sums[i]-sums[i+1-k] // of the other k-1
			with := counts[k][least+r:]
			for s, c := range counts[k-1][least : most+1] {
				with[s] += c
			}
		}
	}
	return counts[n]
}

// normalU is the large-sample p, with the correction for ties and for
// continuity. A spread of 0 means that all values are equal.
func normalU(ranks []int, n int, far float64) float64 {
	total := len(ranks)
	sq := 0.0
	for _, r := range ranks {
		d := float64(r - (total + 1))
		sq += d * d
	}
	variance := sq * float64(n) * float64(total-n) / float64(total) / float64(total-1)
	if variance == 0 {
		return 1
	}
	z := max(0, far-1) / math.Sqrt(variance)
	return min(1, 2*distuv.UnitNormal.Survival(z))
}

// LeastP is the least p that UTest can give for so many values.
func LeastP(n, m int) float64 {
	ways := 1.0 // n+m over n
	for i := 1; i <= n; i++ {
		ways *= float64(m+i) / float64(i)
	}
	return 2 / ways
}

// Shift is the Hodges-Lehmann estimate of y - x with the 95 % interval of the
// inverted U test. Both sides need so many values that LeastP is below 0.05:
// fewer have no such interval.
func Shift(x, y []float64) (mid, low, high float64) {
	diffs := make([]float64, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			diffs = append(diffs, b-a)
		}
	}
	slices.Sort(diffs)
	k := uQuantile(len(x), len(y), 0.025)
	return Median(diffs), diffs[k-1], diffs[len(diffs)-k]
}

// uQuantile is the largest k with P(U < k) <= tail, if there is no difference.
func uQuantile(n, m int, tail float64) int {
	if n+m > maxExact {
		mean, sd := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		return max(0, int(math.Floor(mean+distuv.UnitNormal.Quantile(tail)*sd)))
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i + 1
	}
	counts := sumCounts(ranks, n)
	all := 0.0
	for _, c := range counts {
		all += c
	}
	below := 0.0
	least := n * (n + 1) / 2 // the rank sum at U = 0
	for k := 0; ; k++ {
		below += counts[least+k]
		if below/all > tail {
			return k
		}
	}
}

// Holm corrects p values for being many: the smallest is multiplied by their
// number, the next by one less, and none may fall below one before it.
func Holm(p []float64) []float64 {
	order := lists.Range[int](len(p))
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	out := make([]float64, len(p))
	floor := 0.0
	for rank, i := range order {
		floor = max(floor, min(1, p[i]*float64(len(p)-rank)))
		out[i] = floor
	}
	return out
}
