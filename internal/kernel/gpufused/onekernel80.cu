// One kernel that multiplies and adds up: blocks multiply tile after tile and signal each to
// its owner, a rank; the owner's first blocks, the adders, wait for a tile of all ranks, add
// it up, store the sum at all and say so. Only adders wait, and blocks that multiply never
// do, so all is done as long as the adders of all ranks leave room for one that multiplies.
//
// The product is that of gemm80.cu (bf16 by mma.sync, tiles of 128 x 128, four stages).
#include "fused.cuh"

constexpr int BM = 128, BN = 128, BK = 32, STAGES = 4, THREADS = 256;
constexpr int STAGE = (BM + BN) * BK * 2; // bytes

__device__ __forceinline__ void tile_at(u32 index, u32 rows, u32 cols, u32 &row, u32 &col) {
	const u32 group = 8, wide = group * cols;
	u32 first = index / wide * group, high = rows - first < group ? rows - first : group;
	row = first + index % wide % high;
	col = index % wide / high;
}

__device__ __forceinline__ u32 piece_at(u32 row, u32 piece) { return row * 64 + ((piece ^ (row >> 1 & 3)) << 4); }

__device__ __forceinline__ void copy16(u32 to, const void *from, bool there) {
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0));
}

__device__ __forceinline__ void load_stage(u32 to, const Params &p, u32 row, u32 col, u32 k) {
#pragma unroll
	for (int i = 0; i < BM * 4 / THREADS; i++) {
		u32 at = threadIdx.x + i * THREADS, r = at >> 2, piece = at & 3;
		bool there = row + r < p.m;
		copy16(to + piece_at(r, piece), p.a + (size_t)(there ? row + r : 0) * p.lda + k + piece * 8, there);
	}
#pragma unroll
	for (int i = 0; i < BN * 4 / THREADS; i++) {
		u32 at = threadIdx.x + i * THREADS, r = at >> 2, piece = at & 3;
		bool there = col + r < p.n;
		copy16(to + BM * 64 + piece_at(r, piece), p.b + (size_t)(there ? col + r : 0) * p.ldb + k + piece * 8, there);
	}
}

__device__ __forceinline__ void ldmatrix(u32 r[4], u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void mma(float c[4], const u32 a[4], u32 b0, u32 b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
				 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply(const Params &p, u32 shared, u32 row, u32 col) {
	u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	u32 warp_row = (warp >> 2) * 64, warp_col = (warp & 3) * 32;
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
		u32 a_at = shared + step % STAGES * STAGE, b_at = a_at + BM * 64;
#pragma unroll
		for (int k = 0; k < 2; k++) {
			u32 a[4][4], b[2][4];
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
	float *to = (float *)p.c[p.rank];
#pragma unroll
	for (int i = 0; i < 4; i++)
#pragma unroll
		for (int half = 0; half < 2; half++) {
			u32 r = row + warp_row + i * 16 + half * 8 + (lane >> 2);
			if (r >= p.m) continue;
#pragma unroll
			for (int j = 0; j < 4; j++) {
				u32 c = col + warp_col + j * 8 + (lane & 3) * 2;
				if (c < p.n) *(float2 *)(to + (size_t)r * p.ldc + c) = make_float2(acc[i][j][half * 2], acc[i][j][half * 2 + 1]);
			}
		}
}

// add_tile adds up a tile of all ranks: a warp has a row of 32 packs, what is behind the
// last column of C up to ldc included.
template <int RANKS> __device__ __forceinline__ void add_tile(const Params &p, u32 row, u32 col) {
	u32 c = col + (threadIdx.x & 31) * 4;
	if (c >= p.ldc) return;
	for (u32 r = row + (threadIdx.x >> 5); r < row + BM && r < p.m; r += THREADS / 32)
		add_packs<RANKS, 1>(p, ((u64)r * p.ldc + c) * 4, 0);
}

template <int RANKS> __device__ __forceinline__ void one_kernel(const Params &p) {
	extern __shared__ __align__(128) uint8_t memory[];
	u32 rows = (p.m + BM - 1) / BM, cols = (p.n + BN - 1) / BN, tiles = rows * cols, row, col;
	if (blockIdx.x >= p.adders) {
		u32 shared = (u32)__cvta_generic_to_shared(memory);
		for (u32 tile = blockIdx.x - p.adders; tile < tiles; tile += gridDim.x - p.adders) {
			tile_at(tile, rows, cols, row, col);
			if (!(p.options & NO_PRODUCT)) multiply(p, shared, row * BM, col * BN);
			__syncthreads(); // all of the tile is stored, and nobody still reads the stages
			if (threadIdx.x == 0) store_release(tile_flag(p, tile % p.size, tile, p.rank), p.epoch);
		}
		return;
	}
	if (p.options & NO_SUM) return;
	for (u32 tile = p.rank + blockIdx.x * p.size; tile < tiles; tile += p.adders * p.size) {
		bool there = true;
		if (threadIdx.x < p.size) there = await(p, tile_flag(p, p.rank, tile, threadIdx.x), p.epoch, 3, threadIdx.x);
		if (!__syncthreads_and(there)) return;
		tile_at(tile, rows, cols, row, col);
		add_tile<RANKS>(p, row * BM, col * BN);
		__syncthreads();
		if (threadIdx.x < p.size) add_release(come(p, threadIdx.x), 1);
	}
	// The rank is done when all its tiles have come, whoever added them up.
	if (blockIdx.x == 0 && threadIdx.x == 0) await(p, come(p, p.rank), p.arrived + tiles, 2, p.rank);
}

#define ONE_KERNEL(suffix, ranks) \
	extern "C" __global__ void __launch_bounds__(THREADS, 2) onekernel80_bf16_##suffix(const __grid_constant__ Params p) { one_kernel<ranks>(p); }
ONE_KERNEL(2, 2)
ONE_KERNEL(4, 4)
ONE_KERNEL(8, 8)
ONE_KERNEL(any, 0)
