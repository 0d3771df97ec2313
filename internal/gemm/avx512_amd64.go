package gemm

import "github.com/kernbench/kernbench/internal/dtype"

// The tiles of AVX-512: those that read whole vectors of B and those that read
// some columns, by vectors and rows. The declarations below are checked against
// the assembly by go vet.
var tilesF32 = [2][2][14]tileFunc{
	{
		{tile1x1F32, tile2x1F32, tile3x1F32, tile4x1F32, tile5x1F32, tile6x1F32, tile7x1F32, tile8x1F32, tile9x1F32, tile10x1F32, tile11x1F32, tile12x1F32, tile13x1F32, tile14x1F32},
		{tile1x2F32, tile2x2F32, tile3x2F32, tile4x2F32, tile5x2F32, tile6x2F32, tile7x2F32, tile8x2F32, tile9x2F32, tile10x2F32, tile11x2F32, tile12x2F32, tile13x2F32, tile14x2F32},
	},
	{
		{edge1x1F32, edge2x1F32, edge3x1F32, edge4x1F32, edge5x1F32, edge6x1F32, edge7x1F32, edge8x1F32, edge9x1F32, edge10x1F32, edge11x1F32, edge12x1F32, edge13x1F32, edge14x1F32},
		{edge1x2F32, edge2x2F32, edge3x2F32, edge4x2F32, edge5x2F32, edge6x2F32, edge7x2F32, edge8x2F32, edge9x2F32, edge10x2F32, edge11x2F32, edge12x2F32, edge13x2F32, edge14x2F32},
	},
}

var tilesF64 = [2][2][14]tileFunc{
	{
		{tile1x1F64, tile2x1F64, tile3x1F64, tile4x1F64, tile5x1F64, tile6x1F64, tile7x1F64, tile8x1F64, tile9x1F64, tile10x1F64, tile11x1F64, tile12x1F64, tile13x1F64, tile14x1F64},
		{tile1x2F64, tile2x2F64, tile3x2F64, tile4x2F64, tile5x2F64, tile6x2F64, tile7x2F64, tile8x2F64, tile9x2F64, tile10x2F64, tile11x2F64, tile12x2F64, tile13x2F64, tile14x2F64},
	},
	{
		{edge1x1F64, edge2x1F64, edge3x1F64, edge4x1F64, edge5x1F64, edge6x1F64, edge7x1F64, edge8x1F64, edge9x1F64, edge10x1F64, edge11x1F64, edge12x1F64, edge13x1F64, edge14x1F64},
		{edge1x2F64, edge2x2F64, edge3x2F64, edge4x2F64, edge5x2F64, edge6x2F64, edge7x2F64, edge8x2F64, edge9x2F64, edge10x2F64, edge11x2F64, edge12x2F64, edge13x2F64, edge14x2F64},
	},
}

var (
	avx512F32 = kernel{level: AVX512, packed: dtype.F32, rows: 14, cols: 32, unit: 1, whole: tile14x2F32, part: partF32,
		peak: peakAVX512F32, peakFlops: 28 * 16 * 2}
	avx512F64 = kernel{level: AVX512, packed: dtype.F64, rows: 14, cols: 16, unit: 1, whole: tile14x2F64, part: partF64,
		peak: peakAVX512F64, peakFlops: 28 * 8 * 2}
)

func partF32(rows, cols int, padded bool) tileFunc { return choose(&tilesF32, 16, rows, cols, padded) }
func partF64(rows, cols int, padded bool) tileFunc { return choose(&tilesF64, 8, rows, cols, padded) }

func choose(table *[2][2][14]tileFunc, lanes, rows, cols int, padded bool) tileFunc {
	vectors, some := 0, 1
	if cols > lanes {
		vectors = 1
	}
	if padded || cols == (vectors+1)*lanes {
		some = 0
	}
	return table[some][vectors][rows-1]
}

//go:noescape
func tile1x1F32(t *tile)

//go:noescape
func tile2x1F32(t *tile)

//go:noescape
func tile3x1F32(t *tile)

//go:noescape
func tile4x1F32(t *tile)

//go:noescape
func tile5x1F32(t *tile)

//go:noescape
func tile6x1F32(t *tile)

//go:noescape
func tile7x1F32(t *tile)

//go:noescape
func tile8x1F32(t *tile)

//go:noescape
func tile9x1F32(t *tile)

//go:noescape
func tile10x1F32(t *tile)

//go:noescape
func tile11x1F32(t *tile)

//go:noescape
func tile12x1F32(t *tile)

//go:noescape
func tile13x1F32(t *tile)

//go:noescape
func tile14x1F32(t *tile)

//go:noescape
func tile1x2F32(t *tile)

//go:noescape
func tile2x2F32(t *tile)

//go:noescape
func tile3x2F32(t *tile)

//go:noescape
func tile4x2F32(t *tile)

//go:noescape
func tile5x2F32(t *tile)

//go:noescape
func tile6x2F32(t *tile)

//go:noescape
func tile7x2F32(t *tile)

//go:noescape
func tile8x2F32(t *tile)

