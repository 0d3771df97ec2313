// What all products have in common. Kernels of other folders use these headers too: what a
// product asks of a kernel's argument p is p.m, p.n, p.k, and where its operands are.
#pragma once
#include <cstdint>

struct alignas(128) TensorMap { // CUtensorMap, which the driver fills
	uint64_t opaque[16];
};

// tile_at gives the place of a tile in an order in which those that run at the same time
// lie close together, so that they find each other's operands in the cache.
__device__ __forceinline__ void tile_at(uint32_t index, uint32_t rows, uint32_t cols, uint32_t &row, uint32_t &col) {
	const uint32_t group = 8, wide = group * cols;
	uint32_t first = index / wide * group, high = rows - first < group ? rows - first : group;
	row = first + index % wide % high;
	col = index % wide / high;
}
