package multigrid

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	precondition.Register(precondition.Preconditioner{Name: "gmg", Help: "geometric multigrid on the problem's grid, one V-cycle",
		Needs: krylov.SymmetricDefinite, Grid: true, New: newGeometric})
}

func newGeometric(l *precondition.Local) (krylov.Operator, error) {
	g := &geometric{grid: l.Problem.(sparse.Gridded).Grid(), at: make([]int, l.Plan.Owned)}
	for i := range g.at {
		g.at[i] = l.Plan.Global(i)
	}
	return build(l, g)
}

// geometric takes every other point along each axis of the grid, the second, the fourth and so
// on, and interpolates linearly between them and the zero around the grid. Axes along which
// points are far less coupled than along others are left as they are, until the others have
// become as coarse.
type geometric struct {
	grid   sparse.Grid
	at     []int // the points of the rank's unknowns
	halved [3]bool
}

// weakAxis is the part of the strongest axis below which an axis is left as it is.
const weakAxis = 0.25

// choose decides which axes to halve.
func (g *geometric) choose(f *fine) error {
	coupling := make([]float64, 3)
	points := make([]float64, len(g.at))
	for i, here := range g.at {
		points[i] = float64(here)
	}
	points, err := f.exchanged(points)
	if err != nil {
		return err
	}
	for i, here := range g.at {
		cols, vals := f.rows.row(i)
		p := g.grid.Point(here)
		for k, c := range cols {
			for axis, q := range g.grid.Point(int(points[f.local(c)])) {
				if q != p[axis] {
					coupling[axis] += math.Abs(vals[k])
				}
			}
		}
	}
	if coupling, err = f.team.Sum(coupling); err != nil {
		return err
	}
	most := 0.0
	for axis, n := range g.grid {
		coupling[axis] /= 1 - 1/float64(max(2, n)) // of so many gaps for n points
		if n > 2 {
			most = max(most, coupling[axis])
		}
	}
	for axis, n := range g.grid {
		g.halved[axis] = n > 2 && coupling[axis] >= weakAxis*most
	}
	return nil
}

// coarse is the grid of the points that are kept.
func (g *geometric) coarse() sparse.Grid {
	out := g.grid
	for axis, halve := range g.halved {
		if halve {
			out[axis] /= 2
		}
	}
	return out
}

// kept is the place in the coarse grid of a point that is in it.
func (g *geometric) kept(p [3]int) (int, bool) {
	for axis, halve := range g.halved {
		if halve && p[axis]%2 == 0 {
			return 0, false
		}
		if halve {
			p[axis] /= 2
		}
	}
	return g.coarse().Index(p), true
}

func (g *geometric) pick(f *fine) (int, error) {
	if err := g.choose(f); err != nil {
		return 0, err
	}
	if g.halved == [3]bool{} {
		return len(g.at), nil // as good as stalled
	}
	n := 0
	for _, here := range g.at {
		if _, keep := g.kept(g.grid.Point(here)); keep {
			n++
		}
	}
	return n, nil
}

func (g *geometric) interpolate(f *fine, first int, owners share) (*rows, error) {
	var mine []int // coarse points, in the order of their numbers
	for _, here := range g.at {
		if c, keep := g.kept(g.grid.Point(here)); keep {
			mine = append(mine, c)
		}
	}
	p := newRows(len(g.at), 3*len(g.at))
	for _, here := range g.at {
		g.around(g.grid.Point(here), p.add)
		p.end()
	}
	number, err := directory(f.team, g.coarse().Size(), mine, first, p.cols)
	if err != nil {
		return nil, err
	}
	sum := newAccumulator(owners, f.team.Rank())
	out := newRows(len(g.at), len(p.cols))
	for i := range p.count() {
		cols, vals := p.row(i)
		for k, c := range cols {
			sum.add(number[c], vals[k])
		}
		sum.flush(out)
	}
	g.grid = g.coarse()
	g.at, err = handOver(f.team, mine, first, owners)
	return out, err
}

// around gives the coarse points from which a point is interpolated, and their weights.
func (g *geometric) around(p [3]int, add func(c int, weight float64)) {
	coarse := g.coarse()
	var visit func(axis int, at [3]int, weight float64)
	visit = func(axis int, at [3]int, weight float64) {
		switch {
		case axis == 3:
			add(coarse.Index(at), weight)
		case !g.halved[axis]:
			at[axis] = p[axis]
			visit(axis+1, at, weight)
		case p[axis]%2 == 1:
			at[axis] = p[axis] / 2
			visit(axis+1, at, weight)
		default: // between two points, of which one may lie outside
			for _, q := range [2]int{p[axis]/2 - 1, p[axis] / 2} {
				if q >= 0 && q < coarse[axis] {
					at[axis] = q
					visit(axis+1, at, weight/2)
				}
			}
		}
	}
	visit(0, [3]int{}, 1)
}

// directory finds the numbers of points whose owners nobody knows. Each rank keeps the numbers
// of a stretch of the points: owners tell it theirs, others ask it.
func directory(team precondition.Team, points int, mine []int, first int, wanted []int) (map[int]int, error) {
	keeper := func(point int) int { return point * team.Size() / max(1, points) }
	number := make(map[int]int, len(mine))
	tell, ask := make([][]float64, team.Size()), make([][]float64, team.Size())
	for k, c := range mine {
		number[c] = first + k
		tell[keeper(c)] = append(tell[keeper(c)], float64(c), float64(first+k))
	}
	if team.Size() == 1 {
		return number, nil
	}
	asked := map[int]bool{}
	for _, c := range wanted {
		if _, known := number[c]; !known && !asked[c] {
			asked[c] = true
			ask[keeper(c)] = append(ask[keeper(c)], float64(c))
		}
	}
	told, err := team.Exchange(tell)
	if err != nil {
		return nil, err
	}
	kept := map[int]float64{}
	for _, list := range told {
		for k := 0; k < len(list); k += 2 {
			kept[int(list[k])] = list[k+1]
		}
	}
	questions, err := team.Exchange(ask)
	if err != nil {
		return nil, err
	}
	answers := make([][]float64, team.Size())
	for r, list := range questions {
		for _, c := range list {
			answers[r] = append(answers[r], kept[int(c)])
		}
	}
	got, err := team.Exchange(answers)
	if err != nil {
		return nil, err
	}
	for r, list := range got {
		for k, id := range list {
			number[int(ask[r][k])] = int(id)
		}
	}
	return number, nil
}

// handOver sends what goes with a rank's coarse unknowns to the ranks that will own them.
func handOver(team precondition.Team, mine []int, first int, owners share) ([]int, error) {
	to := make([][]float64, team.Size())
	for k, v := range mine {
		r := owners.Owner(first + k)
		to[r] = append(to[r], float64(v))
	}
	from, err := team.Exchange(to)
	var out []int
	for _, v := range slices.Concat(from...) { // ranks ascend, and so do the numbers
		out = append(out, int(v))
	}
	return out, err
}
