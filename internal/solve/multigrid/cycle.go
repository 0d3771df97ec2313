package multigrid

import (
	"errors"
	"math"

	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

var errNotDefinite = errors.New("the coarsest matrix is not positive definite: multigrid needs one that is")

// Cycle is a multigrid cycle over a hierarchy of levels, the finest first. It implements krylov.Operator.
type Cycle struct {
	levels []*level
	kind   string // one of precondition.Cycles
	team   precondition.Team
	Hierarchy
}

// level is one rank's part of one matrix of the hierarchy.
type level struct {
	a        precondition.Square
	smoother smoother
	r, p     *matrix   // restriction to the next level and interpolation back; nil on the last
	factor   *cholesky // factor of the last level, on its owner
	direct   bool      // the level is solved by its factor
	owned    int
	b        []float64 // right-hand side, on coarser levels
	revisit  *revisit  // vectors of a cycle that visits the level twice
	size     Size
}

// revisit holds the vectors of a level that is visited twice. The vectors that are multiplied have room for ghosts.
type revisit struct{ first, second, product, product2, residual []float64 }

// newRevisit allocates the vectors of a level that is visited twice.
func newRevisit(lv *level) *revisit {
	width := lv.a.Matrix.Columns()
	return &revisit{make([]float64, width), make([]float64, width), make([]float64, lv.owned), make([]float64, lv.owned),
		make([]float64, lv.owned)}
}

// Apply implements krylov.Operator: a cycle, starting from zero.
func (c *Cycle) Apply(dst, src []float64) error { return c.cycle(0, c.kind, dst, src) }

// cycle improves x from zero on level l: it smooths, restricts the residual, solves the coarser level, adds the
// interpolated correction and smooths again. enter reports the level to Trace, on the way down and up.
func (c *Cycle) cycle(l int, kind string, x, b []float64) error {
	c.enter(l)
	lv := c.levels[l]
	if l == len(c.levels)-1 {
		return lv.last(x, b)
	}
	if err := lv.smoother.before(x, b, true); err != nil {
		return err
	}
	if err := lv.a.Residual(lv.r.x, b, x); err != nil {
		return err
	}
	next := c.levels[l+1]
	if err := lv.r.Multiply(next.b, lv.r.x); err != nil {
		return err
	}
	if err := c.coarse(l+1, kind, lv.p.x, next.b); err != nil {
		return err
	}
	c.enter(l)
	if err := lv.p.Add(x, lv.p.x); err != nil {
		return err
	}
	return lv.smoother.after(x, b)
}

// coarse solves level l approximately, with one or two cycles.
func (c *Cycle) coarse(l int, kind string, x, b []float64) error {
	lv := c.levels[l]
	switch {
	case lv.revisit == nil || kind == precondition.CycleV:
		return c.cycle(l, kind, x, b)
	case kind == precondition.CycleK:
		return c.krylov(l, x, b)
	}
	if err := c.cycle(l, kind, x, b); err != nil {
		return err
	}
	if kind == precondition.CycleF {
		kind = precondition.CycleV
	}
	a := lv.revisit
	if err := lv.a.Residual(a.residual, b, x); err != nil {
		return err
	}
	if err := c.cycle(l, kind, a.first, a.residual); err != nil {
		return err
	}
	sparse.Axpby(x[:lv.owned], 1, x[:lv.owned], 1, a.first[:lv.owned])
	return nil
}

// enough is the reduction of the residual by the first step of a K-cycle that makes the second step unnecessary.
const enough = 0.25

// krylov solves level l by up to two steps of conjugate gradients, preconditioned by a cycle (Notay and Vassilevski,
// Recursive Krylov-based multigrid cycles, 2008, algorithm 3.2).
func (c *Cycle) krylov(l int, x, b []float64) error {
	lv := c.levels[l]
	a, n := lv.revisit, lv.owned
	if err := c.cycle(l, precondition.CycleK, a.first, b); err != nil {
		return err
	}
	if err := lv.a.Multiply(a.product, a.first); err != nil {
		return err
	}
	u, v := a.first[:n], a.product
	s, err := c.team.Sum([]float64{sparse.Dot(u, v), sparse.Dot(u, b[:n]), sparse.Dot(b[:n], b[:n]), sparse.Dot(b[:n], v),
		sparse.Dot(v, v)})
	if err != nil {
		return err
	}
	rho, step := s[0], 0.0
	if rho > 0 {
		step = s[1] / rho
	}
	// left is the squared norm of the residual b - step*v, from the scalar products.
	if left := s[2] - 2*step*s[3] + step*step*s[4]; !(left > enough*enough*s[2]) || !(rho > 0) {
		sparse.Axpby(x[:n], step, u, 0, u)
		return nil
	}
	sparse.Axpby(a.residual, 1, b[:n], -step, v)
	if err := c.cycle(l, precondition.CycleK, a.second, a.residual); err != nil {
		return err
	}
	if err := lv.a.Multiply(a.product2, a.second); err != nil {
		return err
	}
	d := a.second[:n]
	if s, err = c.team.Sum([]float64{sparse.Dot(d, v), sparse.Dot(d, a.product2), sparse.Dot(d, a.residual)}); err != nil {
		return err
	}
	// The second direction is d without its part along u, in the scalar product of A. rest is its curvature.
	rest := s[1] - s[0]*s[0]/rho
	if !(rest > 0) {
		sparse.Axpby(x[:n], step, u, 0, u)
		return nil
	}
	sparse.Axpby(x[:n], step-s[0]*s[2]/(rho*rest), u, s[2]/rest, d)
	return nil
}

// last solves the coarsest level, or smooths it if it has no factor.
func (lv *level) last(x, b []float64) error {
	switch {
	case lv.factor != nil:
		lv.factor.solve(x, b)
		return nil
	case lv.direct:
		return nil // another rank owns the level
	}
	if err := lv.smoother.before(x, b, true); err != nil {
		return err
	}
	return lv.smoother.after(x, b)
}

// Local implements krylov.Operator.
func (c *Cycle) Local() bool { return false }

// visits returns how often an application works on level l.
func (c *Cycle) visits(l int) float64 {
	switch {
	case l == 0 || c.kind == precondition.CycleV:
		return 1
	case c.kind == precondition.CycleF:
		return float64(min(l, len(c.levels)-2) + 1)
	}
	return math.Exp2(float64(min(l, len(c.levels)-2))) // the last level is solved directly, once for each visit above it
}

// Work returns the memory traffic in bytes and the operations of an application on level l, on this rank.
func (c *Cycle) Work(l int) (bytes, flops float64) {
	lv := c.levels[l]
	rows := float64(lv.owned)
	switch {
	case lv.factor != nil:
		n := float64(lv.factor.n)
		bytes, flops = 8*n*n, 2*n*n
	case l == len(c.levels)-1 && lv.direct:
		return 0, 0
	case lv.p == nil:
		bytes, flops = lv.smoother.work()
		bytes, flops = 2*bytes, 2*flops
	default:
		// Two smoothing steps, one of them with a residual and x; the residual for the restriction; R and P.
		bytes, flops = lv.smoother.work()
		bytes, flops = 2*bytes+2*float64(lv.a.Matrix.Bytes())+float64(lv.p.Matrix.Bytes()+lv.r.Matrix.Bytes())+8*8*rows,
			2*flops+4*float64(lv.a.Matrix.Entries())+2*float64(lv.p.Matrix.Entries()+lv.r.Matrix.Entries())+3*rows
	}
	visits := c.visits(l)
	if lv.revisit != nil { // every second visit needs a residual, and a K-cycle two products and eight scalar products
		products, vectors := 0.5, 2.
		if c.kind == precondition.CycleK {
			products, vectors = 1, 7
		}
		bytes += products*float64(lv.a.Matrix.Bytes()) + 8*vectors*rows
		flops += products*2*float64(lv.a.Matrix.Entries()) + 2*vectors*rows
	}
	return visits * bytes, visits * flops
}

// Bytes implements krylov.Operator.
func (c *Cycle) Bytes() int {
	total := 0.0
	for l := range c.levels {
		bytes, _ := c.Work(l)
		total += bytes
	}
	return int(total)
}
