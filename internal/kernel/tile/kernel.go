// Package tile holds the innermost kernels of matrix multiplication, which BLIS calls microkernels. They keep a small
// part of C, a tile, in registers while they run along rows of A and a panel of B. There are assembly kernels for each
// instruction set and portable kernels. The package also moves elements into the layout of a panel.
//
// It allocates nothing, starts no goroutine and checks no argument. Package gemm cuts products into tiles, holds the
// memory and chooses the kernel.
package tile

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Level is an instruction set that kernels are written for.
type Level uint8

// The levels. Each uses the kernels of the level below for operand types that it has no better kernel for.
const (
	Portable   Level = iota // Go only
	AVX2                    // with FMA and F16C
	AVX512                  // F, BW, DQ and VL
	AVX512BF16              // dot products of bf16 pairs
	AMX                     // tile registers for bf16 and i8
)

// String returns the name of the level in records.
func (l Level) String() string {
	if l > AMX {
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
	return [...]string{"portable", "avx2", "avx512", "avx512bf16", "amx"}[l]
}

// Args are the arguments of a kernel: one or more tiles of C below each other, with their rows of A and columns of B.
// Steps are in bytes. The assembly kernels depend on this layout.
type Args struct {
	A, B, C uintptr // addresses in memory that the caller keeps alive; C may point behind its end after the last tile
	K       int     // steps along k, at least one

	ARow, AStep int // distance between rows of A, and between steps
	BStep       int // distance between steps in the panel of B
	CRow        int

	// Bit masks of the existing columns in the first and second vector.
	Mask, Mask2 uint32

	Next uintptr // address to prefetch, half a kilobyte per tile; 0 for none
	Add  bool    // add to C instead of overwriting it

	Tiles int // at least one
	ATile int // distance between the first rows of A of consecutive tiles

	// For Across.
	Fetch   uintptr // address from which to prefetch, 256 bytes for every Unit steps
	Sums    uintptr // the sums so far, if Add is set
	SumsRow int     // the distance between their rows
	Room    uintptr // a buffer of RoomBytes, aligned to its size, to write C past the caches; 0 to write in the caches
}

// Func multiplies tiles. It changes only C and keeps no reference to its arguments.
type Func func(*Args)

// Kernel is the code for one type of packed operands.
type Kernel struct {
	Level      Level
	Packed     dtype.DType // f16 is packed as f32, and so is bf16 unless the kernel supports it; likewise bytes as f64
	Rows, Cols int         // size of a tile
	Group      int         // elements along k of a step, which are adjacent in memory
	Unit       int         // the number of steps is a multiple of this; the rest is zero

	// Peak makes n rounds of the arithmetic of this kernel without memory access. Each has PeakFlops floating-point
	// operations.
	Peak      func(n int)
	PeakFlops float64

	Whole Func
	// Parts holds kernels for tiles of other sizes. Without it only whole tiles can be computed, and tiles at the edges
	// use a buffer.
	Parts *Parts

	// Strips means that A is packed in strips of Rows rows, and B in panels of Cols columns, with 2 KiB for every Unit
	// steps (see strips.go). Half is then the kernel for half the rows.
	Strips bool
	Half   Func
	// Mixed is the kernel for bytes if B has the other sign: B is u8 if Packed is i8, and i8 if it is u8.
	Mixed *Kernel
	// Across multiplies one strip of A with Tiles panels of B, ATile apart, and writes whole tiles to C. B is packed, and
	// A may be.
	Across Func
	// AddRows is the code for 1 and 2 rows of C, if there is any. It adds K rows of B, read where they
	// are and multiplied by the f32 factors at A, to the f32 sums at C, for Tiles groups of GroupCols columns.
	// SumIndex tells where a sum is.
	AddRows [2]Func
	// FewRows is the kernel for at most 16 rows of C, if there is one. It reads B where it is. Args holds the result of
	// ExpandRows as A, K rows (a multiple of 16), the number of rows of C in Mask, and in Next the first of the rows of
	// B to prefetch. C holds the sums for MergeRows, in Tiles blocks for GroupCols columns each.
	FewRows Func
}

// SumIndex returns the index of a column among the sums of AddRows.
func SumIndex(col int) int { return col&^31 + col&1*16 + col&31/2 }

// Parts are kernels that read rows of B at any distance. They touch no element outside a tile, or outside the panel of
// B if that is padded to the width of a tile.
type Parts struct {
	Shift uint   // a vector has 1 << Shift elements
	Rows  [4]int // largest number of rows of a tile, by the number of vectors

	Whole [4][14]Func // reading whole vectors of B, by vectors and rows
	Some  [2][14]Func // reading some columns
}

// Vectors returns the number of whole vectors in n columns.
func (p *Parts) Vectors(n int) int { return n >> (p.Shift & 31) } // the mask saves Go's check for long shifts

// Of returns the kernel for a tile.
func (p *Parts) Of(rows, cols int, padded bool) Func {
	before := p.Vectors(cols - 1) // the last vector
	if padded || before != p.Vectors(cols) {
		return p.Whole[before][rows-1]
	}
	return p.Some[before][rows-1]
}

// Next returns how many of the remaining columns the next tile takes. A is read once for each tile in a row of tiles.
// Four vectors are best if the columns divide evenly. Otherwise three are better, because they leave no single vector.
// But B is read once for each tile in a column of tiles, so narrower tiles are better if only they can take all rows.
func (p *Parts) Next(rows, left int) int {
	n := 3
	switch vectors := p.Vectors(left); {
	case vectors < 3 || rows > p.Rows[3] && rows <= p.Rows[1]:
		return min(left, 2<<(p.Shift&31))
	case vectors%4 == 0:
		n = 4
	}
	return n << (p.Shift & 31)
}

// Down moves the arguments n tiles down.
func (t *Args) Down(n, rows int) {
	t.A += uintptr(n * t.ATile)
	t.C += uintptr(n * rows * t.CRow)
}

// Masks sets the masks of the existing columns. A kernel looks only at as many bits as a vector has elements.
func (t *Args) Masks(cols int, k *Kernel) {
	bits := uint64(1)<<(uint(cols)&63) - 1 // tiles of 64 columns do not need the mask
	t.Mask, t.Mask2 = uint32(bits), uint32(bits>>(uint(k.Cols)/2&63))
}

// StepBytes returns the size of one step along a row of A.
func (k *Kernel) StepBytes() int { return k.Group * k.Packed.Size() }

// Steps returns the number of steps for n elements along k, without padding.
func (k *Kernel) Steps(n int) int { return (n + k.Group - 1) / k.Group }

// PanelStep returns the size of a row of the panel of B.
func (k *Kernel) PanelStep() int { return k.Cols * k.StepBytes() }

// For returns the kernel that a level uses for operands of a type.
func For(l Level, operand dtype.DType) *Kernel {
	for _, k := range Kernels() {
		if k.Level > l {
			continue
		}
		if k.Packed == operand || k.Packed == dtype.F32 && (operand == dtype.F16 || operand == dtype.BF16) ||
			k.Packed == dtype.F64 && (operand == dtype.I8 || operand == dtype.U8) {
			return k
		}
	}
	panic(fmt.Sprintf("tile: no kernel for %v", operand)) // gemm accepts only types with a kernel
}

// The portable kernels define the results. With 4 x 8 elements the compiler can keep at least the operands of a step in
// registers.
var (
	portableF64 = Kernel{Level: Portable, Packed: dtype.F64, Rows: 4, Cols: 8, Group: 1, Unit: 1,
		Whole: portableTile[float64], Peak: portablePeak[float64], PeakFlops: 16}
	portableF32 = Kernel{Level: Portable, Packed: dtype.F32, Rows: 4, Cols: 8, Group: 1, Unit: 1,
		Whole: portableTile[float32], Peak: portablePeak[float32], PeakFlops: 16}
)

// portableTile computes tiles of 4 x 8 elements. Every element is summed along k in order.
func portableTile[N float32 | float64](t *Args) {
	const rows, cols = 4, 8
	for n := range t.Tiles {
		var sum [rows][cols]N
		a, b := t.A+uintptr(n*t.ATile), t.B
		for range t.K {
			row := *At[[cols]N](b)
			for i := range rows {
				x := *At[N](a + uintptr(i*t.ARow))
				for j := range cols {
					sum[i][j] += x * row[j]
				}
			}
			a, b = a+uintptr(t.AStep), b+uintptr(t.BStep)
		}
		for i := range rows {
			c := At[[cols]N](t.C + uintptr((n*rows+i)*t.CRow))
			for j := range cols {
				if t.Add {
					sum[i][j] += c[j]
				}
				c[j] = sum[i][j]
			}
		}
	}
}

// At returns a pointer to the element at an address of a tile. The caller keeps the memory alive, and Go does not move
// heap memory.
func At[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// portablePeak has eight independent sums, enough to keep a processor without wider instructions busy.
func portablePeak[N float32 | float64](n int) {
	var s0, s1, s2, s3, s4, s5, s6, s7 N
	x, y := N(n), N(1)/N(n+1)
	for range n {
		s0, s1, s2, s3 = s0+x*y, s1+x*y, s2+x*y, s3+x*y
		s4, s5, s6, s7 = s4+x*y, s5+x*y, s6+x*y, s7+x*y
		y = -y // prevents the compiler from moving the product out of the loop
	}
	sink.Store(s0+s1+s2+s3+s4+s5+s6+s7 > 0)
}

var sink atomic.Bool // prevents the compiler from removing the sums
