// The order in which blocks, or clusters of them, make tiles. It is plain C, which a test compiles without a GPU.
//
// Tiles come in groups of as many as there are ranks, and each of a group belongs to another
// rank. All ranks go through the groups alike, and through a group from the tile of the next rank
// to their own. Each of so many clusters takes group after group; of those that do not suffice for all,
// tile after tile, so that none is idle for longer than one takes, and again own ones last. Nobody
// waits but for tiles that the others make before they wait in the same round: as long as
// all blocks of all ranks have a place, none waits for ever.
#pragma once

// tile_count is how many tiles a cluster takes.
__device__ __forceinline__ unsigned tile_count(unsigned size, unsigned tiles, unsigned cluster, unsigned clusters) {
	unsigned full = tiles / (clusters * size), rest = tiles - full * clusters * size;
	return full * size + (rest > cluster ? (rest - cluster + clusters - 1) / clusters : 0);
}

// nth_tile is the n-th of them.
__device__ __forceinline__ unsigned nth_tile(unsigned rank, unsigned size, unsigned n, unsigned tiles, unsigned cluster, unsigned clusters) {
	unsigned full = tiles / (clusters * size), rest = tiles - full * clusters * size;
	if (n < full * size) return (n / size * clusters + cluster) * size + (rank + 1 + n % size) % size;
	unsigned at = (n - full * size) * clusters + cluster;
	for (unsigned owner = rank + 1;; owner++) {
		if (owner >= size) owner -= size;
		unsigned owned = (rest + size - 1 - owner) / size;
		if (at < owned) return (full * clusters + at) * size + owner;
		at -= owned;
	}
}
