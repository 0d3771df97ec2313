// Matrix products of the stand-in: the kernels of package gpugemm, and libcublasLt. Products are
// computed element by element.
//
// $FAKE_GEMM_FAULT injects a fault: "tile" (a block of C is never written), "element" (one element is
// off by one), "stale" (a product leaves C unchanged), "none" (no algorithm is offered).
#pragma GCC optimize("O3", "associative-math", "no-signed-zeros", "no-trapping-math")
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake.h"

typedef int Result;
enum { OK = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { F32 = 0, F64 = 1, F16 = 2, BF16 = 14, E4M3 = 28 };

static int fault(const char *what) {
	const char *f = getenv("FAKE_GEMM_FAULT");
	return f && !strcmp(f, what);
}
static double element(int type, const void *at, uint64_t i) {
	uint32_t u;
	float f;
	switch (type) {
	case F64: return ((const double *)at)[i];
	case F32: return ((const float *)at)[i];
	case F16: return ((const _Float16 *)at)[i];
	case E4M3: {
		int v = ((const uint8_t *)at)[i], e = v >> 3 & 15, m = v & 7;
		double d = e ? 8 + m : m;
		for (int n = e ? e - 1 : 0; n > 0; n--) d *= 2;
		return (v & 128 ? -d : d) / 512;
	}
	}
	u = (uint32_t)((const uint16_t *)at)[i] << 16;
	memcpy(&f, &u, 4);
	return f;
}

// multiply computes C, m rows with distance ldc, from A, m rows of k elements, and B, n rows of k
// elements.
static void multiply_scaled(double scale, int type, uint64_t m, uint64_t n, uint64_t k, const void *a, uint64_t lda, const void *b, uint64_t ldb, void *c, uint64_t ldc) {
	if (fault("stale")) return;
	int tile = fault("tile"), off = fault("element");
	double *x = malloc(m * k * sizeof *x), *y = malloc(n * k * sizeof *y);
	for (uint64_t i = 0; i < m * k; i++) x[i] = element(type, a, i / k * lda + i % k);
	for (uint64_t i = 0; i < n * k; i++) y[i] = element(type, b, i / k * ldb + i % k);
	for (uint64_t i = 0; i < m; i++)
		for (uint64_t j = 0; j < n; j++) {
			if (tile && i >= m / 2 && j >= n / 2) continue;
			double sum = off && i == m - 1 && j == n - 1;
			for (uint64_t l = 0; l < k; l++) sum += x[i * k + l] * y[j * k + l];
			sum *= scale;
			if (type == F64) ((double *)c)[i * ldc + j] = sum;
			else ((float *)c)[i * ldc + j] = sum;
		}
	free(x);
	free(y);
}

static void multiply(int type, uint64_t m, uint64_t n, uint64_t k, const void *a, uint64_t lda, const void *b, uint64_t ldb, void *c, uint64_t ldc) {
	multiply_scaled(1, type, m, n, k, a, lda, b, ldb, c, ldc);
}

int product_fault(const char *what) { return fault(what); }
void multiply_bf16(size_t m, size_t n, size_t k, const void *a, size_t lda, const void *b, size_t ldb, void *c, size_t ldc) {
	multiply(BF16, m, n, k, a, lda, b, ldb, c, ldc);
}

// Parameters of the kernels: see params.cuh.
struct params {
	uint64_t maps[32], a, b, c;
	uint32_t m, n, k, lda, ldb, ldc, rounds, stages, ahead, share, once, unit_rows, unit_cols, steps, longer;
	float scale;
};
int product(const char *name, const void *argument) {
	const struct params *p = argument;
	if (!strncmp(name, "peak", 4)) return 1;
	int e4m3 = !strncmp(name, "fp8x", 4);
	if (!e4m3 && strncmp(name, "gemm", 4) && strncmp(name, "turns", 5) && strncmp(name, "skinny", 6) && strncmp(name, "wide", 4)) return 0;
	multiply_scaled(e4m3 ? p->scale : 1, e4m3 ? E4M3 : BF16, p->m, p->n, p->k, (void *)(uintptr_t)p->a, p->lda, (void *)(uintptr_t)p->b, p->ldb, (void *)(uintptr_t)p->c, p->ldc);
	return 1;
}
Result cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *at, const uint64_t *size, const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
	note("cuTensorMapEncodeTiled %lu x %lu, %lu bytes apart, box %u x %u", size[1], size[0], strides[0], box[1], box[0]);
	return (uintptr_t)map % 64 || strides[0] % 16 || rank != 2;
}

// libcublasLt.
struct desc { int compute, factors, transpose_a; };
struct layout { int type; uint64_t rows, cols; int64_t ld; };
struct algo { uint64_t id, tile, rest[6]; };
struct offer { struct algo algo; size_t room; int state; float waves; int reserved[4]; };

