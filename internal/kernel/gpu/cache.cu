// Measures the bandwidth of the GPU's L2 cache with loads, or loads and stores, of memory
// that stays in it. There are no sums and no barriers.
#include "common.cuh"

// Cache is the kernel argument; CacheParams in gpu.go mirrors it.
struct Cache {
	u64 memory; // packs of zeros, followed by as many packs to store into
	u64 sink;   // written if a pack is not zero, so that the compiler cannot drop the loads
	u64 packs;
	u32 rounds;
	u32 readers; // neighbouring blocks that load the same packs
};
static_assert(sizeof(Cache) == 32, "CacheParams of gpu.go");

// FLIGHT is the number of loads a thread has in flight. Their addresses are the same in every
// round, so that the loop contains nothing but loads.
enum { FLIGHT = 4 };

// load always reaches the L2 cache. The compiler would hoist plain loads out of a loop that
// stores nothing.
__device__ __forceinline__ uint4 load(const uint4 *at) {
	uint4 v;
	asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
	return v;
}

// own returns the address of this thread's u-th pack.
__device__ __forceinline__ uint4 *own(const Cache &c, u32 u) {
	u64 lane = (u64)(blockIdx.x / c.readers) * blockDim.x + threadIdx.x, step = (u64)(gridDim.x / c.readers) * blockDim.x;
	return (uint4 *)c.memory + (lane + u * step) % c.packs;
}

extern "C" __global__ void __launch_bounds__(512, 2) cache_read(const __grid_constant__ Cache c) {
	const uint4 *at[FLIGHT];
#pragma unroll
	for (int u = 0; u < FLIGHT; u++) at[u] = own(c, u);
	u32 seen = 0;
	for (u32 round = 0; round < c.rounds; round++) {
		uint4 v[FLIGHT];
#pragma unroll
		for (int u = 0; u < FLIGHT; u++) v[u] = load(at[u]);
#pragma unroll
		for (int u = 0; u < FLIGHT; u++) seen |= v[u].x | v[u].y | v[u].z | v[u].w;
	}
	if (seen != 0) *(u32 *)c.sink = seen;
}

extern "C" __global__ void __launch_bounds__(512, 2) cache_copy(const __grid_constant__ Cache c) {
	uint4 *at[FLIGHT];
#pragma unroll
	for (int u = 0; u < FLIGHT; u++) at[u] = own(c, u);
	for (u32 round = 0; round < c.rounds; round++) {
		uint4 v[FLIGHT];
#pragma unroll
		for (int u = 0; u < FLIGHT; u++) v[u] = load(at[u]);
#pragma unroll
		for (int u = 0; u < FLIGHT; u++)
			asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at[u] + c.packs), "r"(v[u].x), "r"(v[u].y), "r"(v[u].z), "r"(v[u].w) : "memory");
	}
}
