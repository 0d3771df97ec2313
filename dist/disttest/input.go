package disttest

import (
	"encoding/binary"
	"math"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/dtype"
)

// hash mixes its arguments (splitmix64).
func hash(seed, rank, i int) uint64 {
	x := uint64(seed)*0x9e3779b97f4a7c15 ^ uint64(rank)<<40 ^ uint64(i)
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// value is what rank gives at position i.
func value(d dist.DType, r dist.Reduction, size, rank, i int) int {
	h := hash(7, rank, i)
	if r == dist.Prod {
		// Powers of two are exact as products; four twos at most, for u8 and f16.
		v := 1
		if rank < 4 && h&1 == 1 {
			v = 2
		}
		if d != dist.U8 && h&2 == 2 {
			v = -v
		}
		return v
	}
	// bf16 holds integers up to 256, u8 up to 255 and none below 0.
	limit := max(1, min(20, 255/size))
	if d == dist.U8 {
		return int(h % uint64(limit+1))
	}
	return int(h%uint64(2*limit+1)) - limit
}

// combined is the reference: the reduction of all ranks' values at i.
func combined(d dist.DType, r dist.Reduction, size, i int) int {
	acc := value(d, r, size, 0, i)
	for rank := 1; rank < size; rank++ {
		switch v := value(d, r, size, rank, i); r {
		case dist.Prod:
			acc *= v
		case dist.Min:
			acc = min(acc, v)
		case dist.Max:
			acc = max(acc, v)
		default:
			acc += v
		}
	}
	return acc
}

// result is the reference as it is stored: an average is rounded as documented.
func result(d dist.DType, r dist.Reduction, size, i int) float64 {
	v := combined(d, r, size, i)
	switch {
	case r != dist.Avg:
		return float64(v)
	case !d.Float():
		return float64(v / size)
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
