package partition

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// graph is the undirected graph of the couplings between rows. The neighbours of v are adj[ptr[v]:ptr[v+1]].
type graph struct {
	ptr     []int32
	adj     []int32
	weight  []int32 // edge weights; nil means 1 each
	vertex  []int32 // vertex weights; nil means 1 each
	total   int     // sum of the vertex weights
	largest int     // largest vertex weight
}

func (g *graph) size() int { return len(g.ptr) - 1 }

func (g *graph) vertexWeight(v int32) int {
	if g.vertex == nil {
		return 1
	}
	return int(g.vertex[v])
}

func (g *graph) edgeWeight(e int32) int {
	if g.weight == nil {
		return 1
	}
	return int(g.weight[e])
}

// newGraph makes the graph of the pattern of a matrix together with its transpose, so that the graph is undirected even
// if the matrix is not symmetric.
func newGraph(p sparse.Problem, w Weights) (*graph, error) {
	n := p.Size()
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d rows: a graph has at most %d", n, math.MaxInt32)
	}
	ptr, adj := make([]int, n+1), []int32(nil)
	var row sparse.Row
	for i := range n {
		p.Row(i, &row)
		for _, c := range row.Cols {
			if c != i {
				adj = append(adj, int32(c))
			}
		}
		ptr[i+1] = len(adj)
	}
	if 2*len(adj) > math.MaxInt32 {
		return nil, fmt.Errorf("%d couplings: a graph has at most %d", len(adj), math.MaxInt32/2)
	}
	backPtr, back := transpose(n, ptr, adj)
	g := &graph{ptr: make([]int32, n+1), adj: make([]int32, 0, len(adj)), total: n, largest: 1}
	for i := range n {
		g.adj = union(g.adj, adj[ptr[i]:ptr[i+1]], back[backPtr[i]:backPtr[i+1]])
		g.ptr[i+1] = int32(len(g.adj))
	}
	if weights := w.of(p); weights != nil {
		g.total = 0
		for _, v := range weights {
			g.addVertex(int(v))
		}
	}
	return g, nil
}

// transpose reverses every edge. The neighbours in the result are ascending.
func transpose(n int, ptr []int, adj []int32) ([]int, []int32) {
	backPtr := make([]int, n+1)
	for _, j := range adj {
		backPtr[j+1]++
	}
	for i := range n {
		backPtr[i+1] += backPtr[i]
	}
	back, next := make([]int32, len(adj)), make([]int, n)
	copy(next, backPtr)
	for i := range n {
		for _, j := range adj[ptr[i]:ptr[i+1]] {
			back[next[j]] = int32(i)
			next[j]++
		}
	}
	return backPtr, back
}

// union appends the union of two ascending lists to out.
func union(out, a, b []int32) []int32 {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] > b[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// coarsen merges pairs of neighbours and returns the merged graph and the new number of every vertex. It prefers heavy
// edges between light vertices, rated by the squared weight of the edge over the weights of the vertices as in KaHIP.
// That keeps merged vertices compact. No merged vertex is heavier than heaviest, so that even parts can be made of
// them.
func coarsen(g *graph, heaviest int, rng *rand.Rand) (*graph, []int32) {
	mate := match(g, heaviest, rng)
	// New numbers follow the old ones, which keeps neighbours close in memory.
	to := make([]int32, g.size())
	n := int32(0)
	for v := range to {
		if m := mate[v]; int(m) < v {
			to[v] = to[m]
		} else {
			to[v] = n
			n++
		}
	}
	return contract(g, mate, to, int(n)), to
}

// match pairs vertices. A vertex without a partner is its own mate.
func match(g *graph, heaviest int, rng *rand.Rand) []int32 {
	mate := slices.Repeat([]int32{-1}, g.size())
	for _, v := range shuffled(g.size(), rng) {
		if mate[v] >= 0 {
			continue
		}
		best, bestRating := v, 0.0
		limit := heaviest - g.vertexWeight(v)
		// Start at a random neighbour, so that neighbours of equal rating are chosen at random.
		first, degree := g.ptr[v], g.ptr[v+1]-g.ptr[v]
		from := int32(0)
		if degree > 0 {
			from = rng.Int32N(degree)
		}
		for k := range degree {
			e := first + from + k
			if e >= first+degree {
				e -= degree
			}
			u := g.adj[e]
			if mate[u] >= 0 || g.vertexWeight(u) > limit {
				continue
			}
			w := float64(g.edgeWeight(e))
			if rating := w * w / float64(g.vertexWeight(u)); rating > bestRating {
				best, bestRating = u, rating
			}
		}
		if best == v {
			best = g.twoHop(v, mate, limit)
		}
		mate[v], mate[best] = best, v
	}
	return mate
}

// twoHop finds a partner for a vertex whose neighbours are all taken: a neighbour of a neighbour, as METIS does.
// Otherwise the leaves of a star would never be merged.
func (g *graph) twoHop(v int32, mate []int32, room int) int32 {
	const few = 4 // search only short lists of neighbours
	if g.ptr[v+1]-g.ptr[v] > few {
		return v
	}
	for _, u := range g.adj[g.ptr[v]:g.ptr[v+1]] {
		for _, w := range g.adj[g.ptr[u]:g.ptr[u+1]] {
			if w != v && mate[w] < 0 && g.vertexWeight(w) <= room && g.ptr[w+1]-g.ptr[w] <= few {
				return w
			}
		}
	}
	return v
}

// shuffled returns the vertices in random order. It shuffles them within blocks, and then the blocks, so that a walk
// over the graph keeps some locality.
func shuffled(n int, rng *rand.Rand) []int32 {
	const block = 4096
	out := make([]int32, 0, n)
	blocks := (n + block - 1) / block
	for _, b := range rng.Perm(blocks) {
		from := len(out)
		for v := b * block; v < min(n, (b+1)*block); v++ {
			out = append(out, int32(v))
		}
		part := out[from:]
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	return out
}

// contract makes the graph of n merged vertices and adds up edges between the same pair. to is the new number of each
// vertex.
func contract(g *graph, mate, to []int32, n int) *graph {
	out := &graph{ptr: make([]int32, 1, n+1), adj: make([]int32, 0, len(g.adj)),
		weight: make([]int32, 0, len(g.adj)), vertex: make([]int32, 0, n)}
	edge := make([]int32, n) // position of the edge to each vertex; valid if it belongs to the current vertex
	for v := range int32(g.size()) {
		if mate[v] < v {
			continue // done together with its mate
		}
		first := int32(len(out.adj))
		weight := 0
		for _, m := range [2]int32{v, mate[v]} {
			weight += g.vertexWeight(m)
			for e := g.ptr[m]; e < g.ptr[m+1]; e++ {
				c := to[g.adj[e]]
				if c == to[v] {
					continue
				}
				if at := edge[c]; at >= first && int(at) < len(out.adj) && out.adj[at] == c {
					out.weight[at] += int32(g.edgeWeight(e))
					continue
				}
				edge[c] = int32(len(out.adj))
				out.adj = append(out.adj, c)
				out.weight = append(out.weight, int32(g.edgeWeight(e)))
			}
			if mate[v] == v {
				break
			}
		}
		out.ptr = append(out.ptr, int32(len(out.adj)))
		out.addVertex(weight)
	}
	return out
}
