package partition

import (
	"cmp"
	"errors"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func withoutGrid(p sparse.Problem) bool {
	_, ok := p.(sparse.Gridded)
	return !ok
}

// coordinate cuts across the longest side, in proportion to the ranks that go to
// each side, until one rank is left. Parts differ by one row at most, for any
// number of ranks. On a grid the cuts are found by counting boxes, without
// looking at any point.
func coordinate(p sparse.Problem, o Options) (sparse.Layout, error) {
	if g, ok := p.(sparse.Gridded); ok {
		return bisectGrid(g.Grid(), o.Ranks), nil
	}
	l, ok := p.(sparse.Located)
	if !ok {
		return nil, errors.New("the rows of this problem have no coordinates")
	}
	return bisectPoints(p.Size(), l.Locate, o.Ranks), nil
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
