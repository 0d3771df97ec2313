package multigrid

import (
	"errors"

	"github.com/kernbench/kernbench/internal/solve/precondition"
)

var errNotDefinite = errors.New("the coarsest matrix is not positive definite: multigrid needs one that is")

// Cycle is a V-cycle over a hierarchy of levels, the finest first. It implements krylov.Operator.
type Cycle struct {
	levels []*level
	Hierarchy
}

// level is one rank's part of one matrix of the hierarchy.
type level struct {
	a        precondition.Square
	smoother *precondition.Chebyshev
	r, p     *matrix   // restriction to the next level and interpolation back; nil on the last
	factor   *cholesky // factor of the last level, on its owner
	owned    int
	b        []float64 // right-hand side, on coarser levels
	size     Size
}

// Apply implements krylov.Operator: a V-cycle, starting from zero.
func (c *Cycle) Apply(dst, src []float64) error { return c.cycle(0, dst, src) }

// cycle improves x from zero on level l: it smooths, restricts the residual, solves the coarser level, adds the
// interpolated correction and smooths again. enter reports the level to Trace, on the way down and up.
func (c *Cycle) cycle(l int, x, b []float64) error {
	c.enter(l)
	lv := c.levels[l]
	if l == len(c.levels)-1 {
		return lv.last(x, b)
	}
	if err := lv.smoother.Smooth(x, b, true); err != nil {
		return err
	}
	if err := lv.a.Residual(lv.r.x, b, x); err != nil {
		return err
	}
	next := c.levels[l+1]
	if err := lv.r.Multiply(next.b, lv.r.x); err != nil {
		return err
	}
	if err := c.cycle(l+1, lv.p.x, next.b); err != nil {
		return err
	}
	c.enter(l)
	if err := lv.p.Add(x, lv.p.x); err != nil {
		return err
	}
	return lv.smoother.Smooth(x, b, false)
}

// last solves the coarsest level, or smooths it if it is too large to be factored.
func (lv *level) last(x, b []float64) error {
	if lv.factor != nil {
		lv.factor.solve(x, b)
		return nil
	}
	if lv.size.Rows <= float64(lastRows) && lv.owned == 0 {
		return nil // another rank owns the level
	}
	return lv.smoother.Smooth(x, b, true)
}

// Local implements krylov.Operator.
func (c *Cycle) Local() bool { return false }

// Bytes implements krylov.Operator. Each level smooths twice and computes the residual in between.
func (c *Cycle) Bytes() int {
	bytes := 0
	for _, lv := range c.levels {
		if lv.p == nil {
			continue
		}
		// Two smoothing steps, one of them with a residual and x; the residual for the restriction; R and P.
		bytes += 2*lv.smoother.Bytes() + 2*lv.a.Matrix.Bytes() + lv.p.Matrix.Bytes() + lv.r.Matrix.Bytes() + 8*8*lv.owned
	}
	return bytes
}
