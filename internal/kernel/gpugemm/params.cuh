// The argument of the kernels of this folder. It mirrors Params in kernels.go.
#pragma once
#include "product.cuh"

// C = A x B. A is m rows of k elements, B lies by columns: n rows of k elements. Rows of
// A and B are lda and ldb elements apart and zero from the last element to k, which is a
// multiple of 64. Rows of C are ldc apart, an even number not below n.
struct Params {
	TensorMap map_a, map_b; // used by the kernels with bulk tensor copies
	const uint16_t *a, *b;
	float *c;
	uint32_t m, n, k, lda, ldb, ldc;
	uint32_t rounds; // of the kernels that measure arithmetic alone
	uint32_t unused;
};
