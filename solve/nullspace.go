package solve

import (
	"errors"
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// A symmetric matrix whose rows add up to zero, as that of a problem whose boundary nothing crosses, takes
// constants to zero. Its products have no constant part, so there is a solution only for a right-hand side
// without one, and then one for each constant. Here the constant part is taken from the right-hand side, from
// residuals, where rounding brings it back and nothing would make it smaller, and from the solution.

// findNullSpace looks at the rows of all ranks, at a few first: one that does not add up to zero suffices, and
// most problems have one among their first.
func (s *System) findNullSpace(problem Problem) error {
	var row sparse.Row
	next := 0
	for _, end := range []int{1000, s.Plan.Owned} {
		bad := 0.0
		for end = min(end, s.Plan.Owned); next < end && bad == 0; next++ {
			if problem.Row(s.Plan.Global(next), &row); !row.AddsUpToZero() {
				bad = 1
			}
		}
		sums, err := team{s.group}.Sum([]float64{bad})
		if err != nil {
			return err
		}
		if sums[0] > 0 {
			return nil
		}
	}
	s.Traits.Singular = problem.Traits().Symmetric
	s.Unprojected = !s.Traits.Singular
	return nil
}

// errConstant is of a right-hand side that is nothing but its constant part.
var errConstant = errors.New("the right-hand side is constant, and the matrix takes constants to zero (its rows add " +
	"up to zero): " +
	"nothing is left to solve for, give one that varies")

// projection takes constants out of a preconditioner: out of what it is given, in place, so that residuals
// stay free of them, and out of what it gives. It implements krylov.Operator.
type projection struct {
	inner krylov.Operator // nil: solve without one
	sums  *adder
	rows  int     // of this rank
	size  float64 // of the matrix

	reductions int // so far
}

// project takes the mean over all ranks from each value.
func (p *projection) project(v []float64) error {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	sums, err := p.sums.add([]float64{sum})
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

// Bytes implements krylov.Operator: each mean reads the vector once more, and takes it through memory again.
func (p *projection) Bytes() int {
	if p.inner == nil {
		return 3 * 8 * p.rows
	}
	return p.inner.Bytes() + 2*3*8*p.rows
}

// applied is the preconditioner as the engine has it, nil for none.
func (s *System) applied() krylov.Operator {
	if s.null != nil {
		return s.null
	}
	return s.operator
}

// projectRHS takes the constant part from the right-hand side, and notes how much that was.
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
			return &Refusal{errConstant}
		}
		s.Removed = math.Sqrt(max(0, 1-left))
	}
	return nil
}
