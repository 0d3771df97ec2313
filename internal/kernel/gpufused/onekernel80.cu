// One kernel that multiplies and adds up, by mma.sync: tiles are those of a block, 128 x 128.
#include "onekernel.cuh"
#include "../gpugemm/product80.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) onekernel80_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(128) uint8_t memory[];
	u32 rows = (p.m + BM - 1) / BM, cols = (p.n + BN - 1) / BN, tiles = rows * cols, row, col;
	if (blockIdx.x >= p.adders) {
		if (threadIdx.x == 0) begin(p);
		u32 shared = (u32)__cvta_generic_to_shared(memory);
		for (u32 tile = blockIdx.x - p.adders; tile < tiles; tile += gridDim.x - p.adders) {
			tile_at(tile, rows, cols, row, col);
			if (!(p.options & NO_PRODUCT)) multiply(p, (float *)p.c[p.rank], shared, row * BM, col * BN);
			__syncthreads(); // all of the tile is stored, and nobody still reads the stages
			if (threadIdx.x == 0) signal_tile(p, tile);
		}
		if (p.options & NO_SUM || !all_begun(p)) return;
	}
	if (p.options & NO_SUM) return;
	add_up(p, tiles, [&](u32 tile, u32 piece, u32 &row, u32 &col) {
		tile_at(tile, rows, cols, row, col);
		row = row * BM + piece * PIECE_ROWS, col *= BN;
	});
	all_come(p, tiles);
}
