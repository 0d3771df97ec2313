// The fused kernel: it multiplies, and adds each tile in the epilogue of its product.
//
// Every tile has an owner. A rank stores tiles owned by others in its own C and signals the
// owner. To a tile of its own it adds what the other ranks have stored, at about the same time,
// and it stores the sum at all ranks.
//
// A thread holds its part of a tile as float4 vectors at positions that its kernel defines.
#pragma once
#include "fused.cuh"
#include "order.cuh"

__device__ __forceinline__ bool sums(const Params &p) { return !(p.options & NO_SUM); }
__device__ __forceinline__ bool owns(const Params &p, u32 tile) { return sums(p) && tile % p.size == p.rank; }

// signal_tile tells a tile's owner that this rank's product is stored.
__device__ __forceinline__ void signal_tile(const Params &p, u32 owner, u32 tile) { store_release(tile_flag(p, owner, tile, p.rank), p.epoch); }

// peer returns the address of C at the i-th other rank.
__device__ __forceinline__ u64 peer(const Params &p, u32 i) { return p.c[i < p.rank ? i : i + 1]; }

// T is a thread's part of a tile: COUNT float4 vectors. at(c, i) is the address of the i-th in the C
// that begins at c, there(i) reports whether C extends that far, and get(i), called by all lanes,
// returns its value. AHEAD is the number of loads to keep in flight.

// opaque hides from the compiler how an address was computed. Otherwise it keeps a register per
// float4 and rank for the offsets, instead of one address per rank.
__device__ __forceinline__ u64 opaque(u64 at) {
	asm("mov.u64 %0, %0;" : "+l"(at));
	return at;
}

template <class T> __device__ __forceinline__ void store_own(const Params &p, T &t) {
#pragma unroll
	for (int i = 0; i < T::COUNT; i++) {
		float4 v = t.get(i);
		if (t.there(i)) *(float4 *)t.at(p.c[p.rank], i) = v;
	}
}

// add_whole adds a tile that lies completely within C. The loads of a batch are in flight while the
// previous batch is added and stored. The order is that of the ranks; the first two commute.
template <int RANKS, class T> __device__ __forceinline__ void add_whole(const Params &p, T &t) {
	constexpr int PEERS = RANKS - 1, BATCH = T::AHEAD > PEERS ? T::AHEAD / PEERS : 1, BATCHES = T::COUNT / BATCH;
	static_assert(T::COUNT % BATCH == 0, "batches");
	float4 v[2][PEERS][BATCH];
	auto load = [&](int b) {
#pragma unroll
		for (int i = 0; i < PEERS; i++)
#pragma unroll
			for (int j = 0; j < BATCH; j++) v[b & 1][i][j] = load16(t.at(peer(p, i), b * BATCH + j));
	};
	load(0);
#pragma unroll
	for (int b = 0; b < BATCHES; b++) {
		if (b + 1 < BATCHES) load(b + 1);
#pragma unroll
		for (int j = 0; j < BATCH; j++) {
			float4 own = t.get(b * BATCH + j), sum = v[b & 1][0][j];
			if (RANKS == 2 || p.rank <= 1) add(sum, own);
#pragma unroll
			for (int i = 1; i < PEERS; i++) {
				add(sum, v[b & 1][i][j]);
				if (p.rank == i + 1) add(sum, own);
			}
#pragma unroll
			for (int q = 0; q < RANKS; q++) store16(t.at(p.c[q], b * BATCH + j), sum);
		}
	}
}

// add_any adds any tile, complete or not, of any number of ranks.
template <class T> __device__ __forceinline__ void add_any(const Params &p, T &t) {
	constexpr int BATCH = T::AHEAD > 4 ? T::AHEAD / 4 : 1;
	const u32 peers = p.size - 1;
#pragma unroll
	for (int b = 0; b < T::COUNT; b += BATCH) {
		float4 own[BATCH], sum[BATCH], v[BATCH], next[BATCH];
		auto load = [&](u32 i, float4 *to) {
#pragma unroll
			for (int j = 0; j < BATCH; j++) to[j] = t.there(b + j) ? load16(t.at(peer(p, i), b + j)) : make_float4(0, 0, 0, 0);
		};
#pragma unroll
		for (int j = 0; j < BATCH; j++) sum[j] = own[j] = t.get(b + j); // already the result if there is only one rank
		if (peers > 0) load(0, next);
#pragma unroll 1
		for (u32 i = 0; i < peers; i++) {
#pragma unroll
			for (int j = 0; j < BATCH; j++) v[j] = next[j];
			if (i + 1 < peers) load(i + 1, next);
#pragma unroll
			for (int j = 0; j < BATCH; j++) {
				if (i > 0) add(sum[j], v[j]);
				else sum[j] = v[j];
				if (p.rank == i + 1 || i == 0 && p.rank == 0) add(sum[j], own[j]);
			}
		}
#pragma unroll 1
		for (u32 q = 0; q < p.size; q++)
#pragma unroll
			for (int j = 0; j < BATCH; j++)
				if (t.there(b + j)) store16(t.at(p.c[q], b + j), sum[j]);
	}
}

