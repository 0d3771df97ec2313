package sparse

import (
	"fmt"
	"math"
)

// A block vector holds several vectors, the columns, row by row: element j of row i is at i*width+j. A product with a
// block vector reads the matrix once for all columns.

// panel is the number of columns that the assembly kernels process at a time.
const panel = 16

// InPlace is the largest number of columns of a block vector that Combine can overwrite.
const InPlace = panel

// MultiplyBlock sets rows [lo, hi) of dst to the product with the block vector x. Each column has the same bits as the
// product that Multiply computes. dst must not overlap x.
func (m *Matrix) MultiplyBlock(dst, x []float64, width, lo, hi int) {
	if lo >= hi {
		return
	}
	_, _ = dst[hi*width-1], x[m.cols*width-1]
	m.each(lo, hi, func(f form, from, to, base int) {
		f.block(dst[from*width:to*width], x, width, from, to, base)
	})
}

// block multiplies rows with the same entries. The rows of a block vector follow each other, so this is the product of
// a vector that is width times as long, with offsets that are width times as large.
func (c *constant) block(dst, x []float64, width, lo, hi, _ int) {
	var memory [32]int // enough for the stencils; append allocates for longer rows
	wide := constant{offs: memory[:0], coefs: c.coefs}
	for _, off := range c.offs {
		wide.offs = append(wide.offs, off*width)
	}
	wide.rows(dst, x, lo*width, hi*width, 0)
}

// block multiplies one row at a time. Only interpolation between grids has this form, and it has no block vectors that
// are worth a kernel.
func (c *periodic) block(dst, x []float64, width, lo, hi, base int) {
	for i := lo; i < hi; i++ {
		row := NewCSR(1, 8)
		c.row(row, i, base)
		sum := dst[(i-lo)*width:][:width]
		for j := range sum {
			sum[j] = minusZero
		}
		for k, col := range row.Cols {
			for j, v := range x[int(col)*width:][:width] {
				sum[j] += float64(row.Vals[k] * v)
			}
		}
	}
}

// block multiplies rows with the same offsets, a panel of columns at a time.
func (v *varying) block(dst, x []float64, width, lo, hi, base int) {
	if !fast || v.vals16 != nil {
		v.portableBlock(dst, x, width, lo, hi, base)
		return
	}
	for from := 0; from < width; from += panel {
		v.panel(dst[from:], x[from:], width, min(panel, width-from), lo, hi, base)
	}
}

func (v *varying) portableBlock(dst, x []float64, width, lo, hi, base int) {
	for i := lo; i < hi; i++ {
		sum := dst[(i-lo)*width:][:width]
		for j := range sum {
			sum[j] = minusZero
		}
		for k, off := range v.offs {
			a, from := v.value(k*v.n+i-base), x[(i+off/8)*width:][:width]
			for j := range sum {
				sum[j] += float64(a * from[j])
			}
		}
	}
}

// block multiplies whole slices directly, and parts of a slice through a buffer.
func (c *scattered) block(dst, x []float64, width, lo, hi, base int) {
	for lo < hi {
		s, lane := (lo-base)/8, (lo-base)%8
		if whole := (hi - lo) / 8; lane == 0 && whole > 0 {
			c.blockSlices(dst[:8*whole*width], x, width, s, whole, lo)
			dst, lo = dst[8*whole*width:], lo+8*whole
			continue
		}
		part := make([]float64, 8*width)
		c.blockSlices(part, x, width, s, 1, lo-lane)
		n := min(8-lane, hi-lo)
		copy(dst[:n*width], part[lane*width:])
		dst, lo = dst[n*width:], lo+n
	}
}

func (c *scattered) blockSlices(dst, x []float64, width, s, n, row int) {
	if !fast || c.vals16 != nil {
		c.portableBlock(dst, x, width, s, n, row)
		return
	}
	for from := 0; from < width; from += panel {
		c.panel(dst[from:], x[from:], width, min(panel, width-from), s, n, row)
	}
}

