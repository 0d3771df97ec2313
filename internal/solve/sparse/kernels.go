package sparse

import (
	"fmt"
	"math"
)

// The portable kernels, which define the results. A product is converted to
// float64 before it is added, which forbids the compiler to fuse the two on
// machines that could: the bits are the same everywhere.

// minusZero starts every sum over a row: adding to it changes nothing, while
// a plain zero would turn a first product of -0 into 0.
var minusZero = math.Copysign(0, -1)

func sameLength(a, b, c []float64) int {
	if len(a) != len(b) || len(a) != len(c) {
		panic(fmt.Sprintf("sparse: vectors of lengths %d, %d and %d", len(a), len(b), len(c)))
	}
	return len(a)
}

func axpby(dst []float64, a float64, x []float64, b float64, y []float64) {
	for i := range dst {
		dst[i] = float64(a*x[i]) + float64(b*y[i])
	}
}

func times(dst, x, y []float64) {
	for i := range dst {
		dst[i] = x[i] * y[i]
	}
}

func dot(x, y []float64) float64 {
	var lane [8]float64
	n := len(x) &^ 7
	for i := 0; i < n; i += 8 {
		for l := range lane {
			lane[l] += float64(x[i+l] * y[i+l])
		}
	}
	for i := n; i < len(x); i++ {
		lane[i-n] += float64(x[i] * y[i])
	}
	for half := 4; half > 0; half /= 2 {
		for l := range half {
			lane[l] += lane[l+half]
		}
	}
	return lane[0]
}

func (c *constant) portable(dst, x []float64, lo, hi int) {
	for i := lo; i < hi; i++ {
		sum := minusZero
		for k, off := range c.offs {
			sum += float64(c.coefs[k] * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

func (v *varying) portable(dst, x []float64, lo, hi, base int) {
	for i := lo; i < hi; i++ {
		sum := minusZero
		for k, off := range v.offs {
			sum += float64(v.value(k*v.n+i-base) * x[i+off/8])
		}
		dst[i-lo] = sum
	}
}

func (c *scattered) portable(dst, x []float64, s, n, row int) {
	for i := range n {
		sum := [8]float64{minusZero, minusZero, minusZero, minusZero, minusZero, minusZero, minusZero, minusZero}
		at := int(c.starts[s+i].entry)
		masks := c.masks[c.starts[s+i].mask:c.starts[s+i+1].mask]
		for _, mask := range masks {
			for l := range sum {
				if mask>>l&1 != 0 {
					sum[l] += float64(c.value(at) * x[c.column(at, row+8*i)])
					at++
				}
			}
		}
		copy(dst[8*i:8*i+8], sum[:])
	}
}

func (c *scattered) value(at int) float64 {
	switch {
	case c.vals64 != nil:
		return c.vals64[at]
	case c.vals32 != nil:
		return float64(c.vals32[at])
	}
	return c.dict[c.vals8[at]]
}

func (c *scattered) column(at, row int) int {
	if c.near != nil {
		return row + int(c.near[at])
	}
	return int(c.wide[at])
}
