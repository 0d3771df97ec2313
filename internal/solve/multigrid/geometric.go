package multigrid

import (
	"cmp"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	register(precondition.Preconditioner{Name: "gmg", Help: "geometric multigrid on the problem's grid",
		Needs: krylov.SymmetricDefinite, Grid: true, Trial: 1, Levels: precondition.Tunable}, newGeometric)
}

func newGeometric(l *precondition.Local, _ *fine) (coarsener, error) {
	g := &geometric{grid: l.Problem.(sparse.Gridded).Grid(), at: make([]int, l.Plan.Owned), closed: l.Traits.Singular,
		margin: FirstMargin}
	for i := range g.at {
		g.at[i] = l.Plan.Global(i)
	}
	return g, nil
}

// geometric takes every second point along each axis of the grid. It interpolates linearly between these points and the
// zero outside the grid, or the nearest point if the problem is singular. Axes with much weaker couplings than others
// are not coarsened until the other axes have become as coarse.
type geometric struct {
	grid   sparse.Grid
	at     []int // grid points of the rank's unknowns
	halved [3]bool
	margin Margin // distances from the last points to the boundary
	closed bool   // nothing crosses the boundary: the values outside equal the nearest value inside, not zero
	mine   []int  // the picked coarse points, in the order of their numbers

	lines, points weighted // first points of the coarse lines next to a line, and the coarse points around a point of it
}

// weighted is a list of points of the coarse grid with their weights.
type weighted struct {
	at      []int
	weights []float64
}

// sampled is the approximate number of rows of a rank that are used to compare the couplings along the axes.
const sampled = 10000

// choose decides which axes to halve.
func (g *geometric) choose(f *fine) error {
	coupling := make([]float64, 3)
	points, err := f.exchanged(func(i int) float64 { return float64(g.at[i]) })
	if err != nil {
		return err
	}
	step := max(1, len(g.at)/sampled) | 1 // odd, so that it rarely divides the length of a line
	for i := 0; i < len(g.at); i += step {
		first, offsets, vals := f.rows.Row(i)
		p := g.grid.Point(g.at[i])
		for k, d := range offsets {
			for axis, q := range g.grid.Point(int(points[first+d])) {
				if q != p[axis] {
					coupling[axis] += math.Abs(vals[k])
				}
			}
		}
	}
	if coupling, err = f.team.Sum(coupling); err != nil {
		return err
	}
	g.halved = Halved(g.grid, [3]float64(coupling))
	return nil
}

// coarse returns the grid of the points that are kept.
func (g *geometric) coarse() sparse.Grid {
	return Coarser(g.grid, g.halved)
}

// half returns the position of a point along an axis of the coarse grid, and whether the point is kept. Points at odd
// positions are kept: the first of them is two steps from the boundary at position -1, and each is two steps from the
// next, so the coarse grid has the same form as the fine one.
func (g *geometric) half(axis, at int) (coarse int, kept bool) {
	if g.halved[axis] {
		return at / 2, at%2 == 1
	}
	return at, true
}

// pick implements coarsener: it keeps every second point along the axes that are halved.
func (g *geometric) pick(f *fine) (int, error) {
	if err := g.choose(f); err != nil {
		return 0, err
	}
	if g.halved == [3]bool{} {
		return len(g.at), nil // no coarsening, so the hierarchy ends
	}
	g.mine = make([]int, 0, len(g.at)/2)
	coarse := g.coarse()
	g.eachLine(func(_, n int, p [3]int) {
		y, along := g.half(1, p[1])
		z, beside := g.half(2, p[2])
		for x := p[0]; x < p[0]+n && along && beside; x++ {
			if x, kept := g.half(0, x); kept {
				g.mine = append(g.mine, coarse.Index([3]int{x, y, z}))
			}
		}
	})
	return len(g.mine), nil
}

// eachLine calls fn for the rank's points, in stretches that lie on one line: the position and the grid point of the
// first, and the number of points.
func (g *geometric) eachLine(fn func(i, n int, p [3]int)) {
	for lo := 0; lo < len(g.at); {
		p, hi := g.grid.Point(g.at[lo]), lo+1
		for end := min(len(g.at), lo+g.grid[0]-p[0]); hi < end && g.at[hi] == g.at[hi-1]+1; {
			hi++
		}
		fn(lo, hi-lo, p)
		lo = hi
	}
}

// interpolate implements coarsener. A rank knows the numbers of its own coarse points only. Rows next to other ranks
// therefore get placeholders for the other columns first, and one exchange (directory) returns the missing numbers.
func (g *geometric) interpolate(f *fine, first int, coarse *space) (*sparse.Shapes, error) {
	own := stretchesOf(g.mine)
	p := sparse.NewShapes(len(g.at), 0)
	// coarse points of unknown number, whose column is ^k for the k-th; and the rows that have such columns
	var others, open []int
	g.eachLine(func(i, n int, point [3]int) {
		g.findLines(point)
		for k := range n {
			if g.repeats(p, k, point[0]+k, first, coarse) {
				continue
			}
			points := g.coarsePoints(point[0] + k)
			for m, c := range points.at {
				if at := own.find(c); at >= 0 {
					p.Add(coarse.place(first+at), points.weights[m])
				} else {
					p.Add(^int32(len(others)), points.weights[m])
					if others = append(others, c); len(open) == 0 || open[len(open)-1] != i+k {
						open = append(open, i+k)
					}
				}
			}
			p.End()
		}
	})
	numbers, err := directory(f.team, g.coarse().Size(), own, first, others)
	if err != nil {
		return nil, err
	}
	for _, i := range open {
		p.Rename(i, func(c int32) int32 {
			if c < 0 {
				return coarse.place(numbers[others[^c]])
			}
			return c
		})
	}
	g.margin, g.grid = g.margin.Coarser(g.grid, g.halved), g.coarse()
	g.at, err = handOver(f.team, g.mine, first, coarse.Strips)
	return p, err
}

