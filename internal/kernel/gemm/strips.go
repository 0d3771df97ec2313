package gemm

import (
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// The functions in this file compute products with tile registers (tile.Kernel.Strips). The arithmetic is so fast that
// moving data takes most of the time. Both operands are packed once, in large blocks that all threads share. A thread
// computes a block of C over the whole of k before it takes the next one. The sums stay in a private block in the
// second-level cache, whose rows are adjacent. They are written to C once, past the caches if C is large.

// Sizes in bytes, elements and panels, for second-level caches of 2 MiB. They were found by measuring (docs/gemm.md).
// Along k, a block is as deep as possible while its strips of A stay in the cache and the panels of B stream by,
// because the sums are loaded and stored once for every block.
const (
	stripDepthBytes = 4 << 10  // largest depth of a block along k
	stripBlockBytes = 1 << 20  // the block of A
	stripSide       = 512      // largest side of a block of C
	stripPackBytes  = 64 << 20 // of each operand, packed at a time
	streamBytes     = 2 << 20  // a larger C is written past the caches
	readStride      = 1 << 10  // A is read in place if its rows are at most this far apart
	packPanels      = 16       // panels or strips that a thread packs at a time
	thinRows        = 32       // with at most this many rows, B is read only once, and nothing is shared
	thinDepthBytes  = 512      // depth of a block of B for a product with at most thinRows rows
)

// region is memory for an operand that is packed in blocks along k. A block has count strips of A, or panels of B.
type region struct {
	buf   *buffer
	at    int // offset in the buffer
	count int
	kc    int // depth of every block but the last

	single bool // there is only room for the current block
}

// stripBytes returns the size of a strip or panel of a depth.
func stripBytes(k *tile.Kernel, depth int) int {
	return ceilDiv(depth, k.Unit*k.Group) * tile.GroupBytes
}

// strip returns the address of strip or panel i of the block that starts at l.
func (r *region) strip(k *tile.Kernel, l, depth, i int) unsafe.Pointer {
	if r.single {
		l = 0
	}
	return r.buf.at(r.at + l/r.kc*r.count*stripBytes(k, r.kc) + i*stripBytes(k, depth))
}

// regionBytes returns the size of a region with count strips over k elements.
func regionBytes(kern *tile.Kernel, count, k, kc int) int {
	return ceilDiv(k, kc) * count * stripBytes(kern, kc)
}

// cutStrips chooses the blocks of a product: C in blocks of mc x tc, k in blocks of kc, and how many rows of A (mr) and
// columns of B (nc) are packed at a time.
func cutStrips(kern *tile.Kernel, m, n, k, threads, packBytes int) blocks {
	size := kern.Packed.Size()
	b := blocks{kc: roundUp(evenly(k, stripDepthBytes/size), kern.Unit*kern.Group)}
	limit := max(packBytes/(roundUp(k, b.kc)*size)/stripSide, 1) * stripSide
	b.nc, b.mr = roundUp(evenly(n, limit), kern.Cols), roundUp(evenly(m, limit), kern.Rows)
	rows := min(stripBlockBytes/(b.kc*size), stripSide)
	b.mc, b.tc = roundUp(evenly(min(m, b.mr), rows), kern.Rows), roundUp(evenly(min(n, b.nc), stripSide), kern.Cols)
	for threads > 1 && ceilDiv(b.mr, b.mc)*ceilDiv(b.nc, b.tc) < tasksPerThread*threads && max(b.mc, b.tc) > taskRows {
		if b.mc >= b.tc {
			b.mc = roundUp(ceilDiv(b.mc, 2), kern.Rows)
		} else {
			b.tc = roundUp(ceilDiv(b.tc, 2), kern.Cols)
		}
	}
	return b
}

// strips computes a product with packed strips on all threads.
func (e *engine) strips() error {
	kern, threads := e.kern, len(e.members)
	if e.alone {
		threads = 1
	}
	m, n, k := e.c.Rows, e.c.Cols, e.a.Cols
	e.blocks = cutStrips(kern, m, n, k, threads, e.packBytes)
	bl := &e.blocks
	job := (*engine).stripWork
	if e.few() && m <= addedRows && kern.AddRows[0] != nil {
		return e.addRows(threads)
	}
	if e.few() {
		if done, err := e.fewRowsProduct(threads); done || err != nil {
			return err
		}
	}
	if e.across(threads) {
		return e.acrossProduct(threads)
	}
	kept := e.keeps(&e.b)
	if kept {
		bl.nc, bl.kc = roundUp(n, kern.Cols), e.keptB.kc
	}
	if m <= thinRows {
		bl.mc, bl.tc, bl.nc = thinRows, min(packPanels*kern.Cols, roundUp(ceilDiv(n, threads), kern.Cols)), n
		if !kept {
			bl.kc = min(bl.kc, thinDepthBytes/kern.Packed.Size())
		}
		job = (*engine).thinStrips
	} else {
		if err := e.packedA.grow(regionBytes(kern, bl.mr/kern.Rows, k, bl.kc)); err != nil {
			return err
		}
		if !kept {
			if err := e.packedB[0].grow(regionBytes(kern, bl.nc/kern.Cols, k, bl.kc)); err != nil {
				return err
			}
		}
	}
	for i := range threads {
		if err := e.members[i].growStrips(e); err != nil {
			return err
		}
	}
	e.stream = e.streams()
	// Rows that are at most readStride apart lie in different sets of the first-level cache, so they do not evict each
	// other. They need no packing if there are only whole tiles.
	e.readA = m > thinRows && m%kern.Rows == 0 && k <= bl.kc && k%(kern.Unit*kern.Group) == 0 && e.a.ColStep == 1 &&
		e.a.RowStep*sizes[e.a.Type] <= readStride
	e.panels[0].Store(0)
	e.tasks[0].Store(0)
	e.all(job)
	return nil
}

// streams reports whether to write C past the caches: it is large, and its lines are aligned.
func (e *engine) streams() bool {
	return e.c.Rows*e.c.Cols*4 > e.streamBytes && uintptr(e.c.first())%64 == 0 && e.c.RowStep*4%64 == 0
}

// growStrips allocates the member's buffers for the running call.
func (m *member) growStrips(e *engine) error {
	kern, bl := e.kern, &e.blocks
	if err := m.edge.grow(roundUp(bl.mc, kern.Rows) * roundUp(bl.tc, kern.Cols) * 4); err != nil {
		return err
	}
	if err := m.lines.grow(stripBytes(kern, bl.kc) + lastStepBytes); err != nil {
		return err
	}
	if e.c.Rows > thinRows {
		return nil
	}
	if err := m.packedA.grow(regionBytes(kern, 1, e.a.Cols, bl.kc)); err != nil {
		return err
	}
	return m.packedB.grow(packPanels * stripBytes(kern, bl.kc))
}

// stripWork is one member's share of the product: it packs and multiplies until nothing is left, for one part of the
// operands after the other.
func (e *engine) stripWork(thread int) {
	me, bl := &e.members[thread], &e.blocks
	m, n := e.c.Rows, e.c.Cols
	for j := 0; j < n; j += bl.nc {
		cols := min(bl.nc, n-j)
		b := e.b.ColRange(j, j+cols)
		regionB, kept := region{buf: &e.packedB[0], count: ceilDiv(cols, e.kern.Cols), kc: bl.kc}, e.keeps(&e.b)
		if kept {
			regionB = e.keptB
		}
		for i := 0; i < m; i += bl.mr {
			rows := min(bl.mr, m-i)
			a := e.a.RowRange(i, i+rows)
			regionA := region{buf: &e.packedA, count: ceilDiv(rows, e.kern.Rows), kc: bl.kc}
			e.packBoth(me, &a, &b, &regionA, &regionB, i == 0 && !kept)
			e.meetAt(&e.tasks[0])
			e.blocksOfC(me, stripBlock{c: &e.c, a: &regionA, b: &regionB, i: i, j: j}, rows, cols)
			if i+rows < m || j+cols < n {
				e.meetAt(&e.panels[0])
			}
		}
	}
}

// meetAt is a barrier. The last thread to arrive resets a counter that nobody uses at this moment.
func (e *engine) meetAt(count *atomic.Int64) {
	if e.team == nil || e.alone {
		count.Store(0)
		return
	}
	e.team.gate.wait(func() { count.Store(0) })
}

// packBoth takes and packs parts of both operands until none is left. B is left out if it is packed already.
func (e *engine) packBoth(me *member, a, b *Matrix, regionA, regionB *region, withB bool) {
	kc, k := e.blocks.kc, a.Cols
	wide := func(count int) int { // enough parts for all threads
		return min(max(count*ceilDiv(k, kc)/len(e.members), 1), packPanels)
	}
	wideA, wideB := wide(regionA.count), wide(regionB.count)
	perA, perB := ceilDiv(regionA.count, wideA), ceilDiv(regionB.count, wideB)
	itemsA, itemsB := ceilDiv(k, kc)*perA, ceilDiv(k, kc)*perB
	if !withB {
		itemsB = 0
	}
	if e.readA {
		itemsA = 0
	}
	for {
		item := int(e.panels[0].Add(1)) - 1
		switch {
		case item < itemsB:
			l, from := item/perB*kc, item%perB*wideB
			e.packPanels(me, b, regionB, l, min(kc, k-l), from, min(from+wideB, regionB.count))
		case item < itemsB+itemsA:
			item -= itemsB
			l, from := item/perA*kc, item%perA*wideA
			e.packStrips(me, a, regionA, l, min(kc, k-l), from, min(from+wideA, regionA.count))
		default:
			return
		}
	}
}

// blocksOfC takes and computes blocks of C until none is left.
func (e *engine) blocksOfC(me *member, s stripBlock, rows, cols int) {
	bl := &e.blocks
	across, i, j := ceilDiv(cols, bl.tc), s.i, s.j
	for {
		task := int(e.tasks[0].Add(1)) - 1
		if task >= across*ceilDiv(rows, bl.mc) {
			return
		}
		down, right := task/across*bl.mc, task%across*bl.tc
		s.i, s.rows, s.strip = i+down, min(bl.mc, rows-down), down/e.kern.Rows
		s.j, s.cols, s.panel = j+right, min(bl.tc, cols-right), right/e.kern.Cols
		k := e.a.Cols
		for l := 0; l < k; l += bl.kc {
			e.multiplyStrips(me, &s, l, min(bl.kc, k-l), k)
		}
	}
}

// stripBlock is a block of C: rows x cols elements from (i, j), the product of packed rows from a strip on, and packed
// columns from a panel on.
type stripBlock struct {
	c            *Matrix
	a, b         *region
	i, rows      int
	j, cols      int
	strip, panel int
}

// multiplyStrips adds the products of one block along k, from l on, to the sums of a block of C, and writes C after the
// last one.
func (e *engine) multiplyStrips(me *member, s *stripBlock, l, depth, k int) {
	kern, t, next := e.kern, &me.tile, l+depth
	t.K, t.ATile, t.Add = ceilDiv(depth, kern.Unit*kern.Group)*kern.Unit, stripBytes(kern, depth), l > 0
	t.Tiles = ceilDiv(s.rows, kern.Rows)
	t.A, t.ARow, t.AStep = uintptr(s.a.strip(kern, l, depth, s.strip)), tile.RowBytes, tile.GroupBytes
	if e.readA {
		t.A, t.ARow, t.AStep = uintptr(e.a.at(s.i, 0)), e.a.RowStep*sizes[e.a.Type], tile.RowBytes
		t.ATile = t.ARow * kern.Rows
	}
	blockRows := roundUp(s.rows, kern.Rows)
	for p := 0; p*kern.Cols < s.cols; p++ {
		wide := min(kern.Cols, s.cols-p*kern.Cols)
		to := s.c.at(s.i, s.j+p*kern.Cols)
		sums := me.edge.at(p * blockRows * tile.BlockStride)
		direct := next >= k && l == 0 && wide == kern.Cols && s.rows%kern.Rows == 0 && !e.stream && e.scales == nil
		t.B = uintptr(s.b.strip(kern, l, depth, s.panel+p))
		if t.C, t.CRow = uintptr(sums), tile.BlockStride; direct {
			t.C, t.CRow = uintptr(to), s.c.RowStep*4
		}
		if 2*s.rows <= kern.Rows {
			kern.Half(t)
		} else {
			kern.Whole(t)
		}
		if next >= k && !direct {
			e.writeOut(s, to, sums, p, wide)
		}
	}
}