size_t cublasLtGetVersion(void) { return 130100; }
const char *cublasLtGetStatusString(Result r) { return r == NOT_SUPPORTED ? "the requested functionality is not supported" : "an unsupported value or parameter was passed"; }
Result cublasLtCreate(void **h) { *h = malloc(1); note("cublasLtCreate"); return OK; }
Result cublasLtMatmulDescCreate(struct desc **d, int compute, int factors) {
	*d = calloc(1, sizeof **d);
	(*d)->compute = compute, (*d)->factors = factors;
	return OK;
}
Result cublasLtMatmulDescDestroy(void *d) { free(d); return OK; }
Result cublasLtMatmulDescSetAttribute(struct desc *d, int what, const void *v, size_t n) {
	if (what == 15 && n == 4) { // multiprocessors
		note("cublasLtMatmulDescSetAttribute %d multiprocessors", *(const int *)v);
		return OK;
	}
	if (what != 3 || n != 4) return INVALID_VALUE;
	d->transpose_a = *(const int *)v;
	return OK;
}
Result cublasLtMatrixLayoutCreate(struct layout **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
	*l = malloc(sizeof **l);
	**l = (struct layout){type, rows, cols, ld};
	return (int64_t)rows > ld ? INVALID_VALUE : OK;
}
Result cublasLtMatrixLayoutDestroy(void *l) { free(l); return OK; }
Result cublasLtMatmulPreferenceCreate(void **p) { *p = malloc(1); return OK; }
Result cublasLtMatmulPreferenceDestroy(void *p) { free(p); return OK; }
Result cublasLtMatmulPreferenceSetAttribute(void *p, int what, const void *v, size_t n) { return what == 1 && n == 8 ? OK : INVALID_VALUE; }
Result cublasLtMatmulAlgoGetHeuristic(void *h, struct desc *d, struct layout *a, struct layout *b, struct layout *c, struct layout *out, void *p, int most, struct offer *to, int *n) {
	*n = 0;
	if (fault("none")) return NOT_SUPPORTED;
	if (a->type == E4M3 && (a->rows % 16 || a->cols % 16 || b->cols % 16)) return NOT_SUPPORTED;
	for (int i = 0; i < 3 && i < most; i++, ++*n) to[i] = (struct offer){.algo = {66, 20 + i}};
	return OK;
}
Result cublasLtMatmulAlgoGetIds(void *h, int compute, int factors, int a, int b, int c, int d, int most, int *ids, int *n) {
	ids[0] = 66, ids[1] = 67, *n = 2;
	return OK;
}
Result cublasLtMatmulAlgoInit(void *h, int compute, int factors, int a, int b, int c, int d, int id, struct algo *to) {
	*to = (struct algo){.id = id};
	return id == 67 ? NOT_SUPPORTED : OK;
}
Result cublasLtMatmulAlgoCapGetAttribute(const struct algo *a, int what, void *to, size_t n, size_t *written) {
	uint32_t *v = to;
	if (what != 6 && what != 13) return INVALID_VALUE;
	v[0] = 20, v[1] = 23, *written = 8;
	return OK;
}
Result cublasLtMatmulAlgoConfigGetAttribute(const struct algo *a, int what, void *to, size_t n, size_t *written) {
	if (n < 2 || n != (what == 8 ? 2 : 4)) return INVALID_VALUE;
	uint64_t v = what == 0 ? a->id : what == 1 ? a->tile : 0;
	memcpy(to, &v, n);
	return OK;
}
Result cublasLtMatmulAlgoConfigSetAttribute(struct algo *a, int what, const void *v, size_t n) {
	if (n != (what == 8 ? 2 : 4)) return INVALID_VALUE;
	if (what == 1) a->tile = *(const uint32_t *)v;
	return OK;
}
Result cublasLtMatmulAlgoCheck(void *h, struct desc *d, struct layout *a, struct layout *b, struct layout *c, struct layout *out, struct algo *algo, struct offer *result) {
	result->state = algo->tile == 23 ? OK : NOT_SUPPORTED;
	return OK;
}
struct matmul { int type; uint64_t m, n, k; const void *a; uint64_t lda; const void *b; uint64_t ldb; void *c; uint64_t ldc; };
static void matmul(const void *argument) {
	const struct matmul *p = argument;
	multiply(p->type, p->m, p->n, p->k, p->a, p->lda, p->b, p->ldb, p->c, p->ldc);
}
Result cublasLtMatmul(void *h, struct desc *d, const void *alpha, const void *a, struct layout *la, const void *b, struct layout *lb, const void *beta, const void *c, struct layout *lc, void *out, struct layout *lo, const struct algo *algo, void *space, size_t room, void *stream) {
	note("cublasLtMatmul %lux%lux%lu type %d compute %d algorithm %lu tile %lu", lb->cols, la->cols, la->rows, la->type, d->compute, algo->id, algo->tile);
	float one = 1;
	double wide = 1;
	if (!d->transpose_a || la->rows != lb->rows || lo->rows != la->cols || lo->cols != lb->cols || lo->type != (la->type == F64 ? F64 : F32) || !stream) return INVALID_VALUE;
	if (memcmp(alpha, d->factors == F64 ? (void *)&wide : (void *)&one, d->factors == F64 ? 8 : 4)) return INVALID_VALUE;
	struct matmul call = {la->type, lb->cols, la->cols, la->rows, b, lb->ld, a, la->ld, out, lo->ld};
	in_turn(stream, matmul, &call, sizeof call);
	return OK;
}
