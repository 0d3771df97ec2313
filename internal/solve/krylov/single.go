package krylov

import "math"

// single is the variant of Chronopoulos and Gear (1989): a further recurrence,
// s = A p, lets all scalar products of an iteration be taken at once.
type single struct {
	*core
	r, p, s, u, w Vec
	gamma, alpha  float64
}

func startSingle(c *core) {
	m := &single{core: c, r: firstOwn, p: firstOwn + 1, s: firstOwn + 2, w: firstOwn + 3}
	n := firstOwn + 4
	m.u = c.preconditioned(m.r, &n)
	c.vectors = int(n)
	c.next = m.start
}

func (m *single) start([]float64) *Stage {
	m.next = m.started
	return m.finish(m.stage.reset().set(X).set(m.r, Term{1, B}))
}

// finish is the end of every stage: r is final.
func (m *single) finish(s *Stage) *Stage {
	s.precondition(m.u, m.r).multiply(m.w, m.u).dot(m.r, m.r).dot(m.w, m.u)
	if m.u != m.r {
		s.dot(m.r, m.u)
	}
	return s
}

func (m *single) started(sums []float64) *Stage {
	if m.began(sums[0]) {
		return nil
	}
	gamma, delta := m.products(sums)
	if delta <= 0 {
		return m.breakdown("the matrix is not positive definite: use minres")
	}
	m.gamma, m.alpha = gamma, gamma/delta
	m.next = m.iterate
	s := m.stage.reset().set(m.p, Term{1, m.u}).set(m.s, Term{1, m.w})
	return m.finish(s.add(X, m.alpha, m.p).add(m.r, -m.alpha, m.s))
}

// products gives (r, u) and (w, u); without a preconditioner the first is the
// residual's own.
func (m *single) products(sums []float64) (gamma, delta float64) {
	if m.u == m.r {
		return sums[0], sums[1]
	}
	return sums[2], sums[1]
}

func (m *single) iterate(sums []float64) *Stage {
	if m.iterated(math.Sqrt(sums[0])) {
		return nil
	}
	gamma, delta := m.products(sums)
	beta := gamma / m.gamma
	curvature := delta - beta*gamma/m.alpha
	if gamma <= 0 || curvature <= 0 {
		return m.breakdown("the matrix or the preconditioner is not positive definite: use minres")
	}
	m.gamma, m.alpha = gamma, gamma/curvature
	s := m.stage.reset().set(m.p, Term{beta, m.p}, Term{1, m.u}).set(m.s, Term{beta, m.s}, Term{1, m.w})
	return m.finish(s.add(X, m.alpha, m.p).add(m.r, -m.alpha, m.s))
}
