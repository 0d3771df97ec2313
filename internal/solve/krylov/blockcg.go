package krylov

import (
	"fmt"
	"math"
	"slices"
)

// blockCG is the block conjugate gradient method of O'Leary (1980) in the form BCGrQ of Dubrulle ("Retooling the method
// of block conjugate gradients", ETNA 12, 2001). All columns share one search space, so a block needs fewer iterations
// than each column alone. The residuals are kept as R = Q C with orthonormal columns of Q, which avoids the
// breakdown of the original method when residuals become linearly dependent.
//
// Instead of Q, the method keeps a basis W of the same space, and its Gram matrix H = W'W. Orthonormalising costs
// arithmetic that grows with the square of the width, so W = Q only after iterations that made the columns nearly
// dependent, or much shorter: then W = W E, where B E = 1 and B'B = H. If columns depend on each other, B has fewer
// rows than columns, and the block becomes narrower. Equal right-hand sides therefore cost as much as one.
//
// With a preconditioner M, all of this refers to the scalar product of M.
//
// An iteration has two passes over memory and two all-reduces, as cg has.
type blockCG struct {
	*Block
	Core
	halo Halo
	sum  func(local []float64) ([]float64, error)

	norms    []float64   // of the right-hand sides
	active   int         // columns of x that are being solved
	c        denseMatrix // coefficients of the residuals in the basis: width rows, active columns
	e, f     denseMatrix // the next basis is W e, unless e has no rows; the old directions enter the new ones as P f
	h, hInv  denseMatrix // Gram matrix of the basis, and its inverse
	step     denseMatrix // step of x that is still to be made: x += p*step
	fallback bool        // the solve has made no iteration since it started from a true residual
	result   BlockResult
}

// BlockResult is the outcome of a block solve.
type BlockResult struct {
	Result              // Residual and History hold the largest value of all columns
	Residuals []float64 // of each right-hand side according to the method, relative to its norm
	Converged []int     // iteration after which each right-hand side had converged for good; -1 if it had not
	Restarts  int       // starts from a true residual because it had drifted from the residual of the method
	Widths    int       // sum of the widths of the block over all iterations
	// Work is the work of this rank by phase, by the model, after the first residuals. The operations of a preconditioner
	// count only if it is a diagonal.
	Work [NumPhases]Work
}

const (
	// dependent is the largest pivot of a scaled Gram matrix that counts as rounding. It is a few hundred units in the
	// last place, because the pivots are differences of sums over all rows.
	dependent = 1e-13
	// exhausted is the squared norm of a column of W that counts as zero. Before the iteration it was at least shortest.
	exhausted = 1e-26
	// independent is the smallest pivot of a scaled Gram matrix, and shortest the smallest squared norm of a column, for
	// which the basis stays as it is. The test problems then orthonormalise in 3 to 12 % of their iterations.
	independent = 1e-3
	shortest    = 1e-4
	// drifted is the largest true residual, in units of the tolerance, that ends a solve.
	drifted = 2
	// maxRestarts limits the starts from a true residual.
	maxRestarts = 10
	// deflateShare is the smallest share of converged columns for which the block is made narrower. That costs about
	// half an iteration.
	deflateShare = 0.25
)

// Solve solves for all right-hand sides, starting from zero. It needs a symmetric positive definite matrix and
// preconditioner. sum adds up over the ranks. All ranks call it together.
func (k *Block) Solve(cfg Config, halo Halo, sum func(local []float64) ([]float64, error)) (BlockResult, error) {
	clear(k.x)
	for j := range k.order {
		k.order[j] = j
	}
	m := &blockCG{Block: k, Core: Core{Config: cfg}, halo: halo, sum: sum, norms: make([]float64, k.columns)}
	m.result.Residuals, m.result.Converged = make([]float64, k.columns), make([]int, k.columns)
	for j := range m.result.Converged {
		m.result.Converged[j] = -1
	}
	var err error
	m.result.Result, err = m.Run(m.solve)
	m.result.Work = k.work
	return m.result, err
}

// solve iterates until the true residuals show that the solve is over.
func (m *blockCG) solve() {
	started := m.start(true)
	m.work = [NumPhases]Work{}
	for started {
		m.iterate()
		m.Block.move(m.step, m.active)
		m.step = denseMatrix{}
		if m.Result.Status != Running && m.Result.Status != Converged {
			return
		}
		started = m.start(false)
	}
}

