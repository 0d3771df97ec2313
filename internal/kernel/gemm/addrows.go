package gemm

import (
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// A product with one or two rows, such as the decoding of one token, takes as long as reading B. The rows of B are
// widened and added up where they are, without the tile registers, which are sometimes slow (docs/gemm.md).
const (
	addedRows  = 2   // most rows of such a product
	addedDepth = 32  // rows of B at a time: as many streams as the prefetcher follows
	addedChunk = 512 // columns at a time
)

// addRows computes a product with few rows on all threads.
func (e *engine) addRows(threads int) error {
	for i := range threads {
		me := &e.members[i]
		if err := me.edge.grow(e.c.Rows * roundUp(e.c.Cols, tile.GroupCols) * 4); err != nil {
			return err
		}
		if err := me.lines.grow(e.c.Rows * e.a.Cols * 4); err != nil {
			return err
		}
	}
	e.all((*engine).addRowsWork)
	return nil
}

// addRowsWork is one member's share of the product: some columns. It keeps their sums in f32 in a private buffer, in
// the order that the kernel prefers, and copies them to C at the end.
func (e *engine) addRowsWork(thread int) {
	me, threads := &e.members[thread], len(e.members)
	if e.alone {
		threads = 1
	}
	m, k, groups := e.c.Rows, e.a.Cols, e.c.Cols/tile.GroupCols
	from, to := thread*groups/threads*tile.GroupCols, (thread+1)*groups/threads*tile.GroupCols
	if from == to {
		return
	}
	factors := unsafe.Slice((*float32)(me.lines.at(0)), m*k)
	for i := range m {
		for l := range k {
			factors[i*k+l] = (*(*dtype.BFloat16)(e.a.at(i, l))).Float32()
		}
	}
	sums := unsafe.Slice((*float32)(me.edge.at(0)), m*(to-from))
	clear(sums)
	t := &me.tile
	t.BStep = e.b.RowStep * sizes[e.b.Type]
	for l := 0; l < k; l += addedDepth {
		t.K = min(addedDepth, k-l)
		for j := from; j < to; j += addedChunk {
			t.Tiles = (min(j+addedChunk, to) - j) / tile.GroupCols
			t.B = uintptr(e.b.at(l, j))
			t.A, t.ARow = uintptr(unsafe.Pointer(&factors[l])), k*4
			t.C, t.CRow = uintptr(unsafe.Pointer(&sums[j-from])), (to-from)*4
			e.kern.AddRows[m-1](t)
		}
	}
	for i := range m {
		row := unsafe.Slice((*float32)(e.c.at(i, from)), to-from)
		for j := range row {
			row[j] = sums[i*(to-from)+tile.SumIndex(j)]
		}
	}
}
