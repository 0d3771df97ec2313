package sparse

import (
	"math"
	"slices"
)

// Bfloat16 is the upper half of a float32: 8 significant bits and the range of single precision. Rounding the values
// of a matrix to so few bits changes its row sums by up to 0.4 % of the diagonal, while the smallest eigenvalues of a
// large grid are a millionth of it. A preconditioner made from such a matrix is useless for smooth errors, or not even
// definite. The format Bfloat16 therefore rounds only the couplings, and changes the diagonal so that every row keeps
// its sum. If the couplings are negative, as in diffusion problems, x'Ax is a sum over couplings of |a_ij| (x_i - x_j)²
// and over row sums, and each term changes by at most 0.4 %. So does the quadratic form, for every x.

// bfloat rounds to the nearest bfloat16, ties to even.
func bfloat(v float64) uint16 {
	bits := math.Float32bits(float32(v))
	if v != v {
		return 0x7fc0
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// widen returns the value of a bfloat16.
func widen(half uint16) float64 { return float64(math.Float32frombits(uint32(half) << 16)) }

// roundRow rounds the values of a row, which begins at position at of b.vals and is the last one in b.cols. The
// diagonal entry keeps the sum of the row and is rounded to single precision. It moves to the beginning of the row,
// because the forms store the first value of each row in single precision. A row without a diagonal entry gets one.
func (b *Builder) roundRow(row, at int) {
	start := len(b.cols) - (len(b.vals) - at)
	diagonal := slices.Index(b.cols[start:], int32(row))
	if diagonal < 0 {
		b.cols, b.vals = append(b.cols, int32(row)), append(b.vals, 0)
		diagonal = len(b.vals) - 1 - at
	}
	cols, vals := b.cols[start:], b.vals[at:]
	sum := vals[diagonal]
	copy(cols[1:], cols[:diagonal])
	copy(vals[1:], vals[:diagonal])
	for k, v := range vals[1:] {
		vals[1+k] = widen(bfloat(v))
		sum += v - vals[1+k]
	}
	cols[0], vals[0] = int32(row), float64(float32(sum))
}

// to16 returns the values as bfloat16.
func to16(vals []float64) []uint16 {
	out := make([]uint16, len(vals))
	for i, v := range vals {
		out[i] = bfloat(v)
	}
	return out
}