// start makes the true residuals, and starts a block with the columns that have not converged. It returns false if
// there are none.
func (m *blockCG) start(zero bool) bool {
	local, err := m.Block.residuals(zero, m.halo)
	m.Accept(nil, err)
	if !zero {
		m.Result.Products++
	}
	squares := m.add(local)
	allowed := float64(drifted)
	if zero {
		allowed = 1
		for j, v := range squares {
			m.norms[m.order[j]] = math.Sqrt(v)
		}
	}
	pending := m.record(squares, allowed)
	if len(pending) == 0 {
		m.Result.Status = Converged
		return false
	}
	if m.result.Restarts > maxRestarts || !zero && m.fallback {
		m.Breakdown(fmt.Sprintf("the true residual stays at %.3g", m.Result.Residual))
	}
	if !zero {
		m.result.Restarts++
	}
	m.Result.Status, m.fallback = Running, true
	m.active = len(pending)
	m.Block.swap(swaps(pending), true)
	w, p, err := m.Block.begin(m.active)
	m.Accept(nil, err)
	m.orthonormalise(w, p, 0, true)
	return true
}

// record stores the true residuals of all columns, given their squares, and returns the columns that have not
// converged to allowed times the tolerance.
func (m *blockCG) record(squares []float64, allowed float64) (pending []int) {
	m.Result.Residual = 0
	for j, of := range m.order {
		relative := 0.0
		if m.norms[of] > 0 {
			relative = math.Sqrt(squares[j]) / m.norms[of]
		}
		m.result.Residuals[of] = relative
		m.Result.Residual = max(m.Result.Residual, relative)
		if math.Sqrt(squares[j]) > allowed*m.tolerance(of) {
			pending = append(pending, j)
			m.result.Converged[of] = -1
		} else if m.result.Converged[of] < 0 {
			m.result.Converged[of] = m.Result.Iterations
		}
	}
	if len(m.Result.History) == 0 {
		m.Result.History = append(m.Result.History, m.Result.Residual)
	}
	return pending
}

// swaps returns the exchanges that bring the given columns to the front, in their order.
func swaps(columns []int) (pairs [][2]int) {
	for to, from := range columns {
		if to != from {
			pairs = append(pairs, [2]int{to, from})
		}
	}
	return pairs
}

// tolerance returns the norm of a residual that is small enough.
func (m *blockCG) tolerance(of int) float64 { return max(m.Config.ATol, m.Config.RTol*m.norms[of]) }

// add returns the sums of the parts over the ranks, from one all-reduce.
func (m *blockCG) add(parts ...[]float64) []float64 {
	m.enter(AllReduce)
	defer m.enter(Other)
	m.Result.Reductions++
	all := slices.Concat(parts...)
	m.work[AllReduce].Add(8*float64(len(all)), 0)
	return slices.Clone(m.Accept(m.sum(all)))
}

// iterate makes iterations until all columns have converged according to the method, or until the solve has to end or
// to start again from a true residual.
func (m *blockCG) iterate() {
	for m.Result.Status == Running {
		m.Result.Products++
		m.result.Widths += m.width
		local, err := m.Block.descend(m.step, m.e, m.f, m.active, m.halo)
		m.Accept(nil, err)
		sums := m.add(local.at)
		m.step = denseMatrix{}
		n := m.width
		_, inverse, _ := denseMatrix{n, n, sums}.mirror().factor(0, 0)
		if inverse.cols < n {
			if m.fallback {
				m.Breakdown("the matrix is not positive definite: use minres")
			}
			return // rounding made p'Ap singular: start again from the true residual
		}
		alpha := inverse.times(inverse.transposed()).times(m.h)
		m.step = alpha.times(m.c).scaled(1, m.columns)
		w, p, err := m.Block.reduce(alpha)
		m.Accept(nil, err)
		m.fallback = false
		m.Result.Iterations++
		m.orthonormalise(w, p, exhausted, false)
	}
}

