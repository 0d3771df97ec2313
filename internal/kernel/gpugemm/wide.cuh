// bf16 product for Hopper (compute capability 9.0), for products with few tiles. The two multiplying
// warpgroups of a block compute one tile of 128 x BN elements of C together, 64 rows each. The blocks of
// a cluster can divide k among them. Each block then adds a part of the sums of all of them, in the order of
// k, so that a result has the same bits every time.
#pragma once
#include "tiles.cuh"

// multiply computes the sums of a tile over this block's part of k.
template <int BN, int STAGES> __device__ __forceinline__ void multiply(float (&d)[BN / 2], const Shared<BN, STAGES> &s, const Place &at, const Work &w, uint32_t group, uint32_t &stage, uint32_t &parity) {
	using S = Shared<BN, STAGES>;
	uint32_t thread = threadIdx.x & 127, last = 0;
#pragma unroll
	for (int i = 0; i < BN / 2; i++) d[i] = 0;
	for (uint32_t step = 0; step < w.steps; step++) {
		barrier_wait(s.full + 8 * stage, parity);
		uint32_t here = s.stages + stage * S::STAGE;
		uint64_t a = descriptor(here + group * 64 * ROW), b = descriptor(here + S::A_BYTES);
		wgmma_fence();
#pragma unroll
		for (int k = 0; k < 4; k++) Bf16<BN>::product(d, a + 2 * k, b + 2 * k);
		wgmma_commit();
		wgmma_wait<1>();
		if (step > 0 && thread < at.pairs) arrive(s.empty + 8 * last, at.first + thread);
		last = stage;
		if (++stage == STAGES) stage = 0, parity ^= 1;
	}
	wgmma_wait<0>();
	if (thread < at.pairs) arrive(s.empty + 8 * last, at.first + thread);
}

// add_parts adds the sums of all parts of k. The units of 16 columns are dealt to the blocks that divide
// k; each receives its units from all of them in its stages, which are no longer in use, and stores their
// sums.
template <int BN> __device__ __forceinline__ void add_parts(const Params &p, const float (&d)[BN / 2], uint32_t memory, const Place &at, uint32_t row, uint32_t col) {
	constexpr uint32_t HALF = 256 * 16, UNIT = 2 * HALF, UNITS = BN / 16; // a unit has 32 bytes of each thread
	uint32_t most = (UNITS + at.parts - 1) / at.parts, mine = memory + threadIdx.x * 16, to = 0;
	uint32_t slot = mine + at.part * most * UNIT;
	cluster_arrive();
	cluster_wait(); // all stages of the cluster are free
#pragma unroll
	for (int i = 0; i < BN / 2; i += 8) {
		asm volatile("{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\nst.shared::cluster.v4.f32 [at], {%2, %3, %4, %5};\nst.shared::cluster.v4.f32 [at + 4096], {%6, %7, %8, %9};\n}"
					 ::"r"(slot), "r"(to * at.pairs + at.pair), "f"(d[i]), "f"(d[i + 1]), "f"(d[i + 2]), "f"(d[i + 3]), "f"(d[i + 4]), "f"(d[i + 5]), "f"(d[i + 6]), "f"(d[i + 7]) : "memory");
		bool round = ++to == at.parts;
		to = round ? 0 : to;
		slot += round ? UNIT : 0;
	}
	cluster_arrive();
	cluster_wait();
#pragma unroll 1
	for (uint32_t u = at.part; u < UNITS; u += at.parts, mine += UNIT) {
		float sum[8] = {};
		for (uint32_t from = 0; from < at.parts; from++)
#pragma unroll
			for (int half = 0; half < 2; half++) {
				float x, y, z, w;
				asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"(mine + from * most * UNIT + half * HALF) : "memory");
				sum[4 * half] += x, sum[4 * half + 1] += y, sum[4 * half + 2] += z, sum[4 * half + 3] += w;
			}
		store<16>(p, sum, row, col + 16 * u);
	}
}

// run is the kernel. Warpgroups 0 and 1 multiply, and the third one fetches.
template <int BN, int STAGES> __device__ __forceinline__ void run(const Params &p) {
	using S = Shared<BN, STAGES>;
	extern __shared__ __align__(1024) uint8_t memory[];
	S s((uint32_t)__cvta_generic_to_shared(memory));
	Place at(p);
	Work w(p, at);
	start(s, at, 2);
	uint32_t group = threadIdx.x / 128, lane = threadIdx.x & 31, warp = threadIdx.x / 32 & 3;
	if (group == 2) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadIdx.x == 256) fetch_tiles<BN, STAGES, 64>(p, s, at, w);
		__syncwarp();
		if (at.parts > 1) {
			cluster_arrive();
			cluster_wait();
		}
	} else {
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		uint32_t stage = 0, parity = 0;
		float d[BN / 2];
		for (uint32_t unit = at.cluster, n = 0; unit < w.units; unit += at.clusters, n++) {
			uint32_t row, col;
			multiply<BN, STAGES>(d, s, at, w, group, stage, parity);
			asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(row), "=r"(col) : "r"(s.places + n % S::PLACES * 8) : "memory");
			row += group * 64 + warp * 16 + (lane >> 2);
			if (at.parts > 1) {
				add_parts<BN>(p, d, s.stages, at, row, col); // the grid has a cluster for each unit
				return;
			}
			store<BN>(p, d, row, col);
		}
	}
	// No block ends before the others have written to it: sums, and arrivals at its barriers.
	cluster_arrive();
	cluster_wait();
}

#define TOGETHER(bn, stages) \
	extern "C" __global__ void __launch_bounds__(THREADS, 1) wide##bn##_90a(const __grid_constant__ Params p) { run<bn, stages>(p); }
