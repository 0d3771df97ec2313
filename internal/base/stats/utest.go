package stats

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// The U test of golang.org/x/perf/benchmath agrees with ours where there are no ties (see the
// test), but it doubles one tail. With ties and unequal sizes that is not the two-sided p
// value and can exceed 1. It also has no interval of the shift.

// maxExact is the largest number of values for which the tests count all arrangements. Beyond
// it the normal approximation is accurate to three digits.
const maxExact = 40

// UTest returns the two-sided p value of the Mann-Whitney U test: the share of all splits of the
// values whose rank sum is at least as far from the mean as this one. Ties get their mean rank.
func UTest(x, y []float64) float64 {
	ranks := doubledRanks(slices.Concat(x, y))
	n, total := len(x), len(ranks)
	sum := lists.Sum(ranks[:n])
	// Ranks are doubled to be whole numbers. Their mean is total+1.
	mean := n * (total + 1)
	far := max(sum-mean, mean-sum)
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

// KruskalWallis returns the probability that groups of the same distribution differ as much as these, by the
// Kruskal-Wallis test with the chi-squared approximation, which is conservative for groups of few values. It is 1 if
// all values are equal.
func KruskalWallis(groups [][]float64) float64 {
	ranks := doubledRanks(slices.Concat(groups...))
	n, between, all := float64(len(ranks)), 0.0, 0.0 // sums of squares of doubled ranks around their mean, n+1
	for _, r := range ranks {
		d := float64(r) - n - 1
		all += d * d
	}
	for _, g := range groups {
		away := float64(lists.Sum(ranks[:len(g)])) - float64(len(g))*(n+1)
		between += away * away / float64(len(g))
		ranks = ranks[len(g):]
	}
	if all == 0 {
		return 1
	}
	return distuv.ChiSquared{K: float64(len(groups) - 1)}.Survival((n - 1) * between / all)
}

// doubledRanks returns twice the mean rank of each value.
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

// latestCounts is the latest result of sumCounts. Most points of a report have the same numbers of trials, and no ties.
var latestCounts struct {
	sync.Mutex
	ranks  []int
	n      int
	counts []float64
}

// sumCounts returns, for each s, the number of ways to choose n of the ranks with sum s. The caller must not change the
// result.
func sumCounts(ranks []int, n int) []float64 {
	ranks = slices.Sorted(slices.Values(ranks))
	c := &latestCounts
	c.Lock()
	defer c.Unlock()
	if c.n != n || !slices.Equal(c.ranks, ranks) {
		c.ranks, c.n, c.counts = ranks, n, countSums(ranks, n)
	}
	return c.counts
}

// countSums is sumCounts for sorted ranks.
func countSums(ranks []int, n int) []float64 {
	sums := make([]int, len(ranks)+1) // sums[i]: of the i smallest ranks
	for i, r := range ranks {
		sums[i+1] = sums[i] + r
	}
	counts := make([][]float64, n+1)
	for k := range counts {
		counts[k] = make([]float64, sums[len(ranks)]+1)
	}
	counts[0][0] = 1
	for i, r := range ranks {
		for k := min(i+1, n); k > max(0, n-len(ranks)+i); k-- { // with fewer than this the remaining ranks cannot complete n
			low, high := sums[k-1], sums[i]-sums[i+1-k] // sums of the other k-1
			with := counts[k][low+r:]
			for s, c := range counts[k-1][low : high+1] {
				with[s] += c
			}
		}
	}
	return counts[n]
}

// normalU returns the p value of the normal approximation, with corrections for ties and
// continuity. It is 1 if all values are equal.
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

// LeastP returns the smallest p value that UTest can return for n and m values.
func LeastP(n, m int) float64 {
	ways := 1.0 // binomial(n+m, n)
	for i := 1; i <= n; i++ {
		ways *= float64(m+i) / float64(i)
	}
	return 2 / ways
}

// Shift returns the Hodges-Lehmann estimate of y - x and the 95 % interval from inverting the U
// test. LeastP(len(x), len(y)) must be below 0.05: there is no interval for fewer values.
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

// uQuantile returns the largest k with P(U < k) <= tail under the null hypothesis. Beyond maxExact values the result is
// an approximation, which may be too small. It is at least 1, so P(U < 1) must be at most tail.
func uQuantile(n, m int, tail float64) int {
	if n+m > maxExact {
		mean, sd := float64(n*m)/2, math.Sqrt(float64(n*m*(n+m+1))/12)
		return max(1, int(math.Floor(mean+distuv.UnitNormal.Quantile(tail)*sd)))
	}
	ranks := lists.Map(lists.Range[int](n+m), func(i int) int { return 2 * (i + 1) }) // doubled, as those of UTest
	counts := sumCounts(ranks, n)
	all, below := lists.Sum(counts), 0.0
	minSum := n * (n + 1) // the sum at U = 0
	for k := 0; ; k++ {
		below += counts[minSum+2*k]
		if below/all > tail {
			return k
		}
	}
}

// Holm corrects p values for multiple comparisons by the Holm-Bonferroni method: the smallest is
// multiplied by their number, the next by one less, and so on; the results are made
// monotonic.
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
