package partition

import (
	"math/rand/v2"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	Partitioners.Register(Partitioner{Name: "multilevel",
		Help:  "k-way partition of the graph: coarsened, partitioned, refined",
		Needs: Graph, Weighs: true, Imbalance: 1 + tolerance/1000., Make: multilevel})
}

// tolerance is the allowed excess of a part over the mean, in thousandths. It is smaller than in other partitioners,
// because a solve waits for its largest part.
const tolerance = 10

// multilevel is a k-way partition after Karypis and Kumar (1998): it coarsens the graph by merging neighbours, bisects
// the coarsest graph recursively, and refines the parts at every level on the way back to the full graph. Every
// bisection does the same within itself. Unlike the original, the refinement accepts moves that enlarge the cut for a
// while (see refine.go).
func multilevel(p sparse.Problem, o Options) (sparse.Layout, error) {
	t := newTable(p.Size(), o.Ranks)
	if t.trivial() {
		return t, nil
	}
	g, err := newGraph(p, o.Weights)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(o.Seed, 0x6d6c))
	t.owners = partitionGraph(g, o.Ranks, rng)
	return t, nil
}

// partitionGraph assigns a part to every vertex.
func partitionGraph(g *graph, parts int, rng *rand.Rand) []int32 {
	return cycle(g, max(100*parts, 20000), evenTargets(g.total, parts), rng, func(coarsest *graph) []int32 {
		part := make([]int32, coarsest.size())
		bisectGraph(coarsest, lists.Range[int32](coarsest.size()), part, 0, parts, rng)
		return part
	})
}

// cycle coarsens the graph to at most enough vertices, calls first to partition that, and refines the parts on the way
// back.
func cycle(g *graph, maxVertices int, targets []int, rng *rand.Rand, first func(*graph) []int32) []int32 {
	levels := []*graph{g}
	var maps [][]int32
	for g.size() > maxVertices {
		// A merged vertex is at most 1.5 times as heavy as the mean vertex will be when enough of them are left.
		coarse, to := coarsen(g, 3*g.total/(2*maxVertices), rng)
		if 20*coarse.size() > 19*g.size() { // merging has stalled
			break
		}
		g = coarse
		levels, maps = append(levels, g), append(maps, to)
	}
	part := first(g)
	for at := len(levels) - 1; ; at-- {
		refine(levels[at], part, targets, rng)
		if at == 0 {
			return part
		}
		fine := make([]int32, levels[at-1].size())
		for v := range fine {
			fine[v] = part[maps[at-1][v]]
		}
		part = fine
	}
}

// evenTargets returns the weight that each part should have.
func evenTargets(total, parts int) []int {
	out := make([]int, parts)
	for i := range out {
		out[i] = rowsBefore(i+1, total, parts) - rowsBefore(i, total, parts)
	}
	return out
}

// bisectGraph splits the graph between the parts from, ..., to-1. vertices holds the index in part of each vertex of g.
func bisectGraph(g *graph, vertices, part []int32, from, to int, rng *rand.Rand) {
	if to-from == 1 {
		for _, v := range vertices {
			part[v] = int32(from)
		}
		return
	}
	mid := (from + to) / 2
	left := g.total * (mid - from) / (to - from)
	side := bestBisection(g, []int{left, g.total - left}, rng)
	for half, bounds := range [2][2]int{{from, mid}, {mid, to}} {
		sub, inside := g.induced(side, int32(half))
		for i, v := range inside {
			inside[i] = vertices[v]
		}
		bisectGraph(sub, inside, part, bounds[0], bounds[1], rng)
	}
}

// bestBisection returns the best of several attempts. Each coarsens the graph until growing a side from one vertex
// takes the shape of the whole graph into account.
func bestBisection(g *graph, targets []int, rng *rand.Rand) []int32 {
	const (
		attempts = 5
		seeds    = 8
		enough   = 150
	)
	return bestOf(attempts, g, func() []int32 {
		return cycle(g, enough, targets, rng, func(coarsest *graph) []int32 {
			return bestOf(seeds, coarsest, func() []int32 {
				side := grow(coarsest, targets[0], rng)
				refine(coarsest, side, targets, rng)
				return side
			})
		})
	})
}

// bestOf returns the partition with the smallest cut among n attempts.
func bestOf(n int, g *graph, attempt func() []int32) []int32 {
	var best []int32
	smallest := 0
	for range n {
		part := attempt()
		if c := g.cut(part); best == nil || c < smallest {
			best, smallest = part, c
		}
	}
	return best
}

// grow builds one side from a random vertex outward. It always takes the vertex that adds least to the cut (greedy
// graph growing; Karypis and Kumar, 1998).
func grow(g *graph, target int, rng *rand.Rand) []int32 {
	side := slices.Repeat([]int32{1}, g.size())
	var front queue
	front.reset(g.size())
	order := rng.Perm(g.size())
	next := 0
	for weight := 0; weight < target; {
		v, ok := front.pop()
		for !ok && next < len(order) { // at the start, or in another component
			v = int32(order[next])
			ok = side[v] == 1
			next++
		}
		if !ok {
			break
		}
		w := g.vertexWeight(v)
		if over := weight + w - target; over > 0 && over > target-weight {
			continue // the weight would be further from the target
		}
		side[v] = 0
		weight += w
		for e := g.ptr[v]; e < g.ptr[v+1]; e++ {
			if u := g.adj[e]; side[u] == 1 {
				front.push(u, g.gainTo(u, side))
			}
		}
	}
	return side
}

// gainTo returns the reduction of the cut if v moves to side 0.
func (g *graph) gainTo(v int32, side []int32) int {
	gain := 0
	for e := g.ptr[v]; e < g.ptr[v+1]; e++ {
		if side[g.adj[e]] == 0 {
			gain += g.edgeWeight(e)
		} else {
			gain -= g.edgeWeight(e)
		}
	}
	return gain
}

// cut returns the weight of the edges between parts.
func (g *graph) cut(part []int32) int {
	sum := 0
	for v := range int32(g.size()) {
		for e := g.ptr[v]; e < g.ptr[v+1]; e++ {
			if part[v] != part[g.adj[e]] {
				sum += g.edgeWeight(e)
			}
		}
	}
	return sum / 2
}

// induced returns the graph of the vertices of one side, and their numbers in g.
func (g *graph) induced(side []int32, which int32) (*graph, []int32) {
	number := make([]int32, g.size())
	var inside []int32
	for v, s := range side {
		if s == which {
			number[v] = int32(len(inside))
			inside = append(inside, int32(v))
		}
	}
	sub := &graph{ptr: []int32{0}, weight: []int32{}, vertex: []int32{}}
	for _, v := range inside {
		for e := g.ptr[v]; e < g.ptr[v+1]; e++ {
			if u := g.adj[e]; side[u] == which {
				sub.adj = append(sub.adj, number[u])
				sub.weight = append(sub.weight, int32(g.edgeWeight(e)))
			}
		}
		sub.ptr = append(sub.ptr, int32(len(sub.adj)))
		sub.addVertex(g.vertexWeight(v))
	}
	return sub, inside
}

func (g *graph) addVertex(weight int) {
	g.vertex = append(g.vertex, int32(weight))
	g.total += weight
	g.largest = max(g.largest, weight)
}
