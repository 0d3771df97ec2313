package krylov

import "math"

// gmres is restarted GMRES (Saad and Schultz 1986), preconditioned from the right, so that the residual of the least-
// squares problem is the residual of the system. It orthogonalises each new basis vector twice by classical Gram-
// Schmidt, which is at least as accurate as the modified variant and takes the scalar products with the whole basis
// at once: two reductions per step, for a basis of any length. The norm after the second pass follows from
// Pythagoras.
type gmres struct {
	*Core
	w, z  Vec
	v     Vec         // first basis vector
	j     int         // step within the cycle
	h     [][]float64 // upper triangle, column by column
	g     []float64   // rotated right-hand side of the least-squares problem
	cs    []float64   // cosines of the rotations
	sn    []float64
	terms []Term
	steps struct{ orthogonalise, reorthogonalise Step }

	singular bool    // the product of some basis vector depends linearly on the other products
	weakest  float64 // smallest relative new part of a product in this cycle
}

const (
	// negligible is the largest relative new part of a product that is only rounding error.
	negligible = 1e-13
	// doubtful is the new part below which the coefficients are so large that the recurrence no longer gives the true
	// residual.
	doubtful = 1e-6
)

func init() {
	Methods.Register(Method{Name: "gmres", Help: "generalised minimal residuals, restarted, orthogonalised twice",
		Reductions: 2, Restarts: true, Trial: 4, Start: startGMRES})
}

func startGMRES(c *Core) {
	m := &gmres{Core: c, w: FirstOwn, v: FirstOwn + 1}
	n := m.v + Vec(c.Config.Restart)
	m.z = n // without a preconditioner, the basis itself is multiplied
	if c.Config.Precondition {
		n++
	}
	c.Vectors = int(n)
	c.Dots = c.Config.Restart + 1
	m.h = make([][]float64, c.Config.Restart)
	for j := range m.h {
		m.h[j] = make([]float64, j+2)
	}
	m.g = make([]float64, c.Config.Restart+1)
	m.cs, m.sn = make([]float64, c.Config.Restart), make([]float64, c.Config.Restart)
	m.steps.orthogonalise, m.steps.reorthogonalise = m.orthogonalise, m.reorthogonalise
	c.Next = m.start
}

// basis returns the j-th basis vector.
func (m *gmres) basis(j int) Vec { return m.v + Vec(j) }

func (m *gmres) start([]float64) *Stage {
	m.Next = m.started
	return m.Begin(m.w)
}

func (m *gmres) started(sums []float64) *Stage {
	if m.Began(sums[0]) {
		return nil
	}
	return m.cycle(m.Norm)
}

// cycle starts a new basis from the residual in w.
func (m *gmres) cycle(norm float64) *Stage {
	m.j, m.weakest = 0, 1
	clear(m.g)
	m.g[0] = norm
	return m.extend(m.Stage().Set(m.basis(0), Term{1 / norm, m.w}))
}

// extend multiplies the matrix with the newest basis vector.
func (m *gmres) extend(s *Stage) *Stage {
	newest := m.basis(m.j)
	if m.Config.Precondition {
		s.Precondition(m.z, newest).Multiply(m.w, m.z)
	} else {
		s.Multiply(m.w, newest)
	}
	m.Next = m.steps.orthogonalise
	return m.dotBasis(s)
}

// dotBasis takes the scalar products of w with the basis and with itself.
func (m *gmres) dotBasis(s *Stage) *Stage {
	for k := range m.j + 1 {
		s.Dot(m.w, m.basis(k))
	}
	return s.Dot(m.w, m.w)
}

// minusBasis returns the terms of scale * (w minus its components along the basis).
func (m *gmres) minusBasis(along []float64, scale float64) []Term {
	m.terms = append(m.terms[:0], Term{scale, m.w})
	for k, c := range along {
		m.terms = append(m.terms, Term{-c * scale, m.basis(k)})
	}
	return m.terms
}

// orthogonalise subtracts the components of w along the basis, and requests them again for the second pass.
func (m *gmres) orthogonalise(sums []float64) *Stage {
	copy(m.h[m.j], sums[:m.j+1])
	m.Next = m.steps.reorthogonalise
	return m.dotBasis(m.Stage().Set(m.w, m.minusBasis(sums[:m.j+1], 1)...))
}

// reorthogonalise completes a step: it adds the corrections of the second pass to the new column of H,
// rotates the column, and either extends the basis or ends the cycle. sums holds the corrections and
// the squared norm of w before them.
func (m *gmres) reorthogonalise(sums []float64) *Stage {
	j := m.j
	along, squared := sums[:j+1], sums[j+1]
	for k, c := range along {
		m.h[j][k] += c
		squared -= c * c
	}
	length := math.Sqrt(max(0, squared))
	product := length // the norm of the product before it was orthogonalised
	for _, c := range m.h[j][:j+1] {
		product = math.Hypot(product, c)
	}
	before := m.g[j]
	m.rotate(length)
	if m.h[j][j] <= negligible*product { // no combination with this vector has a smaller residual
		m.singular, m.g[j] = true, before
		m.Iterated(math.Abs(before))
		return m.update()
	}
	m.weakest = min(m.weakest, m.h[j][j]/product)
	m.j++
	over := m.Iterated(math.Abs(m.g[m.j]))
	// If the new vector vanished, the solution lies in the span of the basis.
	if over || m.j == m.Config.Restart || length <= 1e-14*math.Abs(m.h[j][j]) {
		return m.update()
	}
	return m.extend(m.Stage().Set(m.basis(m.j), m.minusBasis(along, 1/length)...))
}

// rotate brings the new column into triangular form and rotates the right-hand side with it.
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
		y[k] = sum / m.h[k][k]
	}
	m.terms = m.terms[:0]
	for k, c := range y {
		m.terms = append(m.terms, Term{c, m.basis(k)})
	}
	s := m.Stage()
	m.Next = m.residual
	if m.Config.Precondition {
		m.Next = m.updatePreconditioned
		return s.Set(m.w, m.terms...).Precondition(m.z, m.w)
	}
	return s.Set(X, append([]Term{{1, X}}, m.terms...)...)
}

// updatePreconditioned adds M times the combination of the basis, which is in z, to x.
func (m *gmres) updatePreconditioned([]float64) *Stage {
	m.Next = m.residual
	return m.Stage().Add(X, 1, m.z)
}

// residual computes the true residual of x: for the next cycle, or if the residual of the recurrence is in doubt.
func (m *gmres) residual([]float64) *Stage {
	if m.Result.Status != Running && !m.singular && m.weakest > doubtful {
		return nil
	}
	m.Next = m.subtract
	return m.Stage().Multiply(m.w, X)
}

// subtract turns A x, which is in w, into the residual b - A x.
func (m *gmres) subtract([]float64) *Stage {
	m.Next = m.restart
	return m.Stage().Set(m.w, Term{-1, m.w}, Term{1, B}).Dot(m.w, m.w)
}

// restart decides by the true residual: the solve has converged, cannot continue, or starts another cycle.
func (m *gmres) restart(sums []float64) *Stage {
	norm := math.Sqrt(sums[0])
	m.Result.Residual = norm / m.Norm
	switch {
	case norm <= max(m.Config.ATol, m.Config.RTol*m.Norm):
		m.Result.Status = Converged
		return nil
	case m.singular:
		return m.Breakdown("the matrix is singular, and no combination of the basis has a smaller residual")
	case m.Result.Iterations >= m.Config.MaxIter:
		m.Result.Status = TooManyIterations
		return nil
	}
	m.Result.Status = Running
	return m.cycle(norm)
}
