package disttest

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/verify"
)

// inputs are the same for all calls of a kind.
func inputs(d dist.DType, r dist.Reduction, size int) verify.Inputs {
	return verify.NewInputs(7, d, r, size)
}

// result is the reference as it is stored: an average is rounded as documented.
func result(d dist.DType, r dist.Reduction, size, i int) float64 {
	v := inputs(d, r, size).Reduced(i)
	switch {
	case r != dist.Avg:
		return float64(v)
	case !d.Float():
		return float64(v / int64(size))
	case d == dist.F64:
		return float64(v) * (1 / float64(size))
	}
	return float64(float32(v) * float32(1/float64(size)))
}

// vector makes count elements.
func vector(d dist.DType, count int, at func(i int) float64) []byte {
	b := make([]byte, count*d.Size())
	for i := range count {
		d.Put(b, i, at(i))
	}
	return b
}
