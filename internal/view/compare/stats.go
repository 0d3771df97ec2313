package compare

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// maxExact is the number of values up to which the U test counts every
// arrangement; beyond it the normal approximation is good to three digits.
const maxExact = 40

// median of values in any order, which is kept.
func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	m := len(s) / 2
	if len(s)%2 == 1 {
		return s[m]
	}
	return (s[m-1] + s[m]) / 2
}

// uTest is the two-sided p of the Mann-Whitney U test: how often a random
// split of all the values has a rank sum as far from its mean as this one. Ties
// share their rank and are counted as such.
func uTest(x, y []float64) float64 {
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
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(i, j int) bool { return v[order[i]] < v[order[j]] })
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
	top := 0
	for _, r := range ranks {
		top += r
	}
	counts := make([][]float64, n+1)
	for k := range counts {
		counts[k] = make([]float64, top+1)
	}
	counts[0][0] = 1
	reach := 0 // the largest sum so far
	for i, r := range ranks {
		reach += r
		for k := min(i+1, n); k > 0; k-- {
			for s := reach; s >= r; s-- {
				counts[k][s] += counts[k-1][s-r]
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

// normal975 is the half-width of a 95 % interval in standard deviations.
const normal975 = 1.959964

// smallestP is the least p that uTest can give for so many values.
func smallestP(n, m int) float64 {
	ways := 1.0 // n+m over n
	for i := 1; i <= n; i++ {
		ways *= float64(m+i) / float64(i)
	}
	return 2 / ways
}

// shift is the Hodges-Lehmann estimate of y - x with the 95 % interval of the
// inverted U test. It needs MinTrials values on both sides: fewer have no such
// interval.
func shift(x, y []float64) (mid, low, high float64) {
	diffs := make([]float64, 0, len(x)*len(y))
	for _, a := range x {
		for _, b := range y {
			diffs = append(diffs, b-a)
		}
	}
	slices.Sort(diffs)
	k := uQuantile(len(x), len(y), 0.025)
	return median(diffs), diffs[k-1], diffs[len(diffs)-k]
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

// welch is the two-sided p of Welch's t test.
func welch(x, y []float64) float64 {
	mx, vx := stat.MeanVariance(x, nil)
	my, vy := stat.MeanVariance(y, nil)
	n, m := float64(len(x)), float64(len(y))
	return combined(spread{math.Sqrt(vx / n), n - 1}, spread{math.Sqrt(vy / m), m - 1}).p(my - mx)
}

// holm corrects p values for being many: the smallest is multiplied by their
// number, the next by one less, and none may fall below one before it.
func holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(i, j int) bool { return p[order[i]] < p[order[j]] })
	out := make([]float64, len(p))
	floor := 0.0
	for rank, i := range order {
		floor = max(floor, min(1, p[i]*float64(len(p)-rank)))
		out[i] = floor
	}
	return out
}

// spread is an estimated standard deviation and how many degrees of freedom it
// rests on.
type spread struct {
	sd  float64
	dof float64
}

// certain is the degrees of freedom of a spread that is given, not estimated.
const certain = 1e6

// combined is the spread of a sum, with the degrees of freedom after Welch and
// Satterthwaite.
func combined(parts ...spread) spread {
	v, w := 0.0, 0.0
	for _, p := range parts {
		v += p.sd * p.sd
		w += math.Pow(p.sd, 4) / p.dof
	}
	if w == 0 {
		return spread{math.Sqrt(v), certain}
	}
	return spread{math.Sqrt(v), v * v / w}
}

// scaled is the spread of a multiple.
func (s spread) scaled(by float64) spread { return spread{s.sd * by, s.dof} }

// halfWidth is half the 95 % interval.
func (s spread) halfWidth() float64 {
	return s.sd * distuv.StudentsT{Sigma: 1, Nu: s.dof}.Quantile(0.975)
}

// p is the two-sided p of a value that far from 0.
func (s spread) p(value float64) float64 {
	if s.sd == 0 {
		if value == 0 {
			return 1
		}
		return 0
	}
	return min(1, 2*distuv.StudentsT{Sigma: 1, Nu: s.dof}.Survival(math.Abs(value)/s.sd))
}

// The number of blocks is the square root of the number of samples, so that
// blocks grow longer and more numerous together; fewer than minBlocks say
// nothing, and more than maxBlocks are better spent on length.
const (
	minBlocks = 5
	maxBlocks = 20
)

// blockSpread is the uncertainty of the median of values that follow each
// other in time, from how the medians of consecutive blocks differ. Blocks that
// are short beside the memory of the values still resemble their neighbours;
// how much of the variation they miss is known for a first-order process with
// the correlation seen from one value to the next.
func blockSpread(v []float64) (spread, bool) {
	blocks := min(maxBlocks, int(math.Sqrt(float64(len(v)))))
	if blocks < minBlocks {
		return spread{}, false
	}
	medians := make([]float64, blocks)
	for i := range medians {
		medians[i] = median(v[i*len(v)/blocks : (i+1)*len(v)/blocks])
	}
	sd := stat.StdDev(medians, nil) / math.Sqrt(float64(blocks))
	return spread{sd / math.Sqrt(seenByBlocks(successive(v), float64(len(v)/blocks))), float64(blocks - 1)}, true
}

// successive is how strongly each value may be correlated with the next: the
// upper end of the 95 % interval, since too low a guess would give false
// confidence. Negative correlation is taken for none.
func successive(v []float64) float64 {
	r := stat.Correlation(v[1:], v[:len(v)-1], nil)
	if math.IsNaN(r) { // all values are equal
		return 0
	}
	return min(0.99, max(0, r+normal975*math.Sqrt((1-r*r)/float64(len(v)))))
}

// seenByBlocks is the share of the variance of a long mean that the means of
// blocks of the length show, if each value has correlation r with the next. At
// least a tenth: values that hardly move from one to the next tell no more.
func seenByBlocks(r, length float64) float64 {
	if r == 0 {
		return 1
	}
	return max(0.1, 1-2*r*(1-math.Pow(r, length))/(length*(1-r*r)))
}
