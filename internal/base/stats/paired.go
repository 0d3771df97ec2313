package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// PairedShift is the Hodges-Lehmann estimate of the middle of paired differences,
// the median of all their pairwise means, with the 95 % interval of the inverted
// signed-rank test. It holds for differences of any symmetric distribution, which
// those of two samples with the same noise are. Fewer than six differences have no
// such interval: ok is false.
func PairedShift(d []float64) (mid, low, high float64, ok bool) {
	walsh := make([]float64, 0, len(d)*(len(d)+1)/2)
	for i, a := range d {
		for _, b := range d[i:] {
			walsh = append(walsh, (a+b)/2)
		}
	}
	if len(walsh) == 0 {
		return math.NaN(), 0, 0, false
	}
	slices.Sort(walsh)
	mid = Median(walsh)
	if len(d) < minInterval {
		return mid, 0, 0, false
	}
	k := signedRankQuantile(len(d), 0.025)
	return mid, walsh[k-1], walsh[len(walsh)-k], true
}

// signedRankQuantile is the largest k with P(W < k) <= tail, if there is no
// difference: W is the sum of those of the ranks 1 to n whose coin shows heads.
func signedRankQuantile(n int, tail float64) int {
	if n > maxExact {
		mean, sd := float64(n*(n+1))/4, math.Sqrt(float64(n*(n+1)*(2*n+1))/24)
		return max(1, int(math.Floor(mean+distuv.UnitNormal.Quantile(tail)*sd)))
	}
	share := make([]float64, n*(n+1)/2+1) // of the 2^n throws that give a sum
	share[0] = 1
	for rank := 1; rank <= n; rank++ {
		for s := len(share) - 1; s >= 0; s-- {
			share[s] /= 2
			if s >= rank {
				share[s] += share[s-rank] / 2
			}
		}
	}
	below := 0.0
	for k := 0; ; k++ {
		if below += share[k]; below > tail {
			return k
		}
	}
}

// PairedP is the two-sided p of paired differences: their Hodges-Lehmann middle
// over its standard error, where a difference has the standard deviation usual, or
// its own where that is more. Few differences may agree by chance; how much
// launches differ is better known from many, here with so many degrees of freedom.
func PairedP(d []float64, usual, dof float64) float64 {
	mid, _, _, _ := PairedShift(d)
	away := lists.Map(d, func(x float64) float64 { return math.Abs(x - mid) })
	const normal = 1.4826 // the standard deviation of a normal distribution over its median deviation
	sd := max(usual, normal*Median(away))
	// The Hodges-Lehmann middle has 3/pi of the mean's efficiency on normal values.
	return tailOf(mid, sd*math.Sqrt(math.Pi/3/float64(len(d))), distuv.StudentsT{Sigma: 1, Nu: dof})
}
