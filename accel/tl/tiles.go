package tl

// TileSize is what the GEMM engine multiplies at once: M x K times K x N.
type TileSize struct{ M, K, N int }

// TileStep is one tile of a composite: which part of the operands it reads, and,
// with the last one along K, which part of the result is written. The
// accumulator stays in the engine from First to Last.
type TileStep struct {
	M, K, N     int // its size; at the edges less than the engine could
	A, B, Out   int // where its parts start, in elements from the start of each matrix
	First, Last bool
}

// Tiles is how many tiles cover the product.
func (g *Gemm) Tiles(t TileSize) int { return Cdiv(g.M, t.M) * Cdiv(g.K, t.K) * Cdiv(g.N, t.N) }

// Fill is how much of the engine's work is of use: 1 when all tiles are full.
func (g *Gemm) Fill(t TileSize) float64 {
	return float64(g.M) * float64(g.K) * float64(g.N) / (float64(g.Tiles(t)) * float64(t.M) * float64(t.K) * float64(t.N))
}

// Step is the i-th tile in the order in which they are fed to the pipeline: by
// tile of the result, and for each along K. Matrices lie in memory tile by tile,
// so that each tile is one range.
func (g *Gemm) Step(t TileSize, i int) TileStep {
	depth, cols := Cdiv(g.K, t.K), Cdiv(g.N, t.N)
	k, n, m := i%depth*t.K, i/depth%cols*t.N, i/depth/cols*t.M
	s := TileStep{M: min(t.M, g.M-m), K: min(t.K, g.K-k), N: min(t.N, g.N-n), First: k == 0, Last: k+t.K >= g.K}
	s.A, s.B, s.Out = m*g.K+k*s.M, k*g.N+n*s.K, m*g.N+n*s.M
	return s
}

// Ptr is where an operand that is not in the PE lies.
func (o Operand) Ptr() Ptr { return o.ptr }
