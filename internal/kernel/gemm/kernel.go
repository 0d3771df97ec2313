package gemm

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

// A tile is the arguments of a kernel: part of C and the rows of A and columns
// of B that it is the product of. There may be several below each other. Steps
// are in bytes. The assembly knows the layout.
type tile struct {
	a, b, c uintptr // in memory that the engine holds for the call; c may lie behind it when all is done
	k       int     // steps along k, at least one

	aRow, aStep int // from row to row of A, and from step to step
	bStep       int // from step to step in B's panel
	cRow        int

	// The columns that exist, a bit for each, in the first and second vector.
	mask, mask2 uint32

	next uintptr // what will be needed soon, half a kilobyte per tile; 0 when all is near
	add  bool    // to what C holds, instead of setting it

	tiles int // at least one
	aTile int // from a tile's first row of A to the next tile's
}

// tileFunc multiplies tiles. It changes nothing but C and keeps nothing.
type tileFunc func(*tile)

// kernel is the code for one type of packed operands.
type kernel struct {
	level      Level
	packed     dtype.DType // f16 is packed as f32, and so is bf16 unless the kernel takes it
	rows, cols int         // of a tile
	pairs      bool        // a step takes two elements along k, side by side in memory
	unit       int         // steps come in multiples of this, filled up with zeros

	// peak makes n rounds of this kernel's arithmetic alone, peakFlops
	// floating-point operations in each.
	peak      func(n int)
	peakFlops float64

	whole tileFunc
	// parts are the kernels of other tiles. Without them only whole ones can be
	// made, and those at the edges go through a buffer.
	parts *parts
}

// parts are kernels that read B's rows at any distance and touch no element
// outside of a tile, or of B's panel where that is padded to the width of one.
type parts struct {
	shift uint   // a vector has 1 << shift elements
	rows  [4]int // the most rows of a tile, by vectors

	whole [4][14]tileFunc // reading whole vectors of B, by vectors and rows
	some  [2][14]tileFunc // reading some columns
}

// vectors is the number of whole vectors in n columns.
func (p *parts) vectors(n int) int { return n >> (p.shift & 31) } // which spares Go's care for long shifts

// of gives the kernel of a tile.
func (p *parts) of(rows, cols int, padded bool) tileFunc {
	before := p.vectors(cols - 1) // the last one
	if padded || before != p.vectors(cols) {
		return p.whole[before][rows-1]
	}
	return p.some[before][rows-1]
}

// stepBytes is the size of what one step takes of a row of A.
func (k *kernel) stepBytes() int {
	if k.pairs {
		return 2 * k.packed.Size()
	}
	return k.packed.Size()
}

// steps is the number of steps for n elements along k, without filling.
func (k *kernel) steps(n int) int {
	if k.pairs {
		return (n + 1) / 2
	}
	return n
}

// panelStep is the size of a row of B's panel.
func (k *kernel) panelStep() int { return k.cols * k.stepBytes() }

// kernelFor gives the kernel that a level uses for operands of a type.
func kernelFor(l Level, operand dtype.DType) *kernel {
	for _, k := range kernels() {
		if k.level > l {
			continue
		}
		if k.packed == operand || k.packed == dtype.F32 && Result(operand) == dtype.F32 {
			return k
		}
	}
	panic(fmt.Sprintf("gemm: no kernel for %v", operand)) // check lets only types with a kernel through
}

// The portable kernels define what the others do; 4 x 8 lets the compiler keep
// at least the operands of a step in registers.
var (
	portableF64 = kernel{level: Portable, packed: dtype.F64, rows: 4, cols: 8, unit: 1, whole: portableTile[float64], peak: portablePeak[float64], peakFlops: 16}
	portableF32 = kernel{level: Portable, packed: dtype.F32, rows: 4, cols: 8, unit: 1, whole: portableTile[float32], peak: portablePeak[float32], peakFlops: 16}
)

func portableTile[N float32 | float64](t *tile) {
	const rows, cols = 4, 8
	for n := range t.tiles {
		var sum [rows][cols]N
		a, b := t.a+uintptr(n*t.aTile), t.b
		for range t.k {
			row := *at[[cols]N](b)
			for i := range rows {
				x := *at[N](a + uintptr(i*t.aRow))
				for j := range cols {
					sum[i][j] += x * row[j]
				}
			}
			a, b = a+uintptr(t.aStep), b+uintptr(t.bStep)
		}
		for i := range rows {
			c := at[[cols]N](t.c + uintptr((n*rows+i)*t.cRow))
			for j := range cols {
				if t.add {
					sum[i][j] += c[j]
				}
				c[j] = sum[i][j]
			}
		}
	}
}

// at is what lies at an address of a tile. The engine holds that memory, and Go
// does not move what is on its heap.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

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
