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

func startGMRES(c *Core) func() {
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
	return m.iterate
}

// basis returns the j-th basis vector.
func (m *gmres) basis(j int) Vec { return m.v + Vec(j) }

// iterate makes cycles until the solve is over.
func (m *gmres) iterate() {
	sums := m.Do(m.Begin(m.w))
	if m.Began(sums[0]) {
		return
	}
	norm := m.Norm
	for {
		m.cycle(norm)
		m.update()
		if m.Result.Status != Running && !m.singular && m.weakest > doubtful {
			return
		}
		// The true residual is for the next cycle, or because the residual of the recurrence is in doubt.
		m.Do(m.Stage().Multiply(m.w, X))
		sums := m.Do(m.Stage().Set(m.w, Term{-1, m.w}, Term{1, B}).Dot(m.w, m.w))
		norm = math.Sqrt(sums[0])
		m.Result.Residual = norm / m.Norm
		switch {
		case norm <= max(m.Config.ATol, m.Config.RTol*m.Norm):
			m.Result.Status = Converged
			return
		case m.singular:
			m.Breakdown("the matrix is singular, and no combination of the basis has a smaller residual")
		case m.Result.Iterations >= m.Config.MaxIter:
			m.Result.Status = TooManyIterations
			return
		}
		m.Result.Status = Running
	}
}

// cycle makes a new basis, beginning with the residual in w. It ends when the solve has converged or the basis cannot
// grow.
func (m *gmres) cycle(norm float64) {
	m.j, m.weakest = 0, 1
	clear(m.g)
	m.g[0] = norm
	s := m.Stage().Set(m.basis(0), Term{1 / norm, m.w})
	for {
		newest := m.basis(m.j)
		if m.Config.Precondition {
			s.Precondition(m.z, newest).Multiply(m.w, m.z)
		} else {
			s.Multiply(m.w, newest)
		}
		along := m.Do(m.dotBasis(s))[:m.j+1]
		copy(m.h[m.j], along)
		sums := m.Do(m.dotBasis(m.Stage().Set(m.w, m.minusBasis(along, 1)...)))
		length, over := m.reorthogonalise(sums)
		if over {
			return
		}
		s = m.Stage().Set(m.basis(m.j), m.minusBasis(sums[:m.j], 1/length)...)
	}
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

// reorthogonalise completes a step: it adds the corrections of the second pass to the new column of H and rotates the
// column. sums holds the corrections and the squared norm of w before them. reorthogonalise returns the norm of the new
// basis vector, and whether the cycle is over.
func (m *gmres) reorthogonalise(sums []float64) (length float64, over bool) {
	j := m.j
	squared := sums[j+1]
	for k, c := range sums[:j+1] {
		m.h[j][k] += c
		squared -= c * c
	}
	length = math.Sqrt(max(0, squared))
	product := length // the norm of the product before it was orthogonalised
	for _, c := range m.h[j][:j+1] {
		product = math.Hypot(product, c)
	}
	before := m.g[j]
	m.rotate(length)
	if m.h[j][j] <= negligible*product { // no combination with this vector has a smaller residual
		m.singular, m.g[j] = true, before
		m.Iterated(math.Abs(before))
		return length, true
	}
	m.weakest = min(m.weakest, m.h[j][j]/product)
	m.j++
	over = m.Iterated(math.Abs(m.g[m.j]))
	// If the new vector vanished, the solution lies in the span of the basis.
	return length, over || m.j == m.Config.Restart || length <= 1e-14*math.Abs(m.h[j][j])
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
func (m *gmres) update() {
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
	if m.Config.Precondition {
		m.Do(m.Stage().Set(m.w, m.terms...).Precondition(m.z, m.w))
		m.Do(m.Stage().Add(X, 1, m.z))
		return
	}
	m.Do(m.Stage().Set(X, append([]Term{{1, X}}, m.terms...)...))
}
