package reference

import "math"

// EpilogueScale is of the calls with an epilogue: out/2 + bias + residual.
const EpilogueScale = 0.5

const (
	longestBias = 1024
	// patternUpTo is the largest count with a bias that differs from element to
	// element; beyond, where one vector serves all counts, it is the same for all.
	patternUpTo = 1 << 20
)

// biasAt is element i of a bias of so many elements.
func biasAt(i, count, period int) float64 {
	if count > patternUpTo {
		return biasPattern(0)
	}
	return biasPattern(i % period)
}

func biasPattern(i int) float64 { return float64(i%29 + 3) }

// biasesOf is all of a bias, or one element where all are the same.
func biasesOf(count, period int) []float64 {
	if count > patternUpTo {
		period = 1
	}
	bias := make([]float64, period)
	for i := range bias {
		bias[i] = biasPattern(i)
	}
	return bias
}

// periodOf is the length of the bias: the largest that divides the count, or as
// long as the vector, since one of very few elements takes a call for each.
func periodOf(count int) int {
	for period := min(count, longestBias); period > 16; period-- {
		if count%period == 0 {
			return period
		}
	}
	return max(count, 1)
}

// residualAt differs from rank to rank: each rank's output is its own.
func residualAt(i, rank int) float64 { return float64((i*7+rank*5)%residualPeriod - 8) }

// residualPeriod is after how many elements it repeats itself.
const residualPeriod = 16

func residualsOf(rank int) (all [residualPeriod]float64) {
	for i := range all {
		all[i] = residualAt(i, rank)
	}
	return all
}

// withEpilogue is the expectation of the same call with the epilogue, on one
// rank. 16-bit types are rounded once, the others after each operation.
func (e *Expectation) withEpilogue(rank, count int) *Expectation {
	if e.bits == nil {
		return e.boundedEpilogue(rank, count)
	}
	out := e.withEpilogueFrom(rank, count, len(e.bits)/e.d.Size())
	out.bits = e.epilogue(e.bits, rank, count, 0)
	return out
}

// withEpilogueFrom does it to the tail alone, which begins at an element.
func (e *Expectation) withEpilogueFrom(rank, count, first int) *Expectation {
	return &Expectation{d: e.d, kind: e.kind, worst: e.worst, tail: e.epilogue(e.tail, rank, count, first)}
}

// epilogue of elements from first on.
func (e *Expectation) epilogue(bits []byte, rank, count, first int) []byte {
	acc, period, size := Accumulator(e.d), periodOf(count), e.d.Size()
	out, chunk := Aligned(len(bits)), make([]float64, chunkElems)
	bias, residual := biasesOf(count, period), residualsOf(rank)
	at := first % len(bias)
	for off := 0; off < len(bits)/size; off += chunkElems {
		n := min(chunkElems, len(bits)/size-off)
		v := chunk[:n]
		e.d.Decode(v, bits[off*size:(off+n)*size])
		for i := range v {
			v[i] *= EpilogueScale
		}
		acc.Round(v)
		for i := range v {
			v[i] += bias[at]
			if at++; at == len(bias) {
				at = 0
			}
		}
		acc.Round(v)
		for i := range v {
			v[i] += residual[(first+off+i)%len(residual)]
		}
		e.d.Encode(out[off*size:(off+n)*size], v)
	}
	return out
}

// boundedEpilogue is for an order that is not known.
func (e *Expectation) boundedEpilogue(rank, count int) *Expectation {
	out, acc, period := &Expectation{d: e.d, kind: e.kind, worst: e.worst}, Accumulator(e.d), periodOf(count)
	out.exact, out.bound = make([]float64, count), make([]float64, count)
	for i, x := range e.exact {
		b, r := biasAt(i, count, period), residualAt(i, rank)
		out.exact[i] = x*EpilogueScale + b + r
		if math.IsInf(e.bound[i], 1) {
			out.bound[i] = e.bound[i]
			continue
		}
		size := math.Abs(x*EpilogueScale) + b + math.Abs(r) + e.bound[i]
		out.bound[i] = e.bound[i]*EpilogueScale + size*roundings(roundings(0, numbersOf(acc).unit, 3), numbersOf(e.d).unit, 1)
	}
	return out
}
