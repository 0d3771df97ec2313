package solve

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Check computes ||b - Ax|| / ||b|| for the last solution. If the matrix is singular, the constant part of b is left
// out. All ranks call it together.
//
// Check shares only the numbering of the rows with the solve. It generates the rows again, multiplies them one by one,
// and asks other ranks for values by row number. A solve with a wrong halo exchange or a wrong stored matrix converges
// to the solution of another system, and only an independent check notices that.
func (s *System) Check() (float64, error) {
	residuals, err := s.checkColumns(1, s.Solution(), func(row, _ int) float64 { return s.spec.RHS(row) })
	if err != nil {
		return 0, err
	}
	return residuals[0], nil
}

// checkColumns is Check for several right-hand sides, whose solutions are x, row by row.
func (s *System) checkColumns(columns int, x []float64, rhs func(row, column int) float64) ([]float64, error) {
	plan := s.parts.Plan
	ghosts, means := make([]map[int]float64, columns), make([][]float64, columns)
	for j := range columns {
		var err error
		if ghosts[j], err = s.fetch(func(i int) float64 { return x[i*columns+j] }); err != nil {
			return nil, fmt.Errorf("fetching values for the check: %w", err)
		}
		if means[j], err = s.meanRHS(func(row int) float64 { return rhs(row, j) }); err != nil {
			return nil, err
		}
	}
	problem, err := s.spec.rowsAsWritten(func(row int) bool { return plan.Local(row) >= 0 })
	if err != nil {
		return nil, err
	}
	// Sums by column: squares of the residual, of b, and of the products a_ij x_j; then the number of nonzeros of b.
	squares := make([]float64, 4*columns)
	var row sparse.Row
	var local []int // number of each column of the row on this rank, -1 for ghosts
	for i := range plan.Owned {
		global := plan.Global(i)
		problem.Row(global, &row)
		local = local[:0]
		for _, c := range row.Cols {
			local = append(local, plan.Local(c))
		}
		for j := range columns {
			b := rhs(global, j)
			if means[j] != nil {
				if k := s.null.pieces.piece(i); k >= 0 {
					b -= means[j][k]
				}
			}
			d := b
			for k, c := range row.Cols {
				product := row.Vals[k]
				if own := local[k]; own >= 0 {
					product *= x[own*columns+j]
				} else {
					product *= ghosts[j][c]
				}
				d -= product
				squares[2*columns+j] += product * product
			}
			squares[j] += d * d
			squares[columns+j] += b * b
			if b != 0 {
				squares[3*columns+j]++
			}
		}
	}
	sums, err := team{s.group}.Sum(squares)
	if err != nil {
		return nil, err
	}
	residuals := make([]float64, columns)
	*s.rounding = 0
	for j := range residuals {
		if sums[3*columns+j] > 0 && sums[columns+j] < minSquares {
			return nil, fmt.Errorf("the right-hand side is too small to check a solution: the sum of its squares is %.3g, and "+
				"the squares of residuals underflow: multiply the right-hand side by a power of two", sums[columns+j])
		}
		if residuals[j] = math.Sqrt(sums[j]); sums[columns+j] > 0 {
			residuals[j] = math.Sqrt(sums[j] / sums[columns+j])
			*s.rounding = max(*s.rounding, unit*math.Sqrt(sums[2*columns+j]/sums[columns+j]))
		}
	}
	return residuals, nil
}

// minSquares is the least sum of squares of a right-hand side that Check accepts. With it, the square of a residual of
// 1e-16 times the norm is still far above the least double. With a smaller one, squares lose digits or become 0, and
// then any x would seem to be a solution.
const minSquares = 0x1p-900

// unit is the largest relative error of rounding to a double.
const unit = 0x1p-53

// meanRHS returns the means of a right-hand side that the solve projects out, or nil.
func (s *System) meanRHS(rhs func(row int) float64) ([]float64, error) {
	if s.null == nil {
		return nil, nil
	}
	b := make([]float64, s.parts.Plan.Owned)
	for i := range b {
		b[i] = rhs(s.Global(i))
	}
	means, err := s.null.means(b)
	return slices.Clone(means), err
}

// fetch returns the values of the ghosts by global row number. It asks their owners for them. x returns the value of a
// row of this rank.
func (s *System) fetch(x func(i int) float64) (map[int]float64, error) {
	rows := ghostsByOwner(s.group, s.parts.Plan)
	values, err := request(s.group, rows, func(row int) float64 { return x(s.parts.Plan.Local(row)) })
	if err != nil {
		return nil, err
	}
	ghosts := make(map[int]float64, len(s.parts.Plan.Ghosts))
	for r, theirs := range rows {
		for k, row := range theirs {
			ghosts[int(row)] = values[r][k]
		}
	}
	return ghosts, nil
}
