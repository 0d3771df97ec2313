package gemm

import "runtime"

// small makes a product that is to be made in place by the caller alone, and
// tells whether it was one. Asking in the general way what to do takes longer
// than such a product; what is unusual is left to that.
func (e *engine) small(c, a, b *Matrix) bool {
	if int(a.Type) >= len(e.kernels) || a.Type != b.Type || a.Type != c.Type {
		return false
	}
	kern, size := e.kernels[a.Type], sizes[a.Type]
	if kern == nil || kern.parts == nil || a.Rows != c.Rows || b.Cols != c.Cols || a.Cols != b.Rows ||
		!a.usual(size) || !b.usual(size) || !c.usual(size) {
		return false
	}
	t := &e.members[0].tile
	if c.Rows <= kern.rows && c.Cols <= kern.cols { // one tile, which takes less time than to find that out in loops
		t.lay(c, a, b, size)
		t.k, t.add, t.tiles = a.Cols, false, 1
		t.masks(c.Cols, kern)
		kern.parts.of(c.Rows, c.Cols, false)(t)
		return true
	}
	if c.Rows*c.Cols*a.Cols > aloneWork {
		return false
	}
	kern.inPlace(t, c, a, b, a.Cols)
	return true
}

// inPlace runs the tiles over the operands where they lie, depth steps along k
// at a time.
func (k *kernel) inPlace(t *tile, c, a, b *Matrix, depth int) {
	size := sizes[k.packed]
	t.lay(c, a, b, size)
	fromA, fromB, fromC := t.a, t.b, t.c
	for l := 0; l < a.Cols; l += depth {
		t.k, t.add = min(depth, a.Cols-l), l > 0
		for j, cols := 0, 0; j < c.Cols; j += cols {
			cols = k.parts.next(c.Rows, c.Cols-j)
			t.masks(cols, k)
			t.a, t.b, t.c = fromA+uintptr(l*t.aStep), fromB+uintptr(l*t.bStep+j*size), fromC+uintptr(j*size)

			rows, tiles, less := spread(c.Rows, k.parts.rows[k.parts.vectors(cols-1)])
			t.tiles, t.aTile = tiles, rows*t.aRow
			k.parts.of(rows, cols, false)(t)
			if less > 0 {
				t.down(tiles, rows)
				t.tiles, t.aTile = less, t.aTile-t.aRow
				k.parts.of(rows-1, cols, false)(t)
			}
		}
	}
}

// next says how many of the columns that are left the next tile has. A is read
// once for each tile beside another: four vectors are best where they come out
// even, and else three, which leave no single one. But B is read once for each
// tile below another: where only narrow ones have all rows, those are taken.
func (p *parts) next(rows, left int) int {
	n := 3
	switch vectors := p.vectors(left); {
	case vectors < 3 || rows > p.rows[3] && rows <= p.rows[1]:
		return min(left, 2<<(p.shift&31))
	case vectors%4 == 0:
		n = 4
	}
	return n << (p.shift & 31)
}

// spread cuts n rows into tiles of at most so many, as even as can be, since one
// of few rows would wait for its own sums: some of the rows it gives, the others
// with a row less. Small products have fewer rows than 32 bits count.
func spread(n, most int) (rows, tiles, less int) {
	if n <= most {
		return n, 1, 0
	}
	// Dividing takes as long as a small tile: not for two, and else not in 64 bits.
	tiles, rows = 2, (n+1)/2
	if rows > most {
		tiles = int(uint32(n+most-1) / uint32(most))
		rows = int(uint32(n+tiles-1) / uint32(tiles))
	}
	less = tiles*rows - n
	return rows, tiles - less, less
}

// lay tells the tile how the operands lie, from their beginnings on.
func (t *tile) lay(c, a, b *Matrix, size int) {
	t.a, t.b, t.c = uintptr(a.first()), uintptr(b.first()), uintptr(c.first())
	t.aRow, t.aStep, t.bStep, t.cRow = a.RowStep*size, a.ColStep*size, b.RowStep*size, c.RowStep*size
	t.next = 0
}

// down moves the arguments n tiles down.
func (t *tile) down(n, rows int) {
	t.a += uintptr(n * t.aTile)
	t.c += uintptr(n * rows * t.cRow)
}

// masks marks the columns that exist. A kernel looks only at the bits of a
// vector.
func (t *tile) masks(cols int, k *kernel) {
	bits := uint64(1)<<(uint(cols)&63) - 1 // wide tiles, of 64, do not ask
	t.mask, t.mask2 = uint32(bits), uint32(bits>>(uint(k.cols)/2&63))
}

// thinProduct is one member's share of a product with few rows: some columns,
// over few steps at a time, so that B is read line after line.
func (e *engine) thinProduct(who int) {
	panels, n := ceilDiv(e.c.Cols, e.kern.cols), len(e.members)
	from, to := who*panels/n*e.kern.cols, min((who+1)*panels/n*e.kern.cols, e.c.Cols)
	c, b := e.c.ColRange(from, to), e.b.ColRange(from, to)
	const depth = 32
	e.kern.inPlace(&e.members[who].tile, &c, &e.a, &b, depth)
}

// hold has Go keep the caller's memory up to here, whose addresses the kernels
// have as numbers. Whole slices would be copied for that.
func hold(c, a, b *Matrix) {
	runtime.KeepAlive(c.first())
	runtime.KeepAlive(a.first())
	runtime.KeepAlive(b.first())
}
