// The kernels that add up products of several ranks (package gpufused), with the same flags
// and the same argument.
//
// $FAKE_GEMM_FAULT plants an error here too: "early" (a tile is signalled before it is
// multiplied, for which rank 0 takes its time).
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fake.h"

enum { RANKS = 16, TILE = 128 };
struct params {
	uint64_t c[RANKS], flags[RANKS], failure, limit_ns, first, packs, a, b, where;
	uint32_t rank, size, epoch, options, m, n, k, lda, ldb, ldc, adders, arrived;
};

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static uint32_t *flag(const struct params *p, uint32_t rank, uint64_t at) { return (uint32_t *)(uintptr_t)p->flags[rank] + at; }
static int reached(const struct params *p, uint32_t *flag, uint32_t value, uint32_t phase, uint32_t peer) {
	uint32_t *f = (uint32_t *)(uintptr_t)p->failure;
	for (uint64_t start = now(); (int32_t)(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - value) < 0; sched_yield()) {
		if (__atomic_load_n(f, __ATOMIC_ACQUIRE)) return 0;
		if (now() - start <= p->limit_ns) continue;
		f[1] = p->rank, f[2] = 0, f[3] = phase, f[4] = peer, f[5] = value, f[6] = *flag;
		__atomic_store_n(f, 2, __ATOMIC_RELEASE);
		return 0;
	}
	return 1;
}
static void gate(const struct params *p) {
	for (uint32_t r = 0; r < p->size; r++) __atomic_store_n(flag(p, r, p->rank), p->epoch, __ATOMIC_RELEASE);
	for (uint32_t r = 0; r < p->size; r++)
		if (!reached(p, flag(p, p->rank, r), p->epoch, 1, r)) return;
}
// add adds up n elements of all ranks and stores the sums at all.
static void add(const struct params *p, uint64_t first, uint64_t n) {
	for (uint64_t i = first; i < first + n; i++) {
		float sum = ((const float *)(uintptr_t)p->c[0])[i];
		for (uint32_t r = 1; r < p->size; r++) sum += ((const float *)(uintptr_t)p->c[r])[i];
		for (uint32_t r = 0; r < p->size; r++) ((float *)(uintptr_t)p->c[r])[i] = sum;
	}
}
static void tile_at(uint32_t index, uint32_t rows, uint32_t cols, uint32_t *row, uint32_t *col) {
	uint32_t wide = 8 * cols, first = index / wide * 8, high = rows - first < 8 ? rows - first : 8;
	*row = first + index % wide % high, *col = index % wide / high;
}
static void one_kernel(const struct params *p) {
	uint32_t rows = (p->m + TILE - 1) / TILE, cols = (p->n + TILE - 1) / TILE, tiles = rows * cols, row, col;
	if (product_fault("early"))
		for (uint32_t t = 0; t < tiles; t++) __atomic_store_n(flag(p, t % p->size, 64 + (uint64_t)t * RANKS + p->rank), p->epoch, __ATOMIC_RELEASE);
	if (product_fault("early") && p->rank == 0) usleep(20000);
	for (uint32_t t = 0; t < tiles; t++) {
		tile_at(t, rows, cols, &row, &col);
		uint64_t r = row * TILE, c = col * TILE;
		if (!(p->options & 1))
			multiply_bf16(p->m - r < TILE ? p->m - r : TILE, p->n - c < TILE ? p->n - c : TILE, p->k, (uint16_t *)(uintptr_t)p->a + r * p->lda, p->lda,
						  (uint16_t *)(uintptr_t)p->b + c * p->ldb, p->ldb, (float *)(uintptr_t)p->c[p->rank] + r * p->ldc + c, p->ldc);
		__atomic_store_n(flag(p, t % p->size, 64 + (uint64_t)t * RANKS + p->rank), p->epoch, __ATOMIC_RELEASE);
	}
	if (p->options & 2) return;
	for (uint32_t t = p->rank; t < tiles; t += p->size) {
		for (uint32_t r = 0; r < p->size; r++)
			if (!reached(p, flag(p, p->rank, 64 + (uint64_t)t * RANKS + r), p->epoch, 3, r)) return;
		tile_at(t, rows, cols, &row, &col);
		uint64_t c = col * TILE, wide = p->ldc - c < TILE ? p->ldc - c : TILE;
		for (uint64_t r = row * TILE; r < p->m && r < (row + 1) * TILE; r++) add(p, r * p->ldc + c, wide);
		for (uint32_t r = 0; r < p->size; r++) __atomic_fetch_add(flag(p, r, 32), 1, __ATOMIC_RELEASE);
	}
	reached(p, flag(p, p->rank, 32), p->arrived + tiles, 2, p->rank);
}
// where: each rank's blocks are on their own of the four multiprocessors, as long as there are enough
// and nothing else is planted.
static void where(const struct params *p) {
	uint32_t n = p->size < 4 ? 4 / p->size : 1;
	uint32_t first = product_fault("crowded") ? 0 : p->rank * n;
	for (uint32_t i = 0; i < n; i++) *(uint32_t *)(uintptr_t)p->where |= 1u << (first + i) % 4;
}
int fused(const char *name, const void *argument) {
	const struct params *p = argument;
	if (!strncmp(name, "gate", 4)) gate(p);
	else if (!strncmp(name, "sum", 3)) {
		uint64_t first = p->packs * p->rank / p->size, last = p->packs * (p->rank + 1) / p->size;
		add(p, (p->first + first) * 4, (last - first) * 4);
	} else if (!strncmp(name, "onekernel", 9)) one_kernel(p);
	else if (!strncmp(name, "where", 5)) where(p);
	else return 0;
	return 1;
}
