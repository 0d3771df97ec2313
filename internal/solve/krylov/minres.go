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
	alfa                                    float64 // of the current step
	replaced                                float64 // the true residual at the last restart; 0 for none
	update                                  minresUpdate
	steps                                   struct{ project, rotate Step }
}

// minresUpdate is the part of a step that the next stage does, because it reads the same vectors. gamma, delta and
// oldeps are the new column of the triangular factor, and phi is the step of x. The new residual vector is keep times
// the old one plus turn times the new Lanczos vector.
type minresUpdate struct{ gamma, delta, oldeps, phi, keep, turn float64 }

func init() {
	Methods.Register(Method{Name: "minres", Help: "minimal residuals", Needs: Symmetric, Reductions: 2,
		Trial: 2, Start: startMINRES})
}

func startMINRES(c *Core) {
	m := &minres{Core: c, r1: FirstOwn, r2: FirstOwn + 1, w1: FirstOwn + 2, w2: FirstOwn + 3, v: FirstOwn + 4,
		t: FirstOwn + 5}
	n := FirstOwn + 6
	m.y = c.Preconditioned(m.r2, &n)
	m.res = c.Preconditioned(m.r2, &n)
	c.Vectors = int(n)
	m.steps.project, m.steps.rotate = m.project, m.rotate
	c.Next = m.start
}

func (m *minres) start([]float64) *Stage {
	m.Next = m.started
	s := m.Begin(m.r2).Set(m.r1).Set(m.w1).Set(m.w2)
	if m.Config.Precondition {
		s.Set(m.res, Term{1, B})
	}
	return s.Precondition(m.y, m.r2).Dot(m.r2, m.y)
}

func (m *minres) started(sums []float64) *Stage {
	if m.Began(sums[0]) {
		return nil
	}
	if sums[1] <= 0 {
		return m.Breakdown("the preconditioner is not positive definite")
	}
	return m.cycle(m.Stage(), sums[1])
}

// cycle starts the Lanczos recurrence from the residual in r2, whose squared norm is given in the norm of the
// preconditioner.
func (m *minres) cycle(s *Stage, squared float64) *Stage {
	m.beta = math.Sqrt(squared)
	m.oldb, m.dbar, m.epsln, m.phibar, m.cs, m.sn = 0, 0, 0, m.beta, -1, 0
	return m.product(s)
}

// lanczos returns the preconditioned r2. r1 and r2 swap names after each step.
func (m *minres) lanczos() Vec {
	if m.Config.Precondition {
		return m.y
	}
	return m.r2
}

// product normalises the Lanczos vector and multiplies it with the matrix.
func (m *minres) product(s *Stage) *Stage {
	m.Next = m.steps.project
	return s.Set(m.v, Term{1 / m.beta, m.lanczos()}).Multiply(m.t, m.v).Dot(m.v, m.t).Dot(m.v, m.r1)
}

// previous returns the coefficient of the previous vector in the new Lanczos vector.
func (m *minres) previous() float64 {
	if m.oldb == 0 {
		return 0
	}
	return m.beta / m.oldb
}

// project makes the next Lanczos vector from sums (v, Av) and (v, r1). sums[2] is the squared norm of the residual
// vector, if there is a preconditioner.
func (m *minres) project(sums []float64) *Stage {
	if len(sums) > 2 && m.Check(math.Sqrt(sums[2])) {
		return m.verify(nil)
	}
	m.alfa = sums[0] - m.previous()*sums[1]
	m.Next = m.steps.rotate
	s := m.Stage().Set(m.r1, Term{-m.previous(), m.r1}, Term{-m.alfa / m.beta, m.r2}, Term{1, m.t})
	m.r1, m.r2 = m.r2, m.r1
	return s.Precondition(m.lanczos(), m.r2).Dot(m.r2, m.lanczos())
}

// rotate applies the previous two rotations to the new column of the tridiagonal matrix, makes the next rotation, and
// checks the residual. sums[0] is the squared norm of the new Lanczos vector.
func (m *minres) rotate(sums []float64) *Stage {
	if sums[0] < 0 {
		return m.Breakdown("the preconditioner is not positive definite")
	}
	m.oldb, m.beta = m.beta, math.Sqrt(sums[0])
	u := &m.update
	u.oldeps = m.epsln
	u.delta = m.cs*m.dbar + m.sn*m.alfa
	gbar := m.sn*m.dbar - m.cs*m.alfa
	m.epsln, m.dbar = m.sn*m.beta, -m.cs*m.beta
	u.gamma = math.Hypot(gbar, m.beta)
	if u.gamma == 0 {
		return m.Breakdown("the matrix is singular")
	}
	m.cs, m.sn = gbar/u.gamma, m.beta/u.gamma
	u.phi, m.phibar = m.cs*m.phibar, m.sn*m.phibar

	m.Result.Iterations++
	exact := m.beta == 0
	if !m.Config.Precondition && m.Check(m.phibar) || exact {
		if exact && m.Config.Precondition {
			m.Check(0)
		}
		m.Next = m.verify
		return m.advance()
	}
	u.keep, u.turn = m.sn*m.sn, -m.phibar*m.cs/m.beta
	s := m.advance()
	if m.Config.Precondition {
		s.Set(m.res, Term{u.keep, m.res}, Term{u.turn, m.r2})
		return m.product(s).Dot(m.res, m.res)
	}
	return m.product(s)
}

// advance makes the direction of the step and moves x along it.
func (m *minres) advance() *Stage {
	u := m.update
	s := m.Stage().Set(m.w1, Term{-u.oldeps / u.gamma, m.w1}, Term{-u.delta / u.gamma, m.w2}, Term{1 / u.gamma, m.v})
	m.w1, m.w2 = m.w2, m.w1
	return s.Add(X, u.phi, m.w2)
}

// verify multiplies the matrix with x, to find the true residual when the recurrences report convergence or the
// iterations are used up.
func (m *minres) verify([]float64) *Stage {
	if m.Result.Status == Breakdown {
		return nil
	}
	m.Next = m.subtract
	return m.Stage().Multiply(m.t, X)
}

// subtract computes the true residual, and prepares a restart from it.
func (m *minres) subtract([]float64) *Stage {
	m.Next = m.replace
	s := m.Stage().Set(m.r2, Term{-1, m.t}, Term{1, B}).Set(m.r1).Set(m.w1).Set(m.w2)
	if m.Config.Precondition {
		s.Set(m.res, Term{-1, m.t}, Term{1, B})
	}
	return s.Precondition(m.lanczos(), m.r2).Dot(m.r2, m.r2).Dot(m.r2, m.lanczos())
}

// replace ends the solve if the true residual is small enough, and restarts the recurrence if it is not. A restart that
// does not halve the true residual shows that rounding errors of the products prevent a smaller one.
func (m *minres) replace(sums []float64) *Stage {
	norm := math.Sqrt(sums[0])
	switch {
	case m.Corrected(norm):
		return nil
	case m.replaced > 0 && norm > m.replaced/2:
		return m.Breakdown(fmt.Sprintf("the recurrence converged, but the true residual stays at %.3g: the matrix is "+
			"too ill-conditioned", m.Result.Residual))
	case sums[1] <= 0:
		return m.Breakdown("the preconditioner is not positive definite")
	}
	m.replaced = norm
	return m.cycle(m.Stage(), sums[1])
}
