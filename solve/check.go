package solve

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Check computes ||b - Ax|| / ||b|| for the last solution. If the matrix is singular, the constant part of b is left
// out. All ranks call it together.
//
// Check shares only the numbering of the rows with the solve. It generates the rows again, multiplies them one by one,
// and asks other ranks for values by row number. A solve with a wrong halo exchange or a wrong stored matrix converges
// to the solution of another system, and only an independent check notices that.
func (s *System) Check() (float64, error) {
	x, plan := s.parts.Engine.Vector(krylov.X), s.parts.Plan
	ghosts, err := s.fetch(x)
	if err != nil {
		return 0, fmt.Errorf("fetching values for the check: %w", err)
	}
	problem, err := s.spec.rowsAsWritten(func(row int) bool { return plan.Local(row) >= 0 })
	if err != nil {
		return 0, err
	}
	means, err := s.meanRHS()
	if err != nil {
		return 0, err
	}
	var squares [2]float64 // of the norms of the residual and of the right-hand side
	var row sparse.Row
	for i := range x {
		global := plan.Global(i)
		problem.Row(global, &row)
		b := s.spec.RHS(global)
		if means != nil {
			if k := s.null.pieces.piece(i); k >= 0 {
				b -= means[k]
			}
		}
		d := b
		for k, c := range row.Cols {
			if own := plan.Local(c); own >= 0 {
				d -= row.Vals[k] * x[own]
			} else {
				d -= row.Vals[k] * ghosts[c]
			}
		}
		squares[0] += d * d
		squares[1] += b * b
	}
	sums, err := s.parts.Sums.Sum(squares[:])
	if err != nil {
		return 0, err
	}
	if sums[1] == 0 {
		return math.Sqrt(sums[0]), nil
	}
	return math.Sqrt(sums[0] / sums[1]), nil
}

// meanRHS returns the means of the right-hand side that the solve projects out, or nil.
func (s *System) meanRHS() ([]float64, error) {
	if s.null == nil {
		return nil, nil
	}
	b := make([]float64, s.parts.Plan.Owned)
	for i := range b {
		b[i] = s.spec.RHS(s.Global(i))
	}
	return s.null.means(b)
}

// fetch returns the values of the ghosts by global row number. It asks their owners for them.
func (s *System) fetch(x []float64) (map[int]float64, error) {
	rows := ghostsByOwner(s.group, s.parts.Plan)
	values, err := request(s.group, rows, func(row int) float64 { return x[s.parts.Plan.Local(row)] })
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