func (c *scattered) portableBlock(dst, x []float64, width, s, n, row int) {
	for j := range dst {
		dst[j] = minusZero
	}
	for i := range n {
		at := int(c.starts[s+i].entry)
		for _, mask := range c.masks[c.starts[s+i].mask:c.starts[s+i+1].mask] {
			for l := range 8 {
				if mask>>l&1 == 0 {
					continue
				}
				a, from := c.value(s+i, at), x[c.column(at, row+8*i)*width:][:width]
				for j, v := range from {
					dst[(8*i+l)*width+j] += float64(a * v)
				}
				at++
			}
		}
	}
}

// Combine multiplies a block vector by a small matrix and adds the product to another block vector: dst = base +
// src*coef, for the first cols columns of dst. Without a base it sets dst to the product. Rows of dst, base and coef
// have n elements, and src has rows of k columns. dst may be base. dst must not overlap src, unless both are the same
// block vector of at most InPlace columns.
func Combine(dst, base, src, coef []float64, rows, k, n, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	if cols > n || len(dst) < rows*n || len(src) < rows*k || len(coef) < k*n || base != nil && len(base) < rows*n {
		panic(fmt.Sprintf("sparse: combining %d columns of %d rows to %d of %d, with %d, %d, %d and %d values", k, rows, cols,
			n, len(dst), len(base), len(src), len(coef)))
	}
	if !fast || k == 0 {
		portableCombine(dst, base, src, coef, rows, k, n, cols)
		return
	}
	for from := 0; from < cols; from += panel {
		combinePanel(dst[from:], base[min(from, len(base)):], src, coef[from:], rows, k, n, min(panel, cols-from))
	}
}

// portableCombine defines the results of Combine: each element adds its products in order, each with one rounding.
func portableCombine(dst, base, src, coef []float64, rows, k, n, cols int) {
	sum := make([]float64, cols)
	for i := range rows {
		clear(sum)
		if base != nil {
			copy(sum, base[i*n:])
		}
		for l, a := range src[i*k:][:k] {
			for j := range sum {
				sum[j] = math.FMA(a, coef[l*n+j], sum[j])
			}
		}
		copy(dst[i*n:], sum)
	}
}

// Gram adds the scalar products of all columns of a with all columns of b to sums: sums[i*n+j] += (a_i, b_j). a has
// rows of k columns, b has rows of n. If symmetric is set, a kernel may leave out elements with i > j.
func Gram(sums, a, b []float64, rows, k, n int, symmetric bool) {
	if rows == 0 || k == 0 || n == 0 {
		return
	}
	if len(sums) < k*n || len(a) < rows*k || len(b) < rows*n {
		panic(fmt.Sprintf("sparse: scalar products of %d and %d columns of %d rows, with %d, %d and %d values", k, n, rows,
			len(sums), len(a), len(b)))
	}
	if fast && symmetric && k == panel && n == panel {
		gramTriangle(sums, a, b, rows)
		return
	}
	for i := 0; i < k; i += gramRows {
		from := 0
		if symmetric {
			from = i
		}
		for j := from; j < n; j += panel {
			gramPanel(sums[i*n+j:], a[i:], b[j:], rows, k, n, min(gramRows, k-i), min(panel, n-j))
		}
	}
}

// gramRows is the number of columns of the left block vector whose scalar products a kernel takes at a time.
const gramRows = 8

// portableGram defines the results of Gram: each scalar product adds its rows in order, each with one rounding.
func portableGram(sums, a, b []float64, rows, strideA, strideB, k, n int) {
	for i := range rows {
		right := b[i*strideB:][:n]
		for l, v := range a[i*strideA:][:k] {
			sum := sums[l*strideB:][:n]
			for j := range sum {
				sum[j] = math.FMA(v, right[j], sum[j])
			}
		}
	}
}

// ScaleRows sets dst to the block vector x with each row multiplied by its own factor. dst must not overlap x.
func ScaleRows(dst, x, by []float64, width int) {
	if len(by) > 0 {
		diagonal := varying{n: len(by), offs: []int{0}, vals64: by}
		diagonal.block(dst, x, width, 0, len(by), 0)
	}
}
