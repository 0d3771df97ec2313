package krylov

import "math"

// single is the method of Chronopoulos and Gear (1989). An additional recurrence for s = A p lets it take all scalar
// products of an iteration at once.
type single struct {
	*Core
	r, p, s, u, w Vec
	gamma, alpha  float64
}

func init() {
	Methods.Register(Method{Name: "cg-single", Help: "conjugate gradients after Chronopoulos and Gear",
		Needs: SymmetricDefinite, Reductions: 1, Improves: Default, Start: startSingle})
}

func startSingle(c *Core) {
	m := &single{Core: c, r: FirstOwn, p: FirstOwn + 1, s: FirstOwn + 2, w: FirstOwn + 3}
	n := FirstOwn + 4
	m.u = c.Preconditioned(m.r, &n)
	c.Vectors = int(n)
	c.Next = m.start
}

func (m *single) start([]float64) *Stage {
	m.Next = m.started
	return m.finish(m.Stage().Set(X).Set(m.r, Term{1, B}))
}

// finish adds the end of every stage, when r is final.
func (m *single) finish(s *Stage) *Stage {
	s.Precondition(m.u, m.r).Multiply(m.w, m.u).Dot(m.r, m.r).Dot(m.w, m.u)
	if m.u != m.r {
		s.Dot(m.r, m.u)
	}
	return s
}

func (m *single) started(sums []float64) *Stage {
	if m.Began(sums[0]) {
		return nil
	}
	gamma, delta := m.products(sums)
	if delta <= 0 {
		return m.Breakdown("the matrix is not positive definite: use minres")
	}
	m.gamma, m.alpha = gamma, gamma/delta
	m.Next = m.iterate
	s := m.Stage().Set(m.p, Term{1, m.u}).Set(m.s, Term{1, m.w})
	return m.finish(s.Add(X, m.alpha, m.p).Add(m.r, -m.alpha, m.s))
}

// products returns (r, u) and (w, u). Without a preconditioner (r, u) is (r, r).
func (m *single) products(sums []float64) (gamma, delta float64) {
	if m.u == m.r {
		return sums[0], sums[1]
	}
	return sums[2], sums[1]
}

func (m *single) iterate(sums []float64) *Stage {
	if m.Iterated(math.Sqrt(sums[0])) {
		return nil
	}
	gamma, delta := m.products(sums)
	beta := gamma / m.gamma
	// The curvature (p, Ap) of the next direction p = u + beta p follows from the sums and the previous step, so it needs
	// no reduction of its own. This is the idea of the method.
	curvature := delta - beta*gamma/m.alpha
	if gamma <= 0 || curvature <= 0 {
		return m.Breakdown("the matrix or the preconditioner is not positive definite: use minres")
	}
	m.gamma, m.alpha = gamma, gamma/curvature
	s := m.Stage().Set(m.p, Term{beta, m.p}, Term{1, m.u}).Set(m.s, Term{beta, m.s}, Term{1, m.w})
	return m.finish(s.Add(X, m.alpha, m.p).Add(m.r, -m.alpha, m.s))
}
