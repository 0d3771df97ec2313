package main

import (
	"math"

	"github.com/kernbench/kernbench/solve"
)

func init() {
	solve.RegisterMethod(solve.Method{
		Name:       "steepest",
		Help:       "steepest descent",
		Needs:      solve.SymmetricDefinite,
		Reductions: 1,
		Start:      steepest,
	})
}

// steepest moves x along the preconditioned residual z, as far as minimises the error in the norm of A. It needs
// one stage per iteration.
func steepest(c *solve.Core) func() {
	const r, q = solve.FirstOwn, solve.FirstOwn + 1
	free := solve.FirstOwn + 2
	z := c.Preconditioned(r, &free) // r itself without a preconditioner
	c.Vectors = int(free)
	// complete adds z = M r, q = A z, and the scalar products (r, r), (r, z) and (z, q) to a stage. It returns their
	// sums over all ranks.
	complete := func(s *solve.Stage) []float64 {
		return c.Do(s.Precondition(z, r).Multiply(q, z).Dot(r, r).Dot(r, z).Dot(z, q))
	}
	return func() {
		sums := complete(c.Stage().Set(solve.X).Set(r, solve.Term{Coef: 1, Vec: solve.B}))
		for done := c.Began(sums[0]); !done; done = c.Iterated(math.Sqrt(sums[0])) {
			if sums[2] <= 0 {
				c.Breakdown("the matrix is not positive definite")
			}
			alpha := sums[1] / sums[2]
			sums = complete(c.Stage().Add(solve.X, alpha, z).Add(r, -alpha, q))
		}
	}
}
