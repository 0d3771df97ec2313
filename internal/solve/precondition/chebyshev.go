package precondition

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	Preconditioners.Register(Preconditioner{Name: "chebyshev",
		Help:  "Chebyshev's polynomial of degree 4 in the Jacobi-scaled matrix: products and no reductions",
		Needs: krylov.SymmetricDefinite, New: newChebyshev})
}

const (
	// degree and ratio describe the polynomial of the preconditioner chebyshev: it is small on the eigenvalues between the
	// largest and 1/ratio of the largest.
	degree = 4
	ratio  = 30
	// blockRows is the number of rows that are processed at a time, so that the values written by one operation are in the
	// first-level cache when the next operation reads them.
	blockRows = 512
)

// Chebyshev is the iteration x += p(D^-1 A) D^-1 (b - A x). The polynomial p damps an interval of the eigenvalues of
// D^-1 A. The iteration needs no scalar products. Applied to x = 0 it is a symmetric positive definite operator.
type Chebyshev struct {
	a      Square
	scale  []float64 // reciprocals of the diagonal, divided by the middle of the interval
	lo, hi float64
	degree int
	p, q   []float64 // steps, with room for ghosts
	z      []float64 // the scaled residual, for degrees above 2
	block  []float64
}

func newChebyshev(l *Local) (krylov.Operator, error) {
	d, err := DiagonalOf(l, jacobi)
	if err != nil {
		return nil, err
	}
	s := Square{Matrix: l.Matrix, Halo: l.Halo}
	return NewChebyshev(s, d.(krylov.Diagonal), math.Inf(1), degree, ratio, l.Team, l.Plan.Global)
}

// Square is one rank's part of a square matrix, with the halo exchange that its products need.
type Square struct {
	Matrix *sparse.Matrix
	Halo   krylov.Halo
}

// Exchange updates the ghosts of x.
func (s Square) Exchange(x []float64) error {
	if err := s.Halo.Start(x, 1); err != nil {
		return err
	}
	return s.Halo.Finish(x, 1)
}

// Multiply sets dst to the product with x. It updates the ghosts of x.
func (s Square) Multiply(dst, x []float64) error {
	if err := s.Exchange(x); err != nil {
		return err
	}
	s.Matrix.Multiply(dst, x, 0, s.Matrix.Rows())
	return nil
}

// Add adds the product with x to dst. It updates the ghosts of x.
func (s Square) Add(dst, x []float64) error { return s.combine(dst, 1, dst, 1, x) }

// Residual sets r to b minus the product with x. It updates the ghosts of x.
func (s Square) Residual(r, b, x []float64) error { return s.combine(r, 1, b, -1, x) }

// combine sets dst to f v + g A x, block by block.
func (s Square) combine(dst []float64, f float64, v []float64, g float64, x []float64) error {
	if err := s.Exchange(x); err != nil {
		return err
	}
	var block [blockRows]float64
	for lo := 0; lo < s.Matrix.Rows(); lo += blockRows {
		hi := min(lo+blockRows, s.Matrix.Rows())
		s.Matrix.Product(block[:], x, lo, hi)
		sparse.Axpby(dst[lo:hi], f, v[lo:hi], g, block[:hi-lo])
	}
	return nil
}

// NewChebyshev prepares the iteration for a matrix from the reciprocals of its diagonal. All ranks call it together:
// they estimate the largest eigenvalue, starting from noise. bound is an upper bound of the eigenvalue from the rows of
// this rank, infinite if unknown. global converts local to global row numbers.
func NewChebyshev(a Square, inverse []float64, bound float64, degree int, ratio float64, team Team,
	global func(int) int) (*Chebyshev, error) {
	c := &Chebyshev{a: a, scale: make([]float64, len(inverse)), degree: degree, block: make([]float64, blockRows),
		p: make([]float64, a.Matrix.Columns()), q: make([]float64, a.Matrix.Columns())}
	if degree > 2 {
		c.z = make([]float64, len(inverse))
	}
	for i, d := range inverse {
		c.scale[i] = math.Sqrt(math.Abs(d))
	}
	var err error
	c.hi, err = c.largest(bound, team, global)
	c.lo = c.hi / ratio
	sparse.Axpby(c.scale, 2/(c.hi+c.lo), inverse, 0, inverse)
	return c, err
}

// Largest returns the upper end of the interval, an estimate of the largest eigenvalue of D^-1 A.
func (c *Chebyshev) Largest() float64 { return c.hi }

// each calls fn for blocks of rows.
func (c *Chebyshev) each(fn func(lo, hi int)) {
	for lo := 0; lo < len(c.scale); lo += blockRows {
		fn(lo, min(lo+blockRows, len(c.scale)))
	}
}

