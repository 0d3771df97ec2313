package partition

import "math/rand/v2"

// coarsen merges pairs of neighbours and gives the merged graph and the new
// number of every vertex. It prefers heavy edges between light vertices (by the
// square of the edge's weight over the vertices' weights, as KaHIP does), which
// keeps merged vertices compact. No merged vertex is heavier
// than heaviest: parts are put together from them.
func coarsen(g *graph, heaviest int, rng *rand.Rand) (*graph, []int32) {
	mate := match(g, heaviest, rng)
	// New numbers go by the old ones, which keeps neighbours near in memory.
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

// match pairs vertices; one without a partner is its own.
func match(g *graph, heaviest int, rng *rand.Rand) []int32 {
	mate := make([]int32, g.size())
	for v := range mate {
		mate[v] = -1
	}
	for _, v := range shuffled(g.size(), rng) {
		if mate[v] >= 0 {
			continue
		}
		best, bestRating := v, 0.0
		room := heaviest - g.vertexWeight(v)
		// Neighbours of equal rating are taken in random order.
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
			if mate[u] >= 0 || g.vertexWeight(u) > room {
				continue
			}
			w := float64(g.edgeWeight(e))
			if rating := w * w / float64(g.vertexWeight(u)); rating > bestRating {
				best, bestRating = u, rating
			}
		}
		if best == v {
			best = g.twoSteps(v, mate, room)
		}
		mate[v], mate[best] = best, v
	}
	return mate
}

// twoSteps finds a partner among the neighbours of a neighbour, where all
// neighbours are taken: the leaves of a star would never be merged otherwise.
func (g *graph) twoSteps(v int32, mate []int32, room int) int32 {
	const few = 4 // only where there are not many to look through
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

// shuffled is the vertices in a random order. They are shuffled within blocks,
// and the blocks likewise, so that the graph is walked through with some
// locality.
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

// contract makes the graph of n merged vertices. Edges between the same pair
// are added up.
func contract(g *graph, mate, to []int32, n int) *graph {
	out := &graph{ptr: make([]int32, 1, n+1), adj: make([]int32, 0, len(g.adj)), weight: make([]int32, 0, len(g.adj)), vertex: make([]int32, 0, n)}
	place := make([]int32, n) // of the edge to a vertex, if it is one of the current vertex's
	for v := range int32(g.size()) {
		if mate[v] < v {
			continue // done with its mate
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
				if at := place[c]; at >= first && int(at) < len(out.adj) && out.adj[at] == c {
					out.weight[at] += int32(g.edgeWeight(e))
					continue
				}
				place[c] = int32(len(out.adj))
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
