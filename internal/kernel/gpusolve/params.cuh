// Shared by the kernels of a solve: their argument, and the few operations that only a GPU has.
// Everything is written in the common subset of C and C++, so that tests can compile the very same
// kernels for the CPU, where a block is one thread. lanes.h in package cudatest replaces the part
// under __CUDACC__ there.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum { MAX_RANKS = 16, MAX_POINTS = 27, SUMS = 3, SLOTS = 4, SIDES = 64 };

// ROWS is the number of rows that a block handles at a time, one per thread.
enum { ROWS = 256 };

// FLIGHT is the number of rows that a thread loads at a time in loops over vectors, and DEPTH in the products of a cycle.
enum { FLIGHT = 4, DEPTH = 2 };

// The status of a solve.
enum { RUNNING, CONVERGED, TOO_MANY, BREAKDOWN };

// Reasons for a breakdown.
enum { NOT_DEFINITE = 1, BAD_PRECONDITIONER, NOT_FINITE };

// Right-hand sides.
enum { ONES, NOISE, GIVEN };

// Faults that tests plant to see whether the checks find them, in order: ghosts are not sent; the dot
// product p.q lacks its first block; x is updated with the previous step's factor; ranks do not wait
// for each other; dot products are taken from the previous step. In a multigrid cycle: the coarse
// correction is not added; the restriction leaves out a point's last neighbours.
enum { DROPPED_HALO = 1, WRONG_DOT = 2, STALE_SCALAR = 4, MISSING_WAIT = 8, STALE_SUMS = 16, NO_CORRECTION = 32, WRONG_RESTRICTION = 64 };

// The steps of a multigrid cycle; see cycle.cu. The steps before RESTRICT multiply by a level's matrix.
enum { SMOOTH, DEFECT, RELAX, FINISH, LANCZOS, RESTRICT, CORRECT, SOLVE, BEGIN_LANCZOS, NEXT_LANCZOS };

// Mail is the message from one rank to another after a step: its partial dot products.
typedef struct {
	double sums[SUMS];
	u32 step, unused;
} Mail;

// State is the state of a method between steps. There are two copies: a step reads one and writes
// the other for the next step.
typedef struct {
	double norm, rz, alpha, before, residual; // before: alpha of the previous step
	double highest;                           // largest residual since the recurrences were last recomputed
	u32 iterations, status, reason, begun;
	u32 steps, products, reductions;          // counts
	u32 phase, turn, since;                   // only for the pipelined method
} State;

// Control coordinates the blocks and steps of one rank.
typedef struct {
	State state[2];
	u32 ticket; // number of blocks that have finished this step
	u32 broken; // a wait timed out: later results are invalid
} Control;

// Outcome is read by the host: how the solve ended, or which wait timed out.
typedef struct {
	State state;
	u32 late, waited_for, step, seen;
} Outcome;

// Params is the argument of every kernel. Vectors with ghosts begin with the ghosts below the rank's
// own rows.
typedef struct {
	u64 x, q;                         // x points at the rank's own rows, q has no ghosts
	u64 p[2], r[2], s[2], w[2];       // with ghosts, except p of cg-single
	u64 diagonal;                     // reciprocals, with ghosts; if 0, factor applies to all rows
	u64 starts, cols, vals;           // CSR; for stencils vals holds the points' coefficients, with ghosts
	u64 codes;                        // for each row, the sides of the grid at which it lies
	u64 partials, control, outcome, history;
	u64 mail[MAX_RANKS];              // by rank; each holds SLOTS x MAX_RANKS messages
	u64 ghosts[MAX_RANKS];            // by peer: the address that this rank's row 0 would have in the peer's r[0]
	u64 send_lo[MAX_RANKS], send_hi[MAX_RANKS]; // rows to send, by peer
	u64 edge_lo, edge_hi;             // rows in [edge_lo, edge_hi) are not sent
	u64 rows, below, above;           // the rank's own rows, and its ghosts below and above
	u64 first;                        // global number of its row 0
	u64 grid[3];
	u64 seed, limit_ns;
	u64 coef_seed;                    // seed of the variable coefficients
	i64 reach[MAX_POINTS];            // column distance from the diagonal
	double coef[MAX_POINTS];
	double factor, tolerance;
	u32 sides[MAX_POINTS];            // a row at these sides of the grid lacks the entry
	u32 points, rhs, rank, size;
	u32 step;                         // counts kernels over all solves
	u32 turn;                         // index of the old vector of each pair
	u32 most;                         // largest number of iterations
	u32 fault;
	u32 blocks;
	u32 variable;                     // set if coefficients vary from point to point
	// Only for multigrid cycles.
	u64 coarse[3];                    // the next coarser grid after grid
	u64 stride;                       // distance between two diagonals of a matrix stored by diagonals
	u64 other, other_stride;          // a vector or matrix of another level, addressed from that level's global row 0
	u64 inverse, bound;               // of the last level's matrix; the largest ratio of a row's absolute sum to its diagonal
	double along, beyond;             // factors of a cycle's step
	u32 op, level, diagonals;         // the step, the level of grid, and the number of diagonals of coarser matrices
	u32 table;                        // set if coarser matrices are stored in a table by sides
	double edge[3];                   // weight of the coarse point next to a last point that the coarser grid drops
	u64 given;                        // values of the right-hand side GIVEN, from row 0
} Params;

#ifdef __CUDACC__
static_assert(sizeof(Params) == 1488, "Params of gpusolve.go");
// KERNEL_OF declares a kernel of which this many blocks fit on a multiprocessor: fewer blocks have more registers each.
#define KERNEL_OF(blocks, name) extern "C" __global__ void __launch_bounds__(ROWS, blocks) name(const __grid_constant__ Params p)
#define KERNEL(name) KERNEL_OF(4, name)
#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define UNROLL _Pragma("unroll 9")
#define LANES ((u32)ROWS)
#define LANE threadIdx.x
#define BLOCK blockIdx.x
#define SYNC() __syncthreads()
extern __shared__ double products[];

DEVICE void store_release(u32 *at, u32 v) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
DEVICE u32 load_acquire(const u32 *at) {
	u32 v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
	return v;
}
DEVICE u64 now_ns(void) {
	u64 t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}
DEVICE void fence(void) { __threadfence(); }
DEVICE void fence_system(void) { __threadfence_system(); }
DEVICE u32 next_ticket(u32 *at) { return atomicAdd(at, 1u); }
DEVICE u32 claim(u32 *at) { return atomicCAS_system(at, 0u, 1u); }
DEVICE int is_number(double v) { return isfinite(v); }
// raise_to keeps the maximum of non-negative numbers, whose bit patterns are ordered like their values.
DEVICE void raise_to(u64 *at, double v) { atomicMax(at, (u64)__double_as_longlong(v)); }
// Streaming accesses: data used once should not evict data that is used again.
DEVICE double load_streaming(const double *at) { return __ldcs(at); }
DEVICE u32 load_streaming_u32(const u32 *at) { return __ldcs(at); }
DEVICE void store_streaming(double *at, double v) { __stcs(at, v); }

// block_sum returns the sum of v over the threads of a block, always added in the same order, to
// every thread.
DEVICE double block_sum(double v) {
	__shared__ double of_warp[ROWS / 32];
	for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
	if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
	__syncthreads();
	v = of_warp[0];
	for (int i = 1; i < ROWS / 32; i++) v += of_warp[i];
	__syncthreads();
	return v;
}
#endif
