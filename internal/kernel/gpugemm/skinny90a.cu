// bf16 product of a matrix A with few rows, for Hopper (compute capability 9.0): the products of an
// LLM that decodes. Its time is the time to read B, the weights, once from memory.
//
// A cluster computes 64 or 128 columns of C. Its blocks divide k among them. A block has one warp
// that fetches weights and rows of A with bulk tensor copies into p.stages stages, and one or two
// warpgroups that multiply: weights are the first operand of wgmma, so that the rows of A, which
// are few, are its columns. At last block 0 adds the sums of the blocks in the order of k, so that a
// result has the same bits every time.
//
// The next kernel of the stream may start early (programmatic dependent launch). It then fetches its
// first weights, which no kernel writes, while this one ends. If two blocks fit on a multiprocessor,
// memory is never idle between two products. A and C belong to the previous kernel until it has ended.
#include "narrow.cuh"
#include "params.cuh"
#include "bulk.cuh"

constexpr uint32_t BK = 64;

// Slice is a block's share: ROWS rows of B and count steps of k, beginning at step first.
struct Slice {
	uint32_t row, first, count;
};

// fetch_all fetches the block's share of the weights, and of A, in steps of 64 elements of k.
template <int T, int ROWS> __device__ __forceinline__ void fetch_all(const Params &p, const Slice &s, uint32_t stages, uint32_t full, uint32_t empty) {
	constexpr uint32_t WEIGHTS = ROWS * 128, STAGE = WEIGHTS + T * 128;
	uint64_t once;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
	uint32_t filled = min(s.count, p.stages), cached = min(s.count, filled + p.ahead);
	for (uint32_t i = 0; i < filled; i++) {
		expect(full + 8 * i, STAGE);
		fetch_once(stages + i * STAGE, p.map_b, (s.first + i) * BK, s.row, full + 8 * i, once);
	}
	for (uint32_t i = filled; i < cached; i++) prefetch(p.map_b, (s.first + i) * BK, s.row);
	prefetch_map(p.map_a);
	wait_previous();
	for (uint32_t i = 0; i < filled; i++) fetch(stages + i * STAGE + WEIGHTS, p.map_a, (s.first + i) * BK, 0, full + 8 * i);
	uint32_t stage = 0, parity = 0;
	for (uint32_t i = filled; i < s.count; i++) {
		barrier_wait(empty + 8 * stage, parity);
		expect(full + 8 * stage, STAGE);
		fetch_once(stages + stage * STAGE, p.map_b, (s.first + i) * BK, s.row, full + 8 * stage, once);
		fetch(stages + stage * STAGE + WEIGHTS, p.map_a, (s.first + i) * BK, 0, full + 8 * stage);
		if (++stage == p.stages) stage = 0, parity ^= 1;
	}
}

// skinny computes C for up to T rows of A, with GROUPS warpgroups that multiply. Shared memory has the
// stages, a full and an empty barrier per stage, and T x ROWS sums of every block of the cluster but
// the first.
template <int T, int GROUPS> __device__ __forceinline__ void skinny(const Params &p) {
	constexpr uint32_t ROWS = 64 * GROUPS, WEIGHTS = ROWS * 128, STAGE = WEIGHTS + T * 128, SUMS = T * ROWS * 4;
	extern __shared__ __align__(1024) uint8_t memory[];
	uint32_t stages = (uint32_t)__cvta_generic_to_shared(memory), full = stages + p.stages * STAGE, empty = full + 8 * p.stages, sums = empty + 8 * p.stages;
	uint32_t rank, split;
	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(split));
	uint32_t tile = blockIdx.x / split, steps = p.k / BK, first = steps * rank / split;
	Slice slice = {tile * ROWS, first, steps * (rank + 1) / split - first};
	if (threadIdx.x == 0) {
		for (uint32_t s = 0; s < p.stages; s++) {
			barrier_init(full + 8 * s, 1);
			barrier_init(empty + 8 * s, GROUPS);
		}
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	__syncthreads();
	allow_next();
	if (split > 1) cluster_arrive(); // block 0 has started: its shared memory can be written
	uint32_t group = threadIdx.x / 128, lane = threadIdx.x & 31, warp = threadIdx.x / 32 & 3;
	if (group == GROUPS) {
		if (lane == 0) fetch_all<T, ROWS>(p, slice, stages, full, empty);
		__syncwarp();
		if (split > 1) {
			cluster_wait();
			cluster_arrive();
			cluster_wait();
		}
		return;
	}

	float d[T / 2];
#pragma unroll
	for (int i = 0; i < T / 2; i++) d[i] = 0;
	uint32_t stage = 0, parity = 0;
	for (uint32_t step = 0; step < slice.count; step++) {
		barrier_wait(full + 8 * stage, parity);
		uint32_t at = stages + stage * STAGE;
		uint64_t weights = descriptor(at + group * 64 * 128), a = descriptor(at + WEIGHTS);
		wgmma_fence();
#pragma unroll
		for (int k = 0; k < BK / 16; k++) Bf16<T>::product(d, weights + 2 * k, a + 2 * k);
		wgmma_commit();
		wgmma_wait<0>();
		if ((threadIdx.x & 127) == 0) arrive_here(empty + 8 * stage);
		if (++stage == p.stages) stage = 0, parity ^= 1;
	}
	if (split > 1) {
		cluster_wait();
		if (rank > 0) {
			uint32_t there;
			asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(sums + (rank - 1) * SUMS + threadIdx.x * 4));
#pragma unroll
			for (int i = 0; i < T / 2; i++) asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there + i * 512 * GROUPS), "f"(d[i]) : "memory");
		}
		cluster_arrive();
		cluster_wait();
		if (rank > 0) return;
		for (uint32_t r = 1; r < split; r++)
#pragma unroll
			for (int i = 0; i < T / 2; i++) {
				float sum;
				asm volatile("ld.shared.f32 %0, [%1];" : "=f"(sum) : "r"(sums + (r - 1) * SUMS + threadIdx.x * 4 + i * 512 * GROUPS) : "memory");
				d[i] += sum;
			}
	}
	uint32_t col = slice.row + group * 64 + warp * 16 + (lane >> 2);
#pragma unroll
	for (int i = 0; i < T / 2; i++) {
		uint32_t r = i / 4 * 8 + (lane & 3) * 2 + (i & 1), c = col + (i >> 1 & 1) * 8;
		if (r < p.m && c < p.n) p.c[(size_t)r * p.ldc + c] = d[i];
	}
}

#define SKINNY(t, groups) \
	extern "C" __global__ void __launch_bounds__(128 * groups + 32) skinny90a_##t##_##groups(const __grid_constant__ Params p) { skinny<t, groups>(p); }

SKINNY(8, 1)
SKINNY(16, 1)
SKINNY(32, 1)
SKINNY(64, 1)
SKINNY(64, 2)
SKINNY(128, 1)
SKINNY(128, 2)
