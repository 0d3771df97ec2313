package multigrid

import (
	"errors"

	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

var errNotDefinite = errors.New("the coarsest matrix is not positive definite: multigrid needs one that is")

// Cycle is a hierarchy of levels, the finest first; it implements krylov.Operator.
type Cycle struct{ levels []*level }

// level is one rank's part of a matrix of the hierarchy.
type level struct {
	a             precondition.Square
	smoother      *precondition.Chebyshev
	r, p          *matrix   // to the next level and back; nil on the last
	factor        *cholesky // of the last level, where it could be factored, on its owner
	owned         int
	x, b, t       []float64
	rows, entries float64 // over all ranks
}

// Apply implements krylov.Operator: a V-cycle from zero.
func (c *Cycle) Apply(dst, src []float64) error { return c.cycle(0, dst, src) }

func (c *Cycle) cycle(l int, x, b []float64) error {
	lv := c.levels[l]
	if l == len(c.levels)-1 {
		return lv.last(x, b)
	}
	if err := lv.smoother.Smooth(x, b, true); err != nil {
		return err
	}
	if err := lv.a.Multiply(lv.t, x); err != nil {
		return err
	}
	n, next := lv.owned, c.levels[l+1]
	sparse.Axpby(lv.t[:n], 1, b[:n], -1, lv.t[:n])
	if err := lv.r.apply(next.b, lv.t); err != nil {
		return err
	}
	if err := c.cycle(l+1, next.x, next.b); err != nil {
		return err
	}
	if err := lv.p.apply(lv.t, next.x); err != nil {
		return err
	}
	sparse.Axpby(x[:n], 1, x[:n], 1, lv.t[:n])
	return lv.smoother.Smooth(x, b, false)
}

// last solves the coarsest level, or smooths where it could not be made small.
func (lv *level) last(x, b []float64) error {
	if lv.factor != nil {
		lv.factor.solve(x, b)
		return nil
	}
	if lv.rows <= float64(lastRows) && lv.owned == 0 {
		return nil // another rank's
	}
	return lv.smoother.Smooth(x, b, true)
}

// Local implements krylov.Operator.
func (c *Cycle) Local() bool { return false }

// Bytes implements krylov.Operator. A level smooths twice and takes the residual between.
func (c *Cycle) Bytes() int {
	bytes := 0
	for _, lv := range c.levels {
		if lv.p == nil {
			continue
		}
		n := 8 * lv.owned
		bytes += 2*lv.smoother.Bytes() + 2*lv.a.Matrix.Bytes() + lv.p.Matrix.Bytes() + lv.r.Matrix.Bytes() + 15*n
	}
	return bytes
}

// Levels is how many matrices the hierarchy has.
func (c *Cycle) Levels() int { return len(c.levels) }

// Complexities are the entries and the unknowns of all levels over those of the finest.
func (c *Cycle) Complexities() (operator, grid float64) {
	for _, lv := range c.levels {
		operator += lv.entries / max(1, c.levels[0].entries)
		grid += lv.rows / max(1, c.levels[0].rows)
	}
	return operator, grid
}
