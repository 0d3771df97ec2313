package krylov

import "math"

// cg is the method of Hestenes and Stiefel: two stages per iteration, one of
// them with the product. That one also takes the step of x, which the iteration
// before has found: the old direction comes by there anyway, on its way to the
// new one. The last step is a stage of its own.
type cg struct {
	*core
	r, p, q, z Vec
	rz, alpha  float64
	steps      struct{ descend, direct step }
}

func startCG(c *core) {
	m := &cg{core: c, r: firstOwn, p: firstOwn + 1, q: firstOwn + 2, z: firstOwn}
	if c.cfg.Precondition {
		m.z = inverted(m.r)
	}
	c.vectors = int(firstOwn + 3)
	m.steps.descend, m.steps.direct = m.descend, m.direct
	c.next = m.start
}

func (m *cg) start([]float64) *Stage {
	m.next = m.started
	return m.begin(m.r).dot(m.r, m.z)
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
	m.alpha = m.rz / sums[0]
	m.next = m.steps.direct
	s := m.stage.reset().add(m.r, -m.alpha, m.q).dot(m.r, m.r)
	if m.z != m.r {
		s.dot(m.r, m.z)
	}
	return s
}

func (m *cg) direct(sums []float64) *Stage {
	over := m.iterated(math.Sqrt(sums[0]))
	rz := sums[len(sums)-1]
	if !over && rz <= 0 {
		m.breakdown("the preconditioner is not positive definite")
		over = true
	}
	s := m.stage.reset().add(X, m.alpha, m.p)
	if over {
		m.next = ended
		return s
	}
	beta := rz / m.rz
	m.rz = rz
	return m.product(s.set(m.p, Term{beta, m.p}, Term{1, m.z}))
}
