// The order in which blocks, or clusters of blocks, compute tiles. It is plain C, so that a test can
// compile it without a GPU.
//
// A group has as many tiles as there are ranks, one owned by each. All ranks go through the groups in
// the same order, and through a group from the next rank's tile to their own. Every cluster takes one
// group after another. Groups that are too few for all clusters are taken tile by tile, so that no
// cluster idles longer than one tile takes; own tiles come last again. A rank only waits for tiles
// that the others compute before they wait in the same round. So there is no deadlock as long as all
// blocks of all ranks are resident.
#pragma once

// tile_count returns the number of tiles that a cluster computes.
__device__ __forceinline__ unsigned tile_count(unsigned size, unsigned tiles, unsigned cluster, unsigned clusters) {
	unsigned full = tiles / (clusters * size), rest = tiles - full * clusters * size;
	return full * size + (rest > cluster ? (rest - cluster + clusters - 1) / clusters : 0);
}

// nth_tile returns the n-th of them.
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
