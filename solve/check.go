package solve

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Check gives ||b - Ax|| / ||b|| of the last solution, of a singular matrix with b less its constant
// part, in a way that shares nothing with the solve but the rows' numbers: the rows are made again and
// multiplied one by one, and values of other ranks are asked for by number. A halo exchange that mixes
// up values, or a stored matrix that is not the problem's, gives the solve a consistent other system,
// which it solves to the tolerance; here it shows.
func (s *System) Check() (float64, error) {
	x := s.engine.Vector(krylov.X)
	ghosts, err := s.fetch(x)
	if err != nil {
		return 0, fmt.Errorf("fetching values for the check: %w", err)
	}
	problem, err := s.spec.Source.Rows(func(row int) bool { return s.Plan.Local(row) >= 0 })
	if err != nil {
		return 0, err
	}
	mean, err := s.meanRHS()
	if err != nil {
		return 0, err
	}
	var squares [2]float64 // of the residual, and of the right-hand side
	var row sparse.Row
	for i := range x {
		global := s.Plan.Global(i)
		problem.Row(global, &row)
		b := s.spec.RHS(global) - mean
		d := b
		for k, c := range row.Cols {
			if own := s.Plan.Local(c); own >= 0 {
				d -= row.Vals[k] * x[own]
			} else {
				d -= row.Vals[k] * ghosts[c]
			}
		}
		squares[0] += d * d
		squares[1] += b * b
	}
	sums, err := s.sums.add(squares[:])
	if err != nil {
		return 0, err
	}
	if sums[1] == 0 {
		return math.Sqrt(sums[0]), nil
	}
	return math.Sqrt(sums[0] / sums[1]), nil
}

// meanRHS is the constant part of the right-hand side where the solve is to leave it out, else 0.
func (s *System) meanRHS() (float64, error) {
	if !s.Traits.Singular {
		return 0, nil
	}
	sum := 0.0
	for i := range s.Plan.Owned {
		sum += s.spec.RHS(s.Plan.Global(i))
	}
	sums, err := s.sums.add([]float64{sum})
	if err != nil {
		return 0, err
	}
	return sums[0] / float64(s.Size), nil
}

// fetch asks the owners for the ghosts' values.
func (s *System) fetch(x []float64) (map[int]float64, error) {
	rows := wants(s.group, s.Plan)
	values, err := request(s.group, rows, func(row int) float64 { return x[s.Plan.Local(row)] })
	if err != nil {
		return nil, err
	}
	ghosts := make(map[int]float64, len(s.Plan.Ghosts))
	for r, theirs := range rows {
		for k, row := range theirs {
			ghosts[int(row)] = values[r][k]
		}
	}
	return ghosts, nil
}
