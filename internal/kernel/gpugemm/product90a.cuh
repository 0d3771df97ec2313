// bf16 product for Hopper (compute capability 9.0). A cluster of two blocks computes 256 x 256
// elements of C; each block computes 128 x 256 with wgmma in two warpgroups. A third warpgroup
// fetches the operands with bulk tensor copies, four stages ahead. Each block fetches one half of B
// for both blocks.
#pragma once
#include "bulk.cuh"
#include "product.cuh"
#include "wgmma.cuh"

constexpr int BM = 128, BN = 256, BK = 64, STAGES = 4, THREADS = 384, CONSUMERS = 2;
constexpr int A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE = A_BYTES + B_BYTES;

WGMMA(product, "k16.f32.bf16.bf16", ", 0, 0")

// Computing the position of a tile takes divisions. The fetching thread does them ahead of time and
// passes the position, with a mark of the job, to the multiplying warpgroups through shared memory.
constexpr int PLACES = 2 * STAGES; // more than the tiles that can be fetched but not finished
constexpr int SHARED = STAGES * STAGE + (2 * STAGES + PLACES) * 8;

__device__ __forceinline__ void leave_place(uint32_t at, uint32_t row, uint32_t col, bool mark) {
	asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(row), "r"(col << 1 | mark) : "memory");
}
__device__ __forceinline__ bool take_place(uint32_t at, uint32_t &row, uint32_t &col) {
	uint32_t marked;
	asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];" : "=r"(row), "=r"(marked) : "r"(at) : "memory");
	col = marked >> 1;
	return marked & 1;
}

// multiply computes the tiles of C that job assigns to this cluster. stages is the address of SHARED
// bytes of shared memory for stages and barriers. All threads of the cluster call multiply and
// return together. The job provides:
//
//	init     one thread calls it to initialise barriers of its own
//	begin    the fetching thread calls it before the first fetch
//	count    the number of tiles for this cluster, of all tiles of C
//	nth      the index of its n-th tile
//	mark     a boolean about a tile that is passed on to finish
//	helpers  runs on the remaining threads of the fetching warpgroup
//	finish   if FINISHES is set: all threads of a warpgroup call it with their elements, and it stores
//	         the tile; otherwise multiply stores the tile at p.c
//
// d[i][0..3] belongs to group 2i of eight columns, d[i][4..7] to group 2i+1: two elements of one row,
// then two of the row 8 below. (r, c) is the position of the first element.
template <class P, class Job> __device__ __forceinline__ void multiply(const P &p, uint32_t stages, Job &job) {
	uint32_t full = stages + STAGES * STAGE, empty = full + 8 * STAGES, places = empty + 8 * STAGES;
	uint32_t rank = blockIdx.x & 1, group = threadIdx.x / 128;
	if (threadIdx.x == 0) {
		for (int s = 0; s < STAGES; s++) {
			barrier_init(full + 8 * s, 1);
			barrier_init(empty + 8 * s, 2 * CONSUMERS);
		}
		job.init();
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	cluster_sync();

	uint32_t rows = (p.m + 2 * BM - 1) / (2 * BM), cols = (p.n + BN - 1) / BN, steps = p.k / BK;
	uint32_t count = job.count(p, rows * cols);
	uint32_t stage = 0, parity = 0;
	if (group == 0) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadIdx.x == 0) {
			job.begin();
			for (uint32_t n = 0; n < count; n++) {
				uint32_t tile = job.nth(p, n, rows * cols), row, col;
				tile_at(tile, rows, cols, row, col);
				leave_place(places + n % PLACES * 8, row, col, job.mark(tile));
				for (uint32_t step = 0; step < steps; step++) {
					barrier_wait(empty + 8 * stage, parity ^ 1);
					uint32_t at = stages + stage * STAGE;
					expect(full + 8 * stage, STAGE);
					fetch(at, p.map_a, step * BK, row * 2 * BM + rank * BM, full + 8 * stage);
					fetch_for_both(at + A_BYTES + rank * (B_BYTES / 2), p.map_b, step * BK, col * BN + rank * (BN / 2), full + 8 * stage);
					if (++stage == STAGES) stage = 0, parity ^= 1;
				}
			}
		} else {
			job.helpers(rows * cols, count);
		}
	} else {
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		uint32_t who = group - 1, lane = threadIdx.x & 31, warp = threadIdx.x / 32 & 3;
		float d[16][8];
		for (uint32_t n = 0; n < count; n++) {
			uint32_t row, col, last = 0;
			// Clear explicitly: if the first wgmma could overwrite instead of add, ptxas would serialise them.
#pragma unroll
			for (int i = 0; i < 128; i++) d[i / 8][i % 8] = 0;
			for (uint32_t step = 0; step < steps; step++) {
				barrier_wait(full + 8 * stage, parity);
				uint64_t a = descriptor(stages + stage * STAGE + who * 64 * 128), b = descriptor(stages + stage * STAGE + A_BYTES);
				wgmma_fence();
#pragma unroll
				for (int k = 0; k < BK / 16; k++) product(d, a + 2 * k, b + 2 * k, 1);
				wgmma_commit();
				wgmma_wait<1>();
				if (step > 0 && (threadIdx.x & 127) < 2) arrive(empty + 8 * last, threadIdx.x & 127);
				last = stage;
				if (++stage == STAGES) stage = 0, parity ^= 1;
			}
			wgmma_wait<0>();
			if ((threadIdx.x & 127) < 2) arrive(empty + 8 * last, threadIdx.x & 127);
			bool marked = take_place(places + n % PLACES * 8, row, col);
			uint32_t r = row * 2 * BM + rank * BM + who * 64 + warp * 16 + (lane >> 2), c = col * BN + (lane & 3) * 2;
			if constexpr (Job::FINISHES) {
				job.finish(d, marked, who, r, c);
			} else {
				float *to = p.c + (size_t)r * p.ldc + c;
#pragma unroll
				for (int half = 0; half < 2; half++) {
					if (r + 8 * half >= p.m) break;
#pragma unroll
					for (int j = 0; j < 32; j++)
						if (c + 8 * j < p.n)
							*(float2 *)(to + (size_t)(8 * half) * p.ldc + 8 * j) = make_float2(d[j >> 1][(j & 1) * 4 + half * 2], d[j >> 1][(j & 1) * 4 + half * 2 + 1]);
				}
			}
		}
	}
	cluster_sync(); // the other block may still arrive at this block's barriers
}
