package sparse

import "math"

// pad is how many elements beyond its entries the scattered kernel may load.
const pad = 8

// addScattered stores any rows, slice by slice.
func (b *Builder) addScattered(lo, hi int) {
	if lo == hi {
		return
	}
	size := b.ptr[hi] - b.ptr[lo]
	c := &scattered{n: hi - lo, starts: make([]start, 0, (hi-lo+7)/8+1)}
	wide := make([]int32, 0, size+pad)
	vals := make([]float64, 0, size+pad)
	for s := lo; s < hi; s += 8 {
		c.starts = append(c.starts, start{uint32(len(vals)), uint32(len(c.masks))})
		for k := 0; ; k++ {
			mask := uint8(0)
			for i := s; i < min(s+8, hi); i++ {
				if k < b.width(i) {
					mask |= 1 << (i - s)
					wide = append(wide, int32(b.cols[b.ptr[i]+k]))
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
	c.masks = append(c.masks, 0) // the kernels take its address even when no row has an entry
	c.wide, c.vals64 = wide[:size+pad], vals[:size+pad]
	if b.format == Compressed {
		c.narrowColumns(b.first + lo)
		c.narrowValues(size)
	}
	b.m.bytes += c.bytes()
	b.add(lo, hi, c)
}

// narrowColumns replaces the columns by 16-bit distances if they all fit.
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

// narrowValues uses a dictionary of at most 256 values, or single precision,
// where that loses nothing. A dictionary must be smaller than what it spares.
func (c *scattered) narrowValues(size int) {
	index := map[uint64]uint8{}
	var dict []float64
	vals8 := make([]uint8, len(c.vals64))
	for i, v := range c.vals64[:size] {
		at, known := index[math.Float64bits(v)]
		if !known {
			if len(dict) == 256 || 4*len(dict) > size {
				vals8 = nil
				break
			}
			at = uint8(len(dict))
			index[math.Float64bits(v)] = at
			dict = append(dict, v)
		}
		vals8[i] = at
	}
	switch {
	case vals8 != nil && len(dict) > 0:
		c.vals8, c.dict, c.vals64 = vals8, dict, nil
	case exact32(c.vals64[:size]):
		c.vals32, c.vals64 = to32(c.vals64), nil
	}
}
