// e4m3 (fp8) product for Hopper (compute capability 9.0). The two multiplying warpgroups of a block compute
// tiles of 128 x BN elements of C together, 64 rows each. The matrix units keep only 13 bits of a sum, so
// the sums of 128 products are added up in f32 (proof.Close assumes that). While one warpgroup adds, the
// other one multiplies. The result is multiplied by p.scale, the product of the operands' scales.
#pragma once
#include "tiles.cuh"

template <int BN, int STAGES> __device__ __forceinline__ void multiply_tiles(const Params &p, const Shared<BN, STAGES> &s, const Place &at, const Work &w, uint32_t group) {
	using S = Shared<BN, STAGES>;
	uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32 & 3, thread = threadIdx.x & 127, stage = 0, parity = 0;
	float d[BN / 2], sum[BN / 2];
	for (uint32_t unit = at.cluster, n = 0; unit < w.units; unit += at.clusters, n++) {
		uint32_t row, col;
#pragma unroll
		for (int i = 0; i < BN / 2; i++) sum[i] = 0;
		for (uint32_t step = 0; step < w.steps; step++) {
			barrier_wait(s.full + 8 * stage, parity);
			uint32_t here = s.stages + stage * S::STAGE;
			uint64_t a = descriptor(here + group * 64 * ROW), b = descriptor(here + S::A_BYTES);
			wgmma_fence();
#pragma unroll
			for (int k = 0; k < 4; k++) E4m3<BN>::product(d, a + 2 * k, b + 2 * k, k > 0);
			wgmma_commit();
			wgmma_wait<0>();
			if (thread < at.pairs) arrive(s.empty + 8 * stage, at.first + thread);
#pragma unroll
			for (int i = 0; i < BN / 2; i++) sum[i] += d[i];
			if (++stage == STAGES) stage = 0, parity ^= 1;
		}
		asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(row), "=r"(col) : "r"(s.places + n % S::PLACES * 8) : "memory");
#pragma unroll
		for (int i = 0; i < BN / 2; i++) sum[i] *= p.scale;
		store<BN>(p, sum, row + group * 64 + warp * 16 + (lane >> 2), col);
	}
}

template <int BN, int STAGES> __device__ __forceinline__ void run(const Params &p) {
	extern __shared__ __align__(1024) uint8_t memory[];
	Shared<BN, STAGES> s((uint32_t)__cvta_generic_to_shared(memory));
	Place at(p);
	Work w(p, at);
	start(s, at, 2);
	uint32_t group = threadIdx.x / 128;
	if (group == 0) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadIdx.x == 0) fetch_tiles<BN, STAGES, 128>(p, s, at, w);
	} else {
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		multiply_tiles<BN, STAGES>(p, s, at, w, group - 1);
	}
	cluster_sync(); // the other block of the pair may still arrive at this block's barriers
}

#define FP8(bn, stages) \
	extern "C" __global__ void __launch_bounds__(THREADS, 1) fp8x##bn##_90a(const __grid_constant__ Params p) { run<bn, stages>(p); }
