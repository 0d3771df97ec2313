package multigrid

import "github.com/kernbench/kernbench/internal/solve/sparse"

// The GPU solver uses the functions below too, so that it makes the same cycle.

// weakAxis is the coupling, relative to the strongest axis, below which an axis is not halved.
const weakAxis = 0.25

// Halved decides along which axes of a grid to keep every other point. coupling is the sum of the magnitudes of all
// entries that couple points along each axis.
func Halved(grid sparse.Grid, coupling [3]float64) (halved [3]bool) {
	most := 0.0
	for axis, n := range grid {
		coupling[axis] /= 1 - 1/float64(max(2, n)) // n points have n-1 gaps
		if n > 2 {
			most = max(most, coupling[axis])
		}
	}
	for axis, n := range grid {
		halved[axis] = n > 2 && coupling[axis] >= weakAxis*most
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
