package krylov

import "math"

// orthogonal is the cosine below which rho is only rounding error.
const orthogonal = 1e-12

func init() {
	Methods.Register(Method{Name: "bicgstab", Help: "stabilised bi-conjugate gradients", Reductions: 2,
		Trial: 3, Start: startBiCGStab})
}

// startBiCGStab is the method of van der Vorst (1992), preconditioned from the right. It computes the new (shadow, r)
// from products that are known before r, so two reductions per iteration are enough. The norm of r is taken in the
// following stage, which reads r anyway. The first shadow residual is b. If the residual becomes orthogonal to the
// shadow except for rounding, the shadow yields no further direction; the method then restarts from x with the
// current residual as the shadow.
func startBiCGStab(c *Core) func() {
	const r, p, v, t = FirstOwn, FirstOwn + 1, FirstOwn + 2, FirstOwn + 3 // r also holds s = r - alpha v
	shadow, renewed := B, FirstOwn+4                                      // renewed holds later shadows
	n := FirstOwn + 5
	y, z := c.Preconditioned(p, &n), c.Preconditioned(r, &n) // the preconditioned p and s
	c.Vectors = int(n)
	// direct takes the residual as the direction.
	direct := func(s *Stage) []float64 {
		return c.Do(s.Set(p, Term{1, r}).Precondition(y, p).Multiply(v, y).Dot(shadow, v))
	}
	return func() {
		sums := c.Do(c.Begin(r))
		if c.Began(sums[0]) {
			return
		}
		rho, length := sums[0], c.Norm // (shadow, r) and the norm of the shadow
		sums = direct(c.Stage())
		for {
			if sums[0] == 0 {
				c.Breakdown("the direction is orthogonal to the shadow residual: try gmres")
			}
			alpha := rho / sums[0]
			sums = c.Do(c.Stage().Add(r, -alpha, v).Precondition(z, r).Multiply(t, z).
				Dot(t, r).Dot(t, t).Dot(shadow, r).Dot(shadow, t))
			ts, tt, bs, bt := sums[0], sums[1], sums[2], sums[3]
			if tt == 0 { // then s is zero too, and x is exact after half a step, unless the matrix is singular
				sums = c.Do(c.Stage().Add(X, alpha, y).Dot(r, r))
				if c.Iterated(math.Sqrt(sums[0])) {
					return
				}
				c.Breakdown("the matrix is singular")
			}
			omega := ts / tt               // minimises the norm of the next r
			next, beta := bs-omega*bt, 0.0 // (shadow, next r) by linearity
			if omega != 0 {
				beta = next / rho * alpha / omega
			} else {
				next = 0 // beta is undefined: the shadow is replaced below
			}
			rho = next
			sums = c.Do(c.Stage().
				Set(X, Term{1, X}, Term{alpha, y}, Term{omega, z}).
				Add(r, -omega, t).
				Set(p, Term{beta, p}, Term{-beta * omega, v}, Term{1, r}).
				Precondition(y, p).Multiply(v, y).Dot(shadow, v).Dot(r, r))
			norm := math.Sqrt(sums[1])
			if c.Iterated(norm) {
				return
			}
			if sums[0] == 0 || math.Abs(rho) <= orthogonal*length*norm {
				shadow, length, rho = renewed, norm, sums[1]
				sums = direct(c.Stage().Set(renewed, Term{1, r}))
			}
		}
	}
}
