// Shared by the kernels that compute tiles of 128 x BN elements of C, for Hopper (compute capability
// 9.0). A block has one warpgroup that fetches operands with bulk tensor copies, and two that
// multiply. A stage in shared memory has 128 bytes of k: 128 rows of A and BN rows of B.
//
// Two blocks of a cluster may be a pair. Its blocks compute neighbouring tiles, below each other if they
// share B and beside each other if they share A. Each block then fetches one half of the shared operand
// for both. If the cluster has more blocks than a pair, its pairs (or blocks) divide k among them.
#pragma once
#include "bulk.cuh"
#include "narrow.cuh"
#include "params.cuh"

constexpr uint32_t BM = 128, THREADS = 384, ROW = 128;
enum { SHARE_NOTHING, SHARE_A, SHARE_B };

// Shared holds addresses in shared memory: the stages, a full and an empty barrier per stage, the
// positions of tiles, and a barrier for the turns of each multiplying warpgroup.
template <int BN, int STAGES> struct Shared {
	static constexpr uint32_t A_BYTES = BM * ROW, B_BYTES = BN * ROW, STAGE = A_BYTES + B_BYTES;
	static constexpr uint32_t PLACES = 2 * STAGES; // more than the tiles that can be fetched but not finished
	uint32_t stages, full, empty, places, turns;

	__device__ __forceinline__ explicit Shared(uint32_t at)
		: stages(at), full(at + STAGES * STAGE), empty(full + 8 * STAGES), places(empty + 8 * STAGES), turns(places + 8 * PLACES) {}
};

// Place is where a block is in the grid: its number in the pair, and which part of k it has.
struct Place {
	uint32_t rank, pair, part, parts, cluster, clusters;
	uint32_t first; // rank of the pair's first block
	uint32_t pairs; // blocks in the pair

	__device__ __forceinline__ explicit Place(const Params &p) {
		uint32_t size, one = p.share == SHARE_NOTHING ? 0 : 1;
		asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
		asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
		asm("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
		asm("mov.u32 %0, %%nclusterid.x;" : "=r"(clusters));
		pairs = 1 << one, pair = rank & one, first = rank - pair, part = rank >> one, parts = size >> one;
	}
};

// Work is what a cluster computes: some of the units, each with one tile for every block of the pair, and
// steps of k. A part has p.steps steps, and one more if it is among the first p.longer. Divisions are left to the
// host, because nothing else happens before the first fetch.
struct Work {
	uint32_t units, first, steps;

	__device__ __forceinline__ Work(const Params &p, const Place &at) {
		units = p.unit_rows * p.unit_cols;
		first = p.steps * at.part + min(at.part, p.longer), steps = p.steps + (at.part < p.longer);
	}
};

// Fetcher fetches the operands of a tile: each with one copy, or one half of it for both blocks of a pair.
template <int BN, int STAGES> struct Fetcher {
	using S = Shared<BN, STAGES>;
	const Params &p;
	const S &s;
	const Place &at;

	__device__ __forceinline__ void half(const TensorMap &map, uint32_t to, uint32_t rows, uint32_t k, uint32_t row, uint32_t full) const {
		uint32_t more = at.pair * rows;
		asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
					 ::"r"(to + more * ROW), "l"(&map), "r"(k), "r"(row + more), "r"(full), "h"((uint16_t)(3u << at.first)) : "memory");
	}
	__device__ __forceinline__ void a(uint32_t stage, uint32_t k, uint32_t row) const {
		uint32_t to = s.stages + stage * S::STAGE, full = s.full + 8 * stage;
		if (p.share == SHARE_A) half(p.map_a, to, BM / 2, k, row, full);
		else fetch(to, p.map_a, k, row, full);
	}
	// b does not keep rows of B in the L2 cache that are read only once.
	__device__ __forceinline__ void b(uint32_t stage, uint32_t k, uint32_t row, uint64_t once) const {
		uint32_t to = s.stages + stage * S::STAGE + S::A_BYTES, full = s.full + 8 * stage;
		if (p.share == SHARE_B) half(p.map_b, to, BN / 2, k, row, full);
		else if (p.once) fetch_once(to, p.map_b, k, row, full, once);
		else fetch(to, p.map_b, k, row, full);
	}
};

