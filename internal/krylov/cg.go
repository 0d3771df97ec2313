package krylov

import "math"

// cg is the method of Hestenes and Stiefel: two stages per iteration, one of
// them with the product.
type cg struct {
	*core
	r, p, q, z Vec
	rz         float64
	steps      struct{ descend, direct step }
}

func startCG(c *core) {
	m := &cg{core: c, r: firstOwn, p: firstOwn + 1, q: firstOwn + 2}
	n := firstOwn + 3
	m.z = c.preconditioned(m.r, &n)
	c.vectors = int(n)
	m.steps.descend, m.steps.direct = m.descend, m.direct
	c.next = m.start
}

func (m *cg) start([]float64) *Stage {
	m.next = m.started
	return m.begin(m.r).precondition(m.z, m.r).dot(m.r, m.z)
}

func (m *cg) started(sums []float64) *Stage {
	if m.began(sums[0]) {
		return nil
	}
	m.rz = sums[1]
	return m.product(m.stage.reset().set(m.p, Term{1, m.z}))
}

// product multiplies by the new direction.
func (m *cg) product(s *Stage) *Stage {
	m.next = m.steps.descend
	return s.multiply(m.q, m.p).dot(m.p, m.q)
}

func (m *cg) descend(sums []float64) *Stage {
	if sums[0] <= 0 {
		return m.breakdown("the matrix is not positive definite: use minres")
	}
	alpha := m.rz / sums[0]
	m.next = m.steps.direct
	s := m.stage.reset().add(X, alpha, m.p).add(m.r, -alpha, m.q).precondition(m.z, m.r).dot(m.r, m.r)
	if m.z != m.r {
		s.dot(m.r, m.z)
	}
	return s
}

func (m *cg) direct(sums []float64) *Stage {
	if m.iterated(math.Sqrt(sums[0])) {
		return nil
	}
	rz := sums[len(sums)-1]
	if rz <= 0 {
		return m.breakdown("the preconditioner is not positive definite")
	}
	beta := rz / m.rz
	m.rz = rz
	return m.product(m.stage.reset().set(m.p, Term{beta, m.p}, Term{1, m.z}))
}
