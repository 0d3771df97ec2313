package tile

import (
	"sync"
	"unsafe"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

var (
	avx2F32 = Kernel{Level: AVX2, Packed: dtype.F32, Rows: 6, Cols: 16, Group: 1, Unit: 1,
		Whole: tileAVX2F32, Peak: peakAVX2F32, PeakFlops: 12 * 8 * 2}
	avx2F64 = Kernel{Level: AVX2, Packed: dtype.F64, Rows: 6, Cols: 8, Group: 1, Unit: 1,
		Whole: tileAVX2F64, Peak: peakAVX2F64, PeakFlops: 12 * 4 * 2}
	dotBF16 = Kernel{Level: AVX512BF16, Packed: dtype.BF16, Rows: 14, Cols: 32, Group: 2, Unit: 1,
		Whole: tileBF16, Peak: peakBF16, PeakFlops: 28 * 32 * 2}
	amxBF16 = Kernel{Level: AMX, Packed: dtype.BF16, Rows: 32, Cols: 32, Group: 2, Unit: 16, Strips: true,
		Whole: tileAMXBF16, Half: halfAMXBF16, Across: acrossAMXBF16,
		AddRows: [...]Func{addRows1BF16, addRows2BF16}, FewRows: rowsAMXBF16,
		Peak: peakAMXBF16, PeakFlops: 4 * 16 * 16 * 32 * 2}
	amxI8 = amxBytes(dtype.I8, tileAMXI8, halfAMXI8, acrossAMXI8, rowsAMXI8,
		amxBytes(dtype.I8, tileAMXI8U8, halfAMXI8U8, acrossAMXI8U8, rowsAMXI8U8, nil))
	amxU8 = amxBytes(dtype.U8, tileAMXU8, halfAMXU8, acrossAMXU8, rowsAMXU8,
		amxBytes(dtype.U8, tileAMXU8I8, halfAMXU8I8, acrossAMXU8I8, rowsAMXU8I8, nil))
)

// amxBytes returns a kernel for bytes. All of them have the same arithmetic rate.
func amxBytes(a dtype.DType, whole, half, across, few Func, mixed *Kernel) *Kernel {
	return &Kernel{Level: AMX, Packed: a, Rows: 32, Cols: 32, Group: 4, Unit: 16, Strips: true, Whole: whole, Half: half,
		FewRows: few, Across: across, Mixed: mixed, Peak: peakAMXI8, PeakFlops: 4 * 16 * 16 * 64 * 2}
}

// Kernels lists the kernels for operands of one type, the fastest first.
func Kernels() []*Kernel {
	return []*Kernel{&amxBF16, amxI8, amxU8, &dotBF16, &avx512F64, &avx512F32, &avx2F64, &avx2F32, &portableF64,
		&portableF32}
}

// Levels lists the levels of this machine, from slow to fast.
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
	if cpu.Supports(cpuid.AMXTILE, cpuid.AMXBF16, cpuid.AMXINT8, cpuid.AVX512VBMI) && tileRegistersGranted() {
		levels = append(levels, AMX)
	}
	return levels
})

// tileRegistersGranted asks the operating system for permission to use the tile registers. Linux grants it per process
// and only on request.
func tileRegistersGranted() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, errno := unix.Syscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return errno == 0
}

// Best returns the fastest level. Intel cores since Sapphire Rapids execute bf16 dot products at a quarter of the rate
// of multiply-adds, so widening to f32 is faster if the tile registers are not available. They are recognised by their
// half-precision arithmetic.
func Best() Level {
	levels := Levels()
	top := levels[len(levels)-1]
	if top == AVX512BF16 && cpuid.CPU.VendorID == cpuid.Intel && cpuid.CPU.Supports(cpuid.AVX512FP16) {
		return AVX512
	}
	return top
}

// Assembly for moving elements. Each function returns how much it did, and portable code does the rest.

func transposeFast(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, srcStride, lines, cols, unit int) (doneLines,
	doneCols int) {
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
		copyBlocks(dst, dstStride, src, srcStride, lines, blocks, (fetchAhead+size-1)/size*srcStride)
	}
	return 32 * blocks
}

func interleaveFast(dst unsafe.Pointer, even, odd []byte) int {
	blocks := len(even) / 32
	if blocks > 0 {
		interleave16(dst, unsafe.Pointer(unsafe.SliceData(even)), unsafe.Pointer(unsafe.SliceData(odd)), blocks)
	}
	return 16 * blocks
}

func tileAVX2F32(t *Args)
func tileAVX2F64(t *Args)
func tileBF16(t *Args)
func tileAMXBF16(t *Args)
func tileAMXI8(t *Args)
func tileAMXI8U8(t *Args)
func tileAMXU8(t *Args)
func tileAMXU8I8(t *Args)
func halfAMXBF16(t *Args)
func halfAMXI8(t *Args)
func addRows1BF16(t *Args)
func addRows2BF16(t *Args)
func rowsAMXBF16(t *Args)
func acrossAMXBF16(t *Args)
func acrossAMXI8(t *Args)
func acrossAMXI8U8(t *Args)
func acrossAMXU8(t *Args)
func acrossAMXU8I8(t *Args)
func rowsAMXI8(t *Args)
func rowsAMXI8U8(t *Args)
func rowsAMXU8(t *Args)
func rowsAMXU8I8(t *Args)
func halfAMXI8U8(t *Args)
func halfAMXU8(t *Args)
func halfAMXU8I8(t *Args)

func peakAMXBF16(n int)

func peakAMXI8(n int)

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
func interleave16(dst, even, odd unsafe.Pointer, blocks int)

//go:noescape
func interleavePanels(rows *Gather)

//go:noescape
func copyStrip(dst, src unsafe.Pointer, srcStride, rows, size int)

//go:noescape
func copyOut(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows int, mask uint32, stream bool)

//go:noescape
func scaleOut(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows int, mask uint32, byRow, byCol unsafe.Pointer)

//go:noescape
func expandRows(dst, src unsafe.Pointer, srcStride, rows, groups, places int)

//go:noescape
func mergeRows(dst unsafe.Pointer, dstStride int, src unsafe.Pointer, rows, groups, places int) (nan bool)
