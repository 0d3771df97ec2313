// The loops of STREAM, reading and writing alone, and a chain of dependent loads, for the bench
// `bandwidth`. Arrays hold f64.
#include "params.cuh"

enum { THREADS = 512, FLIGHT = 4 }; // FLIGHT is the number of packs that a thread has in flight

// for_each_pack calls body with FLIGHT packs at a time. Neighbouring threads have neighbouring packs.
template <class Load, class Use> __device__ __forceinline__ void for_each_pack(uint64_t packs, Load load, Use use) {
	const uint64_t step = (uint64_t)gridDim.x * THREADS * FLIGHT;
	for (uint64_t first = (uint64_t)blockIdx.x * THREADS * FLIGHT + threadIdx.x; first < packs; first += step) {
		decltype(load(first)) v[FLIGHT];
#pragma unroll
		for (int u = 0; u < FLIGHT; u++)
			if (first + u * THREADS < packs) v[u] = load(first + u * THREADS);
#pragma unroll
		for (int u = 0; u < FLIGHT; u++)
			if (first + u * THREADS < packs) use(first + u * THREADS, v[u]);
	}
}

struct Two {
	double2 a, b;
};
#define IN(name) ((const double2 *)p.name)
#define OUT ((double2 *)p.c)

extern "C" __global__ void __launch_bounds__(THREADS) stream_read(const __grid_constant__ Params p) {
	unsigned long long sum = 0;
	for_each_pack(p.packs, [&](uint64_t i) { return ((const ulonglong2 *)p.a)[i]; }, [&](uint64_t, ulonglong2 v) { sum += v.x + v.y; });
	__shared__ unsigned long long all[THREADS];
	all[threadIdx.x] = sum;
	for (int half = THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
	}
	if (threadIdx.x == 0) ((unsigned long long *)p.sums)[blockIdx.x] = all[0];
}

extern "C" __global__ void __launch_bounds__(THREADS) stream_write(const __grid_constant__ Params p) {
	for_each_pack(p.packs, [&](uint64_t) { return make_double2(p.scalar, p.scalar); }, [&](uint64_t i, double2 v) { OUT[i] = v; });
}

extern "C" __global__ void __launch_bounds__(THREADS) stream_copy(const __grid_constant__ Params p) {
	for_each_pack(p.packs, [&](uint64_t i) { return IN(a)[i]; }, [&](uint64_t i, double2 v) { OUT[i] = v; });
}

extern "C" __global__ void __launch_bounds__(THREADS) stream_scale(const __grid_constant__ Params p) {
	for_each_pack(p.packs, [&](uint64_t i) { return IN(a)[i]; }, [&](uint64_t i, double2 v) { OUT[i] = make_double2(p.scalar * v.x, p.scalar * v.y); });
}

extern "C" __global__ void __launch_bounds__(THREADS) stream_add(const __grid_constant__ Params p) {
	for_each_pack(p.packs, [&](uint64_t i) { return Two{IN(a)[i], IN(b)[i]}; }, [&](uint64_t i, Two v) { OUT[i] = make_double2(v.a.x + v.b.x, v.a.y + v.b.y); });
}

extern "C" __global__ void __launch_bounds__(THREADS) stream_triad(const __grid_constant__ Params p) {
	for_each_pack(p.packs, [&](uint64_t i) { return Two{IN(a)[i], IN(b)[i]}; },
				  [&](uint64_t i, Two v) { OUT[i] = make_double2(v.a.x + p.scalar * v.b.x, v.a.y + p.scalar * v.b.y); });
}

// stream_chase follows a chain through lines of 128 bytes. Each begins with the number of the next.
extern "C" __global__ void stream_chase(const __grid_constant__ Params p) {
	uint64_t line = 0;
	for (uint64_t i = 0; i < p.hops; i++) line = *(const volatile uint64_t *)(p.a + line * 128);
	*(uint64_t *)p.sums = line;
}