// largest returns an upper estimate of the largest eigenvalue of D^-1/2 A D^-1/2, where c.scale holds D^-1/2. The
// result does not exceed the largest bound of any rank.
func (c *Chebyshev) largest(bound float64, team Team, global func(int) int) (float64, error) {
	n, s := len(c.scale), c.scale
	v, w, scaled := make([]float64, n), c.q, c.p // Lanczos vectors of the last two steps, and the newest one scaled
	for i := range n {
		w[i] = sparse.Noise(7, global(i))
	}
	parts := make([]float64, 1+team.Size())
	parts[0], parts[1+team.Rank()] = sparse.Dot(w[:n], w[:n]), bound
	sums, err := team.Sum(parts)
	if err != nil {
		return 1, err
	}
	steps := NewLanczos(sums[0], slices.Max(sums[1:]))
	for {
		along, beyond, before, more := steps.Next()
		if !more {
			return steps.Largest(), nil
		}
		c.each(func(lo, hi int) { // normalise the remainder of the last step
			sparse.Axpby(w[lo:hi], along, w[lo:hi], beyond, v[lo:hi])
			sparse.Times(scaled[lo:hi], s[lo:hi], w[lo:hi])
		})
		v, w = w, v
		if err := c.a.Exchange(scaled); err != nil {
			return 1, err
		}
		dots := make([]float64, 2)
		c.each(func(lo, hi int) {
			q := c.block[:hi-lo]
			c.a.Matrix.Product(q, scaled, lo, hi)
			sparse.Times(q, s[lo:hi], q)
			sparse.Axpby(w[lo:hi], 1, q, -before, w[lo:hi])
			dots[0] += sparse.Dot(w[lo:hi], v[lo:hi])
			dots[1] += sparse.Dot(w[lo:hi], w[lo:hi])
		})
		if sums, err = team.Sum(dots); err != nil {
			return 1, err
		}
		steps.Made(sums[0], sums[1])
	}
}

// Apply implements krylov.Operator: the iteration, starting from zero.
func (c *Chebyshev) Apply(dst, src []float64) error { return c.Smooth(dst, src, true) }

// Smooth improves the solution x of A x = b. If fresh, it takes x as zero. The three-term recurrence is algorithm 12.1
// of Saad, Iterative Methods. Residuals are scaled by D and the middle of the interval, so that the first step is the
// scaled residual itself.
func (c *Chebyshev) Smooth(x, b []float64, fresh bool) error {
	if err := c.first(x, b, fresh); err != nil {
		return err
	}
	theta, delta := (c.hi+c.lo)/2, (c.hi-c.lo)/2
	sigma := theta / delta
	rho := 1 / sigma
	p, next := c.p, c.q
	for k := 1; k < c.degree; k++ {
		if err := c.a.Exchange(p); err != nil {
			return err
		}
		last := rho
		rho = 1 / (2*sigma - rho)
		f, g := rho*last, 2*rho*sigma
		c.each(func(lo, hi int) {
			z, q := p[lo:hi], c.block[:hi-lo]
			c.a.Matrix.Product(q, p, lo, hi)
			sparse.Times(q, c.scale[lo:hi], q)
			if k > 1 {
				z = c.z[lo:hi]
			}
			sparse.Axpby(q, 1, z, -1, q)
			if k+1 < c.degree {
				copy(c.z[lo:hi], q)
			}
			sparse.Axpby(q, f, p[lo:hi], g, q)
			if k+1 < c.degree {
				copy(next[lo:hi], q)
			}
			if fresh && k == 1 {
				sparse.Axpby(x[lo:hi], 1, p[lo:hi], 1, q)
				return
			}
			if k == 1 {
				sparse.Axpby(x[lo:hi], 1, x[lo:hi], 1, p[lo:hi])
			}
			sparse.Axpby(x[lo:hi], 1, x[lo:hi], 1, q)
		})
		p, next = next, p
	}
	return nil
}

// first computes the first step. It adds the step to x only if the degree is 1; otherwise Smooth does that together
// with the second step.
func (c *Chebyshev) first(x, b []float64, fresh bool) error {
	if !fresh {
		if err := c.a.Exchange(x); err != nil {
			return err
		}
	}
	c.each(func(lo, hi int) {
		r := b[lo:hi]
		if !fresh {
			r = c.block[:hi-lo]
			c.a.Matrix.Product(r, x, lo, hi)
			sparse.Axpby(r, 1, b[lo:hi], -1, r)
		}
		sparse.Times(c.p[lo:hi], c.scale[lo:hi], r)
	})
	if n := len(c.scale); c.degree == 1 && fresh {
		copy(x[:n], c.p)
	} else if c.degree == 1 {
		sparse.Axpby(x[:n], 1, x[:n], 1, c.p[:n])
	}
	return nil
}

// Local implements krylov.Operator. The products need ghosts.
func (c *Chebyshev) Local() bool { return false }

// Bytes implements krylov.Operator. The first step reads b and the scale and writes p. The second step reads p and the
// scale and writes x. Each further step also reads and writes z and x.
func (c *Chebyshev) Bytes() int {
	n := 8 * len(c.scale)
	if c.degree < 2 {
		return 2 * n
	}
	steps := c.degree - 1
	return steps*c.a.Matrix.Bytes() + 3*n + 3*n + (steps-1)*7*n
}

// Flops returns the operations of an application: for each step a product, and some operations on every row.
func (c *Chebyshev) Flops() float64 {
	steps, rows := float64(c.degree-1), float64(len(c.scale))
	return rows + steps*(2*float64(c.a.Matrix.Entries())+7*rows)
}
