package multigrid

import (
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// linear returns the points from which a point is interpolated, by definition: along each halved axis it lies at a
// coarse point or between two.
func linear(fine, coarse sparse.Grid, at [3]int, closed bool) map[int]float64 {
	out := map[int]float64{}
	for c := range coarse.Size() {
		weight := 1.
		for axis, q := range coarse.Point(c) {
			if coarse[axis] == fine[axis] {
				q = 2 * (q - at[axis]) // not halved along this axis
			} else {
				q = 2*q + 1 - at[axis]
			}
			switch end := at[axis] == 0 || at[axis] == 2*coarse[axis]; {
			case q == 0, closed && end && (q == 1 || q == -1):
			case q == 1 || q == -1:
				weight /= 2
			default:
				weight = 0
			}
		}
		if weight > 0 {
			out[c] = weight
		}
	}
	return out
}

// Every point is interpolated linearly, however the points are distributed over the ranks. Rows of P are repeated where
// possible.
func TestInterpolation(t *testing.T) {
	for _, kind := range []string{"poisson", "anisotropic", "neumann"} {
		for _, p := range []sparse.Params{{Rows: 49}, {Rows: 64}, {Rows: 125, Dim: 3}, {Rows: 512, Dim: 3}} {
			for _, layout := range [][2]int{{1, 1}, {2, p.Rows / 2}, {3, 1}, {3, 5}, {3, 40}} {
				made := problem(t, kind, p)
				what := fmt.Sprintf("%s with %d rows in %d turns of %d", kind, p.Rows, layout[0], layout[1])
				interpolated(t, what, made, layout[0], layout[1])
			}
		}
	}
}

// interpolated compares the rows of P of all ranks with linear.
func interpolated(t *testing.T, what string, p sparse.Problem, ranks, each int) {
	var mu sync.Mutex
	points := map[int]int{} // coarse points by their numbers
	found := map[int]map[int]float64{}
	grid, coarser := p.(sparse.Gridded).Grid(), sparse.Grid{}
	onRanks(t, ranks, each, p, func(l *precondition.Local) {
		f, err := finest(l, sparse.Compressed)
		if err != nil {
			t.Error(err)
			return
		}
		g := must.Get(newGeometric(l, nil))(t).(*geometric)
		own, err := g.pick(f)
		if err != nil {
			t.Error(err)
		}
		numbers, err := numbered(l.Team, own)
		if err != nil {
			t.Error(err)
		}
		coarse, first := newSpace(gathered(numbers), l.Team.Rank()), numbers[l.Team.Rank()]
		rows, err := g.interpolate(f, first, coarse)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		coarser = g.grid
		for k, c := range g.mine {
			points[first+k] = c
		}
		for i := range rows.Rows() {
			row := map[int]float64{}
			start, offsets, vals := rows.Row(i)
			for k, d := range offsets {
				row[coarse.id(start+d)] += vals[k]
			}
			found[l.Plan.Global(i)] = row
		}
	})
	for i := range grid.Size() {
		got := map[int]float64{}
		for number, weight := range found[i] {
			got[points[number]] = weight
		}
		if want := linear(grid, coarser, grid.Point(i), p.Traits().Singular); !maps.Equal(got, want) {
			t.Fatalf("%s: point %v of %v is interpolated from %v, want %v", what, grid.Point(i), grid, got, want)
		}
	}
}

// A line of points whose values fall linearly to zero at the boundary is interpolated exactly on every level, for every
// number of points.
func TestMargin(t *testing.T) {
	for n := 3; n < 200; n++ {
		boundary, margin := float64(n), FirstMargin
		points := make([]float64, n) // positions, on the grid of the finest level
		for i := range points {
			points[i] = float64(i)
		}
		for len(points) > 2 {
			last, spacing := len(points)-1, points[1]-points[0]
			if got, want := margin[0], (boundary-points[last])/spacing; got != want {
				t.Fatalf("%d of %d points: margin %v, want %v", len(points), n, got, want)
			}
			if got, want := margin.Weight(0), (boundary-points[last])/(boundary-points[last-1]); math.Abs(got-want) > 1e-15 {
				t.Fatalf("%d of %d points: weight %v, want %v", len(points), n, got, want)
			}
			margin = margin.Coarser(sparse.Grid{len(points), 1, 1}, [3]bool{true})
			var kept []float64
			for i := 1; i < len(points); i += 2 {
				kept = append(kept, points[i])
			}
			points = kept
		}
	}
}