// fetch_tiles fetches the operands of all tiles of this block. BK is the number of elements in a step of
// k. The first rows of B, which no kernel writes, are fetched before the previous kernel has ended; A and
// C belong to it until then. The position of a tile takes divisions; it is computed here, ahead of time,
// and passed on.
template <int BN, int STAGES, int BK> __device__ __forceinline__ void fetch_tiles(const Params &p, const Shared<BN, STAGES> &s, const Place &at, const Work &w) {
	using S = Shared<BN, STAGES>;
	uint64_t once;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
	Fetcher<BN, STAGES> f{p, s, at};
	uint32_t stage = 0, parity = 0, early = min(w.steps, (uint32_t)STAGES), n = 0;
	for (uint32_t unit = at.cluster; unit < w.units; unit += at.clusters, n++) {
		uint32_t row, col, step = 0;
		tile_at(unit, p.unit_rows, p.unit_cols, row, col);
		row = (p.share == SHARE_B ? row * 2 + at.pair : row) * BM, col = (p.share == SHARE_A ? col * 2 + at.pair : col) * BN;
		asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %2};" ::"r"(s.places + n % S::PLACES * 8), "r"(row), "r"(col) : "memory");
		if (n == 0) {
			for (uint32_t i = 0; i < early; i++) {
				expect(s.full + 8 * i, S::STAGE);
				f.b(i, (w.first + i) * BK, col, once);
			}
			for (uint32_t i = early; i < min(w.steps, early + p.ahead); i++) prefetch(p.map_b, (w.first + i) * BK, col);
			prefetch_map(p.map_a);
			wait_previous();
			for (uint32_t i = 0; i < early; i++) f.a(i, (w.first + i) * BK, row);
			step = early;
			if (early == STAGES) parity = 1;
			else stage = early;
		}
		for (; step < w.steps; step++) {
			barrier_wait(s.empty + 8 * stage, parity ^ 1);
			expect(s.full + 8 * stage, S::STAGE);
			f.a(stage, (w.first + step) * BK, row);
			f.b(stage, (w.first + step) * BK, col, once);
			if (++stage == STAGES) stage = 0, parity ^= 1;
		}
	}
}

// store stores N / 16 units of 16 columns, beginning at col, for 16 rows of a warp. Of each unit, d[0..3]
// belongs to the first eight columns and d[4..7] to the others: two elements of row r, then two of the row 8
// below. Within C, neighbouring lanes exchange elements, so that each stores 16 bytes.
template <int N> __device__ __forceinline__ void store(const Params &p, const float (&d)[N / 2], uint32_t r, uint32_t col) {
	uint32_t lane = threadIdx.x & 31, odd = lane & 1;
	float *to = p.c + (size_t)r * p.ldc + col, *below = to + (size_t)8 * p.ldc;
	bool upper = r < p.m, lower = r + 8 < p.m;
	if (col + N <= p.n && !(p.ldc & 3) && !((uintptr_t)p.c & 15)) {
		uint32_t c = (lane & 2) * 2 + odd * 8;
#pragma unroll
		for (int i = 0; i < N / 2; i += 8) {
#pragma unroll
			for (int half = 0; half < 2; half++) {
				float x0 = d[i + half * 2], y0 = d[i + half * 2 + 1], x1 = d[i + 4 + half * 2], y1 = d[i + 5 + half * 2];
				float x = __shfl_xor_sync(~0u, odd ? x0 : x1, 1), y = __shfl_xor_sync(~0u, odd ? y0 : y1, 1);
				float4 v = odd ? make_float4(x, y, x1, y1) : make_float4(x0, y0, x, y);
				if (half ? lower : upper) *(float4 *)((half ? below : to) + 2 * i + c) = v;
			}
		}
		return;
	}
	uint32_t c = (lane & 3) * 2, width = col < p.n ? p.n - col : 0;
#pragma unroll
	for (int i = 0; i < N / 2; i++) {
		uint32_t at = i / 4 * 8 + c + (i & 1);
		if ((i & 2 ? lower : upper) && at < width) (i & 2 ? below : to)[at] = d[i];
	}
}

// start initialises the barriers. arrivals is the number of warpgroups in a block that release a stage.
template <int BN, int STAGES> __device__ __forceinline__ void start(const Shared<BN, STAGES> &s, const Place &at, uint32_t arrivals) {
	if (threadIdx.x == 0) {
		for (uint32_t i = 0; i < STAGES; i++) {
			barrier_init(s.full + 8 * i, 1);
			barrier_init(s.empty + 8 * i, arrivals * at.pairs);
		}
		barrier_init(s.turns, 1);
		barrier_init(s.turns + 8, 1);
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	cluster_sync();
	allow_next();
}
