// Package tile has the innermost kernels of matrix multiplication: code that keeps a
// small part of C in registers while it runs along rows of A and a panel of B, in
// assembly for each level of instructions and in plain Go, and the moves of elements
// that bring operands into the layout of a panel.
//
// It allocates nothing, starts no goroutine and checks no argument: package gemm cuts
// products into tiles, holds the memory and chooses the kernel.
package tile

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Level is a set of instructions that kernels are written for.
type Level uint8

// The levels. Each takes the kernels of the one below for operand types that
// it has nothing better for.
const (
	Portable   Level = iota // Go alone
	AVX2                    // with FMA and F16C
	AVX512                  // F, BW, DQ and VL
	AVX512BF16              // dot products of bf16 pairs
	AMX                     // tile registers for bf16
)

// String is the level's name, as a result's record has it.
func (l Level) String() string {
	if l > AMX {
		return fmt.Sprintf("Level(%d)", uint8(l))
	}
	return [...]string{"portable", "avx2", "avx512", "avx512bf16", "amx"}[l]
}

// Args are the arguments of a kernel: part of C and the rows of A and columns
// of B that it is the product of. There may be several below each other. Steps
// are in bytes. The assembly knows the layout.
type Args struct {
	A, B, C uintptr // in memory that the engine holds for the call; c may lie behind it when all is done
	K       int     // steps along k, at least one

	ARow, AStep int // from row to row of A, and from step to step
	BStep       int // from step to step in B's panel
	CRow        int

	// The columns that exist, a bit for each, in the first and second vector.
	Mask, Mask2 uint32

	Next uintptr // what will be needed soon, half a kilobyte per tile; 0 when all is near
	Add  bool    // to what C holds, instead of setting it

	Tiles int // at least one
	ATile int // from a tile's first row of A to the next tile's
}

// Func multiplies tiles. It changes nothing but C and keeps nothing.
type Func func(*Args)

// Kernel is the code for one type of packed operands.
type Kernel struct {
	Level      Level
	Packed     dtype.DType // f16 is packed as f32, and so is bf16 unless the kernel takes it
	Rows, Cols int         // of a tile
	Pairs      bool        // a step takes two elements along k, side by side in memory
	Unit       int         // steps come in multiples of this, filled up with zeros

	// Peak makes n rounds of this kernel's arithmetic alone, PeakFlops
	// floating-point operations in each.
	Peak      func(n int)
	PeakFlops float64

	Whole Func
	// Parts are the kernels of other tiles. Without them only whole ones can be
	// made, and those at the edges go through a buffer.
	Parts *Parts
}

// Parts are kernels that read B's rows at any distance and touch no element
// outside of a tile, or of B's panel where that is padded to the width of one.
type Parts struct {
	Shift uint   // a vector has 1 << shift elements
	Rows  [4]int // the most rows of a tile, by vectors

	Whole [4][14]Func // reading whole vectors of B, by vectors and rows
	Some  [2][14]Func // reading some columns
}

// Vectors is the number of whole vectors in n columns.
func (p *Parts) Vectors(n int) int { return n >> (p.Shift & 31) } // which spares Go's care for long shifts

// Of gives the kernel of a tile.
func (p *Parts) Of(rows, cols int, padded bool) Func {
	before := p.Vectors(cols - 1) // the last one
	if padded || before != p.Vectors(cols) {
		return p.Whole[before][rows-1]
	}
	return p.Some[before][rows-1]
}

// Next says how many of the columns that are left the next tile has. A is read
// once for each tile beside another: four vectors are best where they come out
// even, and else three, which leave no single one. But B is read once for each
// tile below another: where only narrow ones have all rows, those are taken.
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

// Masks marks the columns that exist. A kernel looks only at the bits of a
// vector.
func (t *Args) Masks(cols int, k *Kernel) {
	bits := uint64(1)<<(uint(cols)&63) - 1 // wide tiles, of 64, do not ask
	t.Mask, t.Mask2 = uint32(bits), uint32(bits>>(uint(k.Cols)/2&63))
}

// StepBytes is the size of what one step takes of a row of A.
func (k *Kernel) StepBytes() int {
	if k.Pairs {
		return 2 * k.Packed.Size()
	}
	return k.Packed.Size()
}

// Steps is the number of steps for n elements along k, without filling.
func (k *Kernel) Steps(n int) int {
	if k.Pairs {
		return (n + 1) / 2
	}
	return n
}

// PanelStep is the size of a row of B's panel.
func (k *Kernel) PanelStep() int { return k.Cols * k.StepBytes() }

// For gives the kernel that a level uses for operands of a type.
func For(l Level, operand dtype.DType) *Kernel {
	for _, k := range Kernels() {
		if k.Level > l {
			continue
		}
		if k.Packed == operand || k.Packed == dtype.F32 && (operand == dtype.F16 || operand == dtype.BF16) {
			return k
		}
	}
	panic(fmt.Sprintf("tile: no kernel for %v", operand)) // gemm lets only types with a kernel through
}

// The portable kernels define what the others do; 4 x 8 lets the compiler keep
// at least the operands of a step in registers.
var (
	portableF64 = Kernel{Level: Portable, Packed: dtype.F64, Rows: 4, Cols: 8, Unit: 1,
		Whole: portableTile[float64], Peak: portablePeak[float64], PeakFlops: 16}
	portableF32 = Kernel{Level: Portable, Packed: dtype.F32, Rows: 4, Cols: 8, Unit: 1,
		Whole: portableTile[float32], Peak: portablePeak[float32], PeakFlops: 16}
)

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

// At is what lies at an address of a tile. The engine holds that memory, and Go
// does not move what is on its heap.
func At[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// portablePeak has eight independent sums, as many as a processor without
// wider instructions needs to be busy.
func portablePeak[N float32 | float64](n int) {
	var s0, s1, s2, s3, s4, s5, s6, s7 N
	x, y := N(n), N(1)/N(n+1)
	for range n {
		s0, s1, s2, s3 = s0+x*y, s1+x*y, s2+x*y, s3+x*y
		s4, s5, s6, s7 = s4+x*y, s5+x*y, s6+x*y, s7+x*y
		y = -y // so that the product is not moved out of the loop
	}
	sink.Store(s0+s1+s2+s3+s4+s5+s6+s7 > 0)
}

var sink atomic.Bool // keeps the compiler from leaving the sums out
