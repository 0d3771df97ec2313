package krylov

import "math"

// bicgstab is the method of van der Vorst (1992), preconditioned from the right. It computes the new (shadow, r) from
// products that are known before r, so two reductions per iteration are enough. The norm of r is taken in the
// following stage, which reads r anyway. The first shadow residual is b. If the residual becomes orthogonal to the
// shadow except for rounding, the shadow yields no further direction; the method then restarts from x with the
// current residual as the shadow.
type bicgstab struct {
	*Core
	r, p, v, t, y, z Vec     // r also holds s; y and z are the preconditioned p and s
	shadow, renewed  Vec     // shadow is B or renewed, the vector that holds a later shadow
	length           float64 // norm of the shadow
	rho, alpha       float64
	steps            struct{ secondHalf, iterate Step }
}

// orthogonal is the cosine below which rho is only rounding error.
const orthogonal = 1e-12

func init() {
	Methods.Register(Method{Name: "bicgstab", Help: "stabilised bi-conjugate gradients", Reductions: 2,
		Trial: 3, Start: startBiCGStab})
}

func startBiCGStab(c *Core) {
	m := &bicgstab{Core: c, r: FirstOwn, p: FirstOwn + 1, v: FirstOwn + 2, t: FirstOwn + 3, shadow: B,
		renewed: FirstOwn + 4}
	n := FirstOwn + 5
	m.y = c.Preconditioned(m.p, &n)
	m.z = c.Preconditioned(m.r, &n)
	c.Vectors = int(n)
	m.steps.secondHalf, m.steps.iterate = m.secondHalf, m.iterate
	c.Next = m.start
}

func (m *bicgstab) start([]float64) *Stage {
	m.Next = m.started
	return m.Begin(m.r)
}

func (m *bicgstab) started(sums []float64) *Stage {
	if m.Began(sums[0]) {
		return nil
	}
	m.rho, m.length = sums[0], m.Norm
	return m.direct(m.Stage())
}

// direct takes the residual as the direction.
func (m *bicgstab) direct(s *Stage) *Stage {
	m.Next = m.firstHalf
	return s.Set(m.p, Term{1, m.r}).Precondition(m.y, m.p).Multiply(m.v, m.y).Dot(m.shadow, m.v)
}

// firstHalf makes the first half of an iteration, from r to s = r - alpha v. sums[0] is (shadow, v).
func (m *bicgstab) firstHalf(sums []float64) *Stage {
	if sums[0] == 0 {
		return m.Breakdown("the direction is orthogonal to the shadow residual: try gmres")
	}
	m.alpha = m.rho / sums[0]
	m.Next = m.steps.secondHalf
	return m.Stage().Add(m.r, -m.alpha, m.v).Precondition(m.z, m.r).Multiply(m.t, m.z).
		Dot(m.t, m.r).Dot(m.t, m.t).Dot(m.shadow, m.r).Dot(m.shadow, m.t)
}

// secondHalf makes the second half, from s to the next r = s - omega t, and the next direction. omega minimises the
// norm of that r.
func (m *bicgstab) secondHalf(sums []float64) *Stage {
	ts, tt, bs, bt := sums[0], sums[1], sums[2], sums[3]
	if tt == 0 { // then s is zero too, and x is exact after half a step
		m.Next = m.close
		return m.Stage().Add(X, m.alpha, m.y).Dot(m.r, m.r)
	}
	omega := ts / tt
	rho, beta := bs-omega*bt, 0.0 // rho is (shadow, next r), by linearity from (shadow, s) and (shadow, t)
	if omega != 0 {
		beta = rho / m.rho * m.alpha / omega
	} else {
		rho = 0 // beta is undefined; iterate replaces the shadow, because it finds that rho is too small
	}
	m.rho = rho
	m.Next = m.steps.iterate
	return m.Stage().
		Set(X, Term{1, X}, Term{m.alpha, m.y}, Term{omega, m.z}).
		Add(m.r, -omega, m.t).
		Set(m.p, Term{beta, m.p}, Term{-beta * omega, m.v}, Term{1, m.r}).
		Precondition(m.y, m.p).Multiply(m.v, m.y).Dot(m.shadow, m.v).Dot(m.r, m.r)
}

// iterate checks the new residual, whose squared norm is sums[1], and replaces the shadow if it is nearly orthogonal
// to the residual.
func (m *bicgstab) iterate(sums []float64) *Stage {
	length := math.Sqrt(sums[1])
	if m.Iterated(length) {
		return nil
	}
	if sums[0] == 0 || math.Abs(m.rho) <= orthogonal*m.length*length {
		m.shadow, m.length, m.rho = m.renewed, length, sums[1]
		return m.direct(m.Stage().Set(m.renewed, Term{1, m.r}))
	}
	return m.firstHalf(sums)
}

// close ends a solve whose second half was impossible. The solve has converged unless the matrix is singular.
func (m *bicgstab) close(sums []float64) *Stage {
	if m.Iterated(math.Sqrt(sums[0])) {
		return nil
	}
	return m.Breakdown("the matrix is singular")
}
