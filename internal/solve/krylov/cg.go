package krylov

import "math"

func init() {
	Methods.Register(Method{Name: Default, Help: "conjugate gradients", Needs: SymmetricDefinite, Reductions: 2,
		Flexible: true, Trial: 1, Start: startCG})
}

// startCG is the method of Hestenes and Stiefel (1952). An iteration has two stages and so two all-reduces: one for (p,
// Ap), one for (r, r) and (r, z). The stage with the product also updates x with the step of the previous iteration,
// because it reads the old direction anyway to make the new one. The last update of x is a stage of its own.
//
// With a flexible preconditioner, the next direction is made conjugate to the last one explicitly (Notay, Flexible
// Conjugate Gradients, 2000). This takes one more scalar product, (q, z), in the same all-reduce.
func startCG(c *Core) func() {
	const r, p, q = FirstOwn, FirstOwn + 1, FirstOwn + 2
	n := FirstOwn + 3
	z := c.Preconditioned(r, &n)
	if c.Config.Precondition && !c.Config.Stored {
		z, n = Inverted(r), n-1 // computed on the fly
	}
	c.Vectors = int(n)
	return func() {
		sums := c.Do(c.Begin(r).Precondition(z, r).Dot(r, z))
		if c.Began(sums[0]) {
			return
		}
		rz := sums[1]
		s := c.Stage().Set(p, Term{1, z})
		for {
			sums = c.Do(s.Multiply(q, p).Dot(p, q))
			if sums[0] <= 0 { // (p, Ap) is positive for every p if the matrix is positive definite
				c.Breakdown("the matrix is not positive definite: use minres")
			}
			alpha := rz / sums[0]
			s = c.Stage().Add(r, -alpha, q).Precondition(z, r).Dot(r, r)
			if z != r {
				s.Dot(r, z)
			}
			if c.Config.Flexible {
				s.Dot(q, z)
			}
			sums = c.Do(s)
			s = c.Stage().Add(X, alpha, p)
			if c.Iterated(math.Sqrt(sums[0])) {
				c.Do(s)
				return
			}
			next := sums[min(1, len(sums)-1)] // without a preconditioner z is r
			if next <= 0 {
				c.Do(s)
				c.Breakdown("the preconditioner is not positive definite")
			}
			beta := next / rz
			if c.Config.Flexible {
				beta = -alpha * sums[2] / rz // r has changed by -alpha q
			}
			rz = next
			s.Set(p, Term{beta, p}, Term{1, z})
		}
	}
}
