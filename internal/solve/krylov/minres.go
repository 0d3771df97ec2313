package krylov

import (
	"fmt"
	"math"
)

// minres is the method of Paige and Saunders (1975), with Lanczos vectors r1 and r2 that are not normalised, directions
// w1 and w2, and one rotation per step. The scalars have the names of the code in their paper.
//
// With a preconditioner, phibar measures the residual in another norm. The method therefore updates the residual vector
// too, by its own recurrence.
//
// Both recurrences drift from the true residual if the matrix is ill-conditioned. When they report convergence, the
// method therefore computes b - A x. If that is still too large, it starts anew from there: x stays, and the next steps
// reduce what is left.
type minres struct {
	*Core
	r1, r2, w1, w2, v, t, y, res Vec

	beta, oldb, dbar, epsln, phibar, cs, sn float64
	update                                  minresUpdate
}

// minresUpdate is the part of a step that the next stage does, because it reads the same vectors. gamma, delta and
// oldeps are the new column of the triangular factor, and phi is the step of x.
type minresUpdate struct{ gamma, delta, oldeps, phi float64 }

func init() {
	Methods.Register(Method{Name: "minres", Help: "minimal residuals", Needs: Symmetric, Reductions: 2,
		Trial: 2, Start: startMINRES})
}

func startMINRES(c *Core) func() {
	m := &minres{Core: c, r1: FirstOwn, r2: FirstOwn + 1, w1: FirstOwn + 2, w2: FirstOwn + 3, v: FirstOwn + 4,
		t: FirstOwn + 5}
	n := FirstOwn + 6
	m.y = c.Preconditioned(m.r2, &n)
	m.res = c.Preconditioned(m.r2, &n)
	c.Vectors = int(n)
	return m.iterate
}

func (m *minres) iterate() {
	s := m.Begin(m.r2).Set(m.r1).Set(m.w1).Set(m.w2)
	if m.Config.Precondition {
		s.Set(m.res, Term{1, B})
	}
	sums := m.Do(s.Precondition(m.y, m.r2).Dot(m.r2, m.y))
	if m.Began(sums[0]) {
		return
	}
	replaced := 0.0 // the true residual at the last restart; 0 for none
	for {
		if sums[1] <= 0 {
			m.Breakdown("the preconditioner is not positive definite")
		}
		m.cycle(sums[1])
		if m.Result.Status == Breakdown {
			return
		}
		// The recurrences report convergence, or the iterations are used up: the true residual decides.
		m.Do(m.Stage().Multiply(m.t, X))
		s := m.Stage().Set(m.r2, Term{-1, m.t}, Term{1, B}).Set(m.r1).Set(m.w1).Set(m.w2)
		if m.Config.Precondition {
			s.Set(m.res, Term{-1, m.t}, Term{1, B})
		}
		sums = m.Do(s.Precondition(m.lanczos(), m.r2).Dot(m.r2, m.r2).Dot(m.r2, m.lanczos()))
		norm := math.Sqrt(sums[0])
		switch {
		case m.Corrected(norm):
			return
		case replaced > 0 && norm > replaced/2: // rounding errors of the products prevent a smaller residual
			m.Breakdown(fmt.Sprintf("the recurrence converged, but the true residual stays at %.3g: the matrix is "+
				"too ill-conditioned", m.Result.Residual))
		}
		replaced = norm
	}
}

// cycle runs the Lanczos recurrence from the residual in r2, whose squared norm is given in the norm of the
// preconditioner, until the recurrences report that the solve is over.
func (m *minres) cycle(squared float64) {
	m.beta = math.Sqrt(squared)
	m.oldb, m.dbar, m.epsln, m.phibar, m.cs, m.sn = 0, 0, 0, m.beta, -1, 0
	s := m.Stage()
	for measured := false; ; measured = m.Config.Precondition {
		// Normalise the Lanczos vector and multiply it with the matrix.
		s.Set(m.v, Term{1 / m.beta, m.lanczos()}).Multiply(m.t, m.v).Dot(m.v, m.t).Dot(m.v, m.r1)
		if measured {
			s.Dot(m.res, m.res)
		}
		sums := m.Do(s)
		if measured && m.Check(math.Sqrt(sums[2])) {
			return
		}
		previous := 0.0 // coefficient of the previous vector in the new Lanczos vector
		if m.oldb != 0 {
			previous = m.beta / m.oldb
		}
		alfa := sums[0] - previous*sums[1]
		s = m.Stage().Set(m.r1, Term{-previous, m.r1}, Term{-alfa / m.beta, m.r2}, Term{1, m.t})
		m.r1, m.r2 = m.r2, m.r1
		sums = m.Do(s.Precondition(m.lanczos(), m.r2).Dot(m.r2, m.lanczos()))
		m.rotate(alfa, sums[0])
		m.Result.Iterations++
		exact := m.beta == 0
		if !m.Config.Precondition && m.Check(m.phibar) || exact {
			if exact && m.Config.Precondition {
				m.Check(0)
			}
			m.Do(m.advance())
			return
		}
		if s = m.advance(); m.Config.Precondition {
			s.Set(m.res, Term{m.sn * m.sn, m.res}, Term{-m.phibar * m.cs / m.beta, m.r2})
		}
	}
}

// lanczos returns the preconditioned r2. r1 and r2 swap names after each step.
func (m *minres) lanczos() Vec {
	if m.Config.Precondition {
		return m.y
	}
	return m.r2
}

// rotate applies the previous two rotations to the new column of the tridiagonal matrix, and makes the next rotation.
// squared is the squared norm of the new Lanczos vector.
func (m *minres) rotate(alfa, squared float64) {
	if squared < 0 {
		m.Breakdown("the preconditioner is not positive definite")
	}
	m.oldb, m.beta = m.beta, math.Sqrt(squared)
	u := &m.update
	u.oldeps = m.epsln
	u.delta = m.cs*m.dbar + m.sn*alfa
	gbar := m.sn*m.dbar - m.cs*alfa
	m.epsln, m.dbar = m.sn*m.beta, -m.cs*m.beta
	u.gamma = math.Hypot(gbar, m.beta)
	if u.gamma == 0 {
		m.Breakdown("the matrix is singular")
	}
	m.cs, m.sn = gbar/u.gamma, m.beta/u.gamma
	u.phi, m.phibar = m.cs*m.phibar, m.sn*m.phibar
}

// advance makes the direction of the step and moves x along it.
func (m *minres) advance() *Stage {
	u := m.update
	s := m.Stage().Set(m.w1, Term{-u.oldeps / u.gamma, m.w1}, Term{-u.delta / u.gamma, m.w2}, Term{1 / u.gamma, m.v})
	m.w1, m.w2 = m.w2, m.w1
	return s.Add(X, u.phi, m.w2)
}
