package sparse

// Products and vector operations in single precision. They halve the memory traffic. Scalar products are added up in
// double precision, in which a product of two singles is exact.

// Product32 sets block[:hi-lo] to rows [lo, hi) of the product with x in single precision. The values of the matrix are
// rounded to single precision. block must not overlap x.
func (m *Matrix) Product32(block, x []float32, lo, hi int) {
	if lo >= hi {
		return
	}
	_, _ = block[hi-lo-1], x[m.cols-1]
	m.each(lo, hi, func(f form, from, to, base int) { f.rows32(block[from-lo:to-lo], x, from, to, base) })
}

func (c *constant) rows32(dst, x []float32, lo, hi, _ int) {
	if !c.fastRows32(dst, x, lo, hi) {
		portableConstant(c, dst, x, lo, hi)
	}
}

func (c *periodic) rows32(dst, x []float32, lo, hi, base int) {
	for i := lo; i < hi; i++ {
		row := NewCSR(1, 8)
		c.row(row, i, base)
		sum := float32(minusZero)
		for k, col := range row.Cols {
			sum += float32(float32(row.Vals[k]) * x[col])
		}
		dst[i-lo] = sum
	}
}

func (v *varying) rows32(dst, x []float32, lo, hi, base int) {
	if !v.fastRows32(dst, x, lo, hi, base) {
		portableVarying(v, dst, x, lo, hi, base)
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
	if !c.fastSlices32(dst, x, s, n, row) {
		portableScattered(c, dst, x, s, n, row)
	}
}

// Axpby32 sets dst = a*x + b*y. dst may be x or y.
func Axpby32(dst []float32, a float32, x []float32, b float32, y []float32) {
	sameLength(dst, x, y)
	if !fastAxpby32(dst, a, x, b, y) {
		axpby(dst, a, x, b, y)
	}
}

// Times32 sets dst = x*y element by element. dst may be x or y.
func Times32(dst, x, y []float32) {
	sameLength(dst, x, y)
	if !fastTimes32(dst, x, y) {
		times(dst, x, y)
	}
}

// Dot32 returns the scalar product in double precision. It sums in the same order as Dot.
func Dot32(x, y []float32) float64 {
	sameLength(x, y, y)
	if sum, ok := fastDot32(x, y); ok {
		return sum
	}
	var lane [8]float64
	for i, v := range x {
		lane[i%8] += float64(v) * float64(y[i]) // the product is exact, so fusing it with the sum changes nothing
	}
	return halves(lane[:])
}
