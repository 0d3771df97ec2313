package gemm

import (
	"unsafe"

	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// packStrips packs the strips [from, to) of A for the block that starts at l.
func (e *engine) packStrips(me *member, a *Matrix, r *region, l, depth, from, to int) {
	kern, size := e.kern, sizes[a.Type]
	for s := from; s < to; s++ {
		i := s * kern.Rows
		rows, dst := min(kern.Rows, a.Rows-i), r.strip(kern, l, depth, s)
		if a.ColStep == 1 {
			tile.CopyStrip(dst, a.at(i, l), a.RowStep*size, rows, depth*size)
			continue
		}
		t := a.T()
		e.interleave(me, &t, l, depth, i, rows, me.lines.at(0), 0)
		tile.PanelToStrip(dst, me.lines.at(0), stripBytes(kern, depth)/tile.GroupBytes)
	}
}

// packPanels packs the panels [from, to) of B for the block that starts at l.
func (e *engine) packPanels(me *member, b *Matrix, r *region, l, depth, from, to int) {
	kern, size := e.kern, sizes[b.Type]
	if b.ColStep == 1 {
		j := from * kern.Cols
		e.interleave(me, b, l, depth, j, min(to*kern.Cols, b.Cols)-j, r.strip(kern, l, depth, from), stripBytes(kern, depth))
		return
	}
	for p := from; p < to; p++ {
		j := p * kern.Cols
		tile.CopyStrip(me.lines.at(0), b.at(l, j), b.ColStep*size, min(kern.Cols, b.Cols-j), depth*size)
		tile.StripToPanel(r.strip(kern, l, depth, p), me.lines.at(0), stripBytes(kern, depth)/tile.GroupBytes)
	}
}

// lastStepBytes is the size of the rows of a step that is only partly inside the matrix, for packPanels panels.
const lastStepBytes = packPanels * 32 * 4

// interleave packs rows [l, l+depth) and columns [j, j+cols) of a matrix that is stored by rows. Panels are panelSize
// bytes apart, and all but the last have 32 columns.
func (e *engine) interleave(me *member, m *Matrix, l, depth, j, cols int, dst unsafe.Pointer, panelSize int) {
	const width = 32
	if rest := cols % width; cols > width && rest > 0 {
		whole := cols - rest
		e.interleave(me, m, l, depth, j+whole, rest, unsafe.Add(dst, whole/width*panelSize), panelSize)
		cols = whole
	}
	size, group := sizes[m.Type], e.kern.Group
	g := tile.Gather{Dst: dst, PanelSize: panelSize, Src: m.at(l, j), Stride: m.RowStep * size, Steps: depth / group,
		Panels: ceilDiv(cols, width), Group: group, Mask: tile.ColumnMask(min(cols, width))}
	tile.InterleavePanels(&g)
	done := g.Steps
	if rows := depth % group; rows > 0 { // complete the last step with rows of zeros
		last, line := me.lines.at(len(me.lines.mem)-lastStepBytes), g.Panels*width*size
		clear(unsafe.Slice((*byte)(last), group*line))
		for r := range rows {
			copy(unsafe.Slice((*byte)(unsafe.Add(last, r*line)), line), m.Run(l+done*group+r, j, cols))
		}
		g.Dst, g.Src, g.Stride, g.Steps = unsafe.Add(dst, done*tile.StepBytes), last, line, 1
		tile.InterleavePanels(&g)
		done++
	}
	if bytes := stripBytes(e.kern, depth); done*tile.StepBytes < bytes {
		for p := range g.Panels {
			clear(unsafe.Slice((*byte)(unsafe.Add(dst, p*panelSize)), bytes)[done*tile.StepBytes:])
		}
	}
}

// thinStrips is one member's share of a product with few rows. It reads every row of B once, some columns at a time,
// and packs them for itself, so that B streams from memory.
func (e *engine) thinStrips(thread int) {
	me, kern, bl := &e.members[thread], e.kern, &e.blocks
	k, n := e.a.Cols, e.c.Cols
	strips := region{buf: &me.packedA, count: 1, kc: bl.kc}
	panels := region{buf: &me.packedB, count: packPanels, kc: bl.kc, single: true}
	kept := e.keeps(&e.b)
	packed := false // A is one strip: it is packed with the first columns and used again for the others
	for {
		j := (int(e.tasks[0].Add(1)) - 1) * bl.tc
		if j >= n {
			return
		}
		cols := min(bl.tc, n-j)
		s := stripBlock{c: &e.c, a: &strips, b: &panels, rows: e.c.Rows, j: j, cols: cols}
		if kept {
			s.b, s.panel = &e.keptB, j/kern.Cols
		}
		b := e.b.ColRange(j, j+cols)
		for l := 0; l < k; l += bl.kc {
			depth := min(bl.kc, k-l)
			if !packed {
				e.packStrips(me, &e.a, &strips, l, depth, 0, 1)
			}
			if !kept {
				e.packPanels(me, &b, &panels, l, depth, 0, ceilDiv(cols, kern.Cols))
			}
			e.multiplyStrips(me, &s, l, depth, k)
		}
		packed = true
	}
}

// writeOut writes the sums of panel p of a block to C.
func (e *engine) writeOut(s *stripBlock, to, sums unsafe.Pointer, p, cols int) {
	if e.scales == nil {
		tile.CopyOut(to, s.c.RowStep*4, sums, s.rows, cols, e.stream && cols == e.kern.Cols)
		return
	}
	j := s.j + p*e.kern.Cols
	tile.ScaleOut(to, s.c.RowStep*4, sums, s.rows, cols, e.scales.Rows[s.i:], e.scales.Cols[j:])
}

// keeper is an engine with kernels for strips that keeps B packed.
type keeper struct{ *engine }

// Keep implements Keeper.
func (e keeper) Keep(b Matrix) error {
	e.kept = Matrix{}
	kern := e.kernels[b.Type]
	if b.empty() || kern == nil || !kern.Strips {
		return nil
	}
	if err := b.check("B"); err != nil {
		return err
	}
	bl := cutStrips(kern, stripSide, b.Cols, b.Rows, 1, stripPackBytes)
	r := region{buf: &e.keptBuf, count: ceilDiv(b.Cols, kern.Cols), kc: bl.kc}
	if err := e.keptBuf.grow(regionBytes(kern, r.count, b.Rows, r.kc)); err != nil {
		return err
	}
	me := &e.members[0]
	if err := me.lines.grow(stripBytes(kern, bl.kc) + lastStepBytes); err != nil {
		return err
	}
	e.kern = kern
	for l := 0; l < b.Rows; l += r.kc {
		for p := 0; p < r.count; p += packPanels {
			e.packPanels(me, &b, &r, l, min(r.kc, b.Rows-l), p, min(p+packPanels, r.count))
		}
	}
	e.kept, e.keptB = b, r
	return nil
}

// keeps reports whether b stays packed.
func (e *engine) keeps(b *Matrix) bool {
	return e.kept.Data != nil && e.kept.Type == b.Type && same(b, &e.kept)
}
