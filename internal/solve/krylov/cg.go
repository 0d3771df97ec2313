package krylov

import "math"

// cg is the method of Hestenes and Stiefel (1952). An iteration has two stages and so two all-reduces: one for (p,
// Ap), one for (r, r) and (r, z). The stage with the product also updates x with the step of the previous iteration,
// because it reads the old direction anyway to make the new one. The last update of x is a stage of its own.
//
// With a flexible preconditioner, the next direction is made conjugate to the last one explicitly (Notay, Flexible
// Conjugate Gradients, 2000). This takes one more scalar product, (q, z), in the same all-reduce.
type cg struct {
	*Core
	r, p, q, z Vec
	rz, alpha  float64
	steps      struct{ descend, direct Step }
}

func init() {
	Methods.Register(Method{Name: Default, Help: "conjugate gradients", Needs: SymmetricDefinite, Reductions: 2,
		Flexible: true, Trial: 1, Start: startCG})
}

func startCG(c *Core) {
	m := &cg{Core: c, r: FirstOwn, p: FirstOwn + 1, q: FirstOwn + 2}
	n := FirstOwn + 3
	m.z = c.Preconditioned(m.r, &n)
	if c.Config.Precondition && !c.Config.Stored {
		m.z, n = Inverted(m.r), n-1 // computed on the fly
	}
	c.Vectors = int(n)
	m.steps.descend, m.steps.direct = m.descend, m.direct
	c.Next = m.start
}

func (m *cg) start([]float64) *Stage {
	m.Next = m.started
	return m.Begin(m.r).Precondition(m.z, m.r).Dot(m.r, m.z)
}

// started begins with the preconditioned residual as the first direction.
func (m *cg) started(sums []float64) *Stage {
	if m.Began(sums[0]) {
		return nil
	}
	m.rz = sums[1]
	return m.product(m.Stage().Set(m.p, Term{1, m.z}))
}

// product multiplies the matrix with the new direction.
func (m *cg) product(s *Stage) *Stage {
	m.Next = m.steps.descend
	return s.Multiply(m.q, m.p).Dot(m.p, m.q)
}

// descend shortens the residual by a step along p. sums[0] is (p, Ap), which is positive for every p if the matrix is
// positive definite.
func (m *cg) descend(sums []float64) *Stage {
	if sums[0] <= 0 {
		return m.Breakdown("the matrix is not positive definite: use minres")
	}
	m.alpha = m.rz / sums[0]
	m.Next = m.steps.direct
	s := m.Stage().Add(m.r, -m.alpha, m.q).Precondition(m.z, m.r).Dot(m.r, m.r)
	if m.z != m.r {
		s.Dot(m.r, m.z)
	}
	if m.Config.Flexible {
		s.Dot(m.q, m.z)
	}
	return s
}

// direct moves x along p and makes the next direction conjugate to p. sums holds (r, r), with a preconditioner also
// (r, z), and with a flexible one also (q, z). Without a preconditioner z is r.
func (m *cg) direct(sums []float64) *Stage {
	over := m.Iterated(math.Sqrt(sums[0]))
	rz := sums[min(1, len(sums)-1)]
	if !over && rz <= 0 {
		m.Breakdown("the preconditioner is not positive definite")
		over = true
	}
	s := m.Stage().Add(X, m.alpha, m.p)
	if over {
		m.Next = End
		return s
	}
	beta := rz / m.rz
	if m.Config.Flexible {
		beta = -m.alpha * sums[2] / m.rz // r has changed by -alpha q
	}
	m.rz = rz
	return m.product(s.Set(m.p, Term{beta, m.p}, Term{1, m.z}))
}
