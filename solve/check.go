package solve

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Check computes the true residual of the last solution, ||b - Ax|| / ||b||, and records it in the outcome of that
// solve, with an estimate of what rounding alone leaves. If the matrix is singular, the constant part of b is left out.
// All ranks call it together.
//
// Check shares only the numbering of the rows with the solve. It generates the rows again, multiplies them one by one,
// and asks other ranks for values by row number. A solve with a wrong halo exchange or a wrong stored matrix converges
// to the solution of another system, and only an independent check notices that.
func (s *System) Check(out *Outcome) error {
	residuals, err := s.checkColumns(1, s.Solution(), func(row, _ int) float64 { return s.spec.RHS(row) })
	if err == nil {
		out.TrueResidual, out.Rounding = residuals[0].True, residuals[0].Rounding
	}
	return err
}

// checkColumns is Check for several right-hand sides, whose solutions are x, row by row.
func (s *System) checkColumns(columns int, x []float64, rhs func(row, column int) float64) ([]krylov.Residual, error) {
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
	residuals := make([]krylov.Residual, columns)
	for j := range residuals {
		of := func(kind int) float64 { return sums[kind*columns+j] }
		if residuals[j], err = krylov.NewResidual(of(0), of(1), of(2), of(3)); err != nil {
			return nil, err
		}
	}
	return residuals, nil
}

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
