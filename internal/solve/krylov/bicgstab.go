package krylov

import "math"

// bicgstab is van der Vorst's method, preconditioned from the right. The new
// (b, r) comes from products taken before r is known, so two reductions per
// iteration are enough; the norm of r is taken in the stage after, where r is
// at hand anyway. The shadow residual is b.
type bicgstab struct {
	*core
	r, p, v, t, y, z Vec // r is also s; y and z are the preconditioned p and s
	rho, alpha       float64
	steps            struct{ whole, iterate step }
}

func startBiCGStab(c *core) {
	m := &bicgstab{core: c, r: firstOwn, p: firstOwn + 1, v: firstOwn + 2, t: firstOwn + 3}
	n := firstOwn + 4
	m.y = c.preconditioned(m.p, &n)
	m.z = c.preconditioned(m.r, &n)
	c.vectors = int(n)
	m.steps.whole, m.steps.iterate = m.whole, m.iterate
	c.next = m.start
}

func (m *bicgstab) start([]float64) *Stage {
	m.next = m.started
	return m.begin(m.r)
}

func (m *bicgstab) started(sums []float64) *Stage {
	if m.began(sums[0]) {
		return nil
	}
	m.rho = sums[0]
	m.next = m.half
	return m.stage.reset().set(m.p, Term{1, m.r}).precondition(m.y, m.p).multiply(m.v, m.y).dot(B, m.v)
}

// half goes from r to s.
func (m *bicgstab) half(sums []float64) *Stage {
	if sums[0] == 0 {
		return m.breakdown("the direction is orthogonal to the shadow residual")
	}
	m.alpha = m.rho / sums[0]
	m.next = m.steps.whole
	return m.stage.reset().add(m.r, -m.alpha, m.v).precondition(m.z, m.r).multiply(m.t, m.z).
		dot(m.t, m.r).dot(m.t, m.t).dot(B, m.r).dot(B, m.t)
}

// whole goes from s to the next r and its direction.
func (m *bicgstab) whole(sums []float64) *Stage {
	ts, tt, bs, bt := sums[0], sums[1], sums[2], sums[3]
	if tt == 0 { // so is s: x is exact but for half a step
		m.next = m.close
		return m.stage.reset().add(X, m.alpha, m.y).dot(m.r, m.r)
	}
	omega := ts / tt
	rho := bs - omega*bt
	if omega == 0 || rho == 0 {
		return m.breakdown("the recurrence has come to a stop: try gmres")
	}
	beta := rho / m.rho * m.alpha / omega
	m.rho = rho
	m.next = m.steps.iterate
	return m.stage.reset().
		set(X, Term{1, X}, Term{m.alpha, m.y}, Term{omega, m.z}).
		add(m.r, -omega, m.t).
		set(m.p, Term{beta, m.p}, Term{-beta * omega, m.v}, Term{1, m.r}).
		precondition(m.y, m.p).multiply(m.v, m.y).dot(B, m.v).dot(m.r, m.r)
}

func (m *bicgstab) iterate(sums []float64) *Stage {
	if m.iterated(math.Sqrt(sums[1])) {
		return nil
	}
	return m.half(sums)
}

func (m *bicgstab) close(sums []float64) *Stage {
	if m.iterated(math.Sqrt(sums[0])) {
		return nil
	}
	return m.breakdown("the matrix is singular")
}
