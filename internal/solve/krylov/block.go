package krylov

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Block holds one rank's rows of a system with several right-hand sides, and the vectors of a block solve. Its passes
// fuse all operations on a few rows, like the stages of Engine: each pass moves every vector through memory once, and
// the product reads the matrix once for all columns.
type Block struct {
	// Trace, if set, is called when a phase starts.
	Trace func(Phase)

	matrix   *sparse.Matrix
	interior []sparse.Range
	boundary []sparse.Range
	operator Operator // the preconditioner, unless it is a diagonal
	inverse  Diagonal
	columns  int
	rows     int

	// The block vectors. x and b have all columns. w, p, q and z have width columns. x and p have ghosts.
	b, x, w, p, q []float64
	z             []float64 // the preconditioned w, unless the preconditioner is none or a diagonal
	width         int       // columns of the current basis
	order         []int     // order[j] is the right-hand side of column j of x; the first columns are being solved

	scratch, shifted []float64 // a few rows
	one, two         []float64 // a column with its ghosts, for a preconditioner that takes single vectors
	sent             int       // values of one column that other ranks need
	work             [NumPhases]Work
}

// NewBlock allocates the vectors of a block solve. operator is the preconditioner, or nil.
func NewBlock(m *sparse.Matrix, plan *sparse.Plan, operator Operator, columns int) *Block {
	n, all := m.Rows()*columns, m.Columns()*columns
	k := &Block{matrix: m, interior: plan.Interior, boundary: plan.Boundary, operator: operator, columns: columns,
		rows: m.Rows(), order: make([]int, columns)}
	k.b, k.x, k.w, k.p, k.q = newVector(n, 0), newVector(all, 1), newVector(n, 2), newVector(all, 3), newVector(n, 4)
	if d, fused := operator.(Diagonal); fused {
		k.operator, k.inverse = nil, d
	}
	if k.operator != nil {
		k.z = newVector(n, 5)
		k.one, k.two = make([]float64, m.Columns()), make([]float64, m.Columns())
	}
	for i := range plan.Peers {
		k.sent += plan.Peers[i].SendCount()
	}
	k.scratch, k.shifted = make([]float64, blockValues+8*columns), make([]float64, blockValues+8*columns)
	return k
}

// blockValues is the number of values of each block vector that a pass works on at a time. The rows of a few block
// vectors then fit in the first-level cache.
const blockValues = 512

// RHS returns the right-hand sides, row by row. The caller fills them in.
func (k *Block) RHS() []float64 { return k.b }

// Exchange updates the ghosts of the directions, as a product of all columns does.
func (k *Block) Exchange(halo Halo) error {
	if err := halo.Start(k.p, k.columns); err != nil {
		return err
	}
	return halo.Finish(k.p, k.columns)
}

// Columns returns the number of right-hand sides.
func (k *Block) Columns() int { return k.columns }

// Bytes returns the memory of the block vectors.
func (k *Block) Bytes() int {
	return 8 * (len(k.b) + len(k.x) + len(k.w) + len(k.p) + len(k.q) + len(k.z))
}

// Solution copies the solution of a right-hand side to dst.
func (k *Block) Solution(dst []float64, column int) {
	for at, of := range k.order {
		if of == column {
			for i := range dst {
				dst[i] = k.x[i*k.columns+at]
			}
		}
	}
}

func (k *Block) enter(p Phase) {
	if k.Trace != nil {
		k.Trace(p)
	}
}

// count adds the traffic of a pass over columns of block vectors, and some operations per row.
func (k *Block) count(columns, flops int) {
	k.work[Updates].Add(8*float64(k.rows)*float64(columns), float64(k.rows)*float64(flops))
}

// countGram adds the operations of the scalar products of n columns with n columns, which the pass finds in a cache.
func (k *Block) countGram(n int) { k.work[Dots].Add(0, 2*float64(k.rows)*float64(n*n)) }

// countProduct adds the traffic of a product: the matrix once, and the ghosts of all columns.
func (k *Block) countProduct(width int) {
	ghosts := 8 * float64(width*(k.matrix.Columns()-k.rows))
	k.work[SpMV].Add(float64(k.matrix.Bytes())+ghosts, 2*float64(width)*float64(k.matrix.Entries()))
	k.work[HaloPack].Add(8*float64(width*k.sent), 0)
	k.work[HaloWait].Add(ghosts, 0)
}

// source returns rows of the preconditioned w. A diagonal is applied on the way.
func (k *Block) source(lo, hi int) []float64 {
	n := k.width
	switch {
	case k.z != nil:
		return k.z[lo*n : hi*n]
	case k.inverse == nil:
		return k.w[lo*n : hi*n]
	}
	out := k.shifted[:(hi-lo)*n]
	sparse.ScaleRows(out, k.w[lo*n:hi*n], k.inverse[lo:hi], n)
	return out
}

