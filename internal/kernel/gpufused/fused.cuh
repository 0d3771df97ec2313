// Shared by the kernels that overlap a matrix product with the all-reduce of its result: the
// argument, the flags and waits between ranks, and the sums. Params mirrors gpufused.go.
#pragma once
#include "../gpugemm/product.cuh"

typedef unsigned int u32;
typedef unsigned long long u64;

#define MAX_RANKS 16

// Failure is written by the first block whose wait times out. It lies in host memory.
struct Failure {
	u32 claimed, rank, block, phase, peer, epoch, seen, unused;
};

// NO_PRODUCT only adds what C holds already, NO_SUM only multiplies. They measure the two
// halves of the fused kernel alone.
enum { NO_PRODUCT = 1, NO_SUM = 2 };

struct Params {
	u64 c[MAX_RANKS], flags[MAX_RANKS]; // by rank, as mapped in this rank's address space
	u64 failure;      // Failure*
	u64 limit_ns;     // timeout of one wait
	u64 first, packs; // the packs of C, 16 bytes each, to add
	const uint16_t *a, *b; // A has m rows of k elements, B has n rows of k elements
	u32 rank, size, epoch, options;
	u32 m, n, k, lda, ldb, ldc; // k is a multiple of 64, ldc of 4
	u32 arrived;      // value of this rank's arrival counter before this launch
	TensorMap map_a, map_b; // used by the Hopper kernel's bulk tensor copies
};

static_assert(sizeof(Params) == 640, "Params of gpufused.go");

// Layout of a rank's flags: one gate flag per peer; from word 32, the counter of summed tiles that
// have arrived; from word 64, for each tile one flag per peer, set when that peer has multiplied it.
__device__ __forceinline__ u32 *gate_flag(const Params &p, u32 rank, u32 from) { return (u32 *)p.flags[rank] + from; }
__device__ __forceinline__ u32 *arrivals(const Params &p, u32 rank) { return (u32 *)p.flags[rank] + 32; }
__device__ __forceinline__ u32 *tile_flag(const Params &p, u32 rank, u32 tile, u32 from) {
	return (u32 *)p.flags[rank] + 64 + (u64)tile * MAX_RANKS + from;
}

__device__ __forceinline__ void store_release(u32 *at, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
__device__ __forceinline__ void add_release(u32 *at, u32 v) { asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
__device__ __forceinline__ u32 load_acquire(const u32 *at) {
	u32 v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
	return v;
}
__device__ __forceinline__ u64 now_ns() {
	u64 t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

// await waits until a flag has reached value. It returns false after a timeout, which the first
// block to time out records in Failure, or if a failure was recorded before.
__device__ __forceinline__ bool await(const Params &p, const u32 *flag, u32 value, u32 phase, u32 peer) {
	u64 start = 0;
	for (u32 spins = 1;; spins++) {
		u32 seen = load_acquire(flag);
		if ((int)(seen - value) >= 0) return true;
		if (spins % 256 != 0) continue;
		Failure *f = (Failure *)p.failure;
		if (*(volatile u32 *)&f->claimed != 0) return false;
		if (start == 0) start = now_ns();
		if (now_ns() - start <= p.limit_ns) continue;
		if (atomicCAS_system(&f->claimed, 0u, 1u) == 0) {
			f->rank = p.rank, f->block = blockIdx.x, f->phase = phase, f->peer = peer, f->epoch = value, f->seen = seen;
			__threadfence_system();
			atomicExch_system(&f->claimed, 2u);
		}
		return false;
	}
}

__device__ __forceinline__ float4 load16(u64 at) { // bypasses L1: another rank wrote the data
	float4 v;
	asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at) : "memory");
	return v;
}
__device__ __forceinline__ void store16(u64 at, float4 v) {
	asm volatile("st.global.cs.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

__device__ __forceinline__ void add(float4 &to, float4 v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; }

// add_packs adds UNROLL packs of C, step bytes apart, over all ranks in rank order and stores the
// sums at all ranks. Only the owner of a pack reads it, so the sums may replace the summands.
template <int RANKS, int UNROLL> __device__ __forceinline__ void add_packs(const Params &p, u64 offset, u64 step) {
	const u32 ranks = RANKS ? RANKS : p.size;
	float4 sum[UNROLL];
	if (RANKS) { // all loads in flight at once
		float4 v[UNROLL][RANKS ? RANKS : 1];
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
#pragma unroll
			for (int r = 0; r < RANKS; r++) v[u][r] = load16(p.c[r] + offset + u * step);
#pragma unroll
		for (int u = 0; u < UNROLL; u++) {
			sum[u] = v[u][0];
#pragma unroll
			for (int r = 1; r < RANKS; r++) add(sum[u], v[u][r]);
		}
	} else {
#pragma unroll
		for (int u = 0; u < UNROLL; u++) sum[u] = load16(p.c[0] + offset + u * step);
		for (u32 r = 1; r < ranks; r++)
#pragma unroll
			for (int u = 0; u < UNROLL; u++) add(sum[u], load16(p.c[r] + offset + u * step));
	}
#pragma unroll
	for (u32 r = 0; r < (RANKS ? RANKS : MAX_RANKS); r++)
		if (RANKS || r < ranks)
#pragma unroll
			for (int u = 0; u < UNROLL; u++) store16(p.c[r] + offset + u * step, sum[u]);
}
