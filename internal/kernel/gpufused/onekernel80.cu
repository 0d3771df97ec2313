// The fused kernel with mma.sync. A tile is what a block computes: 128 x 128.
#include "onekernel.cuh"
#include "../gpugemm/product80.cuh"

// Part is a thread's part of a tile, 16 float4 vectors: bit 0 of the index selects 16 columns, the
// other bits select the row, in steps of 8.
struct Part {
	static constexpr int COUNT = 16, AHEAD = 2;
	float (&acc)[4][4][4];
	const Params &p;
	u32 r, c;

	__device__ __forceinline__ u64 at(u64 to, int n) const { return opaque(to + ((u64)(r + (n >> 1) * 8) * p.ldc + c) * 4) + (n & 1) * 64; }
	__device__ __forceinline__ bool there(int n) const { return r + (n >> 1) * 8 < p.m && c + (n & 1) * 16 < p.n; }
	__device__ __forceinline__ float *left(int n) const { return &acc[n >> 2][(n & 1) * 2][(n >> 1 & 1) * 2]; }
	__device__ __forceinline__ float *right(int n) const { return &acc[n >> 2][(n & 1) * 2 + 1][(n >> 1 & 1) * 2]; }
	__device__ __forceinline__ float4 get(int n) const { return exchange_pairs(left(n), right(n)); }
};

extern "C" __global__ void __launch_bounds__(THREADS, 2) onekernel80_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(128) uint8_t memory[];
	if (p.options & NO_PRODUCT) {
		without_product<1, 1, BM, BN>(p);
		return;
	}
	u32 shared = (u32)__cvta_generic_to_shared(memory), lane = threadIdx.x & 31, row, col;
	u32 rows = (p.m + BM - 1) / BM, cols = (p.n + BN - 1) / BN, tiles = rows * cols;
	bool good = true; // no wait has timed out
	u32 count = tile_count(p.size, tiles, blockIdx.x, gridDim.x);
	for (u32 n = 0; n < count; n++) {
		u32 tile = nth_tile(p.rank, p.size, n, tiles, blockIdx.x, gridDim.x);
		tile_at(tile, rows, cols, row, col);
		bool own = owns(p, tile);
		multiply(p, shared, row * BM, col * BN, [&](float (&acc)[4][4][4], u32 r, u32 c) {
			Part part{acc, p, r + (lane >> 2), c + (lane & 3) * 2 + exchange_shift()};
			if (own) good = good && all_there<1>(p, tile);
			if (!own) store_own(p, part);
			else if (good) add_up(p, part, row * BM + BM <= p.m && col * BN + BN <= p.n);
		});
		__syncthreads(); // the whole tile is stored, and the stages are free again
		if (!own && sums(p) && threadIdx.x == 0) signal_tile(p, tile % p.size, tile);
		if (own && good && threadIdx.x < p.size) add_release(arrivals(p, threadIdx.x), 1);
	}
	if (blockIdx.x == 0 && threadIdx.x == 0 && sums(p) && good) await(p, arrivals(p, p.rank), p.arrived + tiles, 2, p.rank);
}
