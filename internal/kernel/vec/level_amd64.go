package vec

import (
	"github.com/klauspost/cpuid/v2"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

var best = detect()

// detect asks the processor, and through it whether the operating system saves
// the wide registers. BMI2 belongs to the mask of the tails.
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

// loopsOf gives the loops of a level and the number of bytes whose multiples
// it takes.
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

// SumFour gives what adds the first four elements of every source, for which setting
// up a kernel takes longer than adding, or nil if there is nothing for this type on
// this machine. It does not check that there are four.
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
