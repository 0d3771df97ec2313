package partition

import (
	"cmp"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	Partitioners.Register(Partitioner{Name: "coordinate",
		Help:  "recursive bisection by coordinates, cut in proportion: equal for any number of ranks",
		Needs: Coordinates, Weighs: true, Imbalance: 1, Make: coordinate})
}

// coordinate cuts across the longest side, in proportion to the number of ranks on each side, until one rank is left.
// Parts differ by at most one row, for any number of ranks. On a grid it finds the cuts by counting boxes, without
// looking at single points.
func coordinate(p sparse.Problem, o Options) (sparse.Layout, error) {
	g, gridded := p.(sparse.Gridded)
	weights := o.Weights.of(p)
	if gridded && weights == nil {
		return bisectGrid(g.Grid(), o.Ranks), nil
	}
	locate := func(i int) [3]float64 { return p.(sparse.Located).Locate(i) }
	if gridded {
		locate = g.Grid().Locate
	}
	return bisectPoints(p.Size(), locate, weights, o.Ranks), nil
}

// cut is a node of the tree of cuts on a grid, for the ranks from, ..., to-1. The ranks before mid own the points that
// come before the point at, compared axis by axis in the order of axes.
type cut struct {
	mid         int
	axes, at    []int
	left, right *cut // nil for a single rank, or for ranks without points
}

// bisection is the layout of a grid: a tree that finds owners, and the parts.
type bisection struct {
	grid  sparse.Grid
	root  *cut
	parts []region
}

// bisectGrid bisects a grid without looking at its points: regions are a few boxes each.
func bisectGrid(g sparse.Grid, ranks int) *bisection {
	b := &bisection{grid: g, parts: make([]region, ranks)}
	b.root = b.bisect(region{{hi: g}}, 0, ranks)
	return b
}

// bisect cuts a region for the ranks from, ..., to-1. Each side gets exactly the rows that its ranks should own in
// the end, so rounding errors do not accumulate over the levels.
func (b *bisection) bisect(r region, from, to int) *cut {
	if to-from == 1 {
		b.parts[from] = r
		return nil
	}
	mid := (from + to) / 2
	n := rowsBefore(mid, b.grid.Size(), len(b.parts)) - rowsBefore(from, b.grid.Size(), len(b.parts))
	c := &cut{mid: mid}
	switch {
	case n == 0: // more ranks than rows: the left ranks get none
		c.right = b.bisect(r, mid, to)
		c.axes, c.at = []int{0}, []int{0}
	case n == r.size():
		c.left = b.bisect(r, from, mid)
		c.axes, c.at = []int{0}, []int{b.grid[0]}
	default:
		var first, rest region
		c.axes = byExtent(r.bounds())
		first, rest, c.at = r.split(c.axes, n)
		c.left, c.right = b.bisect(first, from, mid), b.bisect(rest, mid, to)
	}
	return c
}

// rowsBefore returns the number of rows of the ranks before rank.
func rowsBefore(rank, rows, ranks int) int { return rows * rank / ranks }

// byExtent returns the axes, the longest side first. Among equal sides the one with the larger stride in memory comes
// first.
func byExtent(b box) []int {
	axes := []int{2, 1, 0}
	slices.SortStableFunc(axes, func(i, j int) int { return cmp.Compare(b.hi[j]-b.lo[j], b.hi[i]-b.lo[i]) })
	return axes
}

// Owner implements sparse.Layout. It descends the tree of cuts, in log2(ranks) steps.
func (b *bisection) Owner(row int) int {
	p := b.grid.Point(row)
	from, to := 0, len(b.parts)
	for c := b.root; to-from > 1; {
		if c == nil { // a side without points
			return from
		}
		if c.before(p) {
			to, c = c.mid, c.left
		} else {
			from, c = c.mid, c.right
		}
	}
	return from
}

// before reports whether a point is on the left side of the cut.
func (c *cut) before(p [3]int) bool {
	for i, axis := range c.axes {
		if p[axis] != c.at[i] {
			return p[axis] < c.at[i]
		}
	}
	return false
}

// Rows implements sparse.Layout.
func (b *bisection) Rows(rank int) []sparse.Range { return b.parts[rank].rows(b.grid) }

// point is a row with its coordinates.
type point struct {
	at  [3]float64
	row int32
}

// compare orders points along an axis. Points with equal coordinates are ordered by row, so that the result of a
// bisection does not depend on the order in which the points are given.
func (p point) compare(q point, axis int) int {
	return cmp.Or(cmp.Compare(p.at[axis], q.at[axis]), cmp.Compare(p.row, q.row))
}

// bisectPoints bisects points at arbitrary coordinates. If weights is nil, every point has the weight 1.
func bisectPoints(n int, locate func(int) [3]float64, weights []int32, ranks int) *Table {
	points := make([]point, n)
	for i := range points {
		points[i] = point{locate(i), int32(i)}
	}
	t := newTable(n, ranks)
	t.bisect(points, weights, 0, ranks)
	return t
}

// bisect assigns the points to the ranks from, ..., to-1. It reorders points.
func (t *Table) bisect(points []point, weights []int32, from, to int) {
	if to-from == 1 || len(points) == 0 {
		for _, p := range points {
			t.owners[p.row] = int32(from)
		}
		return
	}
	axis := longest(points)
	mid := (from + to) / 2
	left := rowsBefore(mid, len(t.owners), t.ranks) - rowsBefore(from, len(t.owners), t.ranks)
	if weights == nil {
		selectFirst(points, left, axis)
	} else { // the cut that is nearest to the proportional share
		slices.SortFunc(points, func(a, b point) int { return a.compare(b, axis) })
		mine := lists.Map(points, func(p point) int32 { return weights[p.row] })
		left = cutStrips(mine, to-from)[mid-from]
	}
	t.bisect(points[:left], weights, from, mid)
	t.bisect(points[left:], weights, mid, to)
}

// longest returns the axis along which the points extend furthest.
func longest(points []point) int {
	lo, hi := points[0].at, points[0].at
	for _, p := range points {
		for axis, v := range p.at {
			lo[axis], hi[axis] = min(lo[axis], v), max(hi[axis], v)
		}
	}
	best := 0
	for axis := range lo {
		if hi[axis]-lo[axis] > hi[best]-lo[best] {
			best = axis
		}
	}
	return best
}

// selectFirst moves the first n points along an axis to the front, in any order (Hoare's quickselect). Sorting before
// every cut would be shorter to write, but it takes 4 to 8 times as long: 2.2 s for a million points in 64 parts.
func selectFirst(points []point, n, axis int) {
	before := func(p, q point) bool {
		return p.at[axis] < q.at[axis] || p.at[axis] == q.at[axis] && p.row < q.row
	}
	for n > 0 && n < len(points) {
		median := []point{points[0], points[len(points)/2], points[len(points)-1]}
		slices.SortFunc(median, func(p, q point) int { return p.compare(q, axis) })
		pivot := median[1]
		i, j := 0, len(points)-1
		for i <= j {
			for before(points[i], pivot) {
				i++
			}
			for before(pivot, points[j]) {
				j--
			}
			if i <= j {
				points[i], points[j] = points[j], points[i]
				i++
				j--
			}
		}
		// Every point of points[:j+1] now precedes every point of points[i:]. The point between them, if any, is the pivot.
		switch {
		case n <= j:
			points = points[:j+1]
		case n > i:
			points, n = points[i:], n-i
		default:
			return
		}
	}
}
