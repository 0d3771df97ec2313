package system

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
// iteration would reduce them. In a matrix of several uncoupled pieces, each singular piece has its own constant.

// findNullSpace finds the pieces of the matrix whose rows add up to zero. Pieces are only looked for in files, and in
// other problems all of whose rows add up to zero.
func (s *System) findNullSpace(problem sparse.Problem) (*singularPieces, error) {
	zero, all, err := s.zeroRows(problem, s.spec.MatrixFile == "")
	if err != nil {
		return nil, err
	}
	switch traits := problem.Traits(); {
	case !traits.Symmetric:
		s.Unprojected = all
		return nil, nil
	case traits.Singular && all:
		return wholePiece(s.Size), nil
	case all || s.spec.MatrixFile != "":
		return s.findPieces(problem, zero)
	}
	return nil, nil
}

// zeroRows says which rows of this rank add up to zero, and whether the rows of all ranks do. If early is set it looks
// at a few rows first: one row with another sum is enough, and most problems have one among their first rows.
func (s *System) zeroRows(problem sparse.Problem, early bool) (zero []bool, all bool, err error) {
	var row sparse.Row
	owned, nonzero := s.Plan.Owned, 0.0
	zero = make([]bool, 0, owned)
	for _, end := range []int{min(1000, owned), owned} {
		for len(zero) < end {
			problem.Row(s.Plan.Global(len(zero)), &row)
			zero = append(zero, row.AddsUpToZero())
			if !zero[len(zero)-1] {
				nonzero = 1
			}
		}
		sums, err := s.team.Sum([]float64{nonzero})
		if all = err == nil && sums[0] == 0; err != nil || !all && early {
			return zero, false, err
		}
	}
	return zero, all, nil
}

// errConstant is the error for a right-hand side that has only a constant part: no method solves such a system.
var errConstant = errors.New("the right-hand side is constant, but the rows of the matrix add up to zero: " +
	"no solution exists, give a right-hand side that varies (within each uncoupled piece, if there are several)")

// projection applies a preconditioner and projects constants out of its argument, in place, and out of its result. It
// implements krylov.Operator.
type projection struct {
	inner  krylov.Operator // nil without a preconditioner
	sums   *reducer
	rows   int // of this rank
	pieces *singularPieces
	part   []float64 // this rank's part of the sum over each piece

	reductions int // made since the solve began
}

// newProjection returns the projection around a preconditioner, which may be nil.
func newProjection(s *System, pieces *singularPieces) *projection {
	n := len(pieces.rows)
	return &projection{inner: s.Operator, sums: s.newReducer(n), rows: s.Plan.Owned, pieces: pieces,
		part: make([]float64, n)}
}

// means returns the mean of a vector over each piece.
func (p *projection) means(v []float64) ([]float64, error) {
	clear(p.part)
	for i, x := range v {
		if k := p.pieces.piece(i); k >= 0 {
			p.part[k] += x
		}
	}
	sums, err := p.sums.sum(p.part)
	if err != nil {
		return nil, err
	}
	p.reductions++
	for k, rows := range p.pieces.rows {
		sums[k] /= rows
	}
	return sums, nil
}

// project subtracts the mean of each piece from its values.
func (p *projection) project(v []float64) error {
	means, err := p.means(v)
	if err != nil {
		return err
	}
	for i := range v {
		if k := p.pieces.piece(i); k >= 0 {
			v[i] -= means[k]
		}
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
	if s.null == nil {
		return nil
	}
	before := sparse.Dot(b, b)
	if err := s.null.project(b); err != nil {
		return err
	}
	squares, err := s.team.Sum([]float64{before, sparse.Dot(b, b)})
	if err != nil {
		return err
	}
	if squares[0] > 0 {
		left := squares[1] / squares[0]
		if left < 1e-24 {
			return errConstant
		}
		s.RemovedRHS = math.Sqrt(max(0, 1-left))
	}
	return nil
}
