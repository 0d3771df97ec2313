package disttest

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/verify"
)

// inputs are the same for all calls of a kind.
func inputs(d dist.DType, r dist.Reduction, size int) verify.Inputs {
	return verify.NewInputs(7, d, r, size)
}

// vector makes count elements.
func vector(d dist.DType, count int, at func(i int) float64) []byte {
	b := make([]byte, count*d.Size())
	for i := range count {
		d.Put(b, i, at(i))
	}
	return b
}
