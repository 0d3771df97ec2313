package krylov

import (
	"fmt"
	"math"
)

// Residual is what a check found that computed the residual of a solution from the problem.
type Residual struct {
	True     float64 // ||b - Ax|| / ||b||
	Rounding float64 // see Result.Rounding
}

// minSquares is the least sum of squares of a right-hand side that a check accepts. With it, the square of a residual
// of 1e-16 times the norm is still far above the least double. With a smaller one, squares lose digits or become 0, and
// then any x would seem to be a solution.
const minSquares = 0x1p-900

// unit is the largest relative error of rounding to a double.
const unit = 0x1p-53

// ResidualSums are sums over rows: of the squares of b - Ax, of b, and of the products a_ij x_j, and the number of rows
// where b is not 0.
type ResidualSums [4]float64

// AddRow adds a row with the given values. x returns the value of the solution in the column of entry k.
func (s *ResidualSums) AddRow(b float64, values []float64, x func(k int) float64) {
	d := b
	for k, v := range values {
		product := v * x(k)
		d -= product
		s[2] += product * product
	}
	s[0] += d * d
	s[1] += b * b
	if b != 0 {
		s[3]++
	}
}

// NewResidual returns the residual of a solution whose sums over all rows are given.
func NewResidual(sums ResidualSums) (Residual, error) {
	residual, rhs, products, nonzeros := sums[0], sums[1], sums[2], sums[3]
	if nonzeros > 0 && rhs < minSquares {
		return Residual{}, fmt.Errorf("the right-hand side is too small to check a solution: the sum of its squares is "+
			"%.3g, and the squares of residuals underflow: multiply the right-hand side by a power of two", rhs)
	}
	if rhs == 0 {
		return Residual{True: math.Sqrt(residual)}, nil
	}
	return Residual{math.Sqrt(residual / rhs), unit * math.Sqrt(products/rhs)}, nil
}
