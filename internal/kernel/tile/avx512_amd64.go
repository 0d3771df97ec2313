package tile

import "github.com/kernbench/kernbench/internal/base/dtype"

// The AVX-512 kernels. They are called only through these tables, so Go assumes that their arguments escape, whatever
// the declarations say. go vet checks the declarations against the assembly.
var partsF32 = Parts{
	Shift: 4,
	Rows:  [4]int{14, 14, 9, 6},
	Whole: [4][14]Func{
		{tile1x1F32, tile2x1F32, tile3x1F32, tile4x1F32, tile5x1F32, tile6x1F32, tile7x1F32, tile8x1F32, tile9x1F32,
			tile10x1F32, tile11x1F32, tile12x1F32, tile13x1F32, tile14x1F32},
		{tile1x2F32, tile2x2F32, tile3x2F32, tile4x2F32, tile5x2F32, tile6x2F32, tile7x2F32, tile8x2F32, tile9x2F32,
			tile10x2F32, tile11x2F32, tile12x2F32, tile13x2F32, tile14x2F32},
		{tile1x3F32, tile2x3F32, tile3x3F32, tile4x3F32, tile5x3F32, tile6x3F32, tile7x3F32, tile8x3F32, tile9x3F32},
		{tile1x4F32, tile2x4F32, tile3x4F32, tile4x4F32, tile5x4F32, tile6x4F32},
	},
	Some: [2][14]Func{
		{edge1x1F32, edge2x1F32, edge3x1F32, edge4x1F32, edge5x1F32, edge6x1F32, edge7x1F32, edge8x1F32, edge9x1F32,
			edge10x1F32, edge11x1F32, edge12x1F32, edge13x1F32, edge14x1F32},
		{edge1x2F32, edge2x2F32, edge3x2F32, edge4x2F32, edge5x2F32, edge6x2F32, edge7x2F32, edge8x2F32, edge9x2F32,
			edge10x2F32, edge11x2F32, edge12x2F32, edge13x2F32, edge14x2F32},
	},
}

var partsF64 = Parts{
	Shift: 3,
	Rows:  [4]int{14, 14, 9, 6},
	Whole: [4][14]Func{
		{tile1x1F64, tile2x1F64, tile3x1F64, tile4x1F64, tile5x1F64, tile6x1F64, tile7x1F64, tile8x1F64, tile9x1F64,
			tile10x1F64, tile11x1F64, tile12x1F64, tile13x1F64, tile14x1F64},
		{tile1x2F64, tile2x2F64, tile3x2F64, tile4x2F64, tile5x2F64, tile6x2F64, tile7x2F64, tile8x2F64, tile9x2F64,
			tile10x2F64, tile11x2F64, tile12x2F64, tile13x2F64, tile14x2F64},
		{tile1x3F64, tile2x3F64, tile3x3F64, tile4x3F64, tile5x3F64, tile6x3F64, tile7x3F64, tile8x3F64, tile9x3F64},
		{tile1x4F64, tile2x4F64, tile3x4F64, tile4x4F64, tile5x4F64, tile6x4F64},
	},
	Some: [2][14]Func{
		{edge1x1F64, edge2x1F64, edge3x1F64, edge4x1F64, edge5x1F64, edge6x1F64, edge7x1F64, edge8x1F64, edge9x1F64,
			edge10x1F64, edge11x1F64, edge12x1F64, edge13x1F64, edge14x1F64},
		{edge1x2F64, edge2x2F64, edge3x2F64, edge4x2F64, edge5x2F64, edge6x2F64, edge7x2F64, edge8x2F64, edge9x2F64,
			edge10x2F64, edge11x2F64, edge12x2F64, edge13x2F64, edge14x2F64},
	},
}

var (
	avx512F32 = Kernel{Level: AVX512, Packed: dtype.F32, Rows: 14, Cols: 32, Group: 1, Unit: 1, Whole: tile14x2F32,
		Parts: &partsF32, Peak: peakAVX512F32, PeakFlops: 28 * 16 * 2}
	avx512F64 = Kernel{Level: AVX512, Packed: dtype.F64, Rows: 14, Cols: 16, Group: 1, Unit: 1, Whole: tile14x2F64,
		Parts: &partsF64, Peak: peakAVX512F64, PeakFlops: 28 * 8 * 2}
)

func tile1x1F32(t *Args)
func tile2x1F32(t *Args)
func tile3x1F32(t *Args)
func tile4x1F32(t *Args)
func tile5x1F32(t *Args)
func tile6x1F32(t *Args)
func tile7x1F32(t *Args)
func tile8x1F32(t *Args)
func tile9x1F32(t *Args)
func tile10x1F32(t *Args)
func tile11x1F32(t *Args)
func tile12x1F32(t *Args)
func tile13x1F32(t *Args)
func tile14x1F32(t *Args)