// repeats appends the row of point k of a stretch if it equals the row one coarse point before it, with the columns
// moved by one. That holds if neither point lies at an end of the line, and the rank has the coarse points of both in
// sequence.
func (g *geometric) repeats(p *sparse.Shapes, k, x, first int, coarse *space) bool {
	period := 1
	if g.halved[0] {
		period = 2
	}
	if k < period || g.halved[0] && (x < 3 || x/2 >= g.grid[0]/2) {
		return false
	}
	start, offsets, _ := p.Row(p.Rows() - period)
	for _, d := range offsets {
		place := int(start + d)
		at := coarse.first + place - first // index in mine; outside mine if another rank will own the coarse point
		if place < 0 || at+1 >= len(g.mine) || g.mine[at+1] != g.mine[at]+1 {
			return false
		}
	}
	p.Repeat(period, 1)
	return true
}

// findLines finds the coarse lines next to the line of a point.
func (g *geometric) findLines(p [3]int) {
	coarse := g.coarse()
	g.lines.at, g.lines.weights = append(g.lines.at[:0], 0), append(g.lines.weights[:0], 1)
	g.spread(&g.lines, 2, p[2], coarse[0]*coarse[1])
	g.spread(&g.lines, 1, p[1], coarse[0])
}

// coarsePoints returns the coarse points from which point x of the current line is interpolated. The
// result is valid until the next call.
func (g *geometric) coarsePoints(x int) weighted {
	g.points.at, g.points.weights = append(g.points.at[:0], g.lines.at...),
		append(g.points.weights[:0], g.lines.weights...)
	g.spread(&g.points, 0, x, 1)
	return g.points
}

// spread moves points along an axis to the coarse position of at, or to both neighbours of it. step is the distance
// between adjacent points of the axis.
func (g *geometric) spread(points *weighted, axis, at, step int) {
	switch {
	case !g.halved[axis]:
		for k := range points.at {
			points.at[k] += at * step
		}
	case at%2 == 1:
		for k := range points.at {
			points.at[k] += at / 2 * step
		}
	default: // between two coarse points, one of which may lie outside the grid
		before, after := at > 0, at/2 < g.grid[axis]/2
		for k := range points.at {
			switch {
			case !after && !g.closed:
				points.weights[k] *= g.margin.Weight(axis)
			case before && after || !g.closed:
				points.weights[k] /= 2
			}
			if before && after {
				points.at, points.weights = append(points.at, points.at[k]+at/2*step), append(points.weights, points.weights[k])
			}
			if before {
				points.at[k] += (at/2 - 1) * step
			} else {
				points.at[k] += at / 2 * step
			}
		}
	}
}

// stretches is a list of ranges of consecutive points, ordered by their first point.
type stretches []stretch

// stretch is a range of count consecutive points. place is the position of the first.
type stretch struct{ point, place, count int }

func stretchesOf(points []int) (out stretches) {
	for k, p := range points {
		if n := len(out); n > 0 && out[n-1].point+out[n-1].count == p {
			out[n-1].count++
		} else {
			out = append(out, stretch{p, k, 1})
		}
	}
	out.sort()
	return out
}

func (s stretches) sort() {
	slices.SortFunc(s, func(a, b stretch) int { return cmp.Compare(a.point, b.point) })
}

// find returns the position of a point, or a negative number.
func (s stretches) find(point int) int {
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := (lo + hi) / 2; s[mid].point > point {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == 0 || point-s[lo-1].point >= s[lo-1].count {
		return -1
	}
	return s[lo-1].place + point - s[lo-1].point
}

// directory finds the numbers of points whose owners are not known. Each rank stores the numbers of one range of all
// points: owners report their points to it, and other ranks ask it.
func directory(team precondition.Team, points int, mine stretches, first int, wanted []int) (map[int]int, error) {
	keeper := func(point int) int { return point * team.Size() / max(1, points) }
	number := map[int]int{}
	if team.Size() == 1 {
		return number, nil
	}
	reports, queries := make([][]stretch, team.Size()), make([][]int, team.Size())
	for _, s := range mine {
		s.place += first
		for r := keeper(s.point); r <= keeper(s.point+s.count-1); r++ {
			reports[r] = append(reports[r], s)
		}
	}
	for _, c := range lists.Distinct(wanted) {
		queries[keeper(c)] = append(queries[keeper(c)], c)
	}
	incoming, err := precondition.Exchange(team, reports)
	if err != nil {
		return nil, err
	}
	known := stretches(slices.Concat(incoming...))
	known.sort()
	received, err := precondition.Exchange(team, queries)
	if err != nil {
		return nil, err
	}
	got, err := precondition.Exchange(team, lists.Map(received, func(points []int) []int {
		return lists.Map(points, known.find)
	}))
	for r, list := range got {
		for k, id := range list {
			number[queries[r][k]] = id
		}
	}
	return number, err
}

// handOver sends the points of a rank's coarse unknowns to the ranks that will own them.
func handOver(team precondition.Team, mine []int, first int, owners sparse.Strips) (points []int, err error) {
	to := make([][]sparse.Range, team.Size())
	for k, point := range mine {
		r := owners.Owner(first + k)
		to[r] = sparse.Extend(to[r], point)
	}
	from, err := precondition.Exchange(team, to)
	for _, r := range slices.Concat(from...) { // ranks ascend, and so do the numbers
		for point := r.Lo; point < r.Hi; point++ {
			points = append(points, point)
		}
	}
	return points, err
}