// orthonormalise finds the basis of the residuals from this rank's parts of W'W and W'M W, checks for convergence, and
// makes the block narrower if columns have converged or depend on others. least is the squared norm of a column that
// counts as zero. The first basis after a start has no old directions.
func (m *blockCG) orthonormalise(w, p denseMatrix, least float64, first bool) {
	sums := m.add(w.at, p.at)
	n := m.width
	squares := denseMatrix{n, n, sums[:n*n]}.mirror()
	gram := squares
	if len(sums) > n*n {
		gram = denseMatrix{n, n, sums[n*n:]}.mirror()
	}
	b, e, pivot := gram.factor(dependent, least)
	switch {
	case b.rows == 0 && first:
		m.Breakdown("the preconditioner is not positive definite")
	case b.rows == 0: // nothing is left, up to rounding; the true residual decides
		m.Result.Status = Converged
		return
	case first:
		m.c = b
		m.narrow(e, denseMatrix{})
		return
	}
	if m.check(m.residualNorms(squares, b)); m.Result.Status != Running {
		return
	}
	if b.rows == n && pivot >= independent && gram.smallestDiagonal() >= shortest && !m.deflates() {
		m.e, m.f = denseMatrix{}, m.hInv.times(gram)
		m.h, m.hInv = gram, e.times(e.transposed())
		return
	}
	m.c = b.times(m.c)
	m.narrow(e, m.hInv.times(b.transposed()))
}

// residualNorms returns the norms of the active residuals W c, where w is W'W, and b'b the Gram matrix of W in the
// scalar product of the preconditioner.
func (m *blockCG) residualNorms(w, b denseMatrix) []float64 {
	if m.operator == nil && m.inverse == nil {
		return b.times(m.c).columnNorms() // never negative
	}
	products := w.times(m.c)
	norms := make([]float64, m.active)
	for i := range m.c.rows {
		for j, v := range m.c.row(i) {
			norms[j] += v * products.row(i)[j]
		}
	}
	for j, v := range norms {
		norms[j] = math.Sqrt(max(0, v))
	}
	return norms
}

// check records the norms of the active residuals after an iteration, and ends the iterations if all have converged, if
// one diverges, or at the limit.
func (m *blockCG) check(norms []float64) {
	pending := 0
	m.Result.Residual = 0
	for j, norm := range norms {
		of := m.order[j]
		relative := norm / m.norms[of]
		m.result.Residuals[of] = relative
		if norm <= m.tolerance(of) {
			if m.result.Converged[of] < 0 {
				m.result.Converged[of] = m.Result.Iterations
			}
			continue
		}
		m.result.Converged[of] = -1
		pending++
	}
	m.Result.Residual = slices.Max(m.result.Residuals)
	m.Result.History = append(m.Result.History, m.Result.Residual)
	switch {
	case pending == 0:
		m.Result.Status = Converged
	case m.Result.Residual > m.divergence():
		m.Result.Status = Breakdown
		m.Result.Reason = fmt.Sprintf("diverged: the largest residual has grown to %.3g times its right-hand side",
			m.Result.Residual)
	case m.Result.Iterations >= m.Config.MaxIter:
		m.Result.Status = TooManyIterations
	}
}

// pending returns the active columns that have not converged.
func (m *blockCG) pending() (columns []int) {
	for j := range m.active {
		if m.result.Converged[m.order[j]] < 0 {
			columns = append(columns, j)
		}
	}
	return columns
}

// deflates reports whether enough columns have converged to make the block narrower.
func (m *blockCG) deflates() bool {
	done := m.active - len(m.pending())
	return done > 0 && float64(done) >= deflateShare*float64(m.active)
}

// narrow takes e and f as the transformations to the next basis, which is orthonormal. It first removes converged
// columns, if they are many, and the directions that only they need.
func (m *blockCG) narrow(e, f denseMatrix) {
	if m.deflates() {
		pending := m.pending()
		m.Block.move(m.step, m.active)
		m.step = denseMatrix{}
		m.Block.swap(swaps(pending), false)
		m.c, m.active = m.c.pick(pending), len(pending)
		if m.active < e.cols {
			u := m.c.basis()
			m.c, e = u.transposed().times(m.c), e.times(u)
			if f.rows > 0 {
				f = f.times(u)
			}
		}
	}
	if e.cols < m.width {
		if m.step.rows > 0 { // the step belongs to the old directions
			m.Block.move(m.step, m.active)
			m.step = denseMatrix{}
		}
		m.Block.rebase(e, f)
		e = denseMatrix{}
		if f.rows > 0 {
			f = identity(m.width, m.width)
		}
	}
	m.e, m.f = e, f
	m.h, m.hInv = identity(m.width, m.width), identity(m.width, m.width)
}
