package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Welch is the two-sided p of Welch's t test, but not below that of the same
// change if launches differed by the standard deviation usual: a few launches may
// agree by chance, most often where a launch is either fast or slow.
func Welch(x, y []float64, usual float64) float64 {
	mx, vx := stat.MeanVariance(x, nil)
	my, vy := stat.MeanVariance(y, nil)
	n, m := float64(len(x)), float64(len(y))
	vx, vy = vx/n, vy/m
	// The degrees of freedom after Welch and Satterthwaite.
	dof := (vx + vy) * (vx + vy) / (vx*vx/(n-1) + vy*vy/(m-1))
	own := tailOf(my-mx, math.Sqrt(vx+vy), distuv.StudentsT{Sigma: 1, Nu: dof})
	return max(own, tailOf(my-mx, usual*math.Sqrt(1/n+1/m), distuv.UnitNormal))
}

// tailOf is the two-sided p of a value that has the standard deviation.
func tailOf(value, sd float64, of interface{ Survival(float64) float64 }) float64 {
	switch {
	case sd > 0:
		return min(1, 2*of.Survival(math.Abs(value)/sd))
	case value == 0:
		return 1
	}
	return 0
}

// OneMore is the two-sided p that y is one more value of the normal distribution that x
// are from, whose standard deviation is that of x or usual, whichever is more.
func OneMore(x []float64, y, usual float64) float64 {
	mean, variance := stat.MeanVariance(x, nil)
	n := float64(len(x))
	sd := max(usual, math.Sqrt(variance))
	return tailOf(y-mean, sd*math.Sqrt(1+1/n), distuv.StudentsT{Sigma: 1, Nu: n - 1})
}
