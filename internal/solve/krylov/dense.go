package krylov

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// denseMatrix is a small matrix, stored by rows.
type denseMatrix struct {
	rows, cols int
	at         []float64
}

func newDense(rows, cols int) denseMatrix { return denseMatrix{rows, cols, make([]float64, rows*cols)} }

// identity returns the first cols columns of the unit matrix.
func identity(rows, cols int) denseMatrix {
	d := newDense(rows, cols)
	for i := range min(rows, cols) {
		d.row(i)[i] = 1
	}
	return d
}

func (d denseMatrix) row(i int) []float64 { return d.at[i*d.cols:][:d.cols] }

// times returns the product with e.
func (d denseMatrix) times(e denseMatrix) denseMatrix {
	out := newDense(d.rows, e.cols)
	sparse.Combine(out.at, nil, d.at, e.at, d.rows, d.cols, e.cols, e.cols)
	return out
}

func (d denseMatrix) transposed() denseMatrix {
	out := newDense(d.cols, d.rows)
	for i := range d.rows {
		for j, v := range d.row(i) {
			out.at[j*d.rows+i] = v
		}
	}
	return out
}

// scaled returns the matrix times a number, in rows of width elements.
func (d denseMatrix) scaled(by float64, width int) denseMatrix {
	out := newDense(d.rows, width)
	for i := range d.rows {
		for j, v := range d.row(i) {
			out.at[i*width+j] = by * v
		}
	}
	return out
}

// pick returns the given columns.
func (d denseMatrix) pick(columns []int) denseMatrix {
	out := newDense(d.rows, len(columns))
	for i := range d.rows {
		for j, c := range columns {
			out.row(i)[j] = d.row(i)[c]
		}
	}
	return out
}

// smallestDiagonal returns the smallest element of the diagonal.
func (d denseMatrix) smallestDiagonal() float64 {
	smallest := math.Inf(1)
	for i := range d.rows {
		smallest = min(smallest, d.row(i)[i])
	}
	return smallest
}

// columnNorms returns the norms of the columns.
func (d denseMatrix) columnNorms() []float64 {
	norms := make([]float64, d.cols)
	for i := range d.rows {
		for j, v := range d.row(i) {
			norms[j] += v * v
		}
	}
	for j, v := range norms {
		norms[j] = math.Sqrt(v)
	}
	return norms
}

// mirror copies the upper triangle to the lower one.
func (d denseMatrix) mirror() denseMatrix {
	for i := range d.rows {
		for j := range i {
			d.row(i)[j] = d.row(j)[i]
		}
	}
	return d
}

// factor finds b and e for a symmetric, positive semidefinite matrix d, such that b'b = d and b*e is the unit matrix.
// It is a Cholesky factorisation with pivoting and scaling to a unit diagonal. Columns whose pivot is at most drop
// depend on the others, up to rounding. They have no row in b, whose number of rows is the rank. Columns with a
// diagonal of at most least count as zero. smallest is the smallest pivot that was kept.
func (d denseMatrix) factor(drop, least float64) (b, e denseMatrix, smallest float64) {
	n := d.rows
	scale, pivots := make([]float64, n), make([]float64, n)
	for i := range n {
		if v := d.row(i)[i]; v > least {
			scale[i], pivots[i] = math.Sqrt(v), 1
		}
	}
	var rows [][]float64 // of b, before the scaling
	var order []int
	for len(order) < n {
		best := 0
		for i, v := range pivots {
			if v > pivots[best] {
				best = i
			}
		}
		if !(pivots[best] > drop) {
			break
		}
		smallest = pivots[best]
		root := math.Sqrt(smallest)
		row := make([]float64, n)
		for j := range n {
			if scale[j] == 0 || slices.Contains(order, j) {
				continue
			}
			v := d.row(best)[j] / (scale[best] * scale[j])
			for _, done := range rows {
				v -= done[best] * done[j]
			}
			row[j] = v / root
			pivots[j] -= row[j] * row[j]
		}
		row[best], pivots[best] = root, 0
		rows, order = append(rows, row), append(order, best)
	}
	b, e = newDense(len(rows), n), newDense(n, len(rows))
	for i, row := range rows {
		for j, v := range row {
			b.row(i)[j] = v * scale[j]
		}
	}
	for c := range rows { // solve b*e = 1 column by column, from the last pivot to the first
		for i := c; i >= 0; i-- {
			v := 0.0
			if i == c {
				v = 1
			}
			for k := i + 1; k <= c; k++ {
				v -= b.row(i)[order[k]] * e.row(order[k])[c]
			}
			e.row(order[i])[c] = v / b.row(i)[order[i]]
		}
	}
	return b, e, smallest
}

// basis returns an orthonormal basis of the columns: a matrix u with u*u'd = d. It is Gram-Schmidt with column
// pivoting: each step takes the column with the largest part outside the basis so far.
func (d denseMatrix) basis() denseMatrix {
	remainder := d.transposed() // its rows are the columns of d
	var vectors [][]float64
	full := d.columnNorms()
	for range min(d.rows, d.cols) {
		best, largest := -1, 1e-13 // relative to the column; less is rounding
		for j := range remainder.rows {
			if norm := math.Sqrt(sparse.Dot(remainder.row(j), remainder.row(j))); full[j] > 0 && norm > largest*full[j] {
				best, largest = j, norm/full[j]
			}
		}
		if best < 0 {
			break
		}
		u := slices.Clone(remainder.row(best))
		for range 2 { // once more for the rounding of the first time
			for _, k := range vectors {
				sparse.Axpby(u, 1, u, -sparse.Dot(k, u), k)
			}
		}
		norm := math.Sqrt(sparse.Dot(u, u))
		for i := range u {
			u[i] /= norm
		}
		vectors = append(vectors, u)
		for j := range remainder.rows {
			v := remainder.row(j)
			sparse.Axpby(v, 1, v, -sparse.Dot(u, v), u)
		}
	}
	out := newDense(d.rows, len(vectors))
	for j, u := range vectors {
		for i, v := range u {
			out.row(i)[j] = v
		}
	}
	return out
}
