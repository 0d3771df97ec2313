package gemm

import (
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/kernel/tile"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Packing copies elements along the direction in which they are adjacent in memory. It transposes only if a kernel
// needs the other direction. In a panel of B, the columns of a tile are next to each other in each step. Kernels accept
// rows of A in either direction, except kernels that take pairs along k.

// A line is a run of adjacent elements in the packed type.

// convert converts runs of n elements to the packed type, one run from each line. The first run starts at (i, j), and
// consecutive lines are a stride apart.
func (e *engine) convert(dst unsafe.Pointer, dstStride int, m *Matrix, i, j, lines, n int) {
	size := m.Type.Size()
	step := m.RowStep * size
	if m.ColStep != 1 {
		step = m.ColStep * size
	}
	src := m.at(i, j)
	if e.kern.Packed == m.Type {
		tile.CopyLines(e.fast, dst, dstStride, src, step, lines, n*size)
		return
	}
	for r := range lines {
		vec.Widen(unsafe.Slice((*float32)(unsafe.Add(dst, r*dstStride)), n),
			unsafe.Slice((*byte)(unsafe.Add(src, r*step)), n*size), m.Type)
	}
}

// fill sets the bytes from have to size of every line to zero.
func fill(dst unsafe.Pointer, stride, lines, have, size int) {
	for r := range lines {
		clear(unsafe.Slice((*byte)(unsafe.Add(dst, r*stride)), size)[have:])
	}
}

// aStride returns the distance between lines of n bytes in a packed A. It is one cache line more than a multiple of two
// lines, so that neighbours do not compete for the same sets of the first-level cache.
func aStride(n int) int { return roundUp(n, 128) + 64 }

// stripLines is the number of lines that a transposition processes at a time.
const stripLines = 32

// grow allocates the member's buffers for the running call.
func (m *member) grow(e *engine) error {
	k, bl := e.kern, e.blocks
	depth := roundUp(k.Steps(bl.kc), k.Unit)
	rows := roundUp(bl.mc, k.Rows)
	// Enough for either direction of the lines of A.
	if err := m.packedA.grow(max(rows*aStride(depth*k.StepBytes()), depth*aStride(rows*k.StepBytes()))); err != nil {
		return err
	}
	if err := m.lines.grow(stripLines * aStride(max(depth, rows)*8)); err != nil {
		return err
	}
	return m.edge.grow(k.Rows * k.Cols * 8)
}

// packA copies the rows [i, i+rows) of A, over the depth of the block, into the member's buffer and sets the steps of
// its tile.
func (e *engine) packA(me *member, a *Matrix, i, rows int, blk block) {
	k, t := e.kern, &me.tile
	steps := roundUp(k.Steps(blk.depth), k.Unit)
	if a.ColStep == 1 {
		t.ARow, t.AStep = aStride(steps*k.StepBytes()), k.StepBytes()
		e.convert(me.packedA.at(0), t.ARow, a, i, blk.l, rows, blk.depth)
		fill(me.packedA.at(0), t.ARow, rows, blk.depth*k.Packed.Size(), steps*k.StepBytes())
		return
	}
	if k.Group == 1 {
		t.ARow, t.AStep = k.StepBytes(), aStride(roundUp(rows, k.Rows)*k.StepBytes())
		e.convert(me.packedA.at(0), t.AStep, a, i, blk.l, blk.depth, rows)
		return
	}
	// Interleave pairs of lines into lines of pairs, then transpose those.
	t.ARow, t.AStep = aStride(steps*k.StepBytes()), k.StepBytes()
	strip := aStride(rows * k.StepBytes())
	for s := 0; s < steps; s += stripLines {
		n := min(stripLines, steps-s)
		for p := range n {
			e.pairLine(me.lines.at(p*strip), blk, 2*(s+p), func(l int) []byte { return a.Run(i, l, rows) }, rows)
		}
		tile.Transpose(e.fast, me.packedA.at(s*k.StepBytes()), t.ARow, me.lines.at(0), strip, n, rows, k.StepBytes())
	}
}

// pairLine interleaves the runs at l and l+1 of the block's depth, element by element. A run beyond the depth counts as
// zeros.
func (e *engine) pairLine(dst unsafe.Pointer, blk block, l int, run func(l int) []byte, n int) {
	switch {
	case l+1 < blk.depth:
		tile.Interleave(e.fast, dst, run(blk.l+l), run(blk.l+l+1))
	case l < blk.depth:
		src := run(blk.l + l)
		for x := range n {
			*(*uint32)(unsafe.Add(dst, 4*x)) = uint32(src[2*x]) | uint32(src[2*x+1])<<8
		}
	default:
		clear(unsafe.Slice((*byte)(dst), 4*n))
	}
}

// packB packs panels of the block until none is left.
func (e *engine) packB(me *member, b *Matrix, blk block, next *atomic.Int64) {
	panels := ceilDiv(blk.cols, e.kern.Cols)
	for {
		p := int(next.Add(1)) - 1
		if p >= panels {
			return
		}
		e.packPanel(me, b, blk, p)
	}
}

// packPanel packs the columns of panel p of the block, step by step, padded with zeros to the width of a tile.
func (e *engine) packPanel(me *member, b *Matrix, blk block, p int) {
	k := e.kern
	j, cols := blk.j+p*k.Cols, min(k.Cols, blk.cols-p*k.Cols)
	dst := blk.packed.at(blk.at + p*blk.panelSize(k))
	steps, row := roundUp(k.Steps(blk.depth), k.Unit), k.PanelStep()
	if cols < k.Cols {
		clear(unsafe.Slice((*byte)(dst), steps*row))
	}
	if b.ColStep == 1 {
		if k.Group > 1 {
			for s := range steps {
				e.pairLine(unsafe.Add(dst, s*row), blk, 2*s, func(l int) []byte { return b.Run(l, j, cols) }, cols)
			}
			return
		}
		e.convert(dst, row, b, blk.l, j, blk.depth, cols)
		return
	}
	// The columns are contiguous, so they are lines to transpose.
	if k.Packed == b.Type && k.Group == 1 {
		tile.Transpose(e.fast, dst, row, b.at(blk.l, j), b.ColStep*b.Type.Size(), cols, steps, k.StepBytes())
		return
	}
	strip := aStride(steps * k.StepBytes())
	for c := 0; c < cols; c += stripLines {
		n := min(stripLines, cols-c)
		e.convert(me.lines.at(0), strip, b, blk.l, j+c, n, blk.depth)
		fill(me.lines.at(0), strip, n, blk.depth*k.Packed.Size(), steps*k.StepBytes())
		tile.Transpose(e.fast, unsafe.Add(dst, c*k.StepBytes()), row, me.lines.at(0), strip, n, steps, k.StepBytes())
	}
}
