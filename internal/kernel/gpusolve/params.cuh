// What the kernels of a solve share: their argument, and the few operations that are a
// GPU's own. Everything is written in the part of C++ that is C too, so that tests compile
// the very same kernels for the processor, a block being one thread there: lanes.h of
// package cudatest stands in for what is under __CUDACC__ here.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

enum { MAX_RANKS = 16, MAX_POINTS = 27, SUMS = 3, SLOTS = 4, SIDES = 64 };

// ROWS is how many rows a block takes at a time: one for each of its threads.
enum { ROWS = 256 };

// How a solve ends.
enum { RUNNING, CONVERGED, TOO_MANY, BREAKDOWN };

// Why it breaks down.
enum { NOT_DEFINITE = 1, BAD_PRECONDITIONER, NOT_FINITE };

// Right-hand sides.
enum { ONES, NOISE };

// Errors that are planted to see whether they are found: no ghosts are sent, the scalar
// product p.q lacks its first block, x goes a step with the factor of the step before,
// nobody waits for other ranks, scalar products are those of the step before; and in a cycle, what
// the coarser level has found is not added, and the residual of a point's last neighbours not handed on.
enum { DROPPED_HALO = 1, WRONG_DOT = 2, STALE_SCALAR = 4, MISSING_WAIT = 8, STALE_SUMS = 16, NO_CORRECTION = 32, WRONG_RESTRICTION = 64 };

// The steps of a multigrid cycle: see cycle.cu. Those before RESTRICT multiply by the matrix of a level.
enum { SMOOTH, DEFECT, RELAX, FINISH, LANCZOS, RESTRICT, CORRECT, SOLVE, BEGIN_LANCZOS, NEXT_LANCZOS };

// Mail is what a rank tells another after a step: its parts of the scalar products.
typedef struct {
	double sums[SUMS];
	u32 step, unused;
} Mail;

// State is what a method knows between steps. There are two: a step reads one and leaves
// the other to the next.
typedef struct {
	double norm, rz, alpha, before, residual; // before: the factor of the step before
	double highest;                           // residual since recurrences were last made anew
	u32 iterations, status, reason, begun;
	u32 steps, products, reductions;          // that were made
	u32 phase, turn, since;                   // of the pipelined method
} State;

// Control is the memory by which blocks and steps of one rank find each other.
typedef struct {
	State state[2];
	u32 ticket; // blocks that have ended
	u32 broken; // a wait took too long: nothing after it counts
} Control;

// Outcome is what the host sees: how a solve ended, or who waited for whom in vain.
typedef struct {
	State state;
	u32 late, waited_for, step, seen;
} Outcome;

// Params is the argument of every kernel. Vectors with ghosts begin with those below the
// rank's own rows.
typedef struct {
	u64 x, q;                         // without ghosts: x begins with the rank's own rows wherever it has some
	u64 p[2], r[2], s[2], w[2];       // with ghosts, but for the p of cg-single
	u64 diagonal;                     // reciprocals, with ghosts; 0: factor for all
	u64 starts, cols, vals;           // rows as they are stored plain; else vals is the coefficients of the points, with ghosts
	u64 codes;                        // of each row, which sides of the grid it lies at
	u64 partials, control, outcome, history;
	u64 mail[MAX_RANKS];              // by rank; SLOTS times that of every rank
	u64 ghosts[MAX_RANKS];            // of a peer, where this rank's row 0 would be in its r[0]
	u64 send_lo[MAX_RANKS], send_hi[MAX_RANKS]; // which rows go to whom
	u64 edge_lo, edge_hi;             // rows from edge_lo up to edge_hi go to nobody
	u64 rows, below, above;           // of this rank, and its ghosts
	u64 first;                        // the number of its row 0 in the whole problem
	u64 grid[3];
	u64 seed, limit_ns;
	u64 coef_seed;                    // of variable coefficients
	i64 reach[MAX_POINTS];            // columns from the diagonal
	double coef[MAX_POINTS];
	double factor, tolerance;
	u32 sides[MAX_POINTS];            // of the grid, at which a row lacks the entry
	u32 points, rhs, rank, size;
	u32 step;                         // counts kernels, never from anew
	u32 turn;                         // which of two vectors is the old one
	u32 most;                         // iterations
	u32 fault;
	u32 blocks;
	u32 variable;                     // coefficients differ from point to point
	// Of a multigrid cycle alone.
	u64 coarse[3];                    // the grid of the level after that of grid
	u64 stride;                       // values between two diagonals, where the matrix is stored by these
	u64 other, other_stride;          // what a step takes from another level, from where row 0 of that whole level would be
	u64 inverse, bound;               // of the last level's matrix; the largest sum of a row's magnitudes over its diagonal
	double along, beyond;             // what a step of a cycle multiplies by
	u32 op, level, diagonals;         // the step, the level of grid, and the diagonals of coarser matrices
	u32 table;                        // the entries of these follow from the sides that a row lies at
} Params;

#ifdef __CUDACC__
static_assert(sizeof(Params) == 1456, "Params of gpusolve.go");
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(ROWS, 4) name(const __grid_constant__ Params p)
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
// raise_to keeps the largest of numbers that are not negative: such doubles are in the order of their bits.
DEVICE void raise_to(u64 *at, double v) { atomicMax(at, (u64)__double_as_longlong(v)); }
// What is read once need not push out of the caches what is read again.
DEVICE double once(const double *at) { return __ldcs(at); }
DEVICE u32 once_u32(const u32 *at) { return __ldcs(at); }
DEVICE void put(double *at, double v) { __stcs(at, v); }

// block_sum adds up over the threads of a block, always in the same order. All get the sum
// of thread 0.
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
