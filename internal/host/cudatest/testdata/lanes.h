// What params.cuh of package gpusolve takes from a GPU, for kernels that the processor does:
// a block is one thread that does what all its lanes would, blocks come one after the other.
#pragma once
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#define KERNEL(name) static void name(const Params p)
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
	sched_yield(); // to who is waited for
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
static inline double once(const double *at) { return *at; }
static inline unsigned once_u32(const unsigned *at) { return *at; }
static inline void put(double *at, double v) { *at = v; }
static inline double block_sum(double v) { return v; }
