package partition

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// split takes the first n points in the order of the axes, like sorting all points.
func TestSplitMatchesSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.IntRange(1, 6)
		g := sparse.Grid{side.Draw(t, "x"), side.Draw(t, "y"), side.Draw(t, "z")}
		r := region{{hi: g}}
		for r.size() > 1 && rapid.IntRange(0, 3).Draw(t, "again") > 0 {
			axes := byExtent(r.bounds())
			points := pointsOf(r)
			slices.SortFunc(points, func(a, b [3]int) int {
				for _, axis := range axes {
					if a[axis] != b[axis] {
						return a[axis] - b[axis]
					}
				}
				return 0
			})
			n := rapid.IntRange(1, r.size()-1).Draw(t, "n")
			first, rest, at := r.split(axes, n)
			if first.size() != n || first.size()+rest.size() != r.size() {
				t.Fatalf("cut %d of %d points off %v, wanted %d", first.size(), r.size(), r, n)
			}
			c := cut{axes: axes, at: at}
			in := pointsOf(first)
			for i, p := range points {
				if slices.Contains(in, p) != (i < n) || c.before(p) != (i < n) {
					t.Fatalf("point %v, number %d, is on the wrong side of a cut after %d", p, i, n)
				}
			}
			if r = first; rapid.Bool().Draw(t, "side") {
				r = rest
			}
		}
	})
}

// selectFirst finds the same points as sorting, also if many coordinates are equal.
func TestSelectMatchesSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := make([]point, rapid.IntRange(1, 60).Draw(t, "points"))
		for i := range points {
			points[i] = point{[3]float64{1: float64(rapid.IntRange(0, 9).Draw(t, "y"))}, int32(i)}
		}
		sorted := slices.Clone(points)
		slices.SortFunc(sorted, func(a, b point) int { return a.compare(b, 1) })
		n := rapid.IntRange(0, len(points)).Draw(t, "n")
		selectFirst(points, n, 1)
		for _, p := range sorted[:n] {
			if !slices.Contains(points[:n], p) {
				t.Fatalf("row %d is not among the first %d of %v", p.row, n, points)
			}
		}
	})
}

func pointsOf(r region) [][3]int {
	var out [][3]int
	for _, b := range r {
		for z := b.lo[2]; z < b.hi[2]; z++ {
			for y := b.lo[1]; y < b.hi[1]; y++ {
				for x := b.lo[0]; x < b.hi[0]; x++ {
					out = append(out, [3]int{x, y, z})
				}
			}
		}
	}
	return out
}

func TestPieceIsTheInverseOfItsBounds(t *testing.T) {
	for n := 1; n < 40; n++ {
		for k := 1; k < 50; k++ {
			for i := range n {
				p := piece(i, n, k)
				if n*p/k > i || n*(p+1)/k <= i {
					t.Fatalf("%d of %d lies in piece %d of %d, which is [%d, %d)", i, n, p, k, n*p/k, n*(p+1)/k)
				}
			}
		}
	}
}

func TestProcessGrid(t *testing.T) {
	for _, tc := range []struct {
		grid  sparse.Grid
		ranks int
		want  [3]int
	}{
		{sparse.Grid{100, 100, 1}, 4, [3]int{2, 2, 1}},
		{sparse.Grid{100, 100, 1}, 6, [3]int{2, 3, 1}},
		{sparse.Grid{100, 100, 100}, 8, [3]int{2, 2, 2}},
		{sparse.Grid{100, 100, 1}, 7, [3]int{1, 7, 1}},
		{sparse.Grid{10, 1000, 1}, 4, [3]int{1, 4, 1}},
	} {
		if got := processGrid(tc.grid, tc.ranks); got != tc.want {
			t.Errorf("%v on %d ranks: %v, want %v", tc.grid, tc.ranks, got, tc.want)
		}
	}
}

// drawGraph returns a random graph with random weights.
func drawGraph(t *rapid.T) *graph {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	n := rapid.IntRange(1, 120).Draw(t, "vertices")
	edges := make([]map[int32]int32, n)
	for v := range edges {
		edges[v] = map[int32]int32{}
	}
	for range rapid.IntRange(0, 3*n).Draw(t, "edges") {
		a, b, w := rng.IntN(n), rng.IntN(n), int32(1+rng.IntN(4))
		if a != b {
			edges[a][int32(b)], edges[b][int32(a)] = w, w
		}
	}
	g := &graph{ptr: []int32{0}, vertex: []int32{}, weight: []int32{}}
	for v := range edges {
		for u := range int32(n) {
			if w, ok := edges[v][u]; ok {
				g.adj, g.weight = append(g.adj, u), append(g.weight, w)
			}
		}
		g.ptr = append(g.ptr, int32(len(g.adj)))
		g.addVertex(1 + rng.IntN(3))
	}
	return g
}

