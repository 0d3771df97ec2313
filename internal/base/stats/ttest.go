package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Welch returns the two-sided p value of Welch's t test, or the p value of the same difference
// under the known standard deviation usual, whichever is larger. Few values may agree by
// chance, in particular if launches are either fast or slow; usual guards against that.
func Welch(x, y []float64, usual float64) float64 {
	mx, vx := stat.MeanVariance(x, nil)
	my, vy := stat.MeanVariance(y, nil)
	n, m := float64(len(x)), float64(len(y))
	vx, vy = vx/n, vy/m
	// Degrees of freedom by the Welch-Satterthwaite equation.
	dof := (vx + vy) * (vx + vy) / (vx*vx/(n-1) + vy*vy/(m-1))
	own := tailOf(my-mx, math.Sqrt(vx+vy), distuv.StudentsT{Sigma: 1, Nu: dof})
	return max(own, tailOf(my-mx, usual*math.Sqrt(1/n+1/m), distuv.UnitNormal))
}

// tailOf returns the two-sided p value of a value with mean 0 and standard deviation sd.
func tailOf(value, sd float64, of interface{ Survival(float64) float64 }) float64 {
	switch {
	case sd > 0:
		return min(1, 2*of.Survival(math.Abs(value)/sd))
	case value == 0:
		return 1
	}
	return 0
}

// PairedShift returns the Hodges-Lehmann estimate of the centre of paired differences, which is
// the median of all pairwise means, and the 95 % interval from inverting the signed-rank test. It
// assumes that the distribution of the differences is symmetric, as it is when both sides
// have the same noise. With fewer than six differences there is no interval and ok is false.
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
	if len(d) < MinInterval {
		return mid, 0, 0, false
	}
	k := signedRankQuantile(len(d), 0.025)
	return mid, walsh[k-1], walsh[len(walsh)-k], true
}

// signedRankQuantile returns the largest k with P(W < k) <= tail under the null hypothesis: W is
// the sum of a random subset of the ranks 1 to n, each taken with probability 1/2.
func signedRankQuantile(n int, tail float64) int {
	if n > maxExact {
		mean, sd := float64(n*(n+1))/4, math.Sqrt(float64(n*(n+1)*(2*n+1))/24)
		return int(math.Floor(mean + distuv.UnitNormal.Quantile(tail)*sd))
	}
	share := make([]float64, n*(n+1)/2+1) // of the 2^n subsets, by their sum
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

// PairedP returns the two-sided p value of paired differences: their Hodges-Lehmann centre divided by its
// standard error. The standard deviation of a difference is estimated from them, and is at
// least usual, because few differences may agree by chance. usual comes from many launches;
// dof is its degrees of freedom.
func PairedP(d []float64, usual, dof float64) float64 {
	mid, _, _, _ := PairedShift(d)
	away := lists.Map(d, func(x float64) float64 { return math.Abs(x - mid) })
	const normal = 1.4826 // ratio of standard deviation to median absolute deviation, for a normal distribution
	sd := max(usual, normal*Median(away))
	// The efficiency of the Hodges-Lehmann estimate is 3/pi relative to the mean, for normal values.
	return tailOf(mid, sd*math.Sqrt(math.Pi/3/float64(len(d))), distuv.StudentsT{Sigma: 1, Nu: dof})
}
