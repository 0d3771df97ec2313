package sparse

//go:noescape
func axpbySingle(dst, x, y *float32, a, b float32, n int)

//go:noescape
func timesSingle(dst, x, y *float32, n int)

//go:noescape
func dotSingle(x, y *float32, n int) float64

//go:noescape
func constantSingle(dst, x *float32, offs *int, coefs *float64, width, n int)

//go:noescape
func varyingSingle(dst, x *float32, offs *int, vals *float32, stride, width, n int)

//go:noescape
func wide32Single(dst, x *float32, cols *int32, vals *float32, masks *uint8, starts *start, n int)

//go:noescape
func near32Single(dst, x *float32, cols *int16, vals *float32, masks *uint8, starts *start, n int)

//go:noescape
func wide8Single(dst, x *float32, cols *int32, vals *uint8, masks *uint8, starts *start, n int, dict *float64)

//go:noescape
func near8Single(dst, x *float32, cols *int16, vals *uint8, masks *uint8, starts *start, n int, dict *float64)

func fastAxpby32(dst []float32, a float32, x []float32, b float32, y []float32) bool {
	if !fast || len(dst) == 0 {
		return false
	}
	axpbySingle(&dst[0], &x[0], &y[0], a, b, len(dst))
	return true
}

func fastTimes32(dst, x, y []float32) bool {
	if !fast || len(dst) == 0 {
		return false
	}
	timesSingle(&dst[0], &x[0], &y[0], len(dst))
	return true
}

func fastDot32(x, y []float32) (float64, bool) {
	if !fast || len(x) == 0 {
		return 0, false
	}
	return dotSingle(&x[0], &y[0], len(x)), true
}

func (c *constant) fastRows32(dst, x []float32, lo, hi int) bool {
	if !fast || len(c.offs) == 0 {
		return false
	}
	constantSingle(&dst[0], &x[lo], &c.offs[0], &c.coefs[0], len(c.offs), hi-lo)
	return true
}

func (v *varying) fastRows32(dst, x []float32, lo, hi, base int) bool {
	if !fast || v.vals32 == nil || v.vals16 != nil {
		return false
	}
	varyingSingle(&dst[0], &x[lo], &v.offs[0], &v.vals32[lo-base], v.n, len(v.offs), hi-lo)
	return true
}

func (c *scattered) fastSlices32(dst, x []float32, s, n, row int) bool {
	if !fast || c.vals64 != nil || c.vals16 != nil {
		return false
	}
	at := c.starts[s]
	masks, starts := &c.masks[at.mask], &c.starts[s]
	switch {
	case c.near != nil && c.vals32 != nil:
		near32Single(&dst[0], &x[row], &c.near[at.entry], &c.vals32[at.entry], masks, starts, n)
	case c.near != nil:
		near8Single(&dst[0], &x[row], &c.near[at.entry], &c.vals8[at.entry], masks, starts, n, &c.dict[0])
	case c.vals32 != nil:
		wide32Single(&dst[0], &x[0], &c.wide[at.entry], &c.vals32[at.entry], masks, starts, n)
	default:
		wide8Single(&dst[0], &x[0], &c.wide[at.entry], &c.vals8[at.entry], masks, starts, n, &c.dict[0])
	}
	return true
}
