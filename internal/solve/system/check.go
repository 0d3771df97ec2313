package system

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Check computes the true residual of the last solution, and records it in the outcome of that solve. It shares only
// the numbering of the rows with the solve. See solve.System.Check.
func (s *System) Check(out *Outcome) error {
	residuals, err := s.checkColumns(1, s.Solution(), func(row, _ int) float64 { return s.spec.RHS(row) })
	if err == nil {
		out.TrueResidual, out.Rounding = residuals[0].True, residuals[0].Rounding
	}
	return err
}

// checkColumns is Check for several right-hand sides, whose solutions are x, row by row.
func (s *System) checkColumns(columns int, x []float64, rhs func(row, column int) float64) ([]krylov.Residual, error) {
	ghosts, means := make([]map[int]float64, columns), make([][]float64, columns)
	for j := range columns {
		var err error
		if ghosts[j], err = fetch(s, func(i int) float64 { return x[i*columns+j] }); err != nil {
			return nil, fmt.Errorf("fetching values for the check: %w", err)
		}
		if means[j], err = s.meanRHS(func(row int) float64 { return rhs(row, j) }); err != nil {
			return nil, err
		}
	}
	problem, err := s.spec.rowsAsWritten(func(row int) bool { return s.Plan.Local(row) >= 0 })
	if err != nil {
		return nil, err
	}
	parts := make([]krylov.ResidualSums, columns)
	var row sparse.Row
	var local []int // number of each column of the row on this rank, -1 for ghosts
	for i := range s.Plan.Owned {
		global := s.Plan.Global(i)
		problem.Row(global, &row)
		local = local[:0]
		for _, c := range row.Cols {
			local = append(local, s.Plan.Local(c))
		}
		for j := range columns {
			b := rhs(global, j)
			if means[j] != nil {
				if k := s.null.pieces.piece(i); k >= 0 {
					b -= means[j][k]
				}
			}
			parts[j].AddRow(b, row.Vals, func(k int) float64 {
				if own := local[k]; own >= 0 {
					return x[own*columns+j]
				}
				return ghosts[j][row.Cols[k]]
			})
		}
	}
	sums, err := s.team.Sum(slices.Concat(lists.Map(parts, func(p krylov.ResidualSums) []float64 { return p[:] })...))
	if err != nil {
		return nil, err
	}
	return lists.TryMap(slices.Collect(slices.Chunk(sums, len(parts[0]))), func(sums []float64) (krylov.Residual, error) {
		return krylov.NewResidual(krylov.ResidualSums(sums))
	})
}

// meanRHS returns the means of a right-hand side that the solve projects out, or nil.
func (s *System) meanRHS(rhs func(row int) float64) ([]float64, error) {
	if s.null == nil {
		return nil, nil
	}
	b := make([]float64, s.Plan.Owned)
	for i := range b {
		b[i] = rhs(s.Plan.Global(i))
	}
	means, err := s.null.means(b)
	return slices.Clone(means), err
}

// fetch returns the values of the ghosts by global row number. It asks their owners for them. value returns the value
// of a row of this rank.
func fetch[E any](s *System, value func(i int) E) (map[int]E, error) {
	rows := s.ghostsByOwner(s.Plan)
	values, err := request(s.team, rows, func(row int) E { return value(s.Plan.Local(row)) })
	if err != nil {
		return nil, err
	}
	ghosts := make(map[int]E, len(s.Plan.Ghosts))
	for r, theirs := range rows {
		for k, row := range theirs {
			ghosts[row] = values[r][k]
		}
	}
	return ghosts, nil
}
