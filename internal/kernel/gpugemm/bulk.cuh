// Barriers in shared memory, bulk tensor copies that complete on them, clusters of blocks, and
// programmatic dependent launch. For Hopper (compute capability 9.0).
#pragma once
#include "product.cuh"

__device__ __forceinline__ void barrier_init(uint32_t at, uint32_t count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count)); }

__device__ __forceinline__ void barrier_wait(uint32_t at, uint32_t parity) {
	asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra over;\nbra again;\nover:\n}" ::"r"(at), "r"(parity) : "memory");
}

__device__ __forceinline__ void expect(uint32_t at, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory"); }

// arrive signals the barrier of a block in the cluster. It needs no release semantics, because the
// arriving threads have only read. A release at cluster scope would be a GPU-wide fence in every
// step and cost a quarter of the speed.
__device__ __forceinline__ void arrive(uint32_t at, uint32_t block) {
	asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(at), "r"(block) : "memory");
}

__device__ __forceinline__ void fetch(uint32_t to, const TensorMap &map, uint32_t k, uint32_t row, uint32_t barrier) {
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
				 ::"r"(to), "l"(&map), "r"(k), "r"(row), "r"(barrier) : "memory");
}
__device__ __forceinline__ void fetch_for_both(uint32_t to, const TensorMap &map, uint32_t k, uint32_t row, uint32_t barrier) {
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
				 ::"r"(to), "l"(&map), "r"(k), "r"(row), "r"(barrier), "h"((uint16_t)3) : "memory");
}

// fetch_once is fetch for data that is read only once, so that it need not stay in the cache.
__device__ __forceinline__ void fetch_once(uint32_t to, const TensorMap &map, uint32_t k, uint32_t row, uint32_t barrier, uint64_t policy) {
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
				 ::"r"(to), "l"(&map), "r"(k), "r"(row), "r"(barrier), "l"(policy) : "memory");
}
// prefetch brings a box into the L2 cache.
__device__ __forceinline__ void prefetch(const TensorMap &map, uint32_t k, uint32_t row) {
	asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(&map), "r"(k), "r"(row) : "memory");
}
__device__ __forceinline__ void arrive_here(uint32_t at) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

__device__ __forceinline__ void cluster_sync() { asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory"); }

__device__ __forceinline__ void prefetch_map(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// allow_next lets the next kernel of the stream start its blocks where there is room for them.
// wait_previous waits until the previous kernel has ended; without a programmatic dependent launch
// it has.
__device__ __forceinline__ void allow_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void wait_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
