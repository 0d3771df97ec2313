// bf16 product for Hopper (compute capability 9.0), for products with many tiles. The grid has as many
// blocks as fit on the GPU; each computes one tile of 128 x BN elements of C after another. In a block,
// two warpgroups take turns: one multiplies a tile with wgmma, while the other one stores its last one.
#pragma once
#include "tiles.cuh"

// multiply_tiles computes every second tile of this block, beginning with the warpgroup's own number.
template <int BN, int STAGES> __device__ __forceinline__ void multiply_tiles(const Params &p, const Shared<BN, STAGES> &s, const Place &at, const Work &w, uint32_t group) {
	using S = Shared<BN, STAGES>;
	uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32 & 3, thread = threadIdx.x & 127;
	float upper[BN / 2], lower[BN / 2]; // 64 rows each
	for (uint32_t n = group; at.cluster + n * at.clusters < w.units; n += 2) {
		uint32_t row, col, last = 0, first = n * w.steps, stage = first % STAGES, parity = first / STAGES & 1;
#pragma unroll
		for (int i = 0; i < BN / 2; i++) upper[i] = 0, lower[i] = 0;
		// A barrier tells only whether the phase before the current one has ended. So do not wait for a stage
		// before the other warpgroup has seen its last phase.
		if (n > 0) barrier_wait(s.turns + 8 * (group ^ 1), (n - 1) / 2 & 1);
		for (uint32_t step = 0; step < w.steps; step++) {
			barrier_wait(s.full + 8 * stage, parity);
			uint64_t a = descriptor(s.stages + stage * S::STAGE), b = descriptor(s.stages + stage * S::STAGE + S::A_BYTES);
			wgmma_fence();
#pragma unroll
			for (int k = 0; k < 4; k++) {
				Bf16<BN>::product(upper, a + 2 * k, b + 2 * k);
				Bf16<BN>::product(lower, a + (64 * ROW >> 4) + 2 * k, b + 2 * k);
			}
			wgmma_commit();
			wgmma_wait<1>();
			if (step > 0 && thread < at.pairs) arrive(s.empty + 8 * last, at.first + thread);
			last = stage;
			if (++stage == STAGES) stage = 0, parity ^= 1;
		}
		if (thread == 0) arrive_here(s.turns + 8 * group);
		wgmma_wait<0>();
		if (thread < at.pairs) arrive(s.empty + 8 * last, at.first + thread);
		asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(row), "=r"(col) : "r"(s.places + n % S::PLACES * 8) : "memory");
		row += warp * 16 + (lane >> 2);
		store<BN>(p, upper, row, col);
		store<BN>(p, lower, row + 64, col);
	}
}

template <int BN, int STAGES> __device__ __forceinline__ void run(const Params &p) {
	extern __shared__ __align__(1024) uint8_t memory[];
	Shared<BN, STAGES> s((uint32_t)__cvta_generic_to_shared(memory));
	Place at(p);
	Work w(p, at);
	start(s, at, 1);
	uint32_t group = threadIdx.x / 128;
	if (group == 0) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadIdx.x == 0) fetch_tiles<BN, STAGES, 64>(p, s, at, w);
	} else {
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		multiply_tiles<BN, STAGES>(p, s, at, w, group - 1);
	}
	cluster_sync(); // the other block of the pair may still arrive at this block's barriers
}

#define TURNS(bn, stages) \
	extern "C" __global__ void __launch_bounds__(THREADS, 1) turns##bn##_90a(const __grid_constant__ Params p) { run<bn, stages>(p); }
