// Package epilogue applies the operations that follow the reduction of a collective before its output is written to
// memory: the division of an average, and a scale, bias and residual. It knows neither ranks nor transports.
package epilogue

import (
	"math"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// Step is an operation on every element of a rank's output:
//
//	out = alpha*out + Bias[i mod len(Bias)] + Residual[i]
//
// or out / divisor for integers. The zero Step does nothing.
type Step struct {
	dtype   dtype.DType
	alpha   float64
	divisor int // for integers; 0 means no division
	scales  bool

	bias, residual []byte
}

// Average returns the step that turns a sum over ranks into the average.
func Average(d dtype.DType, ranks int) Step {
	if d.Float() {
		return Step{dtype: d, alpha: 1 / float64(ranks), scales: true}
	}
	return Step{dtype: d, divisor: ranks}
}

// Then adds a scale, a bias and a residual to the step. The type must be a floating-point type. A scale of 0 means 1.
func (s Step) Then(d dtype.DType, scale float64, bias, residual []byte) Step {
	if !s.scales {
		s.alpha = 1
	}
	if scale != 0 {
		s.alpha *= scale
	}
	s.dtype, s.scales, s.bias, s.residual = d, true, bias, residual
	return s
}

// IsNop reports whether the step changes nothing.
func (s *Step) IsNop() bool { return s.divisor == 0 && !s.scales }

// block is the number of bytes per pass, so that bias, residual and output stay in the first-level cache.
const block = 8 << 10

// Apply applies the step to a part of an output. at is the offset of the part in the whole output, in bytes: it tells
// which elements of Bias and Residual belong to the part.
func (s *Step) Apply(out []byte, at int) {
	switch {
	case s.divisor != 0:
		divide(out, s.dtype, s.divisor)
	case s.scales:
		for from := 0; from < len(out); {
			n := min(block, len(out)-from)
			var srcs [3][]byte
			k := 1
			if len(s.bias) > 0 {
				off := (at + from) % len(s.bias)
				n = min(n, len(s.bias)-off)
				srcs[k] = s.bias[off : off+n]
				k++
			}
			if len(s.residual) > 0 {
				srcs[k] = s.residual[at+from : at+from+n]
				k++
			}
			srcs[0] = out[from : from+n]
			vec.ScaledSum(srcs[0], srcs[:k], s.dtype, s.alpha)
			from += n
		}
	}
}

func divide(b []byte, d dtype.DType, by int) {
	switch d {
	case dtype.I64:
		quotients[int64](b, int64(by))
	case dtype.I32:
		quotients[int32](b, int32(by))
	case dtype.U8:
		if by > math.MaxUint8 {
			clear(b) // every quotient is 0
			return
		}
		quotients(b, uint8(by))
	}
}

func quotients[E dtype.Element](b []byte, by E) {
	s := dtype.View[E](b)
	for i := range s {
		s[i] /= by
	}
}
