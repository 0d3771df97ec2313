// Measures peak arithmetic on Hopper: wgmma on operands that stay in shared memory. The operands
// are random, because constant ones draw less power and allow a higher clock.
#include "params.cuh"
#include "wgmma.cuh"

WGMMA(product_bf16, "k16.f32.bf16.bf16", ", 0, 0")
WGMMA(product_f16, "k16.f32.f16.f16", ", 0, 0")
WGMMA(product_tf32, "k8.f32.tf32.tf32", "")
WGMMA(product_e4m3, "k32.f32.e4m3.e4m3", "")

__device__ __forceinline__ uint32_t noise(uint32_t x) {
	x ^= x >> 16, x *= 0x7feb352d, x ^= x >> 15, x *= 0x846ca68b;
	return x ^ x >> 16;
}

// Operands: 64 rows of 128 bytes for each of two warpgroups, and 256 columns for both.
constexpr int BYTES = (2 * 64 + 256) * 128;

#define PEAK(name, product, keep, one) \
	extern "C" __global__ void __launch_bounds__(256, 1) name(const __grid_constant__ Params p) { \
		extern __shared__ __align__(1024) uint8_t memory[]; \
		for (uint32_t i = threadIdx.x; i < BYTES / 4; i += 256) ((uint32_t *)memory)[i] = (noise(i) & keep) | one; \
		asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); \
		__syncthreads(); \
		uint32_t at = (uint32_t)__cvta_generic_to_shared(memory); \
		uint64_t a = descriptor(at + threadIdx.x / 128 * 64 * 128), b = descriptor(at + 2 * 64 * 128); \
		float d[16][8] = {}; \
		for (uint32_t round = 0; round < p.rounds; round++) { \
			wgmma_fence(); \
			_Pragma("unroll") for (int k = 0; k < 4; k++) product(d, a + 2 * k, b + 2 * k, 1); \
			wgmma_commit(); \
			wgmma_wait<1>(); \
		} \
		wgmma_wait<0>(); \
		float sum = 0; \
		_Pragma("unroll") for (int i = 0; i < 16; i++) _Pragma("unroll") for (int j = 0; j < 8; j++) sum += d[i][j]; \
		p.c[blockIdx.x * 256 + threadIdx.x] = sum; \
	}

PEAK(peak90a_bf16, product_bf16, 0x807f807f, 0x3f003f00)
PEAK(peak90a_f16, product_f16, 0x83ff83ff, 0x38003800)
PEAK(peak90a_tf32, product_tf32, 0x807fe000, 0x3f000000)
PEAK(peak90a_e4m3, product_e4m3, 0x87878787, 0x30303030)
