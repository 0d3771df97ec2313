// bf16 product by mma.sync, for GPUs from compute capability 8.0 on: a block a tile.
#include "params.cuh"
#include "product80.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) gemm80_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(128) uint8_t memory[];
	uint32_t row, col;
	tile_at(blockIdx.x, (p.m + BM - 1) / BM, (p.n + BN - 1) / BN, row, col);
	multiply(p, p.c, (uint32_t)__cvta_generic_to_shared(memory), row * BM, col * BN);
}
