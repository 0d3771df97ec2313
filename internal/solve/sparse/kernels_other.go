//go:build !amd64

package sparse

// fast reports whether assembly kernels are used; tests turn it off. This architecture has none.
var fast = false

// Axpby sets dst = a*x + b*y. dst may be x or y.
func Axpby(dst []float64, a float64, x []float64, b float64, y []float64) {
	sameLength(dst, x, y)
	axpby(dst, a, x, b, y)
}

// Times sets dst = x*y element by element. dst may be x or y.
func Times(dst, x, y []float64) {
	sameLength(dst, x, y)
	times(dst, x, y)
}

// Dot returns the scalar product. The order of summation is fixed: each of 8 lanes adds every eighth product, and the
// lanes are then added by halves.
func Dot(x, y []float64) float64 {
	sameLength(x, y, y)
	return dot(x, y)
}

func (c *constant) rows(dst, x []float64, lo, hi, _ int)   { portableConstant(c, dst, x, lo, hi) }
func (v *varying) rows(dst, x []float64, lo, hi, base int) { portableVarying(v, dst, x, lo, hi, base) }

func (c *scattered) slices(dst []float64, x []float64, s, n, row int) {
	portableScattered(c, dst, x, s, n, row)
}

func (s *Sweep) run(lo, hi int, block []float64) { s.portable(lo, hi, block) }

func combinePanel(dst, base, src, coef []float64, rows, k, n, cols int) {
	panic("sparse: this architecture has no kernel for panels")
}

func gramTriangle(sums, a, b []float64, rows int) {
	panic("sparse: this architecture has no kernel for panels")
}

func gramPanel(sums, a, b []float64, rows, strideA, strideB, k, cols int) {
	portableGram(sums, a, b, rows, strideA, strideB, k, cols)
}

func (v *varying) panel(dst, x []float64, width, cols, lo, hi, base int) {
	panic("sparse: this architecture has no kernel for panels")
}

func (c *scattered) panel(dst, x []float64, width, cols, s, n, row int) {
	panic("sparse: this architecture has no kernel for panels")
}

func fastAxpby32(_ []float32, _ float32, _ []float32, _ float32, _ []float32) bool { return false }
func fastTimes32(_, _, _ []float32) bool                                           { return false }
func fastDot32(_, _ []float32) (float64, bool)                                     { return 0, false }

func (c *constant) fastRows32(_, _ []float32, _, _ int) bool       { return false }
func (v *varying) fastRows32(_, _ []float32, _, _, _ int) bool     { return false }
func (c *scattered) fastSlices32(_, _ []float32, _, _, _ int) bool { return false }
