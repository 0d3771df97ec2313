// bf16 product with mma.sync, for compute capability 8.0 and later. One block computes one tile.
#include "params.cuh"
#include "product80.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) gemm80_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(128) uint8_t memory[];
	uint32_t row, col, lane = threadIdx.x & 31;
	tile_at(blockIdx.x, (p.m + BM - 1) / BM, (p.n + BN - 1) / BN, row, col);
	multiply(p, (uint32_t)__cvta_generic_to_shared(memory), row * BM, col * BN, [&](float acc[4][4][4], uint32_t row, uint32_t col) {
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int half = 0; half < 2; half++) {
				uint32_t r = row + i * 16 + half * 8 + (lane >> 2);
				if (r >= p.m) continue;
#pragma unroll
				for (int j = 0; j < 4; j++) {
					uint32_t c = col + j * 8 + (lane & 3) * 2;
					if (c < p.n) *(float2 *)(p.c + (size_t)r * p.ldc + c) = make_float2(acc[i][j][half * 2], acc[i][j][half * 2 + 1]);
				}
			}
	});
}
