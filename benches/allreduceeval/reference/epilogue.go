package reference

import (
	"math"

	"github.com/kernbench/kernbench/dist"
)

// EpilogueScale and NormEpsilon are arguments of the calls with an epilogue:
// out/2 + bias + residual, and then the RMS norm if there is one.
const (
	EpilogueScale = 0.5
	NormEpsilon   = 1e-5
)

const (
	longestBias = 1024
	// patternUpTo is the largest count whose bias differs from element to element.
	// Longer vectors have a constant bias, so that one cached expectation serves all
	// their counts.
	patternUpTo = 1 << 20
)

// biasOf returns one period of the bias of a call: element i of the vector gets
// element i%len of it.
func biasOf(count int) []float64 {
	period := biasPeriod(count)
	if count > patternUpTo {
		period = 1
	}
	bias := make([]float64, period)
	for i := range bias {
		bias[i] = float64(i%29 + 3)
	}
	return bias
}

// biasPeriod returns the length of the bias argument: the largest divisor of the
// count up to longestBias. If that is 16 or less, it is the whole count, because
// backends process a very short bias with one call per repetition.
func biasPeriod(count int) int {
	for period := min(count, longestBias); period > 16; period-- {
		if count%period == 0 {
			return period
		}
	}
	return max(count, 1)
}

// residualAt returns element i of a rank's residual. It differs from rank to rank and
// repeats every 16 elements.
func residualAt(i, rank int) float64 { return float64((i*7+rank*5)%16 - 8) }

// weightAt returns element i of the norm's weight.
func weightAt(i int) float64 { return float64(i%13+4) / 8 }

// NormRow returns the row length of a call with a norm, or 0 if the call has none.
// Rows are as long as the bias, which keeps the bound on the error small.
func NormRow(d dist.DType, count int) int {
	if period := biasPeriod(count); count > 0 && period <= longestBias && Accumulator(d) == dist.F32 {
		return period
	}
	return 0
}

// Weight returns the weight argument of a norm over rows of that length.
func (s *Store) Weight(row int) []byte { return s.elements(Window{0, row}, pointwise(weightAt)) }

// Epilogue returns the arguments of the epilogue of a call: the bias, which is
// repeated along the vector, and this rank's residual.
func (s *Store) Epilogue(count int) (bias, residual []byte, err error) {
	bias, err = loadOrBuild(s, vectorKey{what: "bias", Window: Window{0, count}}, func() ([]byte, error) {
		one := biasOf(count)
		at := func(i int) float64 { return one[i%len(one)] }
		return s.elements(Window{0, biasPeriod(count)}, pointwise(at)), nil
	})
	if err != nil {
		return nil, nil, err
	}
	residual, err = s.vectorPart(vectorKey{what: "residual"}, Window{0, count}, func(w Window) ([]byte, error) {
		return s.elements(w, pointwise(func(i int) float64 { return residualAt(i, s.rank) })), nil
	})
	return bias, residual, err
}

// withEpilogue returns the expectation of the same call with the epilogue on one
// rank. 16-bit types are rounded once at the end, others after each operation.
func (e *Expectation) withEpilogue(rank, count int) *Expectation {
	if e.bits == nil {
		return e.boundedEpilogue(rank, count)
	}
	return &Expectation{d: e.d, kind: e.kind, worst: e.worst, bits: e.epilogue(rank, count, 0)}
}

// epilogue applies the epilogue to elements of a vector, starting at element first.
func (e *Expectation) epilogue(rank, count, first int) []byte {
	acc, size, bits := Accumulator(e.d), e.d.Size(), e.bits
	out, chunk := zeros(len(bits)), make([]float64, chunkElems)
	bias := biasOf(count)
	for off := 0; off < len(bits)/size; off += chunkElems {
		n := min(chunkElems, len(bits)/size-off)
		v := chunk[:n]
		e.d.Decode(v, bits[off*size:(off+n)*size])
		for i := range v {
			v[i] *= EpilogueScale
		}
		acc.Round(v)
		for i := range v {
			v[i] += bias[(first+off+i)%len(bias)]
		}
		acc.Round(v)
		for i := range v {
			v[i] += residualAt(first+off+i, rank)
		}
		e.d.Encode(out[off*size:(off+n)*size], v)
	}
	return out
}

// boundedEpilogue is withEpilogue for an unknown order of additions.
func (e *Expectation) boundedEpilogue(rank, count int) *Expectation {
	out, bias := &Expectation{d: e.d, kind: e.kind, worst: e.worst}, biasOf(count)
	out.exact, out.bound = make([]float64, count), make([]float64, count)
	relative := roundings(roundings(0, limitsOf(Accumulator(e.d)).unit, 3), limitsOf(e.d).unit, 1)
	for i, x := range e.exact {
		b, r := bias[i%len(bias)], residualAt(i, rank)
		out.exact[i] = x*EpilogueScale + b + r
		if out.bound[i] = e.bound[i]; !math.IsInf(e.bound[i], 1) {
			magnitude := math.Abs(x*EpilogueScale) + b + math.Abs(r) + e.bound[i]
			out.bound[i] = e.bound[i]*EpilogueScale + magnitude*relative
		}
	}
	return out
}

// WithNorm returns the expectation of the same call with an RMS norm over rows. It
// needs exact inputs, for which the bits before the norm are known. The bound allows
// for a mean of squares in float32 in any order, the root, the quotients and the
// products, and the rounding to the element type.
func (e *Expectation) WithNorm(row int) *Expectation {
	h := make([]float64, len(e.bits)/e.d.Size())
	e.d.Decode(h, e.bits)
	out := &Expectation{d: e.d, kind: e.kind, exact: make([]float64, len(h)), bound: make([]float64, len(h))}
	relative := roundings(roundings(0, 0x1p-24, row+8), limitsOf(e.d).unit, 1)
	for first := 0; first < len(h); first += row {
		squares := 0.0
		for _, x := range h[first : first+row] {
			squares += x * x
		}
		root := math.Sqrt(squares/float64(row) + NormEpsilon)
		for i := first; i < first+row; i++ {
			out.exact[i] = h[i] / root * weightAt(i-first)
			out.bound[i] = relative*math.Abs(out.exact[i]) + limitsOf(e.d).smallest
		}
	}
	return out
}
