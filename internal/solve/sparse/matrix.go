package sparse

import (
	"math"
	"math/bits"
)

// Matrix is a matrix in the form in which it is multiplied. Consecutive rows are grouped into runs, and each run is
// stored in the smallest form that gives the same bits. Builder makes it, and nothing changes it afterwards.
type Matrix struct {
	rows, cols int
	entries    int
	reach      int
	runs       []run
	first      []int32 // index of the run that contains each indexRows-th row
	bytes      int
}

// A run is the rows [lo, hi) in one form. Between lo and through, all rows have the same constant form except in a few
// short gaps. On a grid these rows are its lines, and the gaps are the ends of the lines.
type run struct {
	lo, hi  int32
	through int32
	form    form
}

// A form multiplies the rows [lo, hi) of a run that starts at row base, and writes the products to dst. dst never
// overlaps x.
type form interface {
	rows(dst, x []float64, lo, hi, base int)
	rows32(dst, x []float32, lo, hi, base int)       // the same in single precision
	block(dst, x []float64, width, lo, hi, base int) // the same for block vectors
	row(to *CSR, i, base int)                        // appends the entries of row i
	bytes() int
}

// constant is the form of rows with the same entries at the same offsets from the diagonal. It needs no memory per row,
// and equal forms are shared between runs.
type constant struct {
	offs  []int // in bytes, which is what the kernels need
	coefs []float64
}

// periodic is the form of rows that repeat with a period, while their columns move by another step. Interpolation
// between grids has such rows. It needs no memory per row.
type periodic struct {
	step   int         // number of columns that each repetition moves by
	at     []int       // a reference column for each row of the first period
	shapes []*constant // entries of each row of the period, at offsets from its reference column
}

// varying is the form of rows with the same offsets and different values. The k-th values of all rows are adjacent in
// memory, in single precision if that is exact.
type varying struct {
	n      int
	offs   []int // in bytes
	vals64 []float64
	vals32 []float32
	vals16 []uint16 // bfloat16, all but the first values of the rows; these are in vals32
}

// scattered is the form of arbitrary rows, stored in slices of 8 rows (sliced ELLPACK; see Kreutzer et al. 2014). The
// k-th entries of the rows of a slice are adjacent, and a mask holds one bit for each row that has a k-th entry, so
// that shorter rows need no padding. Columns are 16-bit distances from the first row of the slice if all of them fit,
// else absolute 32-bit numbers. Values are float64, or float32 or bytes that index a dictionary if those are exact.
// The arrays are padded at the end, because the kernels load 8 elements at a time.
type scattered struct {
	starts []start
	masks  []uint8
	near   []int16
	wide   []int32
	vals64 []float64
	vals32 []float32
	vals16 []uint16 // bfloat16, all but the first values of the rows; these are in vals32, 8 for each slice
	vals8  []uint8
	dict   []float64
}

// start is the position of the first entry and of the first mask of a slice. The assembly kernels depend on this
// layout.
type start struct{ entry, mask uint32 }

func (c *constant) bytes() int { return 8*len(c.offs) + 8*len(c.coefs) }
func (c *periodic) bytes() int { return 8 + 16*len(c.at) }
func (v *varying) bytes() int {
	return 8*len(v.offs) + 8*len(v.vals64) + 4*len(v.vals32) + 2*len(v.vals16)
}
func (c *scattered) bytes() int {
	return 8*len(c.starts) + len(c.masks) + 2*len(c.near) + 4*len(c.wide) +
		8*len(c.vals64) + 4*len(c.vals32) + 2*len(c.vals16) + len(c.vals8) + 8*len(c.dict)
}

// indexRows is the distance between the rows whose run is stored in Matrix.first. The search for the run of any other
// row starts there.
const indexRows = 256

// index fills in Matrix.first and run.through.
func (m *Matrix) index() {
	for at := range m.runs {
		at = len(m.runs) - 1 - at
		r := &m.runs[at]
		r.through = r.hi
		for _, next := range m.runs[at+1:] {
			if _, same := r.form.(*constant); !same || next.lo-r.hi > shortGap {
				break
			}
			if next.form == r.form {
				r.through = next.through
				break
			}
		}
	}
	m.first = make([]int32, 0, (m.rows+indexRows-1)/indexRows)
	for at, r := range m.runs {
		for len(m.first)*indexRows < int(r.hi) {
			m.first = append(m.first, int32(at))
		}
	}
	m.bytes += 32*len(m.runs) + 4*len(m.first)
}

// Rows returns the number of rows.
func (m *Matrix) Rows() int { return m.rows }

// Columns returns the length of the vectors that the matrix multiplies: owned values, then ghosts.
func (m *Matrix) Columns() int { return m.cols }