//go:noescape
func tile9x2F32(t *tile)

//go:noescape
func tile10x2F32(t *tile)

//go:noescape
func tile11x2F32(t *tile)

//go:noescape
func tile12x2F32(t *tile)

//go:noescape
func tile13x2F32(t *tile)

//go:noescape
func tile14x2F32(t *tile)

//go:noescape
func edge1x1F32(t *tile)

//go:noescape
func edge2x1F32(t *tile)

//go:noescape
func edge3x1F32(t *tile)

//go:noescape
func edge4x1F32(t *tile)

//go:noescape
func edge5x1F32(t *tile)

//go:noescape
func edge6x1F32(t *tile)

//go:noescape
func edge7x1F32(t *tile)

//go:noescape
func edge8x1F32(t *tile)

//go:noescape
func edge9x1F32(t *tile)

//go:noescape
func edge10x1F32(t *tile)

//go:noescape
func edge11x1F32(t *tile)

//go:noescape
func edge12x1F32(t *tile)

//go:noescape
func edge13x1F32(t *tile)

//go:noescape
func edge14x1F32(t *tile)

//go:noescape
func edge1x2F32(t *tile)

//go:noescape
func edge2x2F32(t *tile)

//go:noescape
func edge3x2F32(t *tile)

//go:noescape
func edge4x2F32(t *tile)

//go:noescape
func edge5x2F32(t *tile)

//go:noescape
func edge6x2F32(t *tile)

//go:noescape
func edge7x2F32(t *tile)

//go:noescape
func edge8x2F32(t *tile)

//go:noescape
func edge9x2F32(t *tile)

//go:noescape
func edge10x2F32(t *tile)

//go:noescape
func edge11x2F32(t *tile)

//go:noescape
func edge12x2F32(t *tile)

//go:noescape
func edge13x2F32(t *tile)

//go:noescape
func edge14x2F32(t *tile)

//go:noescape
func tile1x1F64(t *tile)

//go:noescape
func tile2x1F64(t *tile)

//go:noescape
func tile3x1F64(t *tile)

//go:noescape
func tile4x1F64(t *tile)

//go:noescape
func tile5x1F64(t *tile)

//go:noescape
func tile6x1F64(t *tile)

//go:noescape
func tile7x1F64(t *tile)

//go:noescape
func tile8x1F64(t *tile)

//go:noescape
func tile9x1F64(t *tile)

//go:noescape
func tile10x1F64(t *tile)

//go:noescape
func tile11x1F64(t *tile)

//go:noescape
func tile12x1F64(t *tile)

//go:noescape
func tile13x1F64(t *tile)

//go:noescape
func tile14x1F64(t *tile)

//go:noescape
func tile1x2F64(t *tile)

//go:noescape
func tile2x2F64(t *tile)

//go:noescape
func tile3x2F64(t *tile)

//go:noescape
func tile4x2F64(t *tile)

//go:noescape
func tile5x2F64(t *tile)

//go:noescape
func tile6x2F64(t *tile)

//go:noescape
func tile7x2F64(t *tile)

//go:noescape
func tile8x2F64(t *tile)

//go:noescape
func tile9x2F64(t *tile)

//go:noescape
func tile10x2F64(t *tile)

//go:noescape
func tile11x2F64(t *tile)

//go:noescape
func tile12x2F64(t *tile)

//go:noescape
func tile13x2F64(t *tile)

//go:noescape
func tile14x2F64(t *tile)

//go:noescape
func edge1x1F64(t *tile)

//go:noescape
func edge2x1F64(t *tile)

//go:noescape
func edge3x1F64(t *tile)

//go:noescape
func edge4x1F64(t *tile)

//go:noescape
func edge5x1F64(t *tile)

//go:noescape
func edge6x1F64(t *tile)

//go:noescape
func edge7x1F64(t *tile)

//go:noescape
func edge8x1F64(t *tile)

//go:noescape
func edge9x1F64(t *tile)

//go:noescape
func edge10x1F64(t *tile)

//go:noescape
func edge11x1F64(t *tile)

//go:noescape
func edge12x1F64(t *tile)

//go:noescape
func edge13x1F64(t *tile)

//go:noescape
func edge14x1F64(t *tile)

//go:noescape
func edge1x2F64(t *tile)

//go:noescape
func edge2x2F64(t *tile)

//go:noescape
func edge3x2F64(t *tile)

//go:noescape
func edge4x2F64(t *tile)

//go:noescape
func edge5x2F64(t *tile)

//go:noescape
func edge6x2F64(t *tile)

//go:noescape
func edge7x2F64(t *tile)

//go:noescape
func edge8x2F64(t *tile)

//go:noescape
func edge9x2F64(t *tile)

//go:noescape
func edge10x2F64(t *tile)

//go:noescape
func edge11x2F64(t *tile)

//go:noescape
func edge12x2F64(t *tile)

//go:noescape
func edge13x2F64(t *tile)

//go:noescape
func edge14x2F64(t *tile)

func peakAVX512F32(n int)

func peakAVX512F64(n int)
