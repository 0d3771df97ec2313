package quant

import (
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// fast reports whether the processor supports the assembly loops. Tests turn it off.
var fast = vec.Best() >= vec.AVX2

// Each loop takes one or more whole groups.

func absMax(absMaxes []uint32, values []float32) {
	if !fast {
		absMaxPortable(absMaxes, values)
		return
	}
	absMaxAVX2(&absMaxes[0], &values[:len(absMaxes)*Group][0], len(absMaxes))
}

func quantise(integers []byte, values, factors []float32) {
	if !fast {
		quantisePortable(integers, values, factors)
		return
	}
	n := len(factors) * Group
	quantiseAVX2(&integers[:n][0], &values[:n][0], &factors[0], len(factors))
}

func multiply(values []float32, integers []byte, scales []float32) {
	if !fast {
		multiplyPortable(values, integers, scales)
		return
	}
	n := len(scales) * Group
	multiplyAVX2(&values[:n][0], &integers[:n][0], &scales[0], len(scales))
}

func accumulate(sum []float32, integers []byte, scales []float32) {
	if !fast {
		accumulatePortable(sum, integers, scales)
		return
	}
	n := len(scales) * Group
	accumulateAVX2(&sum[:n][0], &integers[:n][0], &scales[0], len(scales))
}

//go:noescape
func absMaxAVX2(absMaxes *uint32, values *float32, groups int)

//go:noescape
func quantiseAVX2(integers *byte, values, factors *float32, groups int)

//go:noescape
func multiplyAVX2(values *float32, integers *byte, scales *float32, groups int)

//go:noescape
func accumulateAVX2(sum *float32, integers *byte, scales *float32, groups int)
