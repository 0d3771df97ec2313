// One kernel that multiplies and adds up, for Hopper: a cluster's 256 x 256 of C, which belong to
// one rank, are four tiles, 64 x 256, each of one warpgroup.
//
// A warpgroup that has stored a tile goes on with the next one. That all of the GPU and of others
// see it takes a fence, which a warp beside waits for and then signals. The same warp waits for
// the others' tiles, and lets the warpgroup go on when they are there.
#include "onekernel.cuh"
// With steps unrolled ptxas finds too few registers, and has the matrix instructions wait for each other.
#include "../gpugemm/product90a.cuh"

constexpr u32 CLUSTER_TILES = 4;
constexpr u32 NS_OF_K = 11; // nanoseconds: a tile takes k times as long on an H200

__device__ __forceinline__ u32 tile_of(u32 cluster_tile, u32 warpgroup) { return cluster_tile * CLUSTER_TILES + (blockIdx.x & 1) * 2 + warpgroup; }
__device__ __forceinline__ void arrive_here(u32 at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
__device__ __forceinline__ void store_shared(u32 at, u32 v) { asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory"); }
__device__ __forceinline__ u32 load_shared(u32 at) {
	u32 v;
	asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
	return v;
}

// Part is a thread's part of a tile: of two rows, half, the float4 j of 16 columns.
struct Part {
	static constexpr int COUNT = 32, AHEAD = 8;
	float (&d)[16][8];
	const Params &p;
	u32 r, c;
	u64 first; // in bytes

	__device__ __forceinline__ u64 at(u64 to, int n) const { return kept(to + first + (u64)(n / 16 * 8) * p.ldc * 4) + n % 16 * 64; }
	__device__ __forceinline__ bool there(int n) const { return r + n / 16 * 8 < p.m && c + n % 16 * 16 < p.n; }
	__device__ __forceinline__ float *left(int n) const { return &d[n % 16][n / 16 * 2]; }
	__device__ __forceinline__ float *right(int n) const { return &d[n % 16][4 + n / 16 * 2]; }
	__device__ __forceinline__ float4 get(int n) const { return make_float4(left(n)[0], left(n)[1], right(n)[0], right(n)[1]); }
};

// Adding is the product's job here. For each warpgroup that multiplies there are a barrier at which its
// threads have stored a tile, one at which that is signalled, one at which the others' tiles are there,
// and a word that says that they are not and nobody waits any more.
struct Adding {
	static constexpr bool FINISHES = true;
	const Params &p;
	u32 barriers, turn = 0, owned = 0;

	__device__ __forceinline__ u32 is_stored(u32 warpgroup) { return barriers + 32 * warpgroup; }
	__device__ __forceinline__ u32 is_signalled(u32 warpgroup) { return barriers + 32 * warpgroup + 8; }
	__device__ __forceinline__ u32 is_ready(u32 warpgroup) { return barriers + 32 * warpgroup + 16; }
	__device__ __forceinline__ u32 in_vain(u32 warpgroup) { return barriers + 32 * warpgroup + 24; }

	__device__ __forceinline__ u32 count(const Params &p, u32 tiles) { return tile_count(p.size, tiles, blockIdx.x / 2, gridDim.x / 2); }
	__device__ __forceinline__ bool mark(u32 tile) { return mine(p, tile); }
	__device__ __forceinline__ u32 nth(const Params &p, u32 n, u32 tiles) { return nth_tile(p.rank, p.size, n, tiles, blockIdx.x / 2, gridDim.x / 2); }

	// Clusters that end tiles at the same time hold each other up, and go on together: so they
	// begin one after the other within the time that a tile takes.
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
			store_shared(in_vain(w), 0);
		}
	}
	// Two warps wait and signal for a warpgroup each.
	__device__ __forceinline__ void beside(u32 tiles, u32 count) {
		u32 warp = threadIdx.x / 32, warpgroup = warp - 1, parity = 0;
		if (threadIdx.x % 32 != 0 || warp > CONSUMERS || !sums(p)) return;
		bool good = true;
		for (u32 n = 0; n < count; n++, parity ^= 1) {
			u32 tile = nth(p, n, tiles), owner = tile % p.size, part = tile_of(tile, warpgroup);
			if (owner == p.rank) {
				for (u32 from = 0; from < p.size && good; from++)
					good = from == p.rank || await(p, tile_flag(p, p.rank, part, from), p.epoch, 3, from);
				if (!good) store_shared(in_vain(warpgroup), 1);
				arrive_here(is_ready(warpgroup));
			}
			barrier_wait(is_stored(warpgroup), parity);
			if (owner != p.rank) signal_tile(p, owner, part);
			else for (u32 to = 0; to < p.size && good; to++) add_release(come(p, to), 1);
			arrive_here(is_signalled(warpgroup));
		}
		if (blockIdx.x == 0 && warpgroup == 0 && good) await(p, come(p, p.rank), p.arrived + tiles * CLUSTER_TILES, 2, p.rank);
	}
	__device__ __forceinline__ void finish(float (&d)[16][8], bool own, u32 warpgroup, u32 r, u32 c) {
		c += traded_by();
		Part part{d, p, r, c, ((u64)r * p.ldc + c) * 4};

		// Neighbouring lanes, of which each has two elements of eight columns and two of the next eight, exchange so
		// that the even one has four of the first and the odd one four of the others. Written in any other
		// way so far, the compiler has put the matrix instructions one after the other.
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
			// The first row and column of the warpgroup are at most 63 and 12 before those of this thread.
			if (!load_shared(in_vain(warpgroup))) add_up(p, part, r / 64 * 64 + 64 <= p.m && c / BN * BN + BN <= p.n);
		} else {
			store_own(p, part);
		}
		if (!sums(p)) return;
		if (turn > 0) barrier_wait(is_signalled(warpgroup), (turn - 1) & 1); // never two tiles ahead
		arrive_here(is_stored(warpgroup));
		turn++;
	}
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) onekernel90a_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(1024) uint8_t memory[]; // the stages, and their barriers and those of adding
	if (p.options & NO_PRODUCT) {
		without_product<2, CLUSTER_TILES / 2, BM, BN>(p);
		return;
	}
	u32 stages = (u32)__cvta_generic_to_shared(memory);
	Adding job{p, stages + SHARED};
	multiply(p, stages, job);
}
