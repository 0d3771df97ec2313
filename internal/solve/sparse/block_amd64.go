package sparse

//go:noescape
func combineAVX512(dst, base, src, coef *float64, rows, k, n, cols int)

//go:noescape
func gramAVX512(sums, a, b *float64, rows, strideA, strideB, k, cols int)

//go:noescape
func gramTriangleAVX512(sums, a, b *float64, rows int)

//go:noescape
func blockVarying64AVX512(dst, x *float64, offs *int, vals *float64, stride, entries, n, width, cols int)

//go:noescape
func blockVarying32AVX512(dst, x *float64, offs *int, vals *float32, stride, entries, n, width, cols int)

//go:noescape
func blockWide64AVX512(dst, x *float64, cs *int32, vals *float64, masks *uint8, starts *start, n, width, cols int)

//go:noescape
func blockWide32AVX512(dst, x *float64, cs *int32, vals *float32, masks *uint8, starts *start, n, width, cols int)

//go:noescape
func blockWide8AVX512(dst, x *float64, cs *int32, vals *uint8, masks *uint8, starts *start, n, width, cols int,
	dict *float64)

//go:noescape
func blockNear64AVX512(dst, x *float64, cs *int16, vals *float64, masks *uint8, starts *start, n, width, cols int)

//go:noescape
func blockNear32AVX512(dst, x *float64, cs *int16, vals *float32, masks *uint8, starts *start, n, width, cols int)

//go:noescape
func blockNear8AVX512(dst, x *float64, cs *int16, vals *uint8, masks *uint8, starts *start, n, width, cols int,
	dict *float64)

// combinePanel computes at most 16 columns of Combine. n is the number of columns of dst, base and coef.
func combinePanel(dst, base, src, coef []float64, rows, k, n, cols int) {
	var from *float64
	if len(base) > 0 {
		from = &base[0]
	}
	combineAVX512(&dst[0], from, &src[0], &coef[0], rows, k, n, cols)
}

// gramTriangle adds the scalar products of two block vectors of 16 columns. It leaves out the products of the last 8
// columns of a with the first 8 of b.
func gramTriangle(sums, a, b []float64, rows int) { gramTriangleAVX512(&sums[0], &a[0], &b[0], rows) }

// gramPanel adds the scalar products of k columns of a with cols columns of b. strideA and
// strideB are the strides of a and b; sums has the stride strideB.
func gramPanel(sums, a, b []float64, rows, strideA, strideB, k, cols int) {
	if fast {
		gramAVX512(&sums[0], &a[0], &b[0], rows, strideA, strideB, k, cols)
	} else {
		portableGram(sums, a, b, rows, strideA, strideB, k, cols)
	}
}

// panel multiplies rows [lo, hi) with cols columns of a block vector.
func (v *varying) panel(dst, x []float64, width, cols, lo, hi, base int) {
	from, at := &x[lo*width], lo-base
	if v.vals32 != nil {
		blockVarying32AVX512(&dst[0], from, &v.offs[0], &v.vals32[at], v.n, len(v.offs), hi-lo, width, cols)
	} else {
		blockVarying64AVX512(&dst[0], from, &v.offs[0], &v.vals64[at], v.n, len(v.offs), hi-lo, width, cols)
	}
}

// panel multiplies n slices, starting with slice s at the given row, with cols columns of a block vector.
func (c *scattered) panel(dst, x []float64, width, cols, s, n, row int) {
	at := c.starts[s]
	out, masks, starts := &dst[0], &c.masks[at.mask], &c.starts[s]
	if c.near != nil {
		from, cs := &x[row*width], &c.near[at.entry]
		switch {
		case c.vals64 != nil:
			blockNear64AVX512(out, from, cs, &c.vals64[at.entry], masks, starts, n, width, cols)
		case c.vals32 != nil:
			blockNear32AVX512(out, from, cs, &c.vals32[at.entry], masks, starts, n, width, cols)
		default:
			blockNear8AVX512(out, from, cs, &c.vals8[at.entry], masks, starts, n, width, cols, &c.dict[0])
		}
		return
	}
	from, cs := &x[0], &c.wide[at.entry]
	switch {
	case c.vals64 != nil:
		blockWide64AVX512(out, from, cs, &c.vals64[at.entry], masks, starts, n, width, cols)
	case c.vals32 != nil:
		blockWide32AVX512(out, from, cs, &c.vals32[at.entry], masks, starts, n, width, cols)
	default:
		blockWide8AVX512(out, from, cs, &c.vals8[at.entry], masks, starts, n, width, cols, &c.dict[0])
	}
}