// descend makes a step along the directions and multiplies the matrix with new ones, in one pass: the first columns of
// x += p*move, then w = w*e, then p = M w + p*f with the preconditioner M, then q = A p. It returns this rank's part of
// p'q. A matrix without rows is left out: move moves nothing, e keeps w, and f drops the old directions.
func (k *Block) descend(move, e, f denseMatrix, active int, halo Halo) (denseMatrix, error) {
	n := k.width
	sums := newDense(n, n)
	update := func(lo, hi int) {
		k.enter(Updates)
		p := k.p[lo*n : hi*n]
		if move.rows > 0 {
			x := k.x[lo*k.columns : hi*k.columns]
			sparse.Combine(x, x, p, move.at, hi-lo, n, k.columns, active)
		}
		if e.rows > 0 {
			k.transform(k.w[lo*n:hi*n], nil, e, hi-lo)
			if k.z != nil {
				k.transform(k.z[lo*n:hi*n], nil, e, hi-lo)
			}
		}
		if source := k.source(lo, hi); f.rows > 0 {
			k.transform(p, source, f, hi-lo)
		} else {
			copy(p, source)
		}
	}
	multiply := func(lo, hi int) {
		k.enter(SpMV)
		k.matrix.MultiplyBlock(k.q, k.p, n, lo, hi)
		k.enter(Dots)
		sparse.Gram(sums.at, k.p[lo*n:hi*n], k.q[lo*n:hi*n], hi-lo, n, n, true)
	}
	moves, scales, keeps := min(1, move.rows), min(1, e.rows), min(1, f.rows)
	k.count(2*active*moves+n*(2+scales+keeps)+n+k.diagonals(), 2*n*(active*moves+n*scales+n*keeps)+n*k.diagonals())
	k.countProduct(n)
	k.countGram(n)
	return sums, k.product(update, multiply, k.p, n, halo)
}

// transform multiplies rows of a block vector by a square matrix, and adds the rows of another one unless that is nil.
func (k *Block) transform(rows, plus []float64, by denseMatrix, count int) {
	if by.cols <= sparse.InPlace {
		sparse.Combine(rows, plus, rows, by.at, count, by.rows, by.cols, by.cols)
		return
	}
	to := k.scratch[:count*by.cols]
	sparse.Combine(to, plus, rows, by.at, count, by.rows, by.cols, by.cols)
	copy(rows, to)
}

// product runs update on all rows and multiply on all rows, a block behind, while the ghosts of v are in flight.
func (k *Block) product(update, multiply func(lo, hi int), v []float64, width int, halo Halo) error {
	return k.pass().Product(update, multiply, func() error { return halo.Start(v, width) },
		func() error { return halo.Finish(v, width) })
}

// pass returns the order in which passes work. They work on blocks of rows whose number is a multiple of 8, as the
// kernels need it.
func (k *Block) pass() Pass {
	return Pass{Interior: k.interior, Boundary: k.boundary, Rows: k.rows, Reach: k.matrix.Reach(),
		Step: max(8, blockValues/k.columns&^7), Trace: k.Trace}
}

// each calls fn for a few rows at a time, in order.
func (k *Block) each(fn func(lo, hi int)) { k.pass().Each(sparse.Range{Lo: 0, Hi: k.rows}, fn) }

// reduce shortens the residuals: w -= q*alpha. It returns this rank's parts of w'w and of w'M w.
func (k *Block) reduce(alpha denseMatrix) (squares, products denseMatrix, err error) {
	n := k.width
	back := alpha.scaled(-1, n)
	k.count(3*n+k.diagonals(), 2*n*n+n*k.diagonals())
	return k.measure(func(lo, hi int) {
		w := k.w[lo*n : hi*n]
		sparse.Combine(w, w, k.q[lo*n:hi*n], back.at, hi-lo, n, n, n)
	})
}

// measure runs update on all rows, and returns this rank's parts of w'w and, with a preconditioner M, of w'M w.
func (k *Block) measure(update func(lo, hi int)) (squares, products denseMatrix, err error) {
	n := k.width
	squares = newDense(n, n)
	preconditioned := k.operator != nil || k.inverse != nil
	if preconditioned {
		products = newDense(n, n)
	}
	take := func(lo, hi int) {
		k.enter(Dots)
		w := k.w[lo*n : hi*n]
		sparse.Gram(squares.at, w, w, hi-lo, n, n, true)
		if preconditioned {
			sparse.Gram(products.at, w, k.source(lo, hi), hi-lo, n, n, true)
		}
	}
	k.each(func(lo, hi int) {
		k.enter(Updates)
		update(lo, hi)
		if k.operator == nil {
			take(lo, hi)
		}
	})
	k.countGram(n)
	if preconditioned {
		k.countGram(n)
	}
	if k.operator != nil {
		if err := k.precondition(); err != nil {
			return squares, products, err
		}
		k.each(take)
		k.count(2*n, 0)
	}
	return squares, products, nil
}

