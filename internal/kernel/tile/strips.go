package tile

import "unsafe"

// Kernels with strips take their operands in groups of GroupBytes: a group has 16 steps along k, each of 4 bytes, of 32
// rows of A or 32 columns of B. A strip of A has 64 bytes of each row in a group, row by row. A panel of B has the 32
// columns of each step, step by step. The block of C has 32 elements of 4 bytes per row.
const (
	GroupBytes  = 2 << 10
	groupSteps  = 16
	RowBytes    = 64  // of a strip
	StepBytes   = 128 // of a panel
	BlockStride = 128 // of the block of C

	SumBytes  = 4 << 10 // of the sums for GroupCols columns of a kernel for few rows
	GroupCols = 64

	RoomBytes = 8 << 10 // of Args.Room: two blocks of C
)

// Gather are the arguments of Interleave: rows of a matrix whose elements at the same column become adjacent. The
// assembly depends on this layout.
type Gather struct {
	Dst       unsafe.Pointer
	PanelSize int // distance between consecutive panels in Dst
	Src       unsafe.Pointer
	Stride    int // distance between rows in bytes
	Steps     int
	Panels    int
	Group     int    // rows per step: 2 of 16-bit elements or 4 of bytes
	Mask      uint32 // the existing columns of every panel; the others become zero
}

// InterleavePanels copies Steps x Group rows into panels.
func InterleavePanels(g *Gather) {
	if g.Steps > 0 && g.Panels > 0 {
		interleavePanels(g)
	}
}

// CopyStrip copies up to 32 rows of size bytes into a strip, and pads the last group with zeros along k.
func CopyStrip(dst, src unsafe.Pointer, srcStride, rows, size int) {
	if rows > 0 && size > 0 {
		copyStrip(dst, src, srcStride, rows, size)
	}
}

// StripToPanel converts groups of a strip to groups of a panel, and PanelToStrip does the opposite. dst and src differ.
func StripToPanel(dst, src unsafe.Pointer, groups int) {
	for g := range groups {
		Transpose(true, unsafe.Add(dst, g*GroupBytes), StepBytes, unsafe.Add(src, g*GroupBytes), RowBytes, 32, groupSteps, 4)
	}
}

// PanelToStrip converts groups of a panel to groups of a strip.
func PanelToStrip(dst, src unsafe.Pointer, groups int) {
	for g := range groups {
		Transpose(true, unsafe.Add(dst, g*GroupBytes), RowBytes, unsafe.Add(src, g*GroupBytes), StepBytes, groupSteps, 32, 4)
	}
}

// CopyOut copies rows of a block of C to dst. With stream it bypasses the caches. dst and its stride must then be
// multiples of 64 bytes, and all 32 columns must exist.
func CopyOut(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows, cols int, stream bool) {
	if rows > 0 {
		copyOut(dst, dstStride, src, rows, ColumnMask(cols), stream)
	}
}

// ScaleOut is CopyOut for sums of i32. It converts them to f32 and multiplies them by the scales of their row and
// column.
func ScaleOut(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows, cols int, byRow, byCol []float32) {
	if rows > 0 {
		scaleOut(dst, dstStride, src, rows, ColumnMask(cols), unsafe.Pointer(&byRow[0]), unsafe.Pointer(&byCol[0]))
	}
}

// ExpandRows converts rows of A for Kernel.FewRows, over groups of 16 elements each. places is Kernel.Group: every
// element is in a group of its own, once in each place, and a group takes places x 1 KiB.
func ExpandRows(dst, src unsafe.Pointer, srcStride, rows, groups, places int) {
	if rows > 0 && groups > 0 {
		expandRows(dst, src, srcStride, rows, groups, places)
	}
}

// MergeRows writes the sums of Kernel.FewRows to C, for groups of GroupCols columns, and reports whether an f32 sum is
// not a number.
func MergeRows(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows, groups, places int) (nan bool) {
	return rows > 0 && groups > 0 && mergeRows(dst, dstStride, src, rows, groups, places)
}

// ColumnMask returns a mask with a bit for each of up to 32 columns.
func ColumnMask(cols int) uint32 { return uint32(uint64(1)<<uint(cols) - 1) }
