package system

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Adjoint sets up the adjoint of the system that spec describes. See solve.Adjoint.
func Adjoint(g *dist.Group, spec Spec, gradient func(row int) float64) (*System, error) {
	spec.RHS, spec.RHSRows, spec.StopAfter = gradient, 0, 0
	if spec.MatrixFile != "" {
		spec.transpose = true
		return New(g, spec)
	}
	if !spec.Problem.Traits().Symmetric {
		err := sparse.CheckPattern(spec.Problem, func(row int) bool { return row%g.Size() == g.Rank() })
		if err := precondition.Agree(newTeam(g), err); err != nil {
			return nil, err
		}
		spec.Problem = sparse.Transposed(spec.Problem)
	}
	return New(g, spec)
}