func tile1x2F32(t *Args)
func tile2x2F32(t *Args)
func tile3x2F32(t *Args)
func tile4x2F32(t *Args)
func tile5x2F32(t *Args)
func tile6x2F32(t *Args)
func tile7x2F32(t *Args)
func tile8x2F32(t *Args)
func tile9x2F32(t *Args)
func tile10x2F32(t *Args)
func tile11x2F32(t *Args)
func tile12x2F32(t *Args)
func tile13x2F32(t *Args)
func tile14x2F32(t *Args)

func tile1x3F32(t *Args)
func tile2x3F32(t *Args)
func tile3x3F32(t *Args)
func tile4x3F32(t *Args)
func tile5x3F32(t *Args)
func tile6x3F32(t *Args)
func tile7x3F32(t *Args)
func tile8x3F32(t *Args)
func tile9x3F32(t *Args)

func tile1x4F32(t *Args)
func tile2x4F32(t *Args)
func tile3x4F32(t *Args)
func tile4x4F32(t *Args)
func tile5x4F32(t *Args)
func tile6x4F32(t *Args)

func edge1x1F32(t *Args)
func edge2x1F32(t *Args)
func edge3x1F32(t *Args)
func edge4x1F32(t *Args)
func edge5x1F32(t *Args)
func edge6x1F32(t *Args)
func edge7x1F32(t *Args)
func edge8x1F32(t *Args)
func edge9x1F32(t *Args)
func edge10x1F32(t *Args)
func edge11x1F32(t *Args)
func edge12x1F32(t *Args)
func edge13x1F32(t *Args)
func edge14x1F32(t *Args)

func edge1x2F32(t *Args)
func edge2x2F32(t *Args)
func edge3x2F32(t *Args)
func edge4x2F32(t *Args)
func edge5x2F32(t *Args)
func edge6x2F32(t *Args)
func edge7x2F32(t *Args)
func edge8x2F32(t *Args)
func edge9x2F32(t *Args)
func edge10x2F32(t *Args)
func edge11x2F32(t *Args)
func edge12x2F32(t *Args)
func edge13x2F32(t *Args)
func edge14x2F32(t *Args)

func tile1x1F64(t *Args)
func tile2x1F64(t *Args)
func tile3x1F64(t *Args)
func tile4x1F64(t *Args)
func tile5x1F64(t *Args)
func tile6x1F64(t *Args)
func tile7x1F64(t *Args)
func tile8x1F64(t *Args)
func tile9x1F64(t *Args)
func tile10x1F64(t *Args)
func tile11x1F64(t *Args)
func tile12x1F64(t *Args)
func tile13x1F64(t *Args)
func tile14x1F64(t *Args)

func tile1x2F64(t *Args)
func tile2x2F64(t *Args)
func tile3x2F64(t *Args)
func tile4x2F64(t *Args)
func tile5x2F64(t *Args)
func tile6x2F64(t *Args)
func tile7x2F64(t *Args)
func tile8x2F64(t *Args)
func tile9x2F64(t *Args)
func tile10x2F64(t *Args)
func tile11x2F64(t *Args)
func tile12x2F64(t *Args)
func tile13x2F64(t *Args)
func tile14x2F64(t *Args)

func tile1x3F64(t *Args)
func tile2x3F64(t *Args)
func tile3x3F64(t *Args)
func tile4x3F64(t *Args)
func tile5x3F64(t *Args)
func tile6x3F64(t *Args)
func tile7x3F64(t *Args)
func tile8x3F64(t *Args)
func tile9x3F64(t *Args)

func tile1x4F64(t *Args)
func tile2x4F64(t *Args)
func tile3x4F64(t *Args)
func tile4x4F64(t *Args)
func tile5x4F64(t *Args)
func tile6x4F64(t *Args)

func edge1x1F64(t *Args)
func edge2x1F64(t *Args)
func edge3x1F64(t *Args)
func edge4x1F64(t *Args)
func edge5x1F64(t *Args)
func edge6x1F64(t *Args)
func edge7x1F64(t *Args)
func edge8x1F64(t *Args)
func edge9x1F64(t *Args)
func edge10x1F64(t *Args)
func edge11x1F64(t *Args)
func edge12x1F64(t *Args)
func edge13x1F64(t *Args)
func edge14x1F64(t *Args)

func edge1x2F64(t *Args)
func edge2x2F64(t *Args)
func edge3x2F64(t *Args)
func edge4x2F64(t *Args)
func edge5x2F64(t *Args)
func edge6x2F64(t *Args)
func edge7x2F64(t *Args)
func edge8x2F64(t *Args)
func edge9x2F64(t *Args)
func edge10x2F64(t *Args)
func edge11x2F64(t *Args)
func edge12x2F64(t *Args)
func edge13x2F64(t *Args)
func edge14x2F64(t *Args)

func peakAVX512F32(n int)
func peakAVX512F64(n int)
