package gemm

import (
	"runtime"

	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// small computes a product that one thread should compute in place, and reports whether it did. The general choice of a
// method takes longer than such a product. Unusual views are left to it.
func (e *engine) small(c, a, b *Matrix) bool {
	if int(a.Type) >= len(e.kernels) || a.Type != b.Type || a.Type != c.Type {
		return false
	}
	kern, size := e.kernels[a.Type], sizes[a.Type]
	if kern == nil || kern.Parts == nil || a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows ||
		!a.usual(size) || !b.usual(size) || !c.usual(size) {
		return false
	}
	t := &e.members[0].tile
	if c.Rows <= kern.Rows && c.Cols <= kern.Cols { // a single tile; the loops below would take longer than the tile
		setOperands(t, c, a, b, size)
		t.K, t.Add, t.Tiles = a.Cols, false, 1
		t.Masks(c.Cols, kern)
		kern.Parts.Of(c.Rows, c.Cols, false)(t)
		return true
	}
	if c.Rows*c.Cols*a.Cols > aloneWork {
		return false
	}
	inPlace(kern, t, c, a, b, a.Cols)
	return true
}

// inPlace runs the tiles over the operands in place, depth steps along k at a time.
func inPlace(k *tile.Kernel, t *tile.Args, c, a, b *Matrix, depth int) {
	size := sizes[k.Packed]
	setOperands(t, c, a, b, size)
	fromA, fromB, fromC := t.A, t.B, t.C
	for l := 0; l < a.Cols; l += depth {
		t.K, t.Add = min(depth, a.Cols-l), l > 0
		for j, cols := 0, 0; j < c.Cols; j += cols {
			cols = k.Parts.Next(c.Rows, c.Cols-j)
			t.Masks(cols, k)
			t.A, t.B, t.C = fromA+uintptr(l*t.AStep), fromB+uintptr(l*t.BStep+j*size), fromC+uintptr(j*size)

			rows, tiles, less := splitRows(c.Rows, k.Parts.Rows[k.Parts.Vectors(cols-1)])
			t.Tiles, t.ATile = tiles, rows*t.ARow
			k.Parts.Of(rows, cols, false)(t)
			if less > 0 {
				t.Down(tiles, rows)
				t.Tiles, t.ATile = less, t.ATile-t.ARow
				k.Parts.Of(rows-1, cols, false)(t)
			}
		}
	}
}

// splitRows cuts n rows into tiles of at most most rows, as evenly as possible, because a tile with few rows would wait
// for its own sums. It returns the rows per tile, the number of tiles, and how many of them have one row less. Small
// products have fewer rows than 32 bits can count.
func splitRows(n, maxRows int) (rows, tiles, less int) {
	if n <= maxRows {
		return n, 1, 0
	}
	// A division takes as long as a small tile, so avoid it for two tiles, and otherwise use 32 bits.
	tiles, rows = 2, (n+1)/2
	if rows > maxRows {
		tiles = int(uint32(n+maxRows-1) / uint32(maxRows))
		rows = int(uint32(n+tiles-1) / uint32(tiles))
	}
	less = tiles*rows - n
	return rows, tiles - less, less
}

// setOperands sets the addresses and steps of the operands in the arguments of a kernel.
func setOperands(t *tile.Args, c, a, b *Matrix, size int) {
	t.A, t.B, t.C = uintptr(a.first()), uintptr(b.first()), uintptr(c.first())
	t.ARow, t.AStep, t.BStep, t.CRow = a.RowStep*size, a.ColStep*size, b.RowStep*size, c.RowStep*size
	t.Next = 0
}

// thinProduct is one member's share of a product with few rows: some columns, and few steps at a time, so that B is
// read line by line.
func (e *engine) thinProduct(thread int) {
	panels, n := ceilDiv(e.c.Cols, e.kern.Cols), len(e.members)
	from, to := thread*panels/n*e.kern.Cols, min((thread+1)*panels/n*e.kern.Cols, e.c.Cols)
	c, b := e.c.ColRange(from, to), e.b.ColRange(from, to)
	const depth = 32
	inPlace(e.kern, &e.members[thread].tile, &c, &e.a, &b, depth)
}

// keepAlive keeps the caller's memory alive up to this call, because the kernels hold its addresses as
// integers. Passing whole slices would copy them.
func keepAlive(c, a, b *Matrix) {
	runtime.KeepAlive(c.first())
	runtime.KeepAlive(a.first())
	runtime.KeepAlive(b.first())
}
