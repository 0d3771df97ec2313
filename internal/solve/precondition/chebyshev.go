package precondition

import (
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	Register(Preconditioner{Name: "chebyshev", Help: "Chebyshev's polynomial of degree 4 in the Jacobi-scaled matrix: products and no reductions",
		Needs: krylov.SymmetricDefinite, New: newChebyshev})
}

const (
	// degree and ratio are those of the polynomial as a preconditioner of its own: it is
	// small from the largest eigenvalue down to that part of it.
	degree = 4
	ratio  = 30
	// lanczosSteps find the largest eigenvalue to within a few per cent, and safety is on top.
	lanczosSteps = 12
	safety       = 1.05
)

// Chebyshev is an iteration x += p(D^-1 A) D^-1 (b - A x), where the polynomial makes small
// what lies in an interval of eigenvalues of D^-1 A. It needs no scalar products. From
// zero it is a symmetric positive definite operator.
type Chebyshev struct {
	// Product sets dst to the matrix times x, and brings the ghosts of x up to date for that.
	product func(dst, x []float64) error
	moves   int       // bytes of a product
	inverse []float64 // of the diagonal
	lo, hi  float64
	degree  int
	r, p, q []float64
}

func newChebyshev(l *Local) (krylov.Operator, error) {
	d, err := DiagonalOf(l, jacobi)
	if err != nil {
		return nil, err
	}
	s := Square{Matrix: l.Matrix, Halo: l.Halo}
	return NewChebyshev(s, d.(krylov.Diagonal), degree, ratio, l.Team, l.Plan.Global)
}

// Square is a rank's rows of a square matrix with the exchange that its products need.
type Square struct {
	Matrix *sparse.Matrix
	Halo   krylov.Halo
}

// Multiply sets dst to the product with x, whose ghosts it brings up to date.
func (s Square) Multiply(dst, x []float64) error {
	if err := s.Halo.Start(x); err != nil {
		return err
	}
	if err := s.Halo.Finish(x); err != nil {
		return err
	}
	s.Matrix.Multiply(dst, x, 0, s.Matrix.Rows())
	return nil
}

// NewChebyshev makes the iteration of a matrix, by the inverse of its diagonal. It finds the
// largest eigenvalue together with the other ranks, starting from noise by row number.
func NewChebyshev(a Square, inverse []float64, degree int, ratio float64, team Team, global func(int) int) (*Chebyshev, error) {
	c := &Chebyshev{product: a.Multiply, moves: a.Matrix.Bytes(), inverse: inverse, degree: degree}
	for _, v := range []*[]float64{&c.r, &c.p, &c.q} {
		*v = make([]float64, a.Matrix.Columns())
	}
	most, err := c.largest(team, global)
	c.hi = safety * most
	c.lo = c.hi / ratio
	return c, err
}

// Largest is the upper end of the interval: an estimate of the largest eigenvalue of D^-1 A.
func (c *Chebyshev) Largest() float64 { return c.hi }

// largest takes some steps of Lanczos' method on D^-1/2 A D^-1/2, written for D^-1 A.
func (c *Chebyshev) largest(team Team, global func(int) int) (float64, error) {
	n := len(c.inverse)
	v, old := c.p, make([]float64, n)
	for i := range n {
		v[i] = sparse.Noise(7, global(i))
	}
	// In the scalar product with weights D, D^-1 A is symmetric.
	dot := func(a, b []float64) (float64, error) {
		local := 0.0
		for i := range n {
			local += a[i] * b[i] / c.inverse[i]
		}
		sums, err := team.Sum([]float64{local})
		if err != nil {
			return 0, err
		}
		return sums[0], nil
	}
	var alphas, betas []float64
	square, err := dot(v, v)
	beta := math.Sqrt(square)
	for range lanczosSteps {
		if err != nil || !(beta > 1e-12) {
			break
		}
		for i := range n {
			v[i] /= beta
		}
		if err = c.product(c.q, v); err != nil {
			break
		}
		for i := range n {
			c.q[i] *= c.inverse[i]
		}
		var alpha float64
		if alpha, err = dot(c.q, v); err != nil {
			break
		}
		for i := range n {
			c.q[i] -= alpha * v[i]
			if len(alphas) > 0 {
				c.q[i] -= beta * old[i]
			}
		}
		copy(old, v[:n])
		copy(v, c.q[:n])
		alphas = append(alphas, alpha)
		if square, err = dot(v, v); err != nil {
			break
		}
		beta = math.Sqrt(square)
		betas = append(betas, beta)
	}
	if err != nil || len(alphas) == 0 {
		return 1, err
	}
	return tridiagonal(alphas, betas), nil
}

// tridiagonal is the largest eigenvalue of the symmetric tridiagonal matrix, by bisection: above
// it no pivot is positive.
func tridiagonal(diagonal, beside []float64) float64 {
	lo, hi := math.Inf(-1), math.Inf(-1)
	for i, d := range diagonal {
		radius := 0.0
		if i > 0 {
			radius += math.Abs(beside[i-1])
		}
		if i < len(diagonal)-1 {
			radius += math.Abs(beside[i])
		}
		lo, hi = max(lo, d), max(hi, d+radius)
	}
	above := func(x float64) bool {
		pivot := 0.0
		for i, d := range diagonal {
			if i > 0 {
				d -= beside[i-1] * beside[i-1] / pivot
			}
			if pivot = d - x; pivot >= 0 {
				return false
			}
		}
		return true
	}
	for range 60 {
		if mid := (lo + hi) / 2; above(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// Apply implements krylov.Operator: the iteration from zero.
func (c *Chebyshev) Apply(dst, src []float64) error { return c.Smooth(dst, src, true) }

// Smooth improves the solution x of A x = b; fresh is whether x is to be taken as zero.
// The three-term recurrence is that of Saad, Iterative Methods, algorithm 12.1.
func (c *Chebyshev) Smooth(x, b []float64, fresh bool) error {
	n := len(c.inverse)
	theta, delta := (c.hi+c.lo)/2, (c.hi-c.lo)/2
	sigma := theta / delta
	rho := 1 / sigma
	if fresh {
		clear(x[:n])
		copy(c.r[:n], b[:n])
	} else if err := c.residual(x, b); err != nil {
		return err
	}
	for i, d := range c.inverse {
		c.p[i] = d * c.r[i] / theta
	}
	for k := 0; ; k++ {
		sparse.Axpby(x[:n], 1, x[:n], 1, c.p[:n])
		if k == c.degree-1 {
			return nil
		}
		if err := c.product(c.q, c.p); err != nil {
			return err
		}
		next := 1 / (2*sigma - rho)
		f, g := next*rho, 2*next/delta
		rho = next
		for i, d := range c.inverse {
			c.r[i] -= c.q[i]
			c.p[i] = f*c.p[i] + g*d*c.r[i]
		}
	}
}

// residual sets c.r to b - A x.
func (c *Chebyshev) residual(x, b []float64) error {
	if err := c.product(c.q, x); err != nil {
		return err
	}
	n := len(c.inverse)
	sparse.Axpby(c.r[:n], 1, b[:n], -1, c.q[:n])
	return nil
}

// Local implements krylov.Operator: its products need ghosts.
func (c *Chebyshev) Local() bool { return false }

// Bytes implements krylov.Operator.
func (c *Chebyshev) Bytes() int {
	n := 8 * len(c.inverse)
	return (c.degree-1)*(c.moves+10*n) + 5*n
}
