// What the kernels of this folder have in common. It mirrors Params in kernels.go.
#pragma once
#include <cstdint>

struct alignas(128) TensorMap { // CUtensorMap, which the driver fills
	uint64_t opaque[16];
};

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

// tile_at gives the place of a tile in an order in which those that run at the same time
// lie close together, so that they find each other's operands in the cache.
__device__ __forceinline__ void tile_at(uint32_t index, uint32_t rows, uint32_t cols, uint32_t &row, uint32_t &col) {
	const uint32_t group = 8, wide = group * cols;
	uint32_t first = index / wide * group, high = rows - first < group ? rows - first : group;
	row = first + index % wide % high;
	col = index % wide / high;
}