// diagonals returns the number of vectors that a pass reads to apply the preconditioner: 1 for a diagonal, else 0.
func (k *Block) diagonals() int { return min(1, len(k.inverse)) }

// precondition applies a preconditioner that is not a diagonal, one column after the other.
func (k *Block) precondition() error {
	k.enter(Precond)
	n := k.width
	for j := range n {
		for i := range k.rows {
			k.one[i] = k.w[i*n+j]
		}
		if err := k.operator.Apply(k.two, k.one); err != nil {
			return fmt.Errorf("preconditioning column %d: %w", j, err)
		}
		for i := range k.rows { // a projection changes its argument too
			k.w[i*n+j], k.z[i*n+j] = k.one[i], k.two[i]
		}
		k.work[Precond].Add(float64(k.operator.Bytes())+5*8*float64(k.rows), 0)
	}
	return nil
}

// move makes the last step along the directions: x += p*by in the first columns.
func (k *Block) move(by denseMatrix, active int) {
	if by.rows == 0 {
		return
	}
	n := k.width
	k.each(func(lo, hi int) {
		k.enter(Updates)
		x := k.x[lo*k.columns : hi*k.columns]
		sparse.Combine(x, x, k.p[lo*n:hi*n], by.at, hi-lo, n, k.columns, active)
	})
	k.count(2*active+n, 2*n*active)
}

// rebase replaces the basis by a smaller one: w = w*e, and p = p*f.
func (k *Block) rebase(e, f denseMatrix) {
	n := k.width
	shrink := func(v []float64, by denseMatrix) {
		if v == nil || by.rows == 0 {
			return
		}
		k.each(func(lo, hi int) { // rows move towards the start, so no row is overwritten before it is read
			to := k.scratch[:(hi-lo)*by.cols]
			sparse.Combine(to, nil, v[lo*n:hi*n], by.at, hi-lo, n, by.cols, by.cols)
			copy(v[lo*by.cols:], to)
		})
		k.count(n+by.cols, 2*n*by.cols)
	}
	k.enter(Updates)
	shrink(k.w, e)
	shrink(k.z, e)
	shrink(k.p, f)
	k.width = e.cols
}

// swap exchanges columns of x and of the residuals in q, which then have all columns.
func (k *Block) swap(pairs [][2]int, residuals bool) {
	for _, c := range pairs {
		k.order[c[0]], k.order[c[1]] = k.order[c[1]], k.order[c[0]]
	}
	exchange := func(v []float64) {
		for i := range k.rows {
			row := v[i*k.columns:][:k.columns]
			for _, c := range pairs {
				row[c[0]], row[c[1]] = row[c[1]], row[c[0]]
			}
		}
		k.count(2*k.columns, 0)
	}
	if len(pairs) == 0 {
		return
	}
	exchange(k.x)
	if residuals {
		exchange(k.q)
	}
}

// residuals sets q to B - A X in all columns, and returns this rank's parts of the squared norms. If x is zero it makes
// no product.
func (k *Block) residuals(zero bool, halo Halo) (squares []float64, err error) {
	n := k.columns
	sums := newDense(n, n)
	subtract := func(lo, hi int) {
		q := k.q[lo*n : hi*n]
		if !zero {
			k.enter(SpMV)
			k.matrix.MultiplyBlock(k.q, k.x, n, lo, hi)
		}
		k.enter(Updates)
		b := k.reordered(lo, hi)
		if zero {
			copy(q, b)
		} else {
			sparse.Axpby(q, 1, b, -1, q)
		}
		k.enter(Dots)
		sparse.Gram(sums.at, q, q, hi-lo, n, n, true)
	}
	k.countGram(n)
	if zero {
		k.count(2*n, 0)
		k.each(subtract)
	} else {
		k.count(3*n, n)
		k.countProduct(n)
		err = k.product(func(int, int) {}, subtract, k.x, n, halo)
	}
	for j := range n {
		squares = append(squares, sums.row(j)[j])
	}
	return squares, err
}

// reordered returns rows of the right-hand sides in the order of the columns of x.
func (k *Block) reordered(lo, hi int) []float64 {
	n := k.columns
	b := k.b[lo*n : hi*n]
	if slices.IsSorted(k.order) {
		return b
	}
	out := k.scratch[:len(b)]
	for i := 0; i < len(b); i += n {
		for j, of := range k.order {
			out[i+j] = b[i+of]
		}
	}
	return out
}

// begin makes the first columns of q the residuals to work on, and returns this rank's parts of w'w and w'M w.
func (k *Block) begin(active int) (squares, products denseMatrix, err error) {
	k.width = active
	k.count(k.columns+active, 0)
	return k.measure(func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(k.w[i*active:][:active], k.q[i*k.columns:])
		}
	})
}
