package multigrid

import "github.com/kernbench/kernbench/internal/solve/sparse"

// The GPU solver uses the functions below too, so that it makes the same cycle.

// weakAxis is the coupling, relative to the strongest axis, below which an axis is not halved. Halving the strongest
// axis alone divides its coupling by 4. With 1/2, the couplings of the levels on which all axes are halved differ by at
// most 2. With 1/4 they could differ by 4 on all of these levels: with couplings of 1 and 1e-3, cg needed 11 iterations
// instead of 7 from 4e5 unknowns on.
const weakAxis = 0.5

// Halved decides along which axes of a grid to keep every other point. coupling is the sum of the magnitudes of all
// entries that couple points along each axis.
func Halved(grid sparse.Grid, coupling [3]float64) (halved [3]bool) {
	strongest := 0.0
	for axis, n := range grid {
		coupling[axis] /= 1 - 1/float64(max(2, n)) // n points have n-1 gaps
		if n > 2 {
			strongest = max(strongest, coupling[axis])
		}
	}
	for axis, n := range grid {
		halved[axis] = n > 2 && coupling[axis] >= weakAxis*strongest
	}
	return halved
}

// Coarser returns the grid of the points that are kept.
func Coarser(grid sparse.Grid, halved [3]bool) sparse.Grid {
	for axis, halve := range halved {
		if halve {
			grid[axis] /= 2
		}
	}
	return grid
}

// Margin holds, for each axis, the distance from the last point to the boundary, where the solution is zero, relative
// to the distance between points. It is 1 on the finest grid. If a line has an even number of points, its last point is
// kept, so on the coarser grid the last point is half as far from the boundary. On a line of 1000 points, whose number
// is even three times, it is 1/8 after three levels. The next level drops that point, and interpolates it between the
// coarse point before it and the boundary. Taking the mean instead of 1/9 made cg need 11 iterations instead of 7.
type Margin [3]float64

// FirstMargin is the margin of the finest grid.
var FirstMargin = Margin{1, 1, 1}

// Coarser returns the margin of the next coarser grid.
func (m Margin) Coarser(grid sparse.Grid, halved [3]bool) Margin {
	for axis, n := range grid {
		switch {
		case halved[axis] && n%2 == 0:
			m[axis] /= 2
		case halved[axis]:
			m[axis] = (1 + m[axis]) / 2
		}
	}
	return m
}

// Weight returns the weight with which the last point of a line is interpolated from the coarse point before it.
func (m Margin) Weight(axis int) float64 { return m[axis] / (1 + m[axis]) }

// IsLast reports whether a level with this number of rows is the last, which is solved directly.
func IsLast(rows int) bool { return rows <= lastRows }

// Inverse returns the inverse of a symmetric positive definite matrix of n rows. It overwrites dense.
func Inverse(dense []float64, n int) ([]float64, error) {
	c, err := newCholesky(dense, n)
	if err != nil {
		return nil, err
	}
	out, unit := make([]float64, n*n), make([]float64, n)
	for i := range n {
		unit[i] = 1
		c.solve(out[i*n:(i+1)*n], unit)
		unit[i] = 0
	}
	return out, nil
}

// Smoother returns the factors of the smoother of a level from the largest eigenvalue of D^-1 A. Applied to zero, the
// smoother is x = along*p + beyond*D^-1 A p with p = D^-1 b: two steps of the iteration of precondition.Chebyshev.
func Smoother(largest float64) (along, beyond float64) {
	theta, delta := largest*(1+1./smootherRatio)/2, largest*(1-1./smootherRatio)/2
	sigma := theta / delta
	rho := 1 / (2*sigma - 1/sigma)
	f, g := rho/sigma, 2*rho*sigma
	return (1 + f + g) / theta, -g / (theta * theta)
}
