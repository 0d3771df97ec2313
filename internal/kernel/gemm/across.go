package gemm

import (
	"errors"
	"sync/atomic"

	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// The functions in this file compute large products with few threads. Each thread packs the columns of B that it needs,
// as many as stay in its second-level cache, and multiplies them with one strip of A after the other
// (tile.Kernel.Across). Packed columns never leave the cache, and no other thread waits for them. A part of a strip
// stays in the first-level cache while it is multiplied with all of these columns.
const (
	acrossRows   = 512     // fewest rows: with fewer, packing B takes too long
	acrossCols   = 128     // fewest columns of a thread, times the number of threads: they all read the whole of A
	acrossBBytes = 1 << 20 // columns of B that are packed at a time
	acrossDepth  = 1 << 10 // bytes along k of the part of a strip
	acrossPasses = 2       // A is packed in advance if every thread reads it more often
	sumsPadding  = 64      // bytes between rows of sums, so that they do not displace each other in the cache
)

// across reports whether to compute the running product in this way: it has whole tiles, and enough work for each
// thread.
func (e *engine) across(threads int) bool {
	m, n := e.c.Rows, e.c.Cols
	return e.kern.Across != nil && m%e.kern.Rows == 0 && n%e.kern.Cols == 0 && m >= acrossRows &&
		n >= acrossCols*threads*threads && e.scales == nil && !e.keeps(&e.b)
}

// acrossProduct computes such a product on all threads.
func (e *engine) acrossProduct(threads int) error {
	kern, bl := e.kern, &e.blocks
	m, n, k, size := e.c.Rows, e.c.Cols, e.a.Cols, kern.Packed.Size()
	bl.kc = roundUp(evenly(k, stripDepthBytes/size), kern.Unit*kern.Group)
	bl.tc = roundUp(evenly(n, min(acrossBBytes/(bl.kc*size), stripSide)), kern.Cols)
	bl.tc = roundUp(ceilDiv(n, roundUp(ceilDiv(n, bl.tc), threads)), kern.Cols) // the same number of parts for each thread
	for i := range threads {
		me := &e.members[i]
		if err := errors.Join(
			me.edge.grow(tile.RoomBytes+kern.Rows*(bl.tc*4+sumsPadding)),
			me.lines.grow(stripBytes(kern, k)+lastStepBytes),
			me.packedA.grow(stripBytes(kern, bl.kc)),
			me.packedB.grow(ceilDiv(bl.tc, kern.Cols)*stripBytes(kern, bl.kc+acrossDepth))); err != nil {
			return err
		}
	}
	e.stream = e.streams()
	e.readA = e.a.ColStep == 1 && k%(kern.Unit*kern.Group) == 0 && e.a.RowStep*size <= readStride
	packed := m / kern.Rows * stripBytes(kern, k)
	if e.sharedA = !e.readA && ceilDiv(n, bl.tc) > acrossPasses*threads && packed <= e.packBytes; e.sharedA {
		if err := e.packedA.grow(packed); err != nil {
			return err
		}
	}
	e.panels[0].Store(0)
	e.tasks[0].Store(0)
	e.all((*engine).acrossWork)
	return nil
}

// acrossWork is one member's share of the product.
func (e *engine) acrossWork(thread int) {
	kern, me := e.kern, &e.members[thread]
	if e.sharedA {
		strips := region{buf: &e.packedA, count: e.c.Rows / kern.Rows, kc: e.a.Cols}
		for s := next(&e.panels[0]); s < strips.count; s = next(&e.panels[0]) {
			e.packStrips(me, &e.a, &strips, 0, e.a.Cols, s, s+1)
		}
		e.meetAt(&e.panels[0])
	}
	// A thread starts with the same columns in every call, because they may still be in its cache.
	for part := thread; part*e.blocks.tc < e.c.Cols; part = len(e.members) + next(&e.tasks[0]) {
		j := part * e.blocks.tc
		for l := 0; l < e.a.Cols; l += e.blocks.kc {
			e.acrossPart(me, j, min(e.blocks.tc, e.c.Cols-j), l, min(e.blocks.kc, e.a.Cols-l))
		}
	}
}

// acrossPart multiplies all rows of A with some columns of B, over a part of k.
func (e *engine) acrossPart(me *member, j, cols, l, depth int) {
	kern, t, size := e.kern, &me.tile, e.kern.Packed.Size()
	step := kern.Unit * kern.Group
	kc := roundUp(evenly(depth, acrossDepth/size), step)
	b := e.b.RowRange(l, l+depth).ColRange(j, j+cols)
	panels := region{buf: &me.packedB, count: cols / kern.Cols, kc: kc}
	for x := 0; x < depth; x += kc {
		for p := 0; p < panels.count; p += packPanels {
			e.packPanels(me, &b, &panels, x, min(kc, depth-x), p, min(p+packPanels, panels.count))
		}
	}
	// The sums over the first parts of k stay in the second-level cache.
	sums, sumsRow := uintptr(me.edge.at(tile.RoomBytes)), cols*4+sumsPadding
	t.Tiles = panels.count
	for i := 0; i < e.c.Rows; i += kern.Rows {
		for x := 0; x < depth; x += kc {
			d := min(kc, depth-x)
			t.K, t.ATile = ceilDiv(d, step)*kern.Unit, stripBytes(kern, d)
			e.acrossStrip(me, i, l+x, d)
			t.B = uintptr(panels.strip(kern, x, d, 0))
			t.C, t.CRow, t.Room = uintptr(e.c.at(i, j)), e.c.RowStep*4, 0
			if t.Add, t.Sums, t.SumsRow = l+x > 0, sums, sumsRow; x == 0 {
				t.Sums, t.SumsRow = t.C, t.CRow
			}
			if x+d < depth {
				t.C, t.CRow = sums, sumsRow
			} else if e.stream {
				t.Room = uintptr(me.edge.at(0))
			}
			kern.Across(t)
		}
	}
}

// acrossStrip gives the kernel the strip of A that starts at row i, from l on. The strip is read where it is, or
// packed.
func (e *engine) acrossStrip(me *member, i, l, depth int) {
	kern, t := e.kern, &me.tile
	t.ARow, t.AStep = tile.RowBytes, tile.GroupBytes
	switch {
	case e.readA:
		t.A, t.ARow, t.AStep = uintptr(e.a.at(i, l)), e.a.RowStep*sizes[e.a.Type], tile.RowBytes
		t.Fetch = t.A + uintptr(kern.Rows*t.ARow)
	case e.sharedA:
		t.A = uintptr(e.packedA.at(i/kern.Rows*stripBytes(kern, e.a.Cols) + stripBytes(kern, l)))
		t.Fetch = t.A + uintptr(stripBytes(kern, depth))
	default:
		strip, a := region{buf: &me.packedA, count: 1, single: true, kc: depth}, e.a.RowRange(i, i+kern.Rows)
		e.packStrips(me, &a, &strip, l, depth, 0, 1)
		t.A = uintptr(me.packedA.at(0))
		t.Fetch = t.A
	}
}

// next takes the next number of a counter.
func next(count *atomic.Int64) int { return int(count.Add(1)) - 1 }
