package disttest

import (
	"encoding/binary"
	"math"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
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

// put stores a number as the i-th element.
func put(b []byte, d dist.DType, i int, v float64) {
	at := b[i*d.Size():]
	switch d {
	case dist.F64:
		binary.LittleEndian.PutUint64(at, math.Float64bits(v))
	case dist.F32:
		binary.LittleEndian.PutUint32(at, math.Float32bits(float32(v)))
	case dist.F16:
		binary.LittleEndian.PutUint16(at, uint16(dtype.Float16From(float32(v))))
	case dist.BF16:
		binary.LittleEndian.PutUint16(at, uint16(dtype.BFloat16From(float32(v))))
	case dist.I64:
		binary.LittleEndian.PutUint64(at, uint64(int64(v)))
	case dist.I32:
		binary.LittleEndian.PutUint32(at, uint32(int32(v)))
	case dist.U8:
		at[0] = uint8(v)
	}
}

// get reads the i-th element of a floating-point type.
func get(b []byte, d dist.DType, i int) float64 {
	at := b[i*d.Size():]
	switch d {
	case dist.F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(at))
	case dist.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(at)))
	case dist.F16:
		return float64(dtype.Float16(binary.LittleEndian.Uint16(at)).Float32())
	}
	return float64(dtype.BFloat16(binary.LittleEndian.Uint16(at)).Float32())
}

// vector makes count elements.
func vector(d dist.DType, count int, at func(i int) float64) []byte {
	b := make([]byte, count*d.Size())
	for i := range count {
		put(b, d, i, at(i))
	}
	return b
}
