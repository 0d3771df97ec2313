// Measures peak arithmetic with mma.sync, and of f32: the rate if operands cost nothing. The
// operands are random, because constant ones draw less power and allow a higher clock.
#include "params.cuh"

__device__ __forceinline__ uint32_t noise(uint32_t x) {
	x ^= x >> 16, x *= 0x7feb352d, x ^= x >> 15, x *= 0x846ca68b;
	return x ^ x >> 16;
}

#define PEAK(name, shape, a_regs, b_regs, keep, one) \
	extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Params p) { \
		uint32_t a[4][4], b[4]; \
		float c[4][4] = {}; \
		for (int i = 0; i < 16; i++) a[i >> 2][i & 3] = (noise(threadIdx.x * 64 + i) & keep) | one; \
		for (int i = 0; i < 4; i++) b[i] = (noise(threadIdx.x * 64 + 16 + i) & keep) | one; \
		for (uint32_t round = 0; round < p.rounds; round++) { \
			_Pragma("unroll") for (int i = 0; i < 8; i++) { \
				float *d = c[i & 3]; \
				uint32_t *f = a[i & 3]; \
				asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
							 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(b[i >> 2]), "r"(b[2 + (i >> 2)])); \
			} \
		} \
		for (int i = 0; i < 4; i++) p.c[(blockIdx.x * 256 + threadIdx.x) * 4 + i] = c[i][0] + c[i][1] + c[i][2] + c[i][3]; \
	}

PEAK(peak80_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 0x807f807f, 0x3f003f00)
PEAK(peak80_f16, "m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 0x83ff83ff, 0x38003800)
PEAK(peak80_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 0x807fe000, 0x3f000000)

extern "C" __global__ void __launch_bounds__(256) peak80_f32(const __grid_constant__ Params p) {
	float c[16], a[2], b[2]; // few operands, to avoid register bank conflicts
	for (int i = 0; i < 16; i++) c[i] = __uint_as_float((noise(threadIdx.x * 64 + 8 + i) & 0x807fffff) | 0x3f000000);
	for (int i = 0; i < 2; i++) {
		a[i] = __uint_as_float((noise(threadIdx.x * 64 + i) & 0x807fffff) | 0x3f000000);
		b[i] = __uint_as_float((noise(threadIdx.x * 64 + 4 + i) & 0x807fffff) | 0x3f000000);
	}
	for (uint32_t round = 0; round < p.rounds; round++) {
#pragma unroll
		for (int twice = 0; twice < 2; twice++)
#pragma unroll
			for (int i = 0; i < 16; i++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(c[i]) : "f"(a[twice]), "f"(b[twice]));
	}
	float sum = 0;
	for (int i = 0; i < 16; i++) sum += c[i];
	p.c[blockIdx.x * 256 + threadIdx.x] = sum;
}
