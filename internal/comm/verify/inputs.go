// Package verify generates inputs whose reduction is known exactly: integers, hashed from seed, rank and position.
// Their range is so small that every partial result, in any order, is exact in the element type. Every algorithm must
// therefore return the same bits, and any difference is an error, not rounding. The conformance suite of process groups
// and the benches use the same inputs.
package verify

import (
	"math/bits"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Inputs are the contents of all ranks' vectors, as a pure function.
type Inputs struct {
	seed      uint64
	dtype     dtype.DType
	reduction dtype.Reduction
	ranks     int
	low, span int64 // values are low .. low+span-1
}

// NewInputs returns the inputs of one reduction over a number of ranks.
func NewInputs(seed uint64, d dtype.DType, r dtype.Reduction, ranks int) Inputs {
	in := Inputs{seed: seed, dtype: d, reduction: r, ranks: ranks}
	limit := exactTo(d) // largest value of one rank
	if r != dtype.Min && r != dtype.Max {
		limit = max(limit/int64(ranks), 1) // so that the sum of all ranks is exact
	}
	in.low, in.span = -limit, 2*limit+1
	if d == dtype.U8 {
		in.low, in.span = 0, limit+1
	}
	return in
}

// exactTo returns an n such that all integers up to n are exact in the type, and in float64. Most of these integers are
// not exact in a narrower type, so a sum computed in a narrower type is wrong.
func exactTo(d dtype.DType) int64 {
	switch d {
	case dtype.BF16:
		return 1 << 8
	case dtype.F16:
		return 1 << 11
	case dtype.U8:
		return 255
	case dtype.I32:
		return 1 << 30
	case dtype.F64, dtype.I64:
		return 1 << 52
	}
	return 1 << 20
}

// Hash mixes seed, rank and position (the finalizer of MurmurHash3).
func Hash(seed uint64, rank, position int) uint64 {
	return mix(start(seed, rank) + uint64(position))
}

func start(seed uint64, rank int) uint64 {
	return seed*0x9e3779b97f4a7c15 + uint64(rank)*0xd1b54a32d192ed03
}

func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// scaled maps a hash to 0 .. span-1.
func scaled(hash, span uint64) int64 {
	high, _ := bits.Mul64(hash, span)
	return int64(high)
}

// doubling is the largest number of ranks that contribute a factor of 2 to a product. The rest of the range of the type
// is left for one long factor, so that a product that is computed in a narrower type is wrong.
const doubling = 4

// Value returns the element of a rank's vector at a position.
func (in Inputs) Value(rank, position int) int64 {
	h := Hash(in.seed, rank, position)
	if in.reduction != dtype.Prod {
		return in.low + scaled(h, uint64(in.span))
	}
	v, twos := int64(1), min(in.ranks-1, doubling)
	switch after := in.afterLong(rank, position); {
	case after == 0:
		v += scaled(h, uint64(exactTo(in.dtype)>>twos))
	case after <= twos && h&1 != 0:
		v = 2
	}
	if in.dtype != dtype.U8 && h&2 != 0 {
		v = -v
	}
	return v
}

// afterLong returns how many ranks a rank comes after the one with the long factor of a product. That rank changes with
// the position, so that every rank matters to some products.
func (in Inputs) afterLong(rank, position int) int {
	return (rank + in.ranks - position%in.ranks) % in.ranks
}

// AddTo adds a rank's elements, from position first on, to sums. It adds the same values as Value returns, but fast
// enough for large vectors. It does not support products.
func (in Inputs) AddTo(sums []int64, rank, first int) {
	at, low, span := start(in.seed, rank)+uint64(first), in.low, uint64(in.span)
	for i := range sums {
		sums[i] += low + scaled(mix(at+uint64(i)), span)
	}
}

// Reduced returns the reduction of all ranks' elements at a position, before the division of an average.
func (in Inputs) Reduced(position int) int64 {
	acc := in.Value(0, position)
	for rank := 1; rank < in.ranks; rank++ {
		v := in.Value(rank, position)
		switch in.reduction {
		case dtype.Prod:
			acc *= v
		case dtype.Min:
			acc = min(acc, v)
		case dtype.Max:
			acc = max(acc, v)
		default:
			acc += v
		}
	}
	return acc
}

// Stored returns the reduction as it is stored in an output. An average is the sum times the rounded reciprocal, as
// package dist defines it: of f64 in f64, of the other floats in f32. Integers are divided and truncated.
func (in Inputs) Stored(position int) float64 {
	v := in.Reduced(position)
	switch {
	case in.reduction != dtype.Avg:
		return float64(v)
	case in.dtype == dtype.F64:
		return float64(v) * (1 / float64(in.ranks))
	case in.dtype.Float():
		return float64(float32(v) * float32(1/float64(in.ranks)))
	}
	return float64(v / int64(in.ranks))
}

// wide is a factor that makes 64-bit integers so long that float64 cannot hold them.
const wide = 1<<9 + 1

// widened returns the 64-bit integer in a rank's vector: the value times wide. Of the factors of a product, only the
// long one is multiplied.
func (in Inputs) widened(rank, position int) int64 {
	v := in.Value(rank, position)
	if in.reduction == dtype.Prod && in.afterLong(rank, position) > 0 {
		return v
	}
	return wide * v
}

// Encode writes the elements of a rank's vector from position first on: its values, and for 64-bit integers multiples
// of them that no float64 holds.
func (in Inputs) Encode(to []byte, rank, first int) {
	in.encode(to, func(i int) int64 { return in.widened(rank, first+i) },
		func(i int) float64 { return float64(in.Value(rank, first+i)) })
}

// EncodeReduced writes the reduction of these elements, as it is stored in an output.
func (in Inputs) EncodeReduced(to []byte, first int) {
	ranks := int64(1)
	if in.reduction == dtype.Avg {
		ranks = int64(in.ranks)
	}
	in.encode(to, func(i int) int64 { return wide * in.Reduced(first+i) / ranks },
		func(i int) float64 { return in.Stored(first + i) })
}

func (in Inputs) encode(to []byte, integer func(i int) int64, value func(i int) float64) {
	if in.dtype == dtype.I64 {
		for i := range dtype.View[int64](to) {
			dtype.View[int64](to)[i] = integer(i)
		}
		return
	}
	var batch [256]float64
	size := in.dtype.Size()
	for from := 0; len(to) > 0; from += len(batch) {
		n := min(len(batch), len(to)/size)
		for i := range n {
			batch[i] = value(from + i)
		}
		in.dtype.Encode(to[:n*size], batch[:n])
		to = to[n*size:]
	}
}

// Most returns the largest magnitude of an input of anything but a product.
func (in Inputs) Most() int64 { return in.low + in.span - 1 }
