package gemm

import "github.com/kernbench/kernbench/internal/base/dtype"

// Peak is the arithmetic of a kernel without its memory: what a core could do
// if operands cost nothing.
type Peak struct {
	Level Level
	Flops float64     // floating-point operations in a round
	Run   func(n int) // makes n rounds, at least one
}

// PeakOf gives the fastest arithmetic this machine has for operands of a type,
// with the precision of their Result. To time it is the caller's.
func PeakOf(operand dtype.DType) Peak {
	k := kernelFor(best(), operand)
	return Peak{k.level, k.peakFlops, k.peak}
}
