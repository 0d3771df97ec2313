package krylov

import "math"

// gmres is restarted GMRES, preconditioned from the right. A new basis vector is
// orthogonalised twice by classical Gram-Schmidt, whose scalar products with the
// whole basis are taken at once: two reductions per step, however long the
// basis. The norm after the second pass follows from Pythagoras.
type gmres struct {
	*core
	w, z  Vec
	v     Vec         // the first of the basis
	j     int         // step within the cycle
	h     [][]float64 // upper triangle, column by column
	g     []float64   // rotated right-hand side of the least-squares problem
	cs    []float64   // rotations
	sn    []float64
	terms []Term
	steps struct{ orthogonalise, again step }
}

func startGMRES(c *core) {
	m := &gmres{core: c, w: firstOwn, v: firstOwn + 1}
	n := m.v + Vec(c.cfg.Restart)
	m.z = n // with no preconditioner products are taken of the basis itself
	if c.cfg.Precondition {
		n++
	}
	c.vectors = int(n)
	c.dots = c.cfg.Restart + 1
	m.h = make([][]float64, c.cfg.Restart)
	for j := range m.h {
		m.h[j] = make([]float64, j+2)
	}
	m.g = make([]float64, c.cfg.Restart+1)
	m.cs, m.sn = make([]float64, c.cfg.Restart), make([]float64, c.cfg.Restart)
	m.steps.orthogonalise, m.steps.again = m.orthogonalise, m.again
	c.next = m.start
}

// basis is the j-th vector of the basis.
func (m *gmres) basis(j int) Vec { return m.v + Vec(j) }

func (m *gmres) start([]float64) *Stage {
	m.next = m.started
	return m.begin(m.w)
}

func (m *gmres) started(sums []float64) *Stage {
	if m.began(sums[0]) {
		return nil
	}
	return m.cycle(m.norm)
}

// cycle begins a new basis from the residual in w.
func (m *gmres) cycle(norm float64) *Stage {
	m.j = 0
	clear(m.g)
	m.g[0] = norm
	return m.extend(m.stage.reset().set(m.basis(0), Term{1 / norm, m.w}))
}

// extend multiplies by the newest vector of the basis.
func (m *gmres) extend(s *Stage) *Stage {
	newest := m.basis(m.j)
	if m.cfg.Precondition {
		s.precondition(m.z, newest).multiply(m.w, m.z)
	} else {
		s.multiply(m.w, newest)
	}
	m.next = m.steps.orthogonalise
	return m.against(s)
}

// against takes the products of w with the basis and with itself.
func (m *gmres) against(s *Stage) *Stage {
	for k := range m.j + 1 {
		s.dot(m.w, m.basis(k))
	}
	return s.dot(m.w, m.w)
}

// less is w minus the components along the basis, times scale.
func (m *gmres) less(along []float64, scale float64) []Term {
	m.terms = append(m.terms[:0], Term{scale, m.w})
	for k, c := range along {
		m.terms = append(m.terms, Term{-c * scale, m.basis(k)})
	}
	return m.terms
}

func (m *gmres) orthogonalise(sums []float64) *Stage {
	copy(m.h[m.j], sums[:m.j+1])
	m.next = m.steps.again
	return m.against(m.stage.reset().set(m.w, m.less(sums[:m.j+1], 1)...))
}

func (m *gmres) again(sums []float64) *Stage {
	j := m.j
	along, squared := sums[:j+1], sums[j+1]
	for k, c := range along {
		m.h[j][k] += c
		squared -= c * c
	}
	length := math.Sqrt(max(0, squared))
	m.rotate(length)
	m.j++
	over := m.iterated(math.Abs(m.g[m.j]))
	// A vector that vanished means that the solution lies in the basis.
	if over || m.j == m.cfg.Restart || length <= 1e-14*math.Abs(m.h[j][j]) {
		return m.update()
	}
	return m.extend(m.stage.reset().set(m.basis(m.j), m.less(along, 1/length)...))
}

// rotate brings the new column into triangular form and turns the right-hand
// side along.
func (m *gmres) rotate(below float64) {
	j, h := m.j, m.h[m.j]
	for k := range j {
		h[k], h[k+1] = m.cs[k]*h[k]+m.sn[k]*h[k+1], -m.sn[k]*h[k]+m.cs[k]*h[k+1]
	}
	r := math.Hypot(h[j], below)
	m.cs[j], m.sn[j] = 1, 0
	if r > 0 {
		m.cs[j], m.sn[j] = h[j]/r, below/r
	}
	h[j] = r
	m.g[j], m.g[j+1] = m.cs[j]*m.g[j], -m.sn[j]*m.g[j]
}

// update adds the best combination of the basis to x.
func (m *gmres) update() *Stage {
	y := make([]float64, m.j)
	for k := m.j - 1; k >= 0; k-- {
		sum := m.g[k]
		for i := k + 1; i < m.j; i++ {
			sum -= m.h[i][k] * y[i]
		}
		if m.h[k][k] == 0 {
			return m.breakdown("the matrix is singular on the basis")
		}
		y[k] = sum / m.h[k][k]
	}
	m.terms = m.terms[:0]
	for k, c := range y {
		m.terms = append(m.terms, Term{c, m.basis(k)})
	}
	s := m.stage.reset()
	m.next = m.residual
	if m.cfg.Precondition {
		m.next = m.updatePreconditioned
		return s.set(m.w, m.terms...).precondition(m.z, m.w)
	}
	return s.set(X, append([]Term{{1, X}}, m.terms...)...)
}

func (m *gmres) updatePreconditioned([]float64) *Stage {
	m.next = m.residual
	return m.stage.reset().add(X, 1, m.z)
}

// residual begins the next cycle, from the residual of x itself.
func (m *gmres) residual([]float64) *Stage {
	if m.result.Status != Running {
		return nil
	}
	m.next = m.subtract
	return m.stage.reset().multiply(m.w, X)
}

func (m *gmres) subtract([]float64) *Stage {
	m.next = m.restart
	return m.stage.reset().set(m.w, Term{-1, m.w}, Term{1, B}).dot(m.w, m.w)
}

func (m *gmres) restart(sums []float64) *Stage {
	norm := math.Sqrt(sums[0])
	if norm <= max(m.cfg.ATol, m.cfg.RTol*m.norm) {
		m.result.Status, m.result.Residual = Converged, norm/m.norm
		return nil
	}
	return m.cycle(norm)
}
