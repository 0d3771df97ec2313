package reference

import (
	"math"

	"github.com/kernbench/kernbench/dist"
)

// NormEpsilon is of the calls with a norm.
const NormEpsilon = 1e-5

// NormRow is the length of the rows of a call with a norm, 0 where it has none: as long
// as the bias, so that the bound on its error stays small.
func NormRow(d dist.DType, count int) int {
	if period := periodOf(count); count > 0 && period <= longestBias && Accumulator(d) == dist.F32 {
		return period
	}
	return 0
}

func weightAt(i int) float64 { return float64(i%13+4) / 8 }

// Weight is that of a norm.
func (s *Store) Weight(row int) []byte {
	return s.elements(Window{0, row}, func(to []float64, first int) {
		for i := range to {
			to[i] = weightAt(first + i)
		}
	})
}

// Normed is the expectation of the same call with a norm of rows. It is for exact inputs,
// of which the bits before are known. The mean of the squares is made in float32, in
// any order; its root, the quotients and the products follow, and a rounding to the type.
func (e *Expectation) Normed(row int) *Expectation {
	h := make([]float64, (len(e.bits)+len(e.tail))/e.d.Size())
	e.d.Decode(h[:len(e.bits)/e.d.Size()], e.bits)
	e.d.Decode(h[len(e.bits)/e.d.Size():], e.tail)
	out := &Expectation{d: e.d, kind: e.kind, exact: make([]float64, len(h)), bound: make([]float64, len(h))}
	relative := roundings(roundings(0, 0x1p-24, row+8), numbersOf(e.d).unit, 1)
	for first := 0; first < len(h); first += row {
		squares := 0.0
		for _, x := range h[first : first+row] {
			squares += x * x
		}
		root := math.Sqrt(squares/float64(row) + NormEpsilon)
		for i := first; i < first+row; i++ {
			out.exact[i] = h[i] / root * weightAt(i-first)
			out.bound[i] = relative*math.Abs(out.exact[i]) + numbersOf(e.d).smallest
		}
	}
	return out
}
