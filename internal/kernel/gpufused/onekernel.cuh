// One kernel that multiplies and adds up: blocks multiply tile after tile and signal each to its
// owner, a rank. The owner's first blocks, the adders, wait for a tile of all ranks, add it up
// and store the sum at all. A block that has no more tiles to multiply adds up too, if every
// block of every rank that multiplies has begun: nobody is then kept from multiplying by
// those who wait, and until then only the adders wait, which leave room for others.
//
// A warp adds up a piece of a tile at a time, 64 x 128, and takes the next one that nobody has
// taken. Warps wait for nothing but tiles, each on its own, so that the waiting of some is
// hidden behind the copies of others.
#pragma once
#include "fused.cuh"

constexpr u32 PIECES = 2, PIECE_ROWS = 64, PIECE_COLS = 128; // PIECES of a tile

__device__ __forceinline__ void signal_tile(const Params &p, u32 tile) { store_release(tile_flag(p, tile % p.size, tile, p.rank), p.epoch); }

// begin is called by one thread of each block that multiplies. The last one tells all ranks.
__device__ __forceinline__ void begin(const Params &p) {
	u32 last = gridDim.x - p.adders - 1;
	if (atomicInc(begun(p), last) != last) return;
	for (u32 rank = 0; rank < p.size; rank++) store_release(begun_flag(p, rank, p.rank), p.epoch);
}

// all_begun tells a warp whether the blocks of all ranks have begun. It waits for that no longer
// than it takes to start a kernel.
__device__ __forceinline__ bool all_begun(const Params &p) {
	u32 peer = threadIdx.x & 31;
	for (int look = 0; look < 256; look++) {
		bool there = peer >= p.size || (int)(load_acquire(begun_flag(p, p.rank, peer)) - p.epoch) >= 0;
		if (__all_sync(~0u, there)) return true;
	}
	return false;
}

// add_piece: as many loads as registers allow are under way at once, for it is the time of a
// load that limits what a few multiprocessors move.
template <int RANKS, int UNROLL> __device__ __forceinline__ void add_piece(const Params &p, u32 row, u32 col) {
	u32 c = col + (threadIdx.x & 31) * 4; // what is behind the last column, up to ldc, is added up too
	if (c >= p.ldc) return;
	u32 r = row, last = row + PIECE_ROWS < p.m ? row + PIECE_ROWS : p.m;
	for (; r + UNROLL <= last; r += UNROLL) add_packs<RANKS, UNROLL>(p, ((u64)r * p.ldc + c) * 4, (u64)p.ldc * 4);
	for (; r < last; r++) add_packs<RANKS, 1>(p, ((u64)r * p.ldc + c) * 4, 0);
}

// add_up adds up pieces of this rank's tiles as long as there are any. place gives a piece's
// first row and column.
template <class Place> __device__ __forceinline__ void add_up(const Params &p, u32 tiles, Place place) {
	u32 lane = threadIdx.x & 31, done = 0, row, col;
	u32 mine = (tiles + p.size - 1 - p.rank) / p.size * PIECES;
	if (lane == 0) atomicMax(taken(p), (u64)p.epoch << 32); // what an earlier launch has taken does not count
	for (;; done++) {
		u32 piece = lane == 0 ? (u32)atomicAdd(taken(p), 1ull) : 0;
		piece = __shfl_sync(~0u, piece, 0);
		if (piece >= mine) break;
		u32 tile = piece / PIECES * p.size + p.rank;
		bool there = lane >= p.size || await(p, tile_flag(p, p.rank, tile, lane), p.epoch, 3, lane);
		if (!__all_sync(~0u, there)) return;
		__syncwarp(); // what one lane has seen, all have
		place(tile, piece % PIECES, row, col);
		switch (p.size) {
		case 2: add_piece<2, 8>(p, row, col); break;
		case 4: add_piece<4, 4>(p, row, col); break;
		case 8: add_piece<8, 2>(p, row, col); break;
		default: add_piece<0, 4>(p, row, col);
		}
	}
	__syncwarp();
	if (lane < p.size && done > 0) add_release(come(p, lane), done);
}

// all_come: the rank is done when all pieces have come, whoever added them up.
__device__ __forceinline__ void all_come(const Params &p, u32 tiles) {
	if (blockIdx.x == 0 && threadIdx.x == 0) await(p, come(p, p.rank), p.arrived + tiles * PIECES, 2, p.rank);
}
