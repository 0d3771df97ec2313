// The all-reduce of a partition as separate kernels: a gate, which is a barrier between the
// ranks, and the sums between two gates. Only the gate waits for other ranks, and it has just one
// warp. A rank that is still multiplying therefore finds free multiprocessors, however many ranks
// share the GPU.
//
// With DEPENDENT_LAUNCH a kernel may start before its predecessor has ended: it first waits for the
// predecessor's end and writes, and at its own end it lets its successor start.
#pragma once
#include "fused.cuh"

#ifdef DEPENDENT_LAUNCH
__device__ __forceinline__ void after_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_successor_start() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#else
__device__ __forceinline__ void after_predecessor() {}
__device__ __forceinline__ void let_successor_start() {}
#endif

// gate returns when all ranks have reached it, so that their earlier kernels are done. The sums
// must not start before: they would take multiprocessors from a rank that is still multiplying.
__device__ __forceinline__ void gate(const Params &p) {
	after_predecessor();
	u32 peer = threadIdx.x;
	if (peer < p.size) {
		store_release(gate_flag(p, peer, p.rank), p.epoch);
		await(p, gate_flag(p, p.rank, peer), p.epoch, 1, peer);
	}
	__syncwarp();
	let_successor_start();
}

// sum adds this rank's part of the packs and stores the sums at all ranks.
template <int RANKS, int UNROLL> __device__ __forceinline__ void sum(const Params &p) {
	after_predecessor();
	u64 i = p.packs * p.rank / p.size + (u64)blockIdx.x * blockDim.x + threadIdx.x, last = p.packs * (p.rank + 1) / p.size;
	u64 step = (u64)gridDim.x * blockDim.x;
	for (; i + (UNROLL - 1) * step < last; i += UNROLL * step) add_packs<RANKS, UNROLL>(p, (p.first + i) * 16, step * 16);
	for (; i < last; i += step) add_packs<RANKS, 1>(p, (p.first + i) * 16, 0);
	let_successor_start();
}

#define SUM(suffix, ranks, unroll, compute) \
	extern "C" __global__ void __launch_bounds__(512, 2) sum##compute##_f32_##suffix(const __grid_constant__ Params p) { sum<ranks, unroll>(p); }
#define PARTS(compute) \
	extern "C" __global__ void __launch_bounds__(32, 1) gate##compute##_all(const __grid_constant__ Params p) { gate(p); } \
	SUM(2, 2, 4, compute) SUM(4, 4, 2, compute) SUM(8, 8, 1, compute) SUM(any, 0, 2, compute)
