package vec

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

var best = detect()

// detect returns the best level that both the processor and the operating system support. The masks of the tails need
// BMI2.
func detect() Level {
	switch {
	case cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.BMI2):
		if cpuid.CPU.Supports(cpuid.AVX512FP16) {
			return AVX512FP16
		}
		return AVX512
	case cpuid.CPU.Supports(cpuid.AVX2, cpuid.F16C):
		return AVX2
	}
	return Portable
}

// loopsOf returns the loops of a level, and the number of bytes whose multiples they process.
func loopsOf(level Level) (*table, int) {
	switch level {
	case AVX512FP16:
		return &kernelsAVX512FP16, 1
	case AVX512:
		return &kernelsAVX512, 1
	case AVX2:
		return &kernelsAVX2, 32
	}
	return &portable, 1
}

// SumFour returns a function that adds the first four elements of every source, or nil if there is none for this type
// and machine. For so few elements, setting up a kernel takes longer than adding. The function does not check that
// there are four elements.
func SumFour(d dtype.DType) func(dst []byte, srcs [][]byte) {
	switch {
	case best == Portable:
	case d == dtype.F16:
		return sumFourF16
	case d == dtype.BF16:
		return sumFourBF16
	}
	return nil
}

// widenFast and narrowFast convert the elements in whole vectors, and return how many they converted.
func widenFast(dst []float32, src []byte, d dtype.DType) int {
	blocks := len(src) / 16
	if best == Portable || blocks == 0 || d.Size() != 2 {
		return 0
	}
	_ = dst[8*blocks-1]
	if d == dtype.F16 {
		widenF16AVX2(&dst[0], &src[0], blocks)
	} else {
		widenBF16AVX2(&dst[0], &src[0], blocks)
	}
	return 8 * blocks
}

func narrowFast(dst []byte, src []float32, d dtype.DType) int {
	blocks := len(src) / 8
	if best == Portable || blocks == 0 || d.Size() != 2 {
		return 0
	}
	_ = dst[16*blocks-1]
	if d == dtype.F16 {
		narrowF16AVX2(&dst[0], &src[0], blocks)
	} else {
		narrowBF16AVX2(&dst[0], &src[0], blocks)
	}
	return 8 * blocks
}

//go:noescape
func widenF16AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func widenBF16AVX2(dst *float32, src *byte, blocks int)

//go:noescape
func narrowF16AVX2(dst *byte, src *float32, blocks int)

//go:noescape
func narrowBF16AVX2(dst *byte, src *float32, blocks int)