// add_up adds an own tile once all ranks have signalled it; whole reports whether it lies within C.
template <class T> __device__ __forceinline__ void add_up(const Params &p, T &t, bool whole) {
	if (whole && p.size == 2) add_whole<2>(p, t);
	else if (T::AHEAD > 4 && whole && p.size == 4) add_whole<4>(p, t);
	else add_any(p, t);
}

// all_there makes a block wait until all other ranks have signalled COUNT own tiles from tile on.
template <u32 COUNT> __device__ __forceinline__ bool all_there(const Params &p, u32 tile) {
	u32 from = threadIdx.x / COUNT;
	bool there = from >= p.size || from == p.rank || await(p, tile_flag(p, p.rank, tile + threadIdx.x % COUNT, from), p.epoch, 3, from);
	return __syncthreads_and(there); // an acquire by one thread counts for the whole block
}

// add_rows adds a block's part of what C holds.
template <int RANKS, int UNROLL> __device__ __forceinline__ void add_rows(const Params &p, u32 row, u32 rows, u32 col, u32 cols) {
	u32 across = cols / 4, down = blockDim.x / across, c = col + threadIdx.x % across * 4, r = row + threadIdx.x / across;
	if (c >= p.n || threadIdx.x / across >= down) return;
	u32 last = row + rows < p.m ? row + rows : p.m;
	u64 step = (u64)down * p.ldc * 4;
	for (; r + (UNROLL - 1) * down < last; r += UNROLL * down) add_packs<RANKS, UNROLL>(p, ((u64)r * p.ldc + c) * 4, step);
	for (; r < last; r += down) add_packs<RANKS, 1>(p, ((u64)r * p.ldc + c) * 4, 0);
}

// without_product adds what C holds, in the same order of tiles. Each of the CLUSTER blocks of a
// cluster has COUNT tiles, together BLOCK_ROWS x BLOCK_COLS elements.
template <u32 CLUSTER, u32 COUNT, u32 BLOCK_ROWS, u32 BLOCK_COLS> __device__ __forceinline__ void without_product(const Params &p) {
	u32 rows = (p.m + CLUSTER * BLOCK_ROWS - 1) / (CLUSTER * BLOCK_ROWS), cols = (p.n + BLOCK_COLS - 1) / BLOCK_COLS, tiles = rows * cols;
	u32 which = blockIdx.x % CLUSTER, row, col;
	bool good = true; // no wait has timed out
	u32 cluster = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER, count = tile_count(p.size, tiles, cluster, clusters);
	for (u32 n = 0; n < count; n++) {
		u32 tile = nth_tile(p.rank, p.size, n, tiles, cluster, clusters);
		u32 part = (tile * CLUSTER + which) * COUNT;
		if (tile % p.size != p.rank) {
			if (threadIdx.x < COUNT) signal_tile(p, tile % p.size, part + threadIdx.x);
			continue;
		}
		good = good && all_there<COUNT>(p, part);
		if (!good) continue;
		tile_at(tile, rows, cols, row, col);
		row = (row * CLUSTER + which) * BLOCK_ROWS, col *= BLOCK_COLS;
		switch (p.size) {
		case 2: add_rows<2, 8>(p, row, BLOCK_ROWS, col, BLOCK_COLS); break;
		case 4: add_rows<4, 4>(p, row, BLOCK_ROWS, col, BLOCK_COLS); break;
		default: add_rows<0, 4>(p, row, BLOCK_ROWS, col, BLOCK_COLS);
		}
		__syncthreads();
		if (threadIdx.x < p.size) add_release(arrivals(p, threadIdx.x), COUNT);
	}
	if (blockIdx.x == 0 && threadIdx.x == 0 && good) await(p, arrivals(p, p.rank), p.arrived + tiles * CLUSTER * COUNT, 2, p.rank);
}

// exchange_pairs turns pairs into float4 vectors. A lane holds two elements, a, of eight columns and
// two elements, b, of the next eight. The even lane of two neighbours gets all four of a, the odd
// lane all four of b. All lanes must call it.
__device__ __forceinline__ float4 exchange_pairs(const float *a, const float *b) {
	bool odd = threadIdx.x & 1;
	float x = __shfl_xor_sync(~0u, odd ? a[0] : b[0], 1), y = __shfl_xor_sync(~0u, odd ? a[1] : b[1], 1);
	return odd ? make_float4(x, y, b[0], b[1]) : make_float4(a[0], a[1], x, y);
}

// exchange_shift returns how far that moves the column of a lane's first element.
__device__ __forceinline__ u32 exchange_shift() { return (threadIdx.x & 1) * 6; }
