package program

import "github.com/kernbench/kernbench/internal/accel/topo"

// Gemm is out = epilogue(A x B). Matrices are stored by rows. A Dot uses only the dimensions and the type.
type Gemm struct {
	M, K, N  int
	Type     DType // of the operands, and of the result of a composite
	A, B     Operand
	Out      topo.Address
	Epilogue []EpilogueStep
}

// Operand is a matrix of a Gemm: a value if it was loaded before, else a range of HBM.
type Operand struct {
	Value int32 // 0: in memory at Addr
	Addr  topo.Address
}

// Resident reports whether the operand is already in the PE.
func (o Operand) Resident() bool { return o.Value != 0 }

// values returns the values that the product reads.
func (g *Gemm) values() []int32 {
	all := []int32{g.A.Value, g.B.Value}
	for _, e := range g.Epilogue {
		all = append(all, e.Arg)
	}
	return all
}

// EpilogueStep applies Fn to each element of the result. If Fn takes two arguments, the second
// comes from the same column of value Arg, a row of N elements.
type EpilogueStep struct {
	Fn  Fn
	Arg int32
}

// Tile is the size of the blocks that the GEMM engine multiplies: M x K times K x N.
type Tile struct{ M, K, N int }

// TileOf returns the tile size of the topology's GEMM engine.
func TileOf(t *topo.Topology) Tile { return Tile{M: t.PE.TileM, K: t.PE.TileK, N: t.PE.TileN} }

// TileStep is the work on one tile of a Gemm: which parts of the operands it reads and, in the last
// step along K, which part of the result it writes. The accumulator stays in the engine from First
// to Last.
type TileStep struct {
	M, K, N     int // size, smaller than the engine's tile at the edges
	A, B, Out   int // start of its parts, in elements from the start of each matrix
	First, Last bool
}

// Cdiv returns a/b rounded up.
func Cdiv(a, b int) int { return (a + b - 1) / b }

// Tiles returns how many tiles cover the product.
func (g *Gemm) Tiles(t Tile) int { return Cdiv(g.M, t.M) * Cdiv(g.K, t.K) * Cdiv(g.N, t.N) }

// Halves returns the size of an element in 16-bit halves, by which the time of a tile is multiplied.
func (g *Gemm) Halves() int { return g.Type.Size() / ElemSize }

// Fill returns the useful share of the engine's multiplications: 1 if all tiles are full.
func (g *Gemm) Fill(t Tile) float64 {
	return float64(g.M) * float64(g.K) * float64(g.N) / (float64(g.Tiles(t)) * float64(t.M) * float64(t.K) * float64(t.N))
}

// Step returns the i-th tile in pipeline order: tile by tile of the result, and for each of them
// along K. Matrices are laid out tile by tile in memory, so each tile is one contiguous range.
func (g *Gemm) Step(t Tile, i int) TileStep {
	depth, cols := Cdiv(g.K, t.K), Cdiv(g.N, t.N)
	k, n, m := i%depth*t.K, i/depth%cols*t.N, i/depth/cols*t.M
	s := TileStep{M: min(t.M, g.M-m), K: min(t.K, g.K-k), N: min(t.N, g.N-n), First: k == 0, Last: k+t.K >= g.K}
	s.A, s.B, s.Out = m*g.K+k*s.M, k*g.N+n*s.K, m*g.N+n*s.M
	return s
}
