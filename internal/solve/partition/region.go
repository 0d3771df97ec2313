package partition

import (
	"cmp"
	"slices"
	"sort"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// box is the set of grid points from lo up to, not including, hi.
type box struct{ lo, hi [3]int }

func (b box) size() int {
	n := 1
	for axis := range b.lo {
		n *= max(0, b.hi[axis]-b.lo[axis])
	}
	return n
}

// clip returns the part of a box with lo <= coordinate < hi along an axis.
func (b box) clip(axis, lo, hi int) box {
	b.lo[axis], b.hi[axis] = max(b.lo[axis], lo), min(b.hi[axis], hi)
	return b
}

// region is a set of grid points, as boxes that do not overlap.
type region []box

func (r region) size() int {
	n := 0
	for _, b := range r {
		n += b.size()
	}
	return n
}

func (r region) clip(axis, lo, hi int) region {
	var out region
	for _, b := range r {
		if c := b.clip(axis, lo, hi); c.size() > 0 {
			out = append(out, c)
		}
	}
	return out
}

// bounds returns the smallest box around a region. The region must not be empty.
func (r region) bounds() box {
	out := r[0]
	for _, b := range r[1:] {
		for axis := range out.lo {
			out.lo[axis], out.hi[axis] = min(out.lo[axis], b.lo[axis]), max(out.hi[axis], b.hi[axis])
		}
	}
	return out
}

// split cuts off exactly n points, the first ones in the order of the axes: by the coordinate along the first axis,
// then the second, then the third. So the cut is a plane with at most one step in it, and a step within that. split
// also returns the coordinates of the first point that is not cut off.
func (r region) split(axes []int, n int) (first, rest region, at []int) {
	if n <= 0 || len(r) == 0 || n >= r.size() {
		panic("partition: a cut must leave points on both sides")
	}
	axis, in := axes[0], r.bounds()
	lo, hi := in.lo[axis], in.hi[axis]
	// The last plane with no more than n points before it.
	plane := lo + sort.Search(hi-lo, func(d int) bool { return r.clip(axis, lo, lo+d+1).size() > n })
	first, rest = r.clip(axis, lo, plane), r.clip(axis, plane+1, hi)
	middle := r.clip(axis, plane, plane+1)
	at = make([]int, len(axes))
	at[0] = plane
	if n -= first.size(); n == 0 {
		return first, append(middle, rest...), at
	}
	a, b, within := middle.split(axes[1:], n)
	copy(at[1:], within)
	return append(first, a...), append(rest, b...), at
}

// rows returns the row numbers of the points, as ranges.
func (r region) rows(g sparse.Grid) []sparse.Range {
	var lines []sparse.Range
	for _, b := range r {
		if b.size() == 0 {
			continue
		}
		for z := b.lo[2]; z < b.hi[2]; z++ {
			for y := b.lo[1]; y < b.hi[1]; y++ {
				lo := g.Index([3]int{b.lo[0], y, z})
				lines = append(lines, sparse.Range{Lo: lo, Hi: lo + b.hi[0] - b.lo[0]})
			}
		}
	}
	slices.SortFunc(lines, func(a, b sparse.Range) int { return cmp.Compare(a.Lo, b.Lo) })
	out := lines[:0]
	for _, l := range lines {
		if n := len(out); n > 0 && out[n-1].Hi == l.Lo {
			out[n-1].Hi = l.Hi
		} else {
			out = append(out, l)
		}
	}
	return out
}
