package sparse

import (
	"fmt"
	"math"
)

// Products and vector operations in single precision. They halve the memory traffic. Scalar products are added up in
// double precision, in which a product of two singles is exact.

// minusZero32 is the initial value of every sum over a row, see minusZero.
var minusZero32 = float32(math.Copysign(0, -1))

// Product32 sets block[:hi-lo] to rows [lo, hi) of the product with x in single precision. The values of the matrix are
// rounded to single precision. block must not overlap x.
func (m *Matrix) Product32(block, x []float32, lo, hi int) {
	if lo >= hi {
		return
	}
	_, _ = block[hi-lo-1], x[m.cols-1]
	at := int(m.first[lo/indexRows])
	for int(m.runs[at].hi) <= lo {
		at++
	}
	for lo < hi {
		r := &m.runs[at]
		end := min(hi, int(r.through))
		r.form.rows32(block[:end-lo], x, lo, end, int(r.lo))
		for at++; at < len(m.runs) && int(m.runs[at].lo) < end; at++ { // overwrite the rows in the gaps
			if gap := &m.runs[at]; gap.hi-gap.lo <= shortGap {
				from, to := int(gap.lo), min(end, int(gap.hi))
				gap.form.rows32(block[from-lo:to-lo], x, from, to, from)
			}
		}
		block, lo = block[end-lo:], end
	}
}

func (c *constant) rows32(dst, x []float32, lo, hi, _ int) {
	if c.fastRows32(dst, x, lo, hi) {
		return
	}
	for i := lo; i < hi; i++ {
		sum := minusZero32
		for k, off := range c.offs {
			sum += float32(float32(c.coefs[k]) * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

func (c *periodic) rows32(dst, x []float32, lo, hi, base int) {
	for i := lo; i < hi; i++ {
		row := NewCSR(1, 8)
		c.row(row, i, base)
		sum := minusZero32
		for k, col := range row.Cols {
			sum += float32(float32(row.Vals[k]) * x[col])
		}
		dst[i-lo] = sum
	}
}

func (v *varying) rows32(dst, x []float32, lo, hi, base int) {
	if v.fastRows32(dst, x, lo, hi, base) {
		return
	}
	for i := lo; i < hi; i++ {
		sum := minusZero32
		for k, off := range v.offs {
			sum += float32(float32(v.value(k*v.n+i-base)) * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

// rows32 multiplies whole slices directly, and parts of a slice through a buffer.
func (c *scattered) rows32(dst, x []float32, lo, hi, base int) {
	for lo < hi {
		s, lane := (lo-base)/8, (lo-base)%8
		if whole := (hi - lo) / 8; lane == 0 && whole > 0 {
			c.slices32(dst[:8*whole], x, s, whole, lo)
			dst, lo = dst[8*whole:], lo+8*whole
			continue
		}
		var part [8]float32
		c.slices32(part[:], x, s, 1, lo-lane)
		n := copy(dst, part[lane:])
		dst, lo = dst[n:], lo+n
	}
}

func (c *scattered) slices32(dst, x []float32, s, n, row int) {
	if c.fastSlices32(dst, x, s, n, row) {
		return
	}
	for i := range n {
		sum := dst[8*i:][:8]
		for l := range sum {
			sum[l] = minusZero32
		}
		at := int(c.starts[s+i].entry)
		for _, mask := range c.masks[c.starts[s+i].mask:c.starts[s+i+1].mask] {
			for l := range sum {
				if mask>>l&1 != 0 {
					sum[l] += float32(float32(c.value(s+i, at)) * x[c.column(at, row+8*i)])
					at++
				}
			}
		}
	}
}

func sameLength32(a, b, c []float32) {
	if len(a) != len(b) || len(a) != len(c) {
		panic(fmt.Sprintf("sparse: vectors of lengths %d, %d and %d", len(a), len(b), len(c)))
	}
}

// Axpby32 sets dst = a*x + b*y. dst may be x or y.
func Axpby32(dst []float32, a float32, x []float32, b float32, y []float32) {
	sameLength32(dst, x, y)
	if fastAxpby32(dst, a, x, b, y) {
		return
	}
	for i := range dst {
		dst[i] = float32(a*x[i]) + float32(b*y[i])
	}
}

// Times32 sets dst = x*y element by element. dst may be x or y.
func Times32(dst, x, y []float32) {
	sameLength32(dst, x, y)
	if fastTimes32(dst, x, y) {
		return
	}
	for i := range dst {
		dst[i] = x[i] * y[i]
	}
}

// Dot32 returns the scalar product in double precision. It sums in the same order as Dot.
func Dot32(x, y []float32) float64 {
	sameLength32(x, y, y)
	if sum, ok := fastDot32(x, y); ok {
		return sum
	}
	var lane [8]float64
	for i, v := range x {
		lane[i%8] += float64(v) * float64(y[i]) // the product is exact, so fusing it with the sum changes nothing
	}
	return halves(lane[:])
}
