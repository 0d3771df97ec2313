//go:build !amd64

package sparse

// fast says whether there are kernels in assembly; tests turn it off to compare.
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

// Dot is the scalar product. Its order of summation is fixed: 8 lanes, each
// adding every eighth product, are added by halves.
func Dot(x, y []float64) float64 {
	sameLength(x, y, y)
	return dot(x, y)
}

func (c *constant) rows(dst, x []float64, lo, hi, _ int)   { c.portable(dst, x, lo, hi) }
func (v *varying) rows(dst, x []float64, lo, hi, base int) { v.portable(dst, x, lo, hi, base) }

func (c *scattered) slices(dst []float64, x []float64, s, n, row int) {
	c.portable(dst, x, s, n, row)
}

func (s *Sweep) run(lo, hi int, block []float64) { s.portable(lo, hi, block) }
