// bf16 product for Hopper (compute capability 9.0). The grid has as many clusters of two blocks as fit
// on the GPU; each computes one tile of 256 x 128 elements of C after another. In a block, two
// warpgroups take turns: one multiplies its half of a tile, 128 x 128, with wgmma, while the other one
// stores its last one. A third warpgroup fetches the operands with bulk tensor copies, six stages
// ahead. Each block fetches one half of B for both blocks.
#include "bulk.cuh"
#include "narrow.cuh"
#include "params.cuh"

constexpr uint32_t BM = 128, BN = 128, BK = 64, STAGES = 6, THREADS = 384;
constexpr uint32_t A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE = A_BYTES + B_BYTES;
constexpr uint32_t PLACES = 2 * STAGES; // more than the tiles that can be fetched but not finished

__device__ __forceinline__ void arrive_here(uint32_t at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }

// Shared holds addresses in shared memory: the stages, a full and an empty barrier per stage, the
// positions of tiles, and a barrier for the turns of each multiplying warpgroup.
struct Shared {
	uint32_t stages, full, empty, places, turns;

	__device__ __forceinline__ explicit Shared(uint32_t at)
		: stages(at), full(at + STAGES * STAGE), empty(full + 8 * STAGES), places(empty + 8 * STAGES), turns(places + 8 * PLACES) {}
};

// fetch_tiles fetches the operands of all tiles of this cluster. It computes the position of a tile,
// which takes divisions, ahead of time and passes it on.
__device__ __forceinline__ void fetch_tiles(const Params &p, const Shared &s, uint32_t rows, uint32_t cols, uint32_t count) {
	uint32_t rank = blockIdx.x & 1, stage = 0, parity = 0;
	prefetch_map(p.map_a);
	prefetch_map(p.map_b);
	wait_previous();
	for (uint32_t n = 0; n < count; n++) {
		uint32_t row, col;
		tile_at(blockIdx.x / 2 + n * (gridDim.x / 2), rows, cols, row, col);
		asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %2};" ::"r"(s.places + n % PLACES * 8), "r"(row), "r"(col) : "memory");
		for (uint32_t step = 0; step < p.k / BK; step++) {
			uint32_t at = s.stages + stage * STAGE, full = s.full + 8 * stage;
			barrier_wait(s.empty + 8 * stage, parity ^ 1);
			expect(full, STAGE);
			fetch(at, p.map_a, step * BK, (row * 2 + rank) * BM, full);
			fetch_for_both(at + A_BYTES + rank * (B_BYTES / 2), p.map_b, step * BK, col * BN + rank * (BN / 2), full);
			if (++stage == STAGES) stage = 0, parity ^= 1;
		}
	}
}

// store stores 64 rows of a tile. d[4j..4j+3] belongs to columns 8j + 2 * (lane % 4) and the next: two
// elements of row r, then two of the row 8 below. Neighbouring lanes exchange elements, so that each
// stores 16 bytes.
__device__ __forceinline__ void store(const Params &p, const float (&d)[BN / 2], uint32_t r, uint32_t col) {
	uint32_t lane = threadIdx.x & 31, odd = lane & 1, c = col + (lane & 2) * 2 + odd * 8;
	bool aligned = !(p.ldc & 3) && !((uintptr_t)p.c & 15);
#pragma unroll
	for (int half = 0; half < 2; half++) {
		float *to = p.c + (size_t)(r + 8 * half) * p.ldc + c;
#pragma unroll
		for (int j = 0; j < BN / 8; j += 2) {
			float x0 = d[j * 4 + half * 2], y0 = d[j * 4 + half * 2 + 1], x1 = d[j * 4 + 4 + half * 2], y1 = d[j * 4 + 5 + half * 2];
			float x = __shfl_xor_sync(~0u, odd ? x0 : x1, 1), y = __shfl_xor_sync(~0u, odd ? y0 : y1, 1);
			float4 v = odd ? make_float4(x, y, x1, y1) : make_float4(x0, y0, x, y);
			if (r + 8 * half >= p.m) continue;
			if (aligned && c + 8 * j + 4 <= p.n) {
				*(float4 *)(to + 8 * j) = v;
			} else {
				if (c + 8 * j < p.n) to[8 * j] = v.x;
				if (c + 8 * j + 1 < p.n) to[8 * j + 1] = v.y;
				if (c + 8 * j + 2 < p.n) to[8 * j + 2] = v.z;
				if (c + 8 * j + 3 < p.n) to[8 * j + 3] = v.w;
			}
		}
	}
}

