package program

import (
	"testing"

	"pgregory.net/rapid"
)

// The tiles of a product read every element of A once per column of tiles and every element of B
// once per row of tiles, and write every element of C once.
func TestTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := func(name string) int { return rapid.IntRange(1, 40).Draw(t, name) }
		g := &Gemm{M: dim("M"), K: dim("K"), N: dim("N")}
		tile := Tile{M: rapid.IntRange(1, 9).Draw(t, "m"), K: rapid.IntRange(1, 9).Draw(t, "k"),
			N: rapid.IntRange(1, 9).Draw(t, "n")}
		a, b, c := make([]int, g.M*g.K), make([]int, g.K*g.N), make([]int, g.M*g.N)
		mark := func(cells []int, from, n int) {
			for i := range n {
				cells[from+i]++
			}
		}
		depth := 0
		for i := range g.Tiles(tile) {
			s := g.Step(tile, i)
			if s.M < 1 || s.M > tile.M || s.K < 1 || s.K > tile.K || s.N < 1 || s.N > tile.N || s.First != (depth == 0) {
				t.Fatalf("tile %d: %+v", i, s)
			}
			mark(a, s.A, s.M*s.K)
			mark(b, s.B, s.K*s.N)
			if depth += s.K; s.Last {
				if depth != g.K {
					t.Fatalf("tile %d is the last after %d of %d", i, depth, g.K)
				}
				mark(c, s.Out, s.M*s.N)
				depth = 0
			}
		}
		for _, m := range []struct {
			name  string
			cells []int
			times int
		}{{"A", a, Cdiv(g.N, tile.N)}, {"B", b, Cdiv(g.M, tile.M)}, {"C", c, 1}} {
			for i, n := range m.cells {
				if n != m.times {
					t.Fatalf("element %d of %s is touched %d times, want %d", i, m.name, n, m.times)
				}
			}
		}
	})
}

// Tile counts and fill factors published for the evaluation's shapes (M, K, N) with tiles of 32x64x32.
func TestPublishedTiles(t *testing.T) {
	tile := Tile{32, 64, 32}
	for _, c := range []struct {
		m, k, n, tiles int
		fill           float64
	}{
		{32, 32, 32, 1, 0.5}, {32, 64, 32, 1, 1}, {32, 128, 32, 2, 1}, {32, 128, 128, 8, 1}, {32, 3072, 32, 48, 1},
		{8, 128, 128, 8, 0.25}, {128, 8, 128, 16, 0.125}, {512, 512, 512, 2048, 1},
	} {
		g := &Gemm{M: c.m, K: c.k, N: c.n}
		if g.Tiles(tile) != c.tiles || g.Fill(tile) != c.fill {
			t.Errorf("%dx%dx%d: %d tiles, %v filled; published %d, %v", c.m, c.k, c.n, g.Tiles(tile), g.Fill(tile), c.tiles,
				c.fill)
		}
	}
}
