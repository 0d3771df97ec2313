package multigrid

import "github.com/kernbench/kernbench/internal/solve/sparse"

// What follows is also what a cycle on a device is made by, so that it is the same cycle.

// weakAxis is the part of the strongest axis below which an axis is left as it is.
const weakAxis = 0.25

// Halved decides along which axes of a grid every other point is taken, by the sums of the magnitudes
// of all entries that couple points along each.
func Halved(grid sparse.Grid, coupling [3]float64) (halved [3]bool) {
	most := 0.0
	for axis, n := range grid {
		coupling[axis] /= 1 - 1/float64(max(2, n)) // of so many gaps for n points
		if n > 2 {
			most = max(most, coupling[axis])
		}
	}
	for axis, n := range grid {
		halved[axis] = n > 2 && coupling[axis] >= weakAxis*most
	}
	return halved
}

// Coarser is the grid of the points that are kept.
func Coarser(grid sparse.Grid, halved [3]bool) sparse.Grid {
	for axis, halve := range halved {
		if halve {
			grid[axis] /= 2
		}
	}
	return grid
}

// IsLast reports whether a level of so many rows is the last, which is solved.
func IsLast(rows int) bool { return rows <= lastRows }

// Inverse is that of a symmetric positive definite matrix of n rows, which is lost.
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

// Smoother gives the smoother of a level by the largest eigenvalue of D^-1 A. From zero it is x =
// along p + beyond D^-1 A p with p = D^-1 b: two steps of Chebyshev's iteration as
// precondition.Chebyshev has it.
func Smoother(largest float64) (along, beyond float64) {
	theta, delta := largest*(1+1./smootherRatio)/2, largest*(1-1./smootherRatio)/2
	sigma := theta / delta
	rho := 1 / (2*sigma - 1/sigma)
	f, g := rho/sigma, 2*rho*sigma
	return (1 + f + g) / theta, -g / (theta * theta)
}
