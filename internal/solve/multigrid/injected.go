package multigrid

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// injectedLevels is the number of levels of HPCG. Each has half the points of the finer one along every axis.
const injectedLevels = 4

func init() {
	precondition.Preconditioners.Register(precondition.Preconditioner{Name: "hpcg",
		Help: "the multigrid of the HPCG benchmark: 4 levels by injection, symmetric Gauss-Seidel; 27 points in 3-D, " +
			"sides multiples of 8",
		Needs: krylov.SymmetricDefinite, Grid: true, Suits: halves, New: newInjected})
}

// halves returns an error if the grid cannot be halved often enough, or if the stencil does not have 27 points.
func halves(p sparse.Problem) error {
	s, ok := p.(interface{ Points() int })
	if !ok || s.Points() != 27 {
		return errors.New("preconditioner hpcg is for stencils of 27 points in 3-D")
	}
	for _, n := range p.(sparse.Gridded).Grid() {
		if side := 1 << (injectedLevels - 1); n%side != 0 {
			return fmt.Errorf("preconditioner hpcg needs sides that are multiples of %d, not a grid of %v", side,
				p.(sparse.Gridded).Grid())
		}
	}
	return nil
}

// Injected is the preconditioner of the HPCG benchmark (Dongarra, Heroux and Luszczek, 2015). On every level it makes a
// symmetric Gauss-Seidel sweep, passes the residual at every other point to the coarser grid, adds the coarse solution
// at these points, and makes another sweep. The coarsest level has one sweep. The coarse matrices are the same stencil
// on the coarser grids. A sweep uses the values of other ranks from before the sweep.
type Injected struct {
	levels []*injected
	Hierarchy
}

// injected is one rank's part of a level.
type injected struct {
	square  precondition.Square
	matrix  *sparse.CSR
	inverse []float64 // reciprocals of the diagonal
	fine    []int32   // local numbers of the points that the coarser level keeps; nil on the last level
	x, b    []float64 // solution and right-hand side, on coarser levels
	product []float64
	size    Size
}

// newInjected sets up all levels. The coarse matrices are generated, not computed from the fine ones.
func newInjected(l *precondition.Local) (krylov.Operator, error) {
	out := &Injected{}
	at := *l
	for {
		lv, err := newInjectedLevel(&at)
		if err != nil {
			return nil, err
		}
		out.levels, out.Sizes = append(out.levels, lv), append(out.Sizes, lv.size)
		if len(out.levels) == injectedLevels {
			return out, nil
		}
		if at, err = lv.coarsen(&at); err != nil {
			return nil, err
		}
	}
}

// newInjectedLevel prepares the sweeps of a level.
func newInjectedLevel(l *precondition.Local) (*injected, error) {
	lv := &injected{square: precondition.Square{Matrix: l.Matrix, Halo: l.Halo}, matrix: l.Matrix.Unpack(),
		inverse: make([]float64, l.Plan.Owned),
		x:       make([]float64, max(1, l.Matrix.Columns())), b: make([]float64, l.Plan.Owned),
		product: make([]float64, l.Plan.Owned)}
	var fault error
	for i := range lv.inverse {
		cols, vals := lv.matrix.Row(i)
		at := slices.Index(cols, int32(i))
		if at < 0 || vals[at] == 0 {
			fault = fmt.Errorf("row %d has nothing on the diagonal: Gauss-Seidel cannot divide by it", l.Plan.Global(i))
			break
		}
		lv.inverse[i] = 1 / vals[at]
	}
	if err := l.Agree(fault); err != nil {
		return nil, err
	}
	var err error
	lv.size, err = newSize(l.Team, l.Plan.Owned, len(lv.matrix.Cols))
	return lv, err
}

// coarsen makes the problem of every other point. Each coarse point belongs to the rank that owns the fine point.
func (lv *injected) coarsen(l *precondition.Local) (precondition.Local, error) {
	grid := l.Problem.(sparse.Gridded).Grid()
	half := sparse.Grid{grid[0] / 2, grid[1] / 2, grid[2] / 2}
	layout := coarseLayout{owners: map[int]int{}}
	divisible := true // no cell belongs to two ranks
	for i := range l.Plan.Owned {
		c, kept := cellOf(grid, half, l.Plan.Global(i))
		divisible = layout.belongs(c, l.Plan.Rank) && divisible
		if kept {
			lv.fine = append(lv.fine, int32(i))
			layout.rows = sparse.Extend(layout.rows, c) // the points come in ascending order
		}
	}
	for _, p := range l.Plan.Peers {
		for _, g := range l.Plan.Wants(&p) {
			c, _ := cellOf(grid, half, g)
			divisible = layout.belongs(c, p.Rank) && divisible
		}
	}
	problem, err := sparse.NewGridPoisson(half, 27)
	if err == nil && !divisible {
		err = fmt.Errorf("preconditioner hpcg needs parts of the grid whose sides are multiples of %d: "+
			"partitioner block, and as many points per rank along each axis", 1<<(injectedLevels-1))
	}
	if err := l.Agree(err); err != nil {
		return precondition.Local{}, err
	}
	next := precondition.Local{Problem: problem, Plan: sparse.NewPlan(problem, layout, l.Plan.Rank),
		Traits: problem.Traits(), Team: l.Team}
	if next.Halo, err = l.Team.Connect(next.Plan); err != nil {
		return next, err
	}
	next.Matrix, err = next.Plan.Matrix(problem, sparse.Plain)
	return next, err
}

