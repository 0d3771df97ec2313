package gemm

import (
	"sync"
	"unsafe"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

var (
	avx2F32  = kernel{level: AVX2, packed: dtype.F32, rows: 6, cols: 16, unit: 1, whole: tileAVX2F32, peak: peakAVX2F32, peakFlops: 12 * 8 * 2}
	avx2F64  = kernel{level: AVX2, packed: dtype.F64, rows: 6, cols: 8, unit: 1, whole: tileAVX2F64, peak: peakAVX2F64, peakFlops: 12 * 4 * 2}
	dotBF16  = kernel{level: AVX512BF16, packed: dtype.BF16, rows: 14, cols: 32, pairs: true, unit: 1, whole: tileBF16, peak: peakBF16, peakFlops: 28 * 32 * 2}
	tilesAMX = kernel{level: AMX, packed: dtype.BF16, rows: 32, cols: 32, pairs: true, unit: 16, whole: tileAMX, peak: peakAMX, peakFlops: 4 * 16 * 16 * 32 * 2}
)

// kernels lists all there are, the fastest first.
func kernels() []*kernel {
	return []*kernel{&tilesAMX, &dotBF16, &avx512F64, &avx512F32, &avx2F64, &avx2F32, &portableF64, &portableF32}
}

// Levels lists what this machine has, from slow to fast.
var Levels = sync.OnceValue(func() []Level {
	cpu := &cpuid.CPU
	levels := []Level{Portable}
	if !cpu.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C) {
		return levels
	}
	levels = append(levels, AVX2)
	if !cpu.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL) {
		return levels
	}
	levels = append(levels, AVX512)
	if cpu.Supports(cpuid.AVX512BF16) {
		levels = append(levels, AVX512BF16)
	}
	if cpu.Supports(cpuid.AMXTILE, cpuid.AMXBF16) && tileRegistersGranted() {
		levels = append(levels, AMX)
	}
	return levels
})

// tileRegistersGranted asks the kernel for the use of the tile registers, which
// it gives to whole processes and only on request.
func tileRegistersGranted() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, errno := unix.Syscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}

// best is the fastest level. Intel's cores since Sapphire Rapids have the dot
// products at a quarter of the rate of multiply-adds, so that widening to f32
// is faster when the tile registers are not to be had; they are told from
// others by their half-precision arithmetic.
func best() Level {
	levels := Levels()
	top := levels[len(levels)-1]
	if top == AVX512BF16 && cpuid.CPU.VendorID == cpuid.Intel && cpuid.CPU.Supports(cpuid.AVX512FP16) {
		return AVX512
	}
	return top
}

// The fast parts of moving elements. Each says how much it did; plain Go does
// the rest.

func transposeFast(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lines, cols, unit int) (doneLines, doneCols int) {
	side, block := 8, transpose8
	if unit == 8 {
		side, block = 4, transpose4
	}
	doneLines, doneCols = lines/side*side, cols/side*side
	if doneCols == 0 {
		return 0, 0
	}
	for r := 0; r < doneLines; r += side {
		block(unsafe.Add(dst, r*unit), dstStride, unsafe.Add(src, r*srcStride), srcStride, doneCols/side)
	}
	return doneLines, doneCols
}

func copyFast(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lines, size int) int {
	blocks := size / 32
	if blocks > 0 && lines > 0 {
		copyBlocks(dst, dstStride, src, srcStride, lines, blocks, ceilDiv(fetchAhead, size)*srcStride)
	}
	return 32 * blocks
}

func widenF16Fast(dst unsafe.Pointer, src []byte) int {
	blocks := len(src) / 16
	if blocks > 0 {
		widen8F16(dst, unsafe.Pointer(unsafe.SliceData(src)), blocks)
	}
	return 8 * blocks
}

func widenBF16Fast(dst unsafe.Pointer, src []byte) int {
	blocks := len(src) / 16
	if blocks > 0 {
		widen8BF16(dst, unsafe.Pointer(unsafe.SliceData(src)), blocks)
	}
	return 8 * blocks
}

func interleaveFast(dst unsafe.Pointer, even, odd []byte) int {
	blocks := len(even) / 32
	if blocks > 0 {
		interleave16(dst, unsafe.Pointer(unsafe.SliceData(even)), unsafe.Pointer(unsafe.SliceData(odd)), blocks)
	}
	return 16 * blocks
}

//go:noescape
func tileAVX2F32(t *tile)

//go:noescape
func tileAVX2F64(t *tile)

//go:noescape
func tileBF16(t *tile)

//go:noescape
func tileAMX(t *tile)

func peakAMX(n int)

func peakBF16(n int)

func peakAVX2F32(n int)

func peakAVX2F64(n int)

//go:noescape
func transpose8(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, blocks int)

//go:noescape
func transpose4(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, blocks int)

//go:noescape
func copyBlocks(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lines, blocks, ahead int)

//go:noescape
func widen8F16(dst, src unsafe.Pointer, blocks int)

//go:noescape
func widen8BF16(dst, src unsafe.Pointer, blocks int)

//go:noescape
func interleave16(dst, even, odd unsafe.Pointer, blocks int)
