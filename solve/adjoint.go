package solve

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Adjoint sets up the adjoint of the system that spec describes: the transposed matrix, with a gradient as right-hand
// side. If gradient is the derivative of a number L with respect to the solution x, the solution v of
// the adjoint system is the derivative of L with respect to the right-hand side b, and -v_i x_j is the
// derivative with respect to the entry (i, j) of the matrix. All ranks call it together.
//
// A matrix that is not symmetric must have a symmetric pattern, unless it comes from a file.
func Adjoint(g *dist.Group, spec Spec, gradient func(row int) float64) (*System, error) {
	spec.RHS, spec.RHSRows, spec.StopAfter = gradient, 0, 0
	if spec.MatrixFile != "" {
		spec.transpose = true
		return New(g, spec)
	}
	if !spec.Problem.Traits().Symmetric {
		err := sparse.CheckPattern(spec.Problem, func(row int) bool { return row%g.Size() == g.Rank() })
		if err := (&precondition.Local{Team: team{g}}).Agree(err); err != nil {
			return nil, err
		}
		spec.Problem = sparse.Transposed(spec.Problem)
	}
	return New(g, spec)
}