// cellOf returns the number in the halved grid of the cell of 8 points that contains a point, and whether the coarse
// grid keeps this point.
func cellOf(grid, half sparse.Grid, point int) (coarse int, kept bool) {
	p := grid.Point(point)
	return half.Index([3]int{p[0] / 2, p[1] / 2, p[2] / 2}), p[0]%2 == 0 && p[1]%2 == 0 && p[2]%2 == 0
}

// coarseLayout is the layout of coarse points, as far as a rank knows it from the finer level.
type coarseLayout struct {
	rows   []sparse.Range // of this rank
	owners map[int]int
}

// belongs records the owner of a cell, and reports whether the cell has no other owner.
func (c *coarseLayout) belongs(row, rank int) bool {
	owner, known := c.owners[row]
	c.owners[row] = rank
	return !known || owner == rank
}

// Owner implements sparse.Layout for this rank's points and their neighbours.
func (c coarseLayout) Owner(row int) int { return c.owners[row] }

// Rows implements sparse.Layout for this rank.
func (c coarseLayout) Rows(int) []sparse.Range { return c.rows }

// Apply implements krylov.Operator.
func (c *Injected) Apply(dst, src []float64) error { return c.cycle(0, dst, src) }

// cycle solves level l approximately, starting from x = 0. Ghosts are exchanged twice: for the residual, and before
// the second sweep. The first sweep needs no exchange because x is zero.
func (c *Injected) cycle(l int, x, b []float64) error {
	c.enter(l)
	lv := c.levels[l]
	clear(x)
	lv.sweep(x, b)
	if l == len(c.levels)-1 {
		return nil
	}
	if err := lv.square.Multiply(lv.product, x); err != nil {
		return err
	}
	next := c.levels[l+1]
	for i, at := range lv.fine {
		next.b[i] = b[at] - lv.product[at]
	}
	if err := c.cycle(l+1, next.x, next.b); err != nil {
		return err
	}
	c.enter(l)
	for i, at := range lv.fine {
		x[at] += next.x[i]
	}
	if err := lv.square.Exchange(x); err != nil {
		return err
	}
	lv.sweep(x, b)
	return nil
}

// sweep makes a symmetric Gauss-Seidel step: it relaxes all rows forward, then backward.
func (lv *injected) sweep(x, b []float64) {
	for i := range lv.inverse {
		lv.relax(i, x, b)
	}
	for i := len(lv.inverse) - 1; i >= 0; i-- {
		lv.relax(i, x, b)
	}
}

// relax changes x[i] so that the equation of row i holds.
func (lv *injected) relax(i int, x, b []float64) {
	lo, hi := lv.matrix.Start[i], lv.matrix.Start[i+1]
	cols, vals := lv.matrix.Cols[lo:hi], lv.matrix.Vals[lo:hi]
	vals = vals[:len(cols)]
	even, odd := b[i], 0.0
	k := 0
	for ; k+1 < len(cols); k += 2 {
		even -= vals[k] * x[cols[k]]
		odd -= vals[k+1] * x[cols[k+1]]
	}
	if k < len(cols) {
		even -= vals[k] * x[cols[k]]
	}
	x[i] += (even + odd) * lv.inverse[i]
}

// Local implements krylov.Operator.
func (c *Injected) Local() bool { return false }

// Bytes implements krylov.Operator. Two sweeps, each forward and backward, read the matrix and x; the product reads the
// matrix once more.
func (c *Injected) Bytes() int {
	bytes := 0
	for l, lv := range c.levels {
		sweep := 2 * (12*len(lv.matrix.Cols) + 8*len(lv.matrix.Start) + 4*8*len(lv.inverse))
		bytes += sweep
		if l < len(c.levels)-1 {
			bytes += sweep + lv.square.Matrix.Bytes() + 16*len(lv.inverse)
		}
	}
	return bytes
}
