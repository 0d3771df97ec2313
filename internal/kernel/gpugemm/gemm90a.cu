// bf16 product for Hopper (compute capability 9.0). The grid has as many clusters as fit on the GPU;
// each computes one tile after another.
#include "params.cuh"
#include "product90a.cuh"

// Alone is the job of a product without an all-reduce; see multiply.
struct Alone {
	static constexpr bool FINISHES = false;

	__device__ __forceinline__ void init() {}
	__device__ __forceinline__ void begin() {}
	__device__ __forceinline__ uint32_t count(const Params &, uint32_t tiles) { return (tiles - blockIdx.x / 2 + gridDim.x / 2 - 1) / (gridDim.x / 2); }
	__device__ __forceinline__ uint32_t nth(const Params &, uint32_t n, uint32_t) { return blockIdx.x / 2 + n * (gridDim.x / 2); }
	__device__ __forceinline__ bool mark(uint32_t) { return false; }
	__device__ __forceinline__ void helpers(uint32_t, uint32_t) {}
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1) gemm90a_bf16(const __grid_constant__ Params p) {
	extern __shared__ __align__(1024) uint8_t memory[]; // the stages, and a full and an empty barrier per stage
	Alone job;
	multiply(p, (uint32_t)__cvta_generic_to_shared(memory), job);
}