// Coarsening preserves cuts: a partition of the coarse graph cuts as much as the same partition of the fine graph.
func TestCoarsenKeepsCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		rng := rand.New(rand.NewPCG(1, 2))
		coarse, to := coarsen(g, 5, rng)
		if coarse.total != g.total || coarse.size() > g.size() {
			t.Fatalf("%d vertices of weight %d became %d of weight %d", g.size(), g.total, coarse.size(), coarse.total)
		}
		part, fine := make([]int32, coarse.size()), make([]int32, g.size())
		for v := range part {
			part[v] = int32(rng.IntN(3))
			if coarse.vertexWeight(int32(v)) > 5 {
				t.Fatalf("merged vertex %d weighs %d", v, coarse.vertexWeight(int32(v)))
			}
		}
		for v := range fine {
			fine[v] = part[to[v]]
		}
		if a, b := g.cut(fine), coarse.cut(part); a != b {
			t.Fatalf("cut %d on the fine graph, %d on the coarse one", a, b)
		}
	})
}

// Refining never enlarges the cut of an even partition, keeps the part weights consistent, and leaves no vertex locked.
func TestRefine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		parts := rapid.IntRange(2, 5).Draw(t, "parts")
		rng := rand.New(rand.NewPCG(3, 4))
		part := make([]int32, g.size())
		for v := range part {
			part[v] = int32(rng.IntN(parts))
		}
		refine(g, part, evenTargets(g.total, parts), rng) // makes the parts even
		weights := make([]int, parts)
		for v, p := range part {
			weights[p] += g.vertexWeight(int32(v))
		}
		for p, w := range weights {
			if target := evenTargets(g.total, parts)[p]; w > target+target*tolerance/1000+g.largest {
				t.Fatalf("part %d weighs %d, its target is %d", p, w, target)
			}
		}
		before := g.cut(part)
		refine(g, part, evenTargets(g.total, parts), rng)
		if after := g.cut(part); after > before {
			t.Fatalf("the cut went from %d to %d", before, after)
		}
	})
}

func TestQueueMatchesSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		q.reset(20)
		gains := map[int32]int{}
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			v := int32(rapid.IntRange(0, 19).Draw(t, "vertex"))
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				q.remove(v)
				delete(gains, v)
			case 1:
				got, ok := q.pop()
				if ok != (len(gains) > 0) {
					t.Fatalf("popped %v of %d", ok, len(gains))
				}
				for _, gain := range gains {
					if ok && gain > gains[got] {
						t.Fatalf("popped gain %d before %d", gains[got], gain)
					}
				}
				delete(gains, got)
			default:
				gains[v] = rapid.IntRange(-5, 5).Draw(t, "gain")
				q.push(v, gains[v])
			}
		}
	})
}

// A matrix with an unsymmetric pattern still gives an undirected graph.
func TestGraphHasNoDirection(t *testing.T) {
	g := must.Get(newGraph(oneWay{}, ByRows))(t)
	if !slices.Equal(g.ptr, []int32{0, 2, 4, 6}) || !slices.Equal(g.adj, []int32{1, 2, 0, 2, 0, 1}) {
		t.Errorf("graph %v %v", g.ptr, g.adj)
	}
}

// oneWay is a triangle in which every row is coupled to the next row only.
type oneWay struct{}

func (oneWay) Size() int             { return 3 }
func (oneWay) Traits() sparse.Traits { return sparse.Traits{} }
func (oneWay) Row(i int, r *sparse.Row) {
	r.Reset()
	r.Add(i, 1)
	r.Add((i+1)%3, 1)
	slices.Sort(r.Cols)
}

// The edge sums that are kept for hubs match a recount, whichever vertices have moved.
func TestHubsKeepUp(t *testing.T) {
	p := must.Get(sparse.New("hub", sparse.Params{Rows: 10000}))(t)
	g := must.Get(newGraph(p, ByRows))(t)
	const parts = 3
	rng := rand.New(rand.NewPCG(1, 2))
	r := &refiner{g: g, part: make([]int32, g.size()), weights: make([]int, parts),
		limits: slices.Repeat([]int{g.total}, parts), conn: make([]int, parts)}
	r.weights[0] = g.total
	r.findHubs()
	for range 5000 {
		r.apply(int32(rng.IntN(g.size())), int32(rng.IntN(parts)))
	}
	hubs := r.hubs
	count := 0
	for v := range int32(g.size()) {
		to, gain, ok := r.target(v)
		r.hubs = nil
		if wantTo, want, wantOK := r.target(v); to != wantTo || gain != want || ok != wantOK {
			t.Errorf("vertex %d: to part %d for %d (%v), want %d for %d (%v)", v, to, gain, ok, wantTo, want, wantOK)
		}
		if r.hubs = hubs; hubs[v] != nil {
			count++
		}
	}
	if count != 16 {
		t.Errorf("%d hubs, want the 16 of the problem", count)
	}
}
