package vec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// levels lists the levels of this machine. Every kernel is tested at each.
func levels() (all []Level) {
	for l := Portable; l <= best; l++ {
		all = append(all, l)
	}
	return all
}

// reference combines one element of every source. Elements are given and returned as bits.
func reference(d dtype.DType, op Op, scale float64, elements []uint64) uint64 {
	switch d {
	case dtype.F64:
		return math.Float64bits(fold(op, scale, math.Float64frombits, elements))
	case dtype.F32:
		return uint64(math.Float32bits(fold(op, float32(scale), func(b uint64) float32 {
			return math.Float32frombits(uint32(b))
		}, elements)))
	case dtype.F16:
		return uint64(dtype.Float16From(fold(op, float32(scale), func(b uint64) float32 {
			return dtype.Float16(b).Float32()
		}, elements)))
	case dtype.BF16:
		return uint64(dtype.BFloat16From(fold(op, float32(scale), func(b uint64) float32 {
			return dtype.BFloat16(b).Float32()
		}, elements)))
	case dtype.I64:
		return uint64(fold(op, 1, func(b uint64) int64 { return int64(b) }, elements))
	case dtype.I32:
		return uint64(uint32(fold(op, 1, func(b uint64) int32 { return int32(b) }, elements)))
	default:
		return uint64(fold(op, 1, func(b uint64) uint8 { return uint8(b) }, elements))
	}
}

func fold[N number](op Op, scale N, read func(uint64) N, elements []uint64) N {
	acc := read(elements[0])
	if op == scaledSum {
		acc = N(acc * scale)
	}
	for _, e := range elements[1:] {
		switch next := read(e); op {
		case Sum, scaledSum:
			acc += next
		case Prod:
			acc *= next
		case Min:
			acc = min(acc, next)
		case Max:
			acc = max(acc, next)
		}
	}
	return acc
}

// element returns the i-th element of b as bits.
func element(b []byte, d dtype.DType, i int) uint64 {
	var word [8]byte
	copy(word[:], b[i*d.Size():(i+1)*d.Size()])
	return binary.LittleEndian.Uint64(word[:])
}

func setElement(b []byte, d dtype.DType, i int, bits uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], bits)
	copy(b[i*d.Size():(i+1)*d.Size()], word[:])
}

func isNaN(d dtype.DType, bits uint64) bool {
	return d.Float() && math.IsNaN(toFloat(d, bits))
}

func toFloat(d dtype.DType, bits uint64) float64 {
	switch d {
	case dtype.F64:
		return math.Float64frombits(bits)
	case dtype.F32:
		return float64(math.Float32frombits(uint32(bits)))
	case dtype.F16:
		return float64(dtype.Float16(bits).Float32())
	default:
		return float64(dtype.BFloat16(bits).Float32())
	}
}

func fromFloat(d dtype.DType, f float64) uint64 {
	switch d {
	case dtype.F64:
		return math.Float64bits(f)
	case dtype.F32:
		return uint64(math.Float32bits(float32(f)))
	case dtype.F16:
		return uint64(dtype.Float16From(float32(f)))
	case dtype.BF16:
		return uint64(dtype.BFloat16From(float32(f)))
	default:
		return uint64(int64(f)) & (1<<(8*d.Size()) - 1)
	}
}

// specials lists the extreme values of a type.
func specials(d dtype.DType) []uint64 {
	if !d.Float() {
		top := uint64(1) << (8*d.Size() - 1)
		return []uint64{0, 1, top - 1, top, math.MaxUint64}
	}
	all := []uint64{1, 2} // the smallest subnormals
	for _, f := range []float64{0, 1, math.Inf(1), math.NaN()} {
		all = append(all, fromFloat(d, f))
	}
	all = append(all, fromFloat(d, math.Inf(1))-1) // the largest number
	all = append(all, fromFloat(d, math.Inf(1))+1) // a signalling NaN
	all = append(all, uint64(1)<<(8*d.Size()-1)-1) // the NaN with all payload bits
	for _, bits := range all {
		all = append(all, bits|uint64(1)<<(8*d.Size()-1)) // their negatives
	}
	return all
}

// fill mixes arbitrary bits, small whole numbers (whose sums hit ties of rounding) and special values.
func fill(b []byte, d dtype.DType, rnd *rand.Rand) {
	edges := specials(d)
	for i := range len(b) / d.Size() {
		var bits uint64
		switch rnd.IntN(8) {
		case 0:
			bits = edges[rnd.IntN(len(edges))]
		case 1, 2, 3:
			bits = fromFloat(d, float64(rnd.IntN(1<<10)-1<<9)/4)
		default:
			bits = rnd.Uint64()
		}
		setElement(b, d, i, bits)
	}
}

// aligned returns bytes that start offset bytes after a cache line.
func aligned(length, offset int) []byte {
	room := make([]byte, length+2*cacheLine)
	skew := int(-uintptr(unsafe.Pointer(&room[0])) % cacheLine)
	return room[skew+offset : skew+offset+length : skew+offset+length]
}

// wants returns the expected result of every element.
func wants(d dtype.DType, op Op, scale float64, srcs [][]byte) []uint64 {
	all := make([]uint64, len(srcs[0])/d.Size())
	elements := make([]uint64, len(srcs))
	for i := range all {
		for s, src := range srcs {
			elements[s] = element(src, d, i)
		}
		all[i] = reference(d, op, scale, elements)
	}
	return all
}

// failer is implemented by testing.T and rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ failer = (*testing.T)(nil)

// compare requires equal bits, or any NaN where a NaN is expected.
func compare(t failer, d dtype.DType, got []byte, want []uint64) {
	t.Helper()
	for i, w := range want {
		g := element(got, d, i)
		if g != w && !(isNaN(d, g) && isNaN(d, w)) {
			t.Fatalf("element %d of %d is %#x, want %#x", i, len(want), g, w)
		}
	}
}