// multiply_tiles computes every second tile of this cluster, beginning with the warpgroup's own number.
__device__ __forceinline__ void multiply_tiles(const Params &p, const Shared &s, uint32_t group, uint32_t count) {
	uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32 & 3, thread = threadIdx.x & 127, steps = p.k / BK;
	float upper[BN / 2], lower[BN / 2]; // 64 rows each
	for (uint32_t n = group; n < count; n += 2) {
		uint32_t row, col, last = 0, first = n * steps, stage = first % STAGES, parity = first / STAGES & 1;
#pragma unroll
		for (int i = 0; i < BN / 2; i++) upper[i] = 0, lower[i] = 0;
		// A barrier tells only whether the phase before the current one has ended. So do not wait for a stage
		// before the other warpgroup has seen its last phase.
		if (n > 0) barrier_wait(s.turns + 8 * (group ^ 1), (n - 1) / 2 & 1);
		for (uint32_t step = 0; step < steps; step++) {
			barrier_wait(s.full + 8 * stage, parity);
			uint64_t a = descriptor(s.stages + stage * STAGE), b = descriptor(s.stages + stage * STAGE + A_BYTES);
			wgmma_fence();
#pragma unroll
			for (int k = 0; k < BK / 16; k++) {
				Narrow<BN>::product(upper, a + 2 * k, b + 2 * k);
				Narrow<BN>::product(lower, a + (64 * 128 >> 4) + 2 * k, b + 2 * k);
			}
			wgmma_commit();
			wgmma_wait<1>();
			if (step > 0 && thread < 2) arrive(s.empty + 8 * last, thread);
			last = stage;
			if (++stage == STAGES) stage = 0, parity ^= 1;
		}
		if (thread == 0) arrive_here(s.turns + 8 * group);
		wgmma_wait<0>();
		if (thread < 2) arrive(s.empty + 8 * last, thread);
		asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(row), "=r"(col) : "r"(s.places + n % PLACES * 8) : "memory");
		uint32_t r = (row * 2 + (blockIdx.x & 1)) * BM + warp * 16 + (lane >> 2);
		store(p, upper, r, col * BN);
		store(p, lower, r + 64, col * BN);
	}
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) gemm90a_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(1024) uint8_t memory[];
	Shared s((uint32_t)__cvta_generic_to_shared(memory));
	if (threadIdx.x == 0) {
		for (uint32_t i = 0; i < STAGES; i++) {
			barrier_init(s.full + 8 * i, 1);
			barrier_init(s.empty + 8 * i, 2);
		}
		barrier_init(s.turns, 1);
		barrier_init(s.turns + 8, 1);
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	cluster_sync();
	allow_next();
	uint32_t rows = (p.m + 2 * BM - 1) / (2 * BM), cols = (p.n + BN - 1) / BN, clusters = gridDim.x / 2;
	uint32_t count = (rows * cols - blockIdx.x / 2 + clusters - 1) / clusters, group = threadIdx.x / 128;
	if (group == 0) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadIdx.x == 0) fetch_tiles(p, s, rows, cols, count);
	} else {
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		multiply_tiles(p, s, group - 1, count);
	}
	cluster_sync(); // the other block may still arrive at this block's barriers
}
