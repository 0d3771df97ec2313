// Package quant holds the codecs of the quantised all-reduce ("quickreduce"):
// integers of 8, 6 or 4 bits with a scale for each group of 32 elements. They
// plug into package dist, which moves the encodings. docs/correctness.md derives
// the bound on the error that Bound and Step compute.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kernbench/kernbench/dist"
)

// Group is the number of elements that share a scale.
const Group = 32

// Codec is one width of integers. It implements dist.Codec for f32, f16 and bf16.
//
// A group is encoded as its scale, a float32, and then its integers: q is the
// element over the scale, rounded to nearest, and the scale is the largest
// magnitude over the largest integer. A group with a NaN or an infinity
// decodes to NaN everywhere, and one whose scale would be subnormal to zeros:
// neither is ever taken for data. A last group that is short is padded with
// zeros.
type Codec struct{ bits int }

// The codecs. The largest integers are 127, 31 and 7, so that a value and its
// negative have the same error.
var (
	Int8 = Codec{8}
	Int6 = Codec{6}
	Int4 = Codec{4}
)

var _ dist.Codec = Codec{}

// Name is int8, int6 or int4.
func (c Codec) Name() string { return fmt.Sprintf("int%d", c.bits) }

// Group is 32 for all of them.
func (c Codec) Group() int { return Group }

// Max is the largest integer.
func (c Codec) Max() int { return 1<<(c.bits-1) - 1 }

const scaleBytes = 4

// groupBytes is the size of an encoded group.
func (c Codec) groupBytes() int { return scaleBytes + Group*c.bits/8 }

// Size is the bytes of n elements encoded, whatever their type.
func (c Codec) Size(_ dist.DType, n int) int { return (n + Group - 1) / Group * c.groupBytes() }

// Supports tells whether elements of the type can be encoded: a float32 scale
// has no room for the range of f64, and integers are not rounded.
func Supports(d dist.DType) bool { return d == dist.F32 || d == dist.F16 || d == dist.BF16 }

// Encode writes the encoding of the elements in src.
func (c Codec) Encode(dst, src []byte, d dist.DType) {
	load, size := loaders[d], Group*d.Size()
	if load == nil {
		panic(fmt.Sprintf("quant: no encoding of %v", d))
	}
	var values [Group]float32
	for len(src) > 0 {
		n := min(size, len(src))
		load(&values, src[:n])
		c.encode(dst[:c.groupBytes()], &values)
		src, dst = src[n:], dst[c.groupBytes():]
	}
}

// leastScale is the smallest normal float32: the reciprocal of any scale from
// here on is finite.
const leastScale = 0x1p-126

func (c Codec) encode(dst []byte, values *[Group]float32) {
	// Magnitudes compare as integers do, and NaN is above infinity.
	most := uint32(0)
	for i := range values {
		most = max(most, math.Float32bits(values[i])&^(1<<31))
	}
	top := float32(c.Max())
	scale := math.Float32frombits(most) / top
	inverse := 1 / scale
	switch {
	case most >= 0xff<<23:
		scale, inverse = float32(math.NaN()), 0
	case scale < leastScale:
		scale, inverse = 0, 0
	}
	binary.LittleEndian.PutUint32(dst, math.Float32bits(scale))
	// No quotient needs a clamp: it is at most top and a few roundings, which is
	// less than top + 1/2. A product with 0 is 0, but for NaN and infinity.
	var q [Group]int8
	if inverse != 0 {
		for i := range q {
			q[i] = round(values[i] * inverse)
		}
	}
	c.pack(dst[scaleBytes:], &q)
}

// round is to nearest, ties to even: adding 1.5 x 2^23 leaves no bits behind
// the point, and the last byte is the integer.
func round(v float32) int8 {
	const shift = 3 << 22
	return int8(math.Float32bits(v + shift))
}

// DecodeReduce combines what the sources encode, in float32 and from first to
// last, and rounds the result to the type once.
func (c Codec) DecodeReduce(dst []byte, srcs [][]byte, d dist.DType, r dist.Reduction) {
	store, size := storers[d], Group*d.Size()
	if store == nil {
		panic(fmt.Sprintf("quant: no decoding to %v", d))
	}
	var sum, values [Group]float32
	for at := 0; len(dst) > 0; at += c.groupBytes() {
		n := min(size, len(dst))
		c.decode(&sum, srcs[0][at:at+c.groupBytes()])
		for _, src := range srcs[1:] {
			c.decode(&values, src[at:at+c.groupBytes()])
			combine(&sum, &values, r)
		}
		store(dst[:n], &sum)
		dst = dst[n:]
	}
}

func (c Codec) decode(values *[Group]float32, src []byte) {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(src))
	var q [Group]int8
	c.unpack(&q, src[scaleBytes:])
	for i := range q {
		values[i] = float32(q[i]) * scale
	}
}

func combine(sum, values *[Group]float32, r dist.Reduction) {
	switch r {
	case dist.Prod:
		for i, v := range values {
			sum[i] *= v
		}
	case dist.Min:
		for i, v := range values {
			sum[i] = min(sum[i], v)
		}
	case dist.Max:
		for i, v := range values {
			sum[i] = max(sum[i], v)
		}
	default: // an average is a sum that dist divides
		for i := range sum {
			sum[i] += values[i]
		}
	}
}
