// One kernel that multiplies and adds up, for Hopper: a cluster's 256 x 256 of C are four tiles,
// 64 x 256, each of one warpgroup. Adders are whole clusters.
//
// A warpgroup that has stored a tile goes on with the next one. That all of the GPU and of others
// see it takes a fence, which a warp beside waits for and then signals.
#include "onekernel.cuh"
#include "../gpugemm/product90a.cuh"

constexpr u32 CLUSTER_TILES = 4;

// Tiles of the matrix, by clusters.
struct Tiles {
	u32 rows, cols;
	__device__ __forceinline__ Tiles(const Params &p) : rows((p.m + 2 * BM - 1) / (2 * BM)), cols((p.n + BN - 1) / BN) {}
	__device__ __forceinline__ u32 count() const { return rows * cols * CLUSTER_TILES; }
	__device__ __forceinline__ void operator()(u32 tile, u32 piece, u32 &row, u32 &col) const {
		tile_at(tile / CLUSTER_TILES, rows, cols, row, col);
		row = row * 2 * BM + tile % CLUSTER_TILES * PIECE_ROWS, col = col * BN + piece * PIECE_COLS;
	}
};

__device__ __forceinline__ u32 first_of(const Params &p) { return (blockIdx.x - p.adders) / 2; }
__device__ __forceinline__ u32 next_of(const Params &p) { return (gridDim.x - p.adders) / 2; }
__device__ __forceinline__ u32 tile_of(u32 cluster_tile, u32 warpgroup) { return (cluster_tile * 2 + (blockIdx.x & 1)) * 2 + warpgroup; }

// Signalling is the product's job here: for each warpgroup that multiplies a barrier at which
// its threads have stored a tile, and one at which that is signalled.
struct Signalling {
	const Params &p;
	u32 barriers, turn = 0;

	__device__ __forceinline__ float *c(const Params &p) { return (float *)p.c[p.rank]; }
	__device__ __forceinline__ u32 first(const Params &p) { return first_of(p); }
	__device__ __forceinline__ u32 next(const Params &p) { return next_of(p); }
	__device__ __forceinline__ u32 is_stored(u32 warpgroup) { return barriers + 16 * warpgroup; }
	__device__ __forceinline__ u32 is_signalled(u32 warpgroup) { return barriers + 16 * warpgroup + 8; }
	__device__ __forceinline__ void arrive_here(u32 at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }

	__device__ __forceinline__ void init(u32) {
		for (u32 w = 0; w < CONSUMERS; w++) {
			barrier_init(is_stored(w), 128);
			barrier_init(is_signalled(w), 1);
		}
	}
	// Two warps signal for a warpgroup each, and a third says that the block has begun.
	__device__ __forceinline__ void beside() {
		u32 warp = threadIdx.x / 32, warpgroup = warp - 1, parity = 0;
		if (threadIdx.x % 32 != 0) return;
		if (warp > CONSUMERS) return begin(p);
		for (u32 tile = first_of(p), all = Tiles(p).count() / CLUSTER_TILES; tile < all; tile += next_of(p), parity ^= 1) {
			barrier_wait(is_stored(warpgroup), parity);
			signal_tile(p, tile_of(tile, warpgroup));
			arrive_here(is_signalled(warpgroup));
		}
	}
	__device__ __forceinline__ void stored(u32 warpgroup) {
		if (turn > 0) barrier_wait(is_signalled(warpgroup), (turn - 1) & 1); // never two tiles ahead
		arrive_here(is_stored(warpgroup));
		turn++;
	}
	__device__ __forceinline__ void after() {
		if (p.options & NO_SUM || !all_begun(p)) return;
		Tiles tiles(p);
		add_up(p, tiles.count(), tiles);
	}
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) onekernel90a_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(1024) uint8_t memory[]; // the stages, and their barriers and those of signalling
	bool adds = blockIdx.x < p.adders;
	if (!adds && !(p.options & NO_PRODUCT)) {
		u32 stages = (u32)__cvta_generic_to_shared(memory);
		Signalling job{p, stages + STAGES * STAGE + 2 * 8 * STAGES};
		multiply(p, stages, job);
		return;
	}
	Tiles tiles(p);
	if (!adds) {
		if (threadIdx.x == 0) begin(p);
		for (u32 tile = first_of(p); tile < tiles.count() / CLUSTER_TILES; tile += next_of(p))
			if (threadIdx.x < CONSUMERS) signal_tile(p, tile_of(tile, threadIdx.x));
		if (!all_begun(p)) return;
	}
	if (p.options & NO_SUM) return;
	add_up(p, tiles.count(), tiles);
	all_come(p, tiles.count());
}
