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

// coordinate cuts across the longest side, in proportion to the ranks that go to
// each side, until one rank is left. Parts differ by one row at most, for any
// number of ranks. On a grid the cuts are found by counting boxes, without
// looking at any point.
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

// cut is a node of the tree of cuts on a grid. Ranks from, from+1, ..., to-1 lie
// below it; those from mid on own the points that do not come before at, in the
// order of the axes.
type cut struct {
	mid         int
	axes, at    []int
	left, right *cut // nil: a single rank, or none with points
}

// bisection is the layout of a grid: a tree to find owners by, and the parts.
type bisection struct {
	grid  sparse.Grid
	root  *cut
	parts []region
}

func bisectGrid(g sparse.Grid, ranks int) *bisection {
	b := &bisection{grid: g, parts: make([]region, ranks)}
	b.root = b.bisect(region{{hi: g}}, 0, ranks)
	return b
}

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

// rowsBefore is how many rows the ranks before rank own.
func rowsBefore(rank, rows, ranks int) int { return rows * rank / ranks }

// byExtent is the axes, the longest side first; of equal ones that which is
// farther apart in memory.
func byExtent(b box) []int {
	axes := []int{2, 1, 0}
	slices.SortStableFunc(axes, func(i, j int) int { return cmp.Compare(b.hi[j]-b.lo[j], b.hi[i]-b.lo[i]) })
	return axes
}

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

// before reports whether a point is cut off.
func (c *cut) before(p [3]int) bool {
	for i, axis := range c.axes {
		if p[axis] != c.at[i] {
			return p[axis] < c.at[i]
		}
	}
	return false
}

func (b *bisection) Rows(rank int) []sparse.Range { return b.parts[rank].rows(b.grid) }

// point is a row with its coordinates.
type point struct {
	at  [3]float64
	row int32
}

// bisectPoints is coordinate bisection of points that lie anywhere; no weights are 1 each.
func bisectPoints(n int, locate func(int) [3]float64, weights []int32, ranks int) *Table {
	points := make([]point, n)
	for i := range points {
		points[i] = point{locate(i), int32(i)}
	}
	t := newTable(n, ranks)
	split := func(points []point, from, mid, _ int) int {
		left := rowsBefore(mid, n, ranks) - rowsBefore(from, n, ranks)
		if left > 0 && left < len(points) {
			selectFirst(points, left, longest(points))
		}
		return left
	}
	if weights != nil { // as near to its share of what the cut before left as a point allows
		split = func(points []point, from, mid, to int) int {
			axis := longest(points)
			slices.SortFunc(points, func(a, b point) int {
				return cmp.Or(cmp.Compare(a.at[axis], b.at[axis]), cmp.Compare(a.row, b.row))
			})
			mine := lists.Map(points, func(p point) int32 { return weights[p.row] })
			return cutStrips(mine, to-from)[mid-from]
		}
	}
	t.bisect(points, 0, ranks, split)
	return t
}

// bisect gives the points to the ranks from, ..., to-1. Split moves those of the ranks before mid to the front and says
// how many there are.
func (t *Table) bisect(points []point, from, to int, split func(points []point, from, mid, to int) int) {
	if to-from == 1 || len(points) == 0 {
		for _, p := range points {
			t.owners[p.row] = int32(from)
		}
		return
	}
	mid := (from + to) / 2
	left := split(points, from, mid, to)
	t.bisect(points[:left], from, mid, split)
	t.bisect(points[left:], mid, to, split)
}

// longest is the axis along which the points extend most.
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

// selectFirst moves the n first points along an axis to the front (Hoare's
// selection). Points of equal coordinate go by their row, so the result does not
// depend on the order they came in.
func selectFirst(points []point, n, axis int) {
	less := func(a, b point) bool {
		return a.at[axis] < b.at[axis] || a.at[axis] == b.at[axis] && a.row < b.row
	}
	for len(points) > 1 {
		a, b, c := points[0], points[len(points)/2], points[len(points)-1]
		if less(b, a) {
			a, b = b, a
		}
		pivot := b // the median of three
		if less(c, a) {
			pivot = a
		} else if less(c, b) {
			pivot = c
		}
		i, j := 0, len(points)-1
		for i <= j {
			for less(points[i], pivot) {
				i++
			}
			for less(pivot, points[j]) {
				j--
			}
			if i <= j {
				points[i], points[j] = points[j], points[i]
				i++
				j--
			}
		}
		switch { // points[:j+1] come before points[i:]
		case n <= j:
			points = points[:j+1]
		case n > i:
			points, n = points[i:], n-i
		default:
			return
		}
	}
}
