// The argument of the kernels in this folder; mirrors Params in kernels.go.
#pragma once
#include "product.cuh"

// C = A x B. A has m rows of k elements. B is stored by columns, as n rows of k elements. Rows of
// A and B are lda and ldb elements apart and padded with zeros up to k, a multiple of 64 (e4m3: 128).
// Rows of C are ldc elements apart; ldc is even and at least n.
struct Params {
	TensorMap map_a, map_b; // used by the kernels with bulk tensor copies
	const uint16_t *a, *b;
	float *c;
	uint32_t m, n, k, lda, ldb, ldc;
	uint32_t rounds; // only for the kernels that measure peak arithmetic
	uint32_t stages; // only for skinny90a
	uint32_t ahead;  // steps of k that are prefetched into the L2 cache at the start
	uint32_t share;  // only for tiles.cuh: what the blocks of a pair share
	uint32_t once;   // only for tiles.cuh: set if B is read only once
	uint32_t unit_rows, unit_cols, steps, longer; // only for tiles.cuh: see Work
	float scale;     // only for e4m3: factor of the result
};
