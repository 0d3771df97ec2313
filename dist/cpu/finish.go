package cpu

import (
	"math"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/dtype"
	"github.com/kernbench/kernbench/internal/vec"
)

// combine is the operation of the kernels for a reduction; an average is a sum
// that the finish divides.
func combine(r dist.Reduction) vec.Op {
	return [...]vec.Op{dist.Sum: vec.Sum, dist.Prod: vec.Prod, dist.Min: vec.Min, dist.Max: vec.Max, dist.Avg: vec.Sum}[r]
}

// finish is what happens to elements between the sum and the output: the
// division of an average, and the epilogue.
type finish struct {
	dtype   dist.DType
	alpha   float64
	divisor int // of integers; 0: nothing
	scales  bool
	local   bool // ranks may do different things, so each does it to its own output

	bias, residual []byte
}

func newFinish(p dist.Plan, size int) finish {
	f := finish{dtype: p.DType, alpha: 1}
	if p.Op.Reduces() && p.Reduction == dist.Avg {
		if p.DType.Float() {
			f.alpha, f.scales = 1/float64(size), true
		} else {
			f.divisor = size
		}
	}
	if e := p.Epilogue; e != nil {
		f.scales, f.local = true, true
		if e.Scale != 0 {
			f.alpha *= e.Scale
		}
		f.bias, f.residual = e.Bias.Bytes(), e.Residual.Bytes()
	}
	return f
}

// shared is done by the one rank that makes a sum, before others get it.
func (f *finish) shared(out []byte) {
	if !f.local {
		f.apply(out, 0)
	}
}

// own is done by every rank to the part of its output that begins at a byte.
func (f *finish) own(out []byte, at int) {
	if f.local {
		f.apply(out, at)
	}
}

// finishBlock keeps the passes over bias, residual and output in the first cache.
const finishBlock = 8 << 10

func (f *finish) apply(out []byte, at int) {
	switch {
	case f.divisor != 0:
		divide(out, f.dtype, f.divisor)
	case f.scales:
		for from := 0; from < len(out); {
			n := min(finishBlock, len(out)-from)
			var srcs [3][]byte
			k := 1
			if len(f.bias) > 0 {
				off := (at + from) % len(f.bias)
				n = min(n, len(f.bias)-off)
				srcs[k] = f.bias[off : off+n]
				k++
			}
			if len(f.residual) > 0 {
				srcs[k] = f.residual[at+from : at+from+n]
				k++
			}
			srcs[0] = out[from : from+n]
			vec.ScaledSum(srcs[0], srcs[:k], f.dtype, f.alpha)
			from += n
		}
	}
}

func divide(b []byte, d dist.DType, by int) {
	switch d {
	case dist.I64:
		quotients[int64](b, int64(by))
	case dist.I32:
		quotients[int32](b, int32(by))
	case dist.U8:
		if by > math.MaxUint8 {
			clear(b) // no quotient is larger than 0
			return
		}
		quotients(b, uint8(by))
	}
}

func quotients[E dtype.Element](b []byte, by E) {
	if len(b) == 0 {
		return
	}
	var e E
	s := unsafe.Slice((*E)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(e)))
	for i := range s {
		s[i] /= by
	}
}
