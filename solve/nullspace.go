package solve

import (
	"errors"
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// If all rows of a symmetric matrix add up to zero, as in a problem with Neumann boundaries, constants are its null
// space. A product then has no constant part, so a solution exists only if the right-hand side has none, and it is
// unique up to a constant. The solve therefore projects constants out of the right-hand side and of
// the solution. It also projects them out of every residual, because rounding brings them back and no
// iteration would reduce them.

// findNullSpace checks whether the rows of all ranks add up to zero. It looks at a few rows first: one row with another
// sum is enough, and most problems have one among their first rows.
func (s *System) findNullSpace(problem Problem) error {
	var row sparse.Row
	next, owned := 0, s.parts.Plan.Owned
	for _, end := range []int{1000, owned} {
		nonzero := 0.0
		for end = min(end, owned); next < end && nonzero == 0; next++ {
			if problem.Row(s.Global(next), &row); !row.AddsUpToZero() {
				nonzero = 1
			}
		}
		sums, err := team{s.group}.Sum([]float64{nonzero})
		if err != nil {
			return err
		}
		if sums[0] > 0 {
			return nil
		}
	}
	s.parts.Traits.Singular = problem.Traits().Symmetric
	s.parts.Unprojected = !s.parts.Traits.Singular
	return nil
}

// errConstant refuses a right-hand side that has only a constant part.
var errConstant = errors.New("the right-hand side is constant, but the rows of the matrix add up to zero: " +
	"no solution exists, give a right-hand side that varies")

// projection applies a preconditioner and projects constants out of its argument, in place, and out of its result. It
// implements krylov.Operator.
type projection struct {
	inner krylov.Operator // nil without a preconditioner
	sums  *reducer
	rows  int     // of this rank
	size  float64 // rows of the matrix

	reductions int // made since the solve began
}

// project subtracts the mean over all ranks from each value.
func (p *projection) project(v []float64) error {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	sums, err := p.sums.Sum([]float64{sum})
	if err != nil {
		return err
	}
	p.reductions++
	mean := sums[0] / p.size
	for i := range v {
		v[i] -= mean
	}
	return nil
}

// Apply implements krylov.Operator.
func (p *projection) Apply(dst, src []float64) error {
	if err := p.project(src[:p.rows]); err != nil {
		return err
	}
	if p.inner == nil {
		copy(dst[:p.rows], src[:p.rows])
		return nil
	}
	if err := p.inner.Apply(dst, src); err != nil {
		return err
	}
	return p.project(dst[:p.rows])
}

// Local implements krylov.Operator.
func (p *projection) Local() bool { return false }

// Bytes implements krylov.Operator. Each projection reads the vector once for the mean, then reads and writes it.
func (p *projection) Bytes() int {
	if p.inner == nil {
		return 3 * 8 * p.rows
	}
	return p.inner.Bytes() + 2*3*8*p.rows
}

// projectRHS projects constants out of the right-hand side and records their share of its norm.
func (s *System) projectRHS(b []float64) error {
	before := sparse.Dot(b, b)
	if err := s.null.project(b); err != nil {
		return err
	}
	squares, err := team{s.group}.Sum([]float64{before, sparse.Dot(b, b)})
	if err != nil {
		return err
	}
	if squares[0] > 0 {
		left := squares[1] / squares[0]
		if left < 1e-24 {
			return &Refusal{Reason: errConstant}
		}
		s.parts.RemovedRHS = math.Sqrt(max(0, 1-left))
	}
	return nil
}
