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

// steepest moves along the preconditioned residual z. It needs one stage per iteration.
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
		return m.look(c.Stage().Set(solve.X).Set(m.r, solve.Term{Coef: 1, Vec: solve.B}))
	}
}

// look completes a stage: z = M r, q = A z, and the three sums for the next step.
func (m *steepest) look(s *solve.Stage) *solve.Stage {
	return s.Precondition(m.z, m.r).Multiply(m.q, m.z).Dot(m.r, m.r).Dot(m.r, m.z).Dot(m.z, m.q)
}

func (m *steepest) started(sums []float64) *solve.Stage {
	if m.Began(sums[0]) {
		return nil
	}
	m.Next = m.iterate
	return m.descend(sums)
}

func (m *steepest) iterate(sums []float64) *solve.Stage {
	if m.Iterated(math.Sqrt(sums[0])) {
		return nil
	}
	return m.descend(sums)
}

func (m *steepest) descend(sums []float64) *solve.Stage {
	if sums[2] <= 0 {
		return m.Breakdown("the matrix is not positive definite")
	}
	alpha := sums[1] / sums[2]
	return m.look(m.Stage().Add(solve.X, alpha, m.z).Add(m.r, -alpha, m.q))
}
