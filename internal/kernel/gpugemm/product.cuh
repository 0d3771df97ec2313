// Shared by all matrix products, also by kernels in other folders. A product needs from the
// kernel's argument p the sizes p.m, p.n and p.k, and the addresses of its operands.
#pragma once
#include <cstdint>

struct alignas(128) TensorMap { // CUtensorMap, which the driver fills
	uint64_t opaque[16];
};

// tile_at returns the position of a tile. Tiles with neighbouring indices, which run at the same
// time, lie close together, so that they share operands in the cache.
__device__ __forceinline__ void tile_at(uint32_t index, uint32_t rows, uint32_t cols, uint32_t &row, uint32_t &col) {
	const uint32_t group = 8;
	uint32_t first = 0;
	if (rows > group) {
		uint32_t wide = group * cols, before = index / wide;
		first = before * group, index -= before * wide;
	}
	uint32_t high = rows - first < group ? rows - first : group;
	col = index / high;
	row = first + index - col * high;
}
