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
		Start:      startSteepest,
	})
}

// steepest moves x along the preconditioned residual z, as far as minimises the error in the norm of A. It needs
// one stage per iteration.
type steepest struct {
	*solve.Core
	r, q, z solve.Vec
}

func startSteepest(c *solve.Core) {
	m := &steepest{Core: c, r: solve.FirstOwn, q: solve.FirstOwn + 1}
	free := solve.FirstOwn + 2
	m.z = c.Preconditioned(m.r, &free) // r itself without a preconditioner
	c.Vectors = int(free)
	c.Next = func([]float64) *solve.Stage {
		c.Next = m.started
		return m.complete(c.Stage().Set(solve.X).Set(m.r, solve.Term{Coef: 1, Vec: solve.B}))
	}
}

// complete adds the rest of a stage: z = M r, q = A z, and the scalar products (r, r), (r, z) and (z, q). The next
// step gets their sums over all ranks.
func (m *steepest) complete(s *solve.Stage) *solve.Stage {
	return s.Precondition(m.z, m.r).Multiply(m.q, m.z).Dot(m.r, m.r).Dot(m.r, m.z).Dot(m.z, m.q)
}

// started is the step after the first stage.
func (m *steepest) started(sums []float64) *solve.Stage {
	if m.Began(sums[0]) {
		return nil
	}
	m.Next = m.iterate
	return m.descend(sums)
}

// iterate is the step after every further stage.
func (m *steepest) iterate(sums []float64) *solve.Stage {
	if m.Iterated(math.Sqrt(sums[0])) {
		return nil
	}
	return m.descend(sums)
}

// descend returns the stage of an iteration.
func (m *steepest) descend(sums []float64) *solve.Stage {
	if sums[2] <= 0 {
		return m.Breakdown("the matrix is not positive definite")
	}
	alpha := sums[1] / sums[2]
	return m.complete(m.Stage().Add(solve.X, alpha, m.z).Add(m.r, -alpha, m.q))
}
