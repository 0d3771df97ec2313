package multigrid

import (
	"math"

	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// What follows is also what a cycle on a device is made by, so that it is the same cycle.

// weakAxis is the part of the strongest axis below which an axis is left as it is.
const weakAxis = 0.25

// Halved decides along which axes of a grid every other point is taken, by the sums of the magnitudes of all entries that couple points along each.
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

// Smoother gives the smoother of a level by the largest eigenvalue of D^-1 A. From zero it is x = along p + beyond D^-1 A p
// with p = D^-1 b: two steps of Chebyshev's iteration as precondition.Chebyshev has it.
func Smoother(largest float64) (along, beyond float64) {
	theta, delta := largest*(1+1./smootherRatio)/2, largest*(1-1./smootherRatio)/2
	sigma := theta / delta
	rho := 1 / (2*sigma - 1/sigma)
	f, g := rho/sigma, 2*rho*sigma
	return (1 + f + g) / theta, -g / (theta * theta)
}

// Lanczos finds the largest eigenvalue of D^-1 A by the steps and with the margin of [precondition.NewChebyshev], for those who keep the
// vectors elsewhere. They begin with noise w, and in each step make v = along w + beyond v, w = D^-1 A v - before v', where v' is the v of
// the step before; w.v and w.w are scalar products with D between.
type Lanczos struct {
	bound         float64
	alpha, beta   float64
	alphas, betas []float64
}

// NewLanczos starts with the square of the norm of w, and what the eigenvalue cannot be above.
func NewLanczos(squared, bound float64) *Lanczos {
	return &Lanczos{bound: bound, beta: math.Sqrt(squared)}
}

// Next gives the factors of the next step; false when there is none.
func (l *Lanczos) Next() (along, beyond, before float64, more bool) {
	if len(l.alphas) == precondition.LanczosSteps || !(l.beta > 1e-12) || len(l.alphas) > 0 && precondition.Above(l.alphas, l.betas) >= l.bound {
		return 0, 0, 0, false
	}
	return 1 / l.beta, -l.alpha / l.beta, l.beta, true
}

// Made takes w.v and w.w of a step.
func (l *Lanczos) Made(wv, ww float64) {
	l.alpha, l.beta = wv, math.Sqrt(max(0, ww-wv*wv))
	l.alphas, l.betas = append(l.alphas, l.alpha), append(l.betas, l.beta)
}

// Largest is the eigenvalue.
func (l *Lanczos) Largest() float64 { return min(precondition.Above(l.alphas, l.betas), l.bound) }
