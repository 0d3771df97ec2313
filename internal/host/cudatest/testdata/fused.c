// The kernels that sum the products of several ranks (package gpufused), with the same flags and the
// same parameters.
//
// $FAKE_GEMM_FAULT also injects faults into the one kernel: "early" (a tile is signalled before it is
// multiplied), "unwaited" (own tiles are added to others that have not been signalled), "misplaced" (a
// tile is summed at the place of another), "unclaimed" (no rank sums a tile, though it is counted).
// Rank 0 is slow where that makes the fault show.
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fake.h"

enum { RANKS = 16 };
struct params {
	uint64_t c[RANKS], flags[RANKS], failure, limit_ns, first, packs, a, b;
	uint32_t rank, size, epoch, options, m, n, k, lda, ldb, ldc, arrived, unused[9];
	uint64_t maps[32];
};
_Static_assert(sizeof(struct params) == 640, "Params of gpufused.go");

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
// add sums n elements of all ranks and stores the sums at all ranks.
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
// How a one kernel cuts C: the part that a cluster computes at once, and the tiles of it that are
// signalled.
struct cut { uint32_t high, wide, tile_rows, rows, cols, each, tiles; }; // each: tiles per cluster
static struct cut cut_of(const char *name, const struct params *p) {
	struct cut c = {128, 128, 128};
	if (!strncmp(name, "onekernel90a", 12)) c = (struct cut){256, 256, 64};
	c.rows = (p->m + c.high - 1) / c.high, c.cols = (p->n + c.wide - 1) / c.wide;
	c.each = c.high / c.tile_rows, c.tiles = c.rows * c.cols;
	return c;
}
static void place(const struct cut *c, uint32_t tile, uint64_t *row, uint64_t *col) {
	uint32_t r, k;
	tile_at(tile / c->each, c->rows, c->cols, &r, &k);
	*row = (uint64_t)r * c->high + tile % c->each * c->tile_rows, *col = (uint64_t)k * c->wide;
}
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static void signal_tile(const struct params *p, const struct cut *c, uint32_t t) {
	__atomic_store_n(flag(p, t / c->each % p->size, 64 + (uint64_t)t * RANKS + p->rank), p->epoch, __ATOMIC_RELEASE);
}
static void multiply_tile(const struct params *p, const struct cut *c, uint32_t t) {
	uint64_t row, col;
	place(c, t, &row, &col);
	if (row >= p->m) return;
	multiply_bf16(least(p->m - row, c->tile_rows), least(p->n - col, c->wide), p->k, (uint16_t *)(uintptr_t)p->a + row * p->lda, p->lda,
				  (uint16_t *)(uintptr_t)p->b + col * p->ldb, p->ldb, (float *)(uintptr_t)p->c[p->rank] + row * p->ldc + col, p->ldc);
}
// add_tile sums an own tile that all ranks have stored, and signals all ranks.
static int add_tile(const struct params *p, const struct cut *c, uint32_t tile) {
	uint64_t row, col;
	for (uint32_t r = 0; r < p->size && !product_fault("unwaited"); r++)
		if (r != p->rank && !reached(p, flag(p, p->rank, 64 + (uint64_t)tile * RANKS + r), p->epoch, 3, r)) return 0;
	int first = tile == p->rank * c->each;
	place(c, product_fault("misplaced") && first ? tile + p->size * c->each : tile, &row, &col);
	if (!product_fault("unclaimed") || !first)
		for (uint64_t r = row; r < p->m && r < row + c->tile_rows; r++) add(p, r * p->ldc + col, least(p->ldc - col, c->wide));
	for (uint32_t r = 0; r < p->size; r++) __atomic_fetch_add(flag(p, r, 32), 1, __ATOMIC_RELEASE);
	return 1;
}
// one_kernel goes through groups of tiles, one tile for each rank, its own last.
static void one_kernel(const char *name, const struct params *p) {
	struct cut c = cut_of(name, p);
	uint32_t all = c.tiles * c.each;
	int sums = !(p->options & 2);
	for (uint32_t t = 0; t < all && product_fault("early"); t++) signal_tile(p, &c, t);
	if ((product_fault("early") || product_fault("unwaited")) && p->rank == 0) usleep(20000);
	for (uint32_t group = 0; group < c.tiles; group += p->size)
		for (uint32_t turn = 1; turn <= p->size; turn++) {
			uint32_t owner = (p->rank + turn) % p->size, tile = (group + owner) * c.each;
			for (uint32_t t = tile; t < tile + c.each && group + owner < c.tiles; t++) {
				if (!(p->options & 1)) multiply_tile(p, &c, t);
				if (sums && owner != p->rank) signal_tile(p, &c, t);
				if (sums && owner == p->rank && !add_tile(p, &c, t)) return;
			}
		}
	if (sums) reached(p, flag(p, p->rank, 32), p->arrived + all, 2, p->rank);
}
int fused(const char *name, const void *argument) {
	const struct params *p = argument;
	if (!strncmp(name, "gate", 4)) gate(p);
	else if (!strncmp(name, "sum", 3)) {
		uint64_t first = p->packs * p->rank / p->size, last = p->packs * (p->rank + 1) / p->size;
		add(p, (p->first + first) * 4, (last - first) * 4);
	} else if (!strncmp(name, "onekernel", 9)) one_kernel(name, p);
	else return 0;
	return 1;
}
