// Package quant holds the codecs of the quantised all-reduce ("quickreduce"): integers of 8, 6 or 4 bits with a scale
// for each group of 32 elements. They are codecs of package dist, which sends the encodings. docs/correctness.md
// describes the format and the error bound that follows from it.
package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Group is the number of elements that share a scale.
const Group = 32

// Codec encodes elements as integers of one width. It implements dist.Codec for f32, f16 and bf16.
//
// A group is encoded as its scale, a float32, followed by its integers. The scale is the largest magnitude divided by
// the largest integer, and each integer is the element divided by the scale, rounded to nearest. A group that contains
// a NaN or an infinity decodes to NaN everywhere. A group whose scale would be subnormal decodes to zeros. A short last
// group is padded with zeros.
type Codec struct{ bits int }

// The codecs. Their largest integers are 127, 31 and 7, so that a value and its negative have the same error.
var (
	Int8 = Codec{8}
	Int6 = Codec{6}
	Int4 = Codec{4}
)

// Codecs lists the codecs, the most accurate first.
func Codecs() []Codec { return []Codec{Int8, Int6, Int4} }

// Named returns the codec with the given name.
func Named(name string) (Codec, bool) {
	return lists.First(Codecs(), func(c Codec) bool { return c.Name() == name })
}

// Name returns int8, int6 or int4.
func (c Codec) Name() string { return fmt.Sprintf("int%d", c.bits) }

// Help describes the format in one line.
func (c Codec) Help() string {
	return fmt.Sprintf("%d-bit integers with a float32 scale per %d elements, for f32, f16 and bf16", c.bits, Group)
}

// Group returns the number of elements per group, 32 for all codecs.
func (c Codec) Group() int { return Group }

// Max returns the largest integer.
func (c Codec) Max() int { return 1<<(c.bits-1) - 1 }

const scaleBytes = 4

// groupBytes returns the size of an encoded group.
func (c Codec) groupBytes() int { return scaleBytes + Group*c.bits/8 }

// Size returns the encoded size of n elements in bytes. It does not depend on their type.
func (c Codec) Size(_ dtype.DType, n int) int { return (n + Group - 1) / Group * c.groupBytes() }

// Supports reports whether elements of the type can be encoded. f64 exceeds the range of a float32 scale, and integers
// must not be rounded.
func Supports(d dtype.DType) bool { return d == dtype.F32 || d == dtype.F16 || d == dtype.BF16 }

// Supports reports whether elements of the type can be encoded.
func (c Codec) Supports(d dtype.DType) bool { return Supports(d) }

// minScale is the smallest normal float32. Larger scales have a finite reciprocal.
const minScale = 0x1p-126

// batch is the number of groups that are processed at a time, so that their data stays in the first-level cache.
const batch = 8

// work holds the values of a batch on the way from elements to integers or back.
type work struct {
	values, sum [batch * Group]float32
	integers    [batch * Group]byte // in two's complement
	absMaxes    [batch]uint32       // bits of the largest magnitudes
	scales      [batch]float32
	inverses    [batch]float32
	short       [4 * Group]byte // the last group, padded
}

// Encode writes the encoding of the elements in src to dst.
func (c Codec) Encode(dst, src []byte, d dtype.DType) {
	if !Supports(d) {
		panic(fmt.Sprintf("quant: no encoding of %v", d))
	}
	var w work
	size := Group * d.Size()
	for whole := len(src) / size; whole > 0; {
		n := min(batch, whole)
		c.encode(dst, src[:n*size], d, &w, n)
		dst, src, whole = dst[n*c.groupBytes():], src[n*size:], whole-n
	}
	if len(src) > 0 {
		copy(w.short[:], src)
		c.encode(dst, w.short[:size], d, &w, 1)
	}
}

// encode encodes a batch of n groups.
func (c Codec) encode(dst, src []byte, d dtype.DType, w *work, n int) {
	values := w.values[:n*Group]
	vec.Widen(values, src[:len(values)*d.Size()], d)
	// The bits of magnitudes, compared as integers, are in the order of the magnitudes. NaN is larger than infinity, so
	// one comparison below finds both.
	absMax(w.absMaxes[:n], values)
	top := float32(c.Max())
	for i, absMax := range w.absMaxes[:n] {
		scale := math.Float32frombits(absMax) / top
		inverse := 1 / scale
		switch {
		case absMax >= 0xff<<23: // infinity or NaN: the exponent has all bits set
			scale, inverse = float32(math.NaN()), 0
		case scale < minScale:
			scale, inverse = 0, 0
		}
		w.scales[i], w.inverses[i] = scale, inverse
	}
	// Quotients need no clamp: they exceed the largest integer by a few roundings, which is less than 1/2. An inverse of 0
	// gives integers of 0.
	quantise(w.integers[:n*Group], values, w.inverses[:n])
	for i := range n {
		to := dst[i*c.groupBytes():][:c.groupBytes()]
		binary.LittleEndian.PutUint32(to, math.Float32bits(w.scales[i]))
		c.pack(to[scaleBytes:], w.integers[i*Group:(i+1)*Group])
	}
}

// DecodeReduce decodes and combines the sources in float32, from first to last, and rounds the result to the type once.
func (c Codec) DecodeReduce(dst []byte, srcs [][]byte, d dtype.DType, r dtype.Reduction) {
	if !Supports(d) {
		panic(fmt.Sprintf("quant: no decoding to %v", d))
	}
	var w work
	size := Group * d.Size()
	at := 0 // position in the encodings
	for whole := len(dst) / size; whole > 0; {
		n := min(batch, whole)
		c.decode(dst[:n*size], srcs, at, d, r, &w, n)
		dst, at, whole = dst[n*size:], at+n*c.groupBytes(), whole-n
	}
	if len(dst) > 0 {
		c.decode(w.short[:size], srcs, at, d, r, &w, 1)
		copy(dst, w.short[:])
	}
}

// decode decodes a batch of n groups that begins at position at of the encodings.
func (c Codec) decode(dst []byte, srcs [][]byte, at int, d dtype.DType, r dtype.Reduction, w *work, n int) {
	sum, integers, scales := w.sum[:n*Group], w.integers[:n*Group], w.scales[:n]
	for s, src := range srcs {
		for i := range n {
			from := src[at+i*c.groupBytes():][:c.groupBytes()]
			scales[i] = math.Float32frombits(binary.LittleEndian.Uint32(from))
			c.unpack(integers[i*Group:(i+1)*Group], from[scaleBytes:])
		}
		switch {
		case s == 0:
			multiply(sum, integers, scales)
		case r == dtype.Sum || r == dtype.Avg: // dist divides the sum for an average
			accumulate(sum, integers, scales)
		default:
			values := w.values[:n*Group]
			multiply(values, integers, scales)
			combine(sum, values, r)
		}
	}
	vec.Narrow(dst, sum, d)
}

// combine sets sum = sum op values, element by element.
func combine(sum, values []float32, r dtype.Reduction) {
	switch r {
	case dtype.Prod:
		for i, v := range values {
			sum[i] *= v
		}
	case dtype.Min:
		for i, v := range values {
			sum[i] = min(sum[i], v)
		}
	case dtype.Max:
		for i, v := range values {
			sum[i] = max(sum[i], v)
		}
	}
}
