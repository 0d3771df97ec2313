// Replaces the GPU operations of params.cuh in package gpusolve, so that the kernels can run on the
// CPU: a block is one thread that does the work of all its lanes, and blocks run one after another.
#pragma once
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#define KERNEL_OF(blocks, name) static void name(const Params p)
#define KERNEL(name) KERNEL_OF(1, name)
#define DEVICE static inline
#define SHARED static __thread
#define UNROLL
#define LANES 1u
#define LANE 0u
#define BLOCK block_index
#define SYNC()

static __thread unsigned block_index;
static __thread double products[256 * 27];

static inline void store_release(unsigned *at, unsigned v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }
static inline unsigned load_acquire(const unsigned *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
static inline unsigned long long now_ns(void) {
	struct timespec t;
	sched_yield(); // lets the awaited rank run
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static inline void fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void fence_system(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline unsigned next_ticket(unsigned *at) { return __atomic_fetch_add(at, 1, __ATOMIC_ACQ_REL); }
static inline unsigned claim(unsigned *at) { return __atomic_exchange_n(at, 1, __ATOMIC_ACQ_REL); }
static inline int is_number(double v) { return isfinite(v); }
static inline void raise_to(unsigned long long *at, double v) {
	union { double number; unsigned long long bits; } u = {v};
	if (u.bits > *at) *at = u.bits;
}
static inline double load_streaming(const double *at) { return *at; }
static inline unsigned load_streaming_u32(const unsigned *at) { return *at; }
static inline void store_streaming(double *at, double v) { *at = v; }
static inline double block_sum(double v) { return v; }
