package gemm

import (
	"unsafe"

	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// A product with up to 16 rows, such as the decoding of some tokens, takes as long as reading B. Packing B, even in the
// caches, would add to that, so B is read where it is (tile.Kernel.FewRows).
const (
	fewRows   = 16
	fewDepth  = 128 // rows of B at a time: their A stays in the first-level cache
	rowStep   = 16  // rows of B of one step
	fewGroups = 16  // groups of columns at a time: for each step, the kernel prefetches one row of that many groups
)

// few reports whether the running product has few rows and its operands can be read where they are.
func (e *engine) few() bool {
	return e.kern.FewRows != nil && e.c.Rows <= fewRows && e.c.Cols%tile.GroupCols == 0 && e.b.ColStep == 1 &&
		e.a.ColStep == 1 && e.scales == nil && !e.keeps(&e.b)
}

// fewRowsProduct computes a product with few rows on all threads. The kernel multiplies zeros of the expanded A with
// elements of B that do not belong to the sum, and zero times infinity is not a number. If a sum is not a number, done
// is false, and the caller computes the product in the usual way.
func (e *engine) fewRowsProduct(threads int) (done bool, err error) {
	size := sizes[e.b.Type]
	for i := range threads {
		me := &e.members[i]
		if err := me.edge.grow(e.c.Cols / tile.GroupCols * tile.SumBytes); err != nil {
			return false, err
		}
		if err := me.packedA.grow(ceilDiv(e.a.Cols, rowStep) * e.kern.Group << 10); err != nil {
			return false, err
		}
		if err := me.lines.grow(rowStep * (e.c.Cols*size + fewRows*size)); err != nil {
			return false, err
		}
	}
	e.sawNaN.Store(false)
	e.all((*engine).fewRowsWork)
	return !e.sawNaN.Load(), nil
}

// fewRowsWork is one member's share of the product: some columns.
func (e *engine) fewRowsWork(thread int) {
	me, threads := &e.members[thread], len(e.members)
	if e.alone {
		threads = 1
	}
	m, k, groups, size := e.c.Rows, e.a.Cols, e.c.Cols/tile.GroupCols, sizes[e.b.Type]
	from, to := thread*groups/threads, (thread+1)*groups/threads
	if from == to {
		return
	}
	whole, rest := k/rowStep*rowStep, k%rowStep
	stepBytes := e.kern.Group << 10
	tile.ExpandRows(me.packedA.at(0), e.a.at(0, 0), e.a.RowStep*size, m, whole/rowStep, e.kern.Group)
	t := &me.tile
	t.C, t.Mask, t.Add = uintptr(me.edge.at(0)), uint32(m), false
	t.BStep = e.b.RowStep * size
	sums := t.C
	for l := 0; l < whole; l += fewDepth {
		t.K, t.A = min(fewDepth, whole-l), uintptr(me.packedA.at(l/rowStep*stepBytes))
		for g := from; g < to; g += fewGroups {
			t.Tiles = min(fewGroups, to-g)
			t.B, t.C = uintptr(e.b.at(l, g*tile.GroupCols)), sums+uintptr((g-from)*tile.SumBytes)
			if t.Next = t.B + uintptr(fewGroups*tile.GroupCols*size); g+fewGroups >= to { // the first columns of the next rows
				t.Next = t.B + uintptr(fewDepth*t.BStep-(g-from)*tile.GroupCols*size)
			}
			e.kern.FewRows(t)
		}
		t.Add = true
	}
	t.Tiles, t.C = to-from, sums
	if rest > 0 { // pad the last rows with zeros
		line := (to - from) * tile.GroupCols * size
		rows := unsafe.Slice((*byte)(me.lines.at(0)), rowStep*line)
		last := unsafe.Slice((*byte)(me.lines.at(rowStep*line)), fewRows*rowStep*size)
		clear(rows)
		clear(last)
		for l := range rest {
			copy(rows[l*line:], e.b.Run(whole+l, from*tile.GroupCols, line/size))
		}
		for i := range m {
			copy(last[i*rowStep*size:], e.a.Run(i, whole, rest))
		}
		tile.ExpandRows(me.packedA.at(0), unsafe.Pointer(&last[0]), rowStep*size, m, 1, e.kern.Group)
		t.K, t.A, t.B, t.BStep = rowStep, uintptr(me.packedA.at(0)), uintptr(unsafe.Pointer(&rows[0])), line
		e.kern.FewRows(t)
	}
	if tile.MergeRows(e.c.at(0, from*tile.GroupCols), e.c.RowStep*4, me.edge.at(0), m, to-from, e.kern.Group) {
		e.sawNaN.Store(true)
	}
}
