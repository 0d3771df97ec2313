package partition

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// graph is the couplings between rows, without direction: the neighbours of v
// are adj[ptr[v]:ptr[v+1]].
type graph struct {
	ptr     []int32
	adj     []int32
	weight  []int32 // of edges; nil: 1 each
	vertex  []int32 // weights; nil: 1 each
	total   int     // of the vertices
	largest int     // vertex
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

// newGraph takes the pattern of the problem together with its mirror image, so
// that it has no direction even where the matrix is not symmetric.
func newGraph(p sparse.Problem) (*graph, error) {
	n := p.Size()
	if n > math.MaxInt32 {
		return nil, fmt.Errorf("%d rows: a graph numbers at most %d", n, math.MaxInt32)
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
		return nil, fmt.Errorf("%d couplings: a graph numbers at most %d", len(adj), math.MaxInt32/2)
	}
	backPtr, back := transpose(n, ptr, adj)
	g := &graph{ptr: make([]int32, n+1), adj: make([]int32, 0, len(adj)), total: n, largest: 1}
	for i := range n {
		g.adj = union(g.adj, adj[ptr[i]:ptr[i+1]], back[backPtr[i]:backPtr[i+1]])
		g.ptr[i+1] = int32(len(g.adj))
	}
	return g, nil
}

// transpose turns every edge round; neighbours come out ascending.
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

// union appends the numbers of two ascending lists, each once.
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