// Entries returns the number of stored entries.
func (m *Matrix) Entries() int { return m.entries }

// Bytes returns the memory of the stored form. One product reads it once.
func (m *Matrix) Bytes() int { return m.bytes }

// Reach returns the largest distance from a row to an owned column to its right. A pass that computes x as it goes may
// multiply a row once x is final up to this distance beyond the row.
func (m *Matrix) Reach() int { return m.reach }

// Multiply sets dst[lo:hi] to rows [lo, hi) of the product with x. dst must not overlap x.
func (m *Matrix) Multiply(dst, x []float64, lo, hi int) {
	if lo < hi {
		m.Product(dst[lo:hi], x, lo, hi)
	}
}

// Product sets block[:hi-lo] to rows [lo, hi) of the product with x. block must not overlap x.
func (m *Matrix) Product(block, x []float64, lo, hi int) {
	if lo >= hi {
		return
	}
	_, _ = block[hi-lo-1], x[m.cols-1]
	m.each(lo, hi, func(f form, from, to, base int) { f.rows(block[from-lo:to-lo], x, from, to, base) })
}

// each calls fn for the rows [lo, hi), run by run: for the rows from, ..., to-1 of a run that starts at row base. Runs
// of equal rows are taken together with the short gaps between them, whose rows fn then overwrites.
func (m *Matrix) each(lo, hi int, fn func(f form, from, to, base int)) {
	at := int(m.first[lo/indexRows])
	for int(m.runs[at].hi) <= lo {
		at++
	}
	for lo < hi {
		r := &m.runs[at]
		end := min(hi, int(r.through))
		fn(r.form, lo, end, int(r.lo))
		for at++; at < len(m.runs) && int(m.runs[at].lo) < end; at++ {
			if gap := &m.runs[at]; gap.hi-gap.lo <= shortGap {
				fn(gap.form, int(gap.lo), min(end, int(gap.hi)), int(gap.lo))
			}
		}
		lo = end
	}
}

// rows computes the product for all columns from one row of the period to the next and keeps every step-th value. That
// is faster than gathering single values of x.
func (c *periodic) rows(dst, x []float64, lo, hi, base int) {
	var block [blockValues]float64
	period := len(c.shapes)
	for s, shape := range c.shapes {
		past := max(0, lo-base-s+period-1) / period // repetitions of this row before lo
		for i := base + s + past*period; i < hi; {
			n := min((hi-i+period-1)/period, (blockValues-1)/c.step+1)
			from, width := c.at[s]+(i-base-s)/period*c.step, (n-1)*c.step+1
			shape.rows(block[:width], x, from, from+width, 0)
			for k := range n {
				dst[i-lo+k*period] = block[k*c.step]
			}
			i += n * period
		}
	}
}

// blockValues is the number of values that are computed before some of them are picked. They fit in the first-level
// cache.
const blockValues = 512

// rows multiplies whole slices directly, and parts of a slice through a buffer.
func (c *scattered) rows(dst, x []float64, lo, hi, base int) {
	for lo < hi {
		s, lane := (lo-base)/8, (lo-base)%8
		if whole := (hi - lo) / 8; lane == 0 && whole > 0 {
			c.slices(dst[:8*whole], x, s, whole, lo)
			dst, lo = dst[8*whole:], lo+8*whole
			continue
		}
		var part [8]float64
		c.slices(part[:], x, s, 1, lo-lane)
		n := copy(dst, part[lane:])
		dst, lo = dst[n:], lo+n
	}
}

// exact32 reports whether single precision represents all values exactly.
func exact32(vals []float64) bool {
	for _, v := range vals {
		if math.Float64bits(float64(float32(v))) != math.Float64bits(v) {
			return false
		}
	}
	return true
}

func to32(vals []float64) []float32 {
	out := make([]float32, len(vals))
	for i, v := range vals {
		out[i] = float32(v)
	}
	return out
}

// pad is the number of elements after its last entry that the scattered kernel may load.
const pad = 8

// addScattered stores arbitrary rows, slice by slice.
func (b *Builder) addScattered(lo, hi int) {
	if lo == hi {
		return
	}
	size := b.ptr[hi] - b.ptr[lo]
	c := &scattered{starts: make([]start, 0, (hi-lo+7)/8+1)}
	wide := onHugePages(make([]int32, size+pad))[:0]
	vals := onHugePages(make([]float64, size+pad))[:0]
	for s := lo; s < hi; s += 8 {
		c.starts = append(c.starts, start{uint32(len(vals)), uint32(len(c.masks))})
		for k := 0; ; k++ {
			mask := uint8(0)
			for i := s; i < min(s+8, hi); i++ {
				if k < b.width(i) {
					mask |= 1 << (i - s)
					wide = append(wide, b.cols[b.ptr[i]+k])
					vals = append(vals, b.vals[b.ptr[i]+k])
				}
			}
			if mask == 0 {
				break
			}
			c.masks = append(c.masks, mask)
		}
	}
	c.starts = append(c.starts, start{uint32(len(vals)), uint32(len(c.masks))})
	c.masks = append(c.masks, 0) // the kernels take the address of a mask even if no row has an entry
	c.wide, c.vals64 = wide[:size+pad], vals[:size+pad]
	switch b.format {
	case Plain:
	case PlainSingle:
		c.vals32, c.vals64 = to32(c.vals64), nil
	default:
		c.narrowColumns(b.first + lo)
		c.narrowValues(size, b.format)
	}
	b.m.bytes += c.bytes()
	b.add(lo, hi, c)
}

