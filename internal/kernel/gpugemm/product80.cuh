// bf16 product with mma.sync, for compute capability 8.0 and later. A block computes 128 x 128
// elements of C. cp.async brings the operands into four stages of shared memory, and ldmatrix from
// there into registers.
#pragma once
#include "product.cuh"

constexpr int BM = 128, BN = 128, BK = 32, STAGES = 4, THREADS = 256;
constexpr int STAGE = (BM + BN) * BK * 2; // bytes

// A row of a stage has 64 bytes, four pieces of 16, and two rows share 128 bytes. The pieces are
// swizzled so that the eight rows of a column, which ldmatrix reads at once, lie in different banks.
__device__ __forceinline__ uint32_t piece_at(uint32_t row, uint32_t piece) { return row * 64 + ((piece ^ (row >> 1 & 3)) << 4); }

__device__ __forceinline__ void copy16(uint32_t to, const void *from, bool there) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}

template <class P> __device__ __forceinline__ void load_stage(uint32_t to, const P &p, uint32_t row, uint32_t col, uint32_t k) {
#pragma unroll
	for (int i = 0; i < BM * 4 / THREADS; i++) {
		uint32_t at = threadIdx.x + i * THREADS, r = at >> 2, piece = at & 3;
		bool there = row + r < p.m;
		copy16(to + piece_at(r, piece), p.a + (size_t)(there ? row + r : 0) * p.lda + k + piece * 8, there);
	}
#pragma unroll
	for (int i = 0; i < BN * 4 / THREADS; i++) {
		uint32_t at = threadIdx.x + i * THREADS, r = at >> 2, piece = at & 3;
		bool there = col + r < p.n;
		copy16(to + BM * 64 + piece_at(r, piece), p.b + (size_t)(there ? col + r : 0) * p.ldb + k + piece * 8, there);
	}
}

__device__ __forceinline__ void ldmatrix(uint32_t r[4], uint32_t at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
				 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// multiply computes the tile of C at (row, col). shared is the address of STAGES * STAGE bytes of
// shared memory. It calls finish with the thread's elements and the position of its warp's 64 x 32
// part. acc[i][j] belongs to the i-th 16 rows and the j-th 8 columns of that part: two elements of
// row lane / 4 from column lane % 4 * 2 on, then two of the row 8 below.
template <class P, class Finish> __device__ __forceinline__ void multiply(const P &p, uint32_t shared, uint32_t row, uint32_t col, Finish finish) {
	uint32_t lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	uint32_t warp_row = (warp >> 2) * 64, warp_col = (warp & 3) * 32;
	int steps = p.k / BK;
	float acc[4][4][4] = {};

#pragma unroll
	for (int s = 0; s < STAGES - 1; s++) {
		if (s < steps) load_stage(shared + s * STAGE, p, row, col, s * BK);
		asm volatile("cp.async.commit_group;");
	}
	for (int step = 0; step < steps; step++) {
		asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
		__syncthreads();
		int next = step + STAGES - 1;
		if (next < steps) load_stage(shared + next % STAGES * STAGE, p, row, col, next * BK);
		asm volatile("cp.async.commit_group;");
		uint32_t a_at = shared + step % STAGES * STAGE, b_at = a_at + BM * 64;
#pragma unroll
		for (int k = 0; k < 2; k++) {
			uint32_t a[4][4], b[2][4];
#pragma unroll
			for (int i = 0; i < 4; i++) ldmatrix(a[i], a_at + piece_at(warp_row + i * 16 + (lane & 15), k * 2 + (lane >> 4)));
#pragma unroll
			for (int j = 0; j < 2; j++) ldmatrix(b[j], b_at + piece_at(warp_col + j * 16 + (lane & 7) + (lane >> 4 << 3), k * 2 + (lane >> 3 & 1)));
#pragma unroll
			for (int i = 0; i < 4; i++)
#pragma unroll
				for (int j = 0; j < 4; j++) mma(acc[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
		}
	}
	finish(acc, row + warp_row, col + warp_col);
}
