package compare

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/kernbench/kernbench/internal/base/stats"
)

// normal975 is the half-width of a 95 % interval in standard deviations.
const normal975 = 1.959964

// welch is the two-sided p of Welch's t test.
func welch(x, y []float64) float64 {
	mx, vx := stat.MeanVariance(x, nil)
	my, vy := stat.MeanVariance(y, nil)
	n, m := float64(len(x)), float64(len(y))
	return combined(spread{math.Sqrt(vx / n), n - 1}, spread{math.Sqrt(vy / m), m - 1}).p(my - mx)
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
		medians[i] = stats.Median(v[i*len(v)/blocks : (i+1)*len(v)/blocks])
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