// narrowColumns replaces the columns by 16-bit distances if all of them fit.
func (c *scattered) narrowColumns(base int) {
	near := make([]int16, len(c.wide))
	for s := range len(c.starts) - 1 {
		for at := c.starts[s].entry; at < c.starts[s+1].entry; at++ {
			d := int(c.wide[at]) - (base + 8*s)
			if d < math.MinInt16 || d > math.MaxInt16 {
				return
			}
			near[at] = int16(d)
		}
	}
	c.near, c.wide = near, nil
}

// narrowValues replaces the values by indices into a dictionary of at most 256 values, or by fewer bits, if that
// is exact. It uses a dictionary only if the dictionary is smaller than the memory it saves.
func (c *scattered) narrowValues(size int, format Format) {
	var dict []float64
	vals8 := make([]uint8, len(c.vals64))
	var table [1024]uint16 // open addressing; holds positions in the dictionary plus one
	for i, v := range c.vals64[:size] {
		key := math.Float64bits(v)
		at := key * 0x9e3779b97f4a7c15 >> 54 // Fibonacci hashing: the upper 10 bits of the product
		for ; table[at] != 0 && math.Float64bits(dict[table[at]-1]) != key; at = (at + 1) % uint64(len(table)) {
		}
		if table[at] == 0 {
			if len(dict) == 256 || 4*len(dict) > size {
				vals8 = nil
				break
			}
			dict = append(dict, v)
			table[at] = uint16(len(dict))
		}
		vals8[i] = uint8(table[at] - 1)
	}
	switch {
	case vals8 != nil && len(dict) > 0:
		c.vals8, c.dict, c.vals64 = vals8, dict, nil
	case format == Bfloat16:
		c.splitFirst()
	case exact32(c.vals64[:size]):
		c.vals32, c.vals64 = to32(c.vals64), nil
	}
}

// splitFirst stores the first value of each row in single precision, and the others as bfloat16. Every row has one.
func (c *scattered) splitFirst() {
	slices := len(c.starts) - 1
	c.vals32, c.vals16 = make([]float32, 8*slices), make([]uint16, 0, len(c.vals64))
	for s := range slices {
		lo, hi := int(c.starts[s].entry), int(c.starts[s+1].entry)
		first := lo + c.firsts(s)
		copy(c.vals32[8*s:], to32(c.vals64[lo:first]))
		c.vals16 = append(c.vals16, to16(c.vals64[first:hi])...)
	}
	c.vals16, c.vals64 = append(c.vals16, make([]uint16, pad)...), nil
}

// firsts returns the number of first entries in a slice.
func (c *scattered) firsts(s int) int { return bits.OnesCount8(c.masks[c.starts[s].mask]) }

func (c *constant) row(to *CSR, i, _ int) {
	for k, off := range c.offs {
		to.Add(int32(i+off/8), c.coefs[k])
	}
}

func (c *periodic) row(to *CSR, i, base int) {
	past, s := (i-base)/len(c.shapes), (i-base)%len(c.shapes)
	c.shapes[s].row(to, c.at[s]+past*c.step, 0)
}

func (v *varying) row(to *CSR, i, base int) {
	for k, off := range v.offs {
		to.Add(int32(i+off/8), v.value(k*v.n+i-base))
	}
}

func (v *varying) value(at int) float64 {
	switch {
	case v.vals16 != nil && at >= v.n:
		return widen(v.vals16[at-v.n])
	case v.vals32 != nil:
		return float64(v.vals32[at])
	}
	return v.vals64[at]
}

func (c *scattered) row(to *CSR, i, base int) {
	s, lane := (i-base)/8, (i-base)%8
	at := int(c.starts[s].entry)
	for _, mask := range c.masks[c.starts[s].mask:c.starts[s+1].mask] {
		if mask>>lane&1 != 0 {
			e := at + bits.OnesCount8(mask&(1<<lane-1))
			to.Add(int32(c.column(e, i-lane)), c.value(s, e))
		}
		at += bits.OnesCount8(mask)
	}
}
