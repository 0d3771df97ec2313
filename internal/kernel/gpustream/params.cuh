// The argument of the kernels in this folder.
#pragma once
#include <cstdint>

// Params is the argument of all kernels; Params in gpustream.go mirrors it.
struct Params {
	uint64_t a, b, c; // inputs a and b, output c
	uint64_t sums;    // stream_read: one sum per block; stream_chase: the last line
	uint64_t packs;   // elements of an array, in pairs of 16 bytes
	double scalar;
	uint64_t hops; // stream_chase: number of loads
};
static_assert(sizeof(Params) == 56, "Params of gpustream.go");
