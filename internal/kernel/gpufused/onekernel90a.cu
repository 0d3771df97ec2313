// The fused kernel for Hopper. A cluster's 256 x 256 part of C has one owner and consists of four
// tiles of 64 x 256, one per warpgroup.
//
// A warpgroup that has stored a tile continues with the next one. A separate warp waits for the
// fence that makes the tile visible to other GPUs, then signals it. The same warp waits for the
// other ranks' tiles and releases the warpgroup when they have arrived.
#include "onekernel.cuh"
// Do not unroll the steps: ptxas then runs out of registers and serialises the matrix instructions.
#include "../gpugemm/product90a.cuh"

constexpr u32 CLUSTER_TILES = 4;
constexpr u32 NS_OF_K = 11; // nanoseconds per element of k that a tile takes on an H200

__device__ __forceinline__ u32 tile_of(u32 cluster_tile, u32 warpgroup) { return cluster_tile * CLUSTER_TILES + (blockIdx.x & 1) * 2 + warpgroup; }
__device__ __forceinline__ void store_shared(u32 at, u32 v) { asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ __forceinline__ u32 load_shared(u32 at) {
	u32 v;
	asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
	return v;
}

// Part is a thread's part of a tile, 32 float4 vectors: two rows, 16 vectors 16 columns apart in each.
struct Part {
	static constexpr int COUNT = 32, AHEAD = 8;
	float (&d)[16][8];
	const Params &p;
	u32 r, c;
	u64 first; // offset in C, in bytes

	__device__ __forceinline__ u64 at(u64 to, int n) const { return opaque(to + first + (u64)(n / 16 * 8) * p.ldc * 4) + n % 16 * 64; }
	__device__ __forceinline__ bool there(int n) const { return r + n / 16 * 8 < p.m && c + n % 16 * 16 < p.n; }
	__device__ __forceinline__ float *left(int n) const { return &d[n % 16][n / 16 * 2]; }
	__device__ __forceinline__ float *right(int n) const { return &d[n % 16][4 + n / 16 * 2]; }
	__device__ __forceinline__ float4 get(int n) const { return make_float4(left(n)[0], left(n)[1], right(n)[0], right(n)[1]); }
};

// Adding is the job that multiply runs here. Each multiplying warpgroup has three barriers (its
// threads have stored a tile; the tile is signalled; the other ranks' tiles have arrived) and a word
// that is set when a wait timed out and the others' tiles will not come.
struct Adding {
	static constexpr bool FINISHES = true;
	const Params &p;
	u32 barriers, turn = 0, owned = 0;

	__device__ __forceinline__ u32 is_stored(u32 warpgroup) { return barriers + 32 * warpgroup; }
	__device__ __forceinline__ u32 is_signalled(u32 warpgroup) { return barriers + 32 * warpgroup + 8; }
	__device__ __forceinline__ u32 is_ready(u32 warpgroup) { return barriers + 32 * warpgroup + 16; }
	__device__ __forceinline__ u32 timed_out(u32 warpgroup) { return barriers + 32 * warpgroup + 24; }

	__device__ __forceinline__ u32 count(const Params &p, u32 tiles) { return tile_count(p.size, tiles, blockIdx.x / 2, gridDim.x / 2); }
	__device__ __forceinline__ bool mark(u32 tile) { return owns(p, tile); }
	__device__ __forceinline__ u32 nth(const Params &p, u32 n, u32 tiles) { return nth_tile(p.rank, p.size, n, tiles, blockIdx.x / 2, gridDim.x / 2); }

	// Clusters that finish tiles at the same time compete for memory and stay in step. Their starts
	// are therefore spread over the time that a tile takes.
	__device__ __forceinline__ void begin() {
		if (!sums(p)) return;
		u64 wait = (u64)p.k * NS_OF_K * (blockIdx.x / 2) / (gridDim.x / 2), start = now_ns();
		while (now_ns() - start < wait) __nanosleep(200);
	}
	__device__ __forceinline__ void init() {
		for (u32 w = 0; w < CONSUMERS; w++) {
			barrier_init(is_stored(w), 128);
			barrier_init(is_signalled(w), 1);
			barrier_init(is_ready(w), 1);
			store_shared(timed_out(w), 0);
		}
	}
	// Two warps wait and signal, one for each multiplying warpgroup.
	__device__ __forceinline__ void helpers(u32 tiles, u32 count) {
		u32 warp = threadIdx.x / 32, warpgroup = warp - 1, parity = 0;
		if (threadIdx.x % 32 != 0 || warp > CONSUMERS || !sums(p)) return;
		bool good = true;
		for (u32 n = 0; n < count; n++, parity ^= 1) {
			u32 tile = nth(p, n, tiles), owner = tile % p.size, part = tile_of(tile, warpgroup);
			if (owner == p.rank) {
				for (u32 from = 0; from < p.size && good; from++)
					good = from == p.rank || await(p, tile_flag(p, p.rank, part, from), p.epoch, 3, from);
				if (!good) store_shared(timed_out(warpgroup), 1);
				arrive_here(is_ready(warpgroup));
			}
			barrier_wait(is_stored(warpgroup), parity);
			if (owner != p.rank) signal_tile(p, owner, part);
			else for (u32 to = 0; to < p.size && good; to++) add_release(arrivals(p, to), 1);
			arrive_here(is_signalled(warpgroup));
		}
		if (blockIdx.x == 0 && warpgroup == 0 && good) await(p, arrivals(p, p.rank), p.arrived + tiles * CLUSTER_TILES, 2, p.rank);
	}
	__device__ __forceinline__ void finish(float (&d)[16][8], bool own, u32 warpgroup, u32 r, u32 c) {
		c += exchange_shift();
		Part part{d, p, r, c, ((u64)r * p.ldc + c) * 4};

		// Neighbouring lanes exchange elements as in exchange_pairs, so that each gets whole float4
		// vectors. Every other way to write this that was tried made the compiler serialise the
		// matrix instructions.
#pragma unroll
		for (int half = 0; half < 2; half++)
#pragma unroll
			for (int j = 0; j < 16; j++) {
				bool odd = threadIdx.x & 1;
				float a0 = d[j][half * 2], a1 = d[j][half * 2 + 1], b0 = d[j][4 + half * 2], b1 = d[j][4 + half * 2 + 1];
				float x0 = __shfl_xor_sync(~0u, odd ? a0 : b0, 1), x1 = __shfl_xor_sync(~0u, odd ? a1 : b1, 1);
				d[j][half * 2] = odd ? x0 : a0, d[j][half * 2 + 1] = odd ? x1 : a1, d[j][4 + half * 2] = odd ? b0 : x0, d[j][4 + half * 2 + 1] = odd ? b1 : x1;
			}
		if (own) {
			barrier_wait(is_ready(warpgroup), owned++ & 1);
			// This thread's first row and column are at most 63 and 12 after those of the warpgroup.
			if (!load_shared(timed_out(warpgroup))) add_up(p, part, r / 64 * 64 + 64 <= p.m && c / BN * BN + BN <= p.n);
		} else {
			store_own(p, part);
		}
		if (!sums(p)) return;
		if (turn > 0) barrier_wait(is_signalled(warpgroup), (turn - 1) & 1); // at most one tile ahead of the signals
		arrive_here(is_stored(warpgroup));
		turn++;
	}
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) onekernel90a_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(1024) uint8_t memory[]; // the stages, their barriers, and the barriers of Adding
	if (p.options & NO_PRODUCT) {
		without_product<2, CLUSTER_TILES / 2, BM, BN>(p);
		return;
	}
	u32 stages = (u32)__cvta_generic_to_shared(memory);
	Adding job{p, stages + SHARED};
	multiply(p, stages, job);
}
