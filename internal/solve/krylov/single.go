package krylov

import "math"

func init() {
	Methods.Register(Method{Name: "cg-single", Help: "conjugate gradients after Chronopoulos and Gear",
		Needs: SymmetricDefinite, Reductions: 1, Improves: Default, Start: startSingle})
}

// startSingle is the method of Chronopoulos and Gear (1989). An additional recurrence for s = A p lets it take all
// scalar products of an iteration at once.
func startSingle(c *Core) func() {
	const r, p, s, w = FirstOwn, FirstOwn + 1, FirstOwn + 2, FirstOwn + 3
	n := FirstOwn + 4
	u := c.Preconditioned(r, &n)
	c.Vectors = int(n)
	// finish completes a stage after which r is final. It returns (r, r), (r, u) and (w, u).
	finish := func(stage *Stage) (rr, gamma, delta float64) {
		stage.Precondition(u, r).Multiply(w, u).Dot(r, r).Dot(w, u)
		if u != r {
			stage.Dot(r, u)
		}
		sums := c.Do(stage)
		if u == r {
			return sums[0], sums[0], sums[1]
		}
		return sums[0], sums[2], sums[1]
	}
	return func() {
		rr, gamma, curvature := finish(c.Stage().Set(X).Set(r, Term{1, B}))
		if c.Began(rr) {
			return
		}
		if curvature <= 0 {
			c.Breakdown("the matrix is not positive definite: use minres")
		}
		alpha := gamma / curvature
		stage := c.Stage().Set(p, Term{1, u}).Set(s, Term{1, w})
		for {
			rr, next, delta := finish(stage.Add(X, alpha, p).Add(r, -alpha, s))
			if c.Iterated(math.Sqrt(rr)) {
				return
			}
			beta := next / gamma
			// The curvature (p, Ap) of the next direction p = u + beta p follows from the sums and the previous step, so it
			// needs no reduction of its own. This is the idea of the method.
			curvature = delta - beta*next/alpha
			if next <= 0 || curvature <= 0 {
				c.Breakdown("the matrix or the preconditioner is not positive definite: use minres")
			}
			gamma, alpha = next, next/curvature
			stage = c.Stage().Set(p, Term{beta, p}, Term{1, u}).Set(s, Term{beta, s}, Term{1, w})
		}
	}
}
