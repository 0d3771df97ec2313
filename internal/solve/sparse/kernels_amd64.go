package sparse

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"
)

// fast reports whether the AVX-512 kernels are used. Tests turn it off to compare results. The kernels need BMI2 and
// POPCNT for masks.
var fast = cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512DQ, cpuid.AVX512VL, cpuid.BMI2, cpuid.POPCNT)

//go:noescape
func axpbyAVX512(dst, x, y *float64, a, b float64, n int)

//go:noescape
func timesAVX512(dst, x, y *float64, n int)

//go:noescape
func dotAVX512(x, y *float64, n int) float64

//go:noescape
func sweepAVX512(ops *op, count int, sums *[lanes]float64, lo, n int, block *float64)

//go:noescape
func constantAVX512(dst, x *float64, offs *int, coefs *float64, width, n int)

//go:noescape
func varying64AVX512(dst, x *float64, offs *int, vals *float64, stride, width, n int)

//go:noescape
func varying32AVX512(dst, x *float64, offs *int, vals *float32, stride, width, n int)

//go:noescape
func varying16AVX512(dst, x *float64, offs *int, vals *uint16, stride, width, n int, first *float32)

//go:noescape
func wide64AVX512(dst, x *float64, cols *int32, vals *float64, masks *uint8, starts *start, n int)

//go:noescape
func wide32AVX512(dst, x *float64, cols *int32, vals *float32, masks *uint8, starts *start, n int)

//go:noescape
func wide16AVX512(dst, x *float64, cols *int32, vals *uint16, masks *uint8, starts *start, n int, first *float32)

//go:noescape
func wide8AVX512(dst, x *float64, cols *int32, vals *uint8, masks *uint8, starts *start, n int, dict *float64)

//go:noescape
func near64AVX512(dst, x *float64, cols *int16, vals *float64, masks *uint8, starts *start, n int)

//go:noescape
func near32AVX512(dst, x *float64, cols *int16, vals *float32, masks *uint8, starts *start, n int)

//go:noescape
func near16AVX512(dst, x *float64, cols *int16, vals *uint16, masks *uint8, starts *start, n int, first *float32)

//go:noescape
func near8AVX512(dst, x *float64, cols *int16, vals *uint8, masks *uint8, starts *start, n int, dict *float64)

// Axpby sets dst = a*x + b*y. dst may be x or y.
func Axpby(dst []float64, a float64, x []float64, b float64, y []float64) {
	if n := sameLength(dst, x, y); !fast || n == 0 {
		axpby(dst, a, x, b, y)
	} else {
		axpbyAVX512(&dst[0], &x[0], &y[0], a, b, n)
	}
}

// Times sets dst = x*y element by element. dst may be x or y.
func Times(dst, x, y []float64) {
	if n := sameLength(dst, x, y); !fast || n == 0 {
		times(dst, x, y)
	} else {
		timesAVX512(&dst[0], &x[0], &y[0], n)
	}
}

// Dot returns the scalar product. The order of summation is fixed: each of 8 lanes adds every eighth product, and the
// lanes are then added by halves.
func Dot(x, y []float64) float64 {
	if n := sameLength(x, y, y); !fast || n == 0 {
		return dot(x, y)
	}
	return dotAVX512(&x[0], &y[0], len(x))
}

func (s *Sweep) run(lo, hi int, block []float64) {
	if fast {
		sweepAVX512(&s.ops[0], len(s.ops), unsafe.SliceData(s.sums), lo, hi-lo, unsafe.SliceData(block))
	} else {
		s.portable(lo, hi, block)
	}
}

func (c *constant) rows(dst, x []float64, lo, hi, _ int) {
	if !fast || len(c.offs) == 0 || hi-lo == 1 {
		portableConstant(c, dst, x, lo, hi)
		return
	}
	constantAVX512(&dst[0], &x[lo], &c.offs[0], &c.coefs[0], len(c.offs), hi-lo)
}

func (v *varying) rows(dst, x []float64, lo, hi, base int) {
	switch at := lo - base; {
	case !fast:
		portableVarying(v, dst, x, lo, hi, base)
	case v.vals16 != nil:
		varying16AVX512(&dst[0], &x[lo], &v.offs[0], &v.vals16[at], v.n, len(v.offs), hi-lo, &v.vals32[at])
	case v.vals32 != nil:
		varying32AVX512(&dst[0], &x[lo], &v.offs[0], &v.vals32[at], v.n, len(v.offs), hi-lo)
	default:
		varying64AVX512(&dst[0], &x[lo], &v.offs[0], &v.vals64[at], v.n, len(v.offs), hi-lo)
	}
}

// slices multiplies n whole slices, starting with slice s. Near columns are relative to the first row of their slice,
// and row is the first row of slice s.
func (c *scattered) slices(dst []float64, x []float64, s, n, row int) {
	if !fast {
		portableScattered(c, dst, x, s, n, row)
		return
	}
	at := c.starts[s]
	out, masks, starts := &dst[0], &c.masks[at.mask], &c.starts[s]
	if c.near != nil {
		from, cols := &x[row], &c.near[at.entry]
		switch {
		case c.vals64 != nil:
			near64AVX512(out, from, cols, &c.vals64[at.entry], masks, starts, n)
		case c.vals16 != nil:
			near16AVX512(out, from, cols, &c.vals16[int(at.entry)-8*s], masks, starts, n, &c.vals32[8*s])
		case c.vals32 != nil:
			near32AVX512(out, from, cols, &c.vals32[at.entry], masks, starts, n)
		default:
			near8AVX512(out, from, cols, &c.vals8[at.entry], masks, starts, n, &c.dict[0])
		}
		return
	}
	from, cols := &x[0], &c.wide[at.entry]
	switch {
	case c.vals64 != nil:
		wide64AVX512(out, from, cols, &c.vals64[at.entry], masks, starts, n)
	case c.vals16 != nil:
		wide16AVX512(out, from, cols, &c.vals16[int(at.entry)-8*s], masks, starts, n, &c.vals32[8*s])
	case c.vals32 != nil:
		wide32AVX512(out, from, cols, &c.vals32[at.entry], masks, starts, n)
	default:
		wide8AVX512(out, from, cols, &c.vals8[at.entry], masks, starts, n, &c.dict[0])
	}
}
