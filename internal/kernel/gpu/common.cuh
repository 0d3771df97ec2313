// Shared by the all-reduce kernels: the rank of a block, the barrier between blocks of
// several ranks, and elements of every type in packs of 16 bytes.
//
// Either every rank launches the kernel, with the same Params except for rank, or one
// launch serves all ranks (rank = RANKS_AS_BLOCKS) and its blocks are dealt out to them.
// Every block works on the same share of the elements in every phase. Block b therefore
// depends only on block b of the other ranks, and no barrier includes more blocks.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned int u32;
typedef unsigned long long u64;

#define MAX_RANKS 16
#define RANKS_AS_BLOCKS 0xffffffffu
// Each block has a cache line of flags, one for every rank that signals it.
#define FLAGS_PER_BLOCK 32

// Failure is written by the first block whose wait times out. It lies in host memory.
struct Failure {
	u32 claimed, rank, block, phase, peer, epoch, seen, unused;
};

// Options. A single rank drops the barriers because it has no peers. ROUND_EACH rounds
// every partial sum to the element type; only the kernels for any number of ranks have it.
// Tests also plant errors to see whether the checks find them: DROP_START and DROP_END with
// several ranks, SKIP_TAIL (the elements after the last whole pack are left out) and
// WRONG_SLOT (rank 1's input is used in place of rank 0's).
enum { DROP_START = 1, DROP_END = 2, ROUND_EACH = 4, SKIP_TAIL = 8, WRONG_SLOT = 16 };

struct Params {
	u64 in[MAX_RANKS], out[MAX_RANKS], scratch[MAX_RANKS], flags[MAX_RANKS]; // by rank
	u64 count;       // elements
	u64 failure;     // Failure*
	u64 limit_ns;    // timeout of one wait
	u64 bias;        // added by index modulo bias_count; 0: none
	u64 bias_count;
	u64 residual;    // added element by element; 0: none
	u64 stride;      // bytes between the buffers that iterations rotate over
	u64 slot_bytes;  // size of a scratch slot: the most that one rank sends in one call
	u64 delay_ns;    // before the work of delay_rank
	u64 base;        // index of the first element in the whole vector; the bias repeats from index 0
	u64 weight;      // RMS norm: one weight per element of a row
	u64 row;         // RMS norm: elements per row
	double epsilon;  // RMS norm
	double scale;    // factor applied to the sum
	u32 rank, size, blocks; // blocks per rank
	u32 epoch;       // value of the flags before this launch
	u32 iterations, rotation;
	u32 options, delay_rank;
};

static_assert(sizeof(Params) == 656, "Params of gpu.go");

struct Who {
	u32 rank, block;
};

__device__ __forceinline__ Who who(const Params &p) {
	if (p.rank != RANKS_AS_BLOCKS) return {p.rank, blockIdx.x};
	return {blockIdx.x % p.size, blockIdx.x / p.size};
}

__device__ __forceinline__ void store_release(u32 *at, u32 v) {
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}
__device__ __forceinline__ u32 load_acquire(const u32 *at) {
	u32 v;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
	return v;
}
__device__ __forceinline__ u64 now_ns() {
	u64 t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

__device__ void report(const Params &p, Who w, u32 phase, u32 peer, u32 epoch, u32 seen) {
	Failure *f = (Failure *)p.failure;
	if (atomicCAS_system(&f->claimed, 0u, 1u) != 0) return;
	f->rank = w.rank, f->block = w.block, f->phase = phase, f->peer = peer, f->epoch = epoch, f->seen = seen;
	__threadfence_system();
	atomicExch_system(&f->claimed, 2u);
}

// must_stop reports whether a waiting block has to stop: its wait timed out, which it
// records in Failure, or another block or the host has recorded a failure before.
__device__ __forceinline__ bool must_stop(const Params &p, Who w, u32 phase, u32 peer, u32 epoch, u32 seen, u64 start) {
	if (*(volatile u32 *)&((Failure *)p.failure)->claimed != 0) return true;
	if (now_ns() - start <= p.limit_ns) return false;
	report(p, w, phase, peer, epoch, seen);
	return true;
}

__device__ __forceinline__ u32 *flag(const Params &p, u32 rank, u32 block, u32 from) {
	return (u32 *)p.flags[rank] + block * FLAGS_PER_BLOCK + from;
}

// meet is a barrier between block b of all ranks. It returns false if one does not arrive in time.
__device__ __forceinline__ bool meet(const Params &p, Who w, u32 epoch, u32 phase) {
	__syncthreads();
	bool all = true;
	if (threadIdx.x < p.size) {
		u32 peer = threadIdx.x;
		store_release(flag(p, peer, w.block, w.rank), epoch);
		const u32 *mine = flag(p, w.rank, w.block, peer);
		u32 seen = load_acquire(mine);
		if ((int)(seen - epoch) < 0) {
			u64 start = now_ns();
			for (u32 spins = 1; (int)((seen = load_acquire(mine)) - epoch) < 0; spins++) {
				if (spins % 1024 == 0 && must_stop(p, w, phase, peer, epoch, seen, start)) {
					all = false;
					break;
				}
			}
		}
	}
	return __syncthreads_and(all);
}

__device__ __forceinline__ void delay(const Params &p, Who w) {
	if (p.delay_ns == 0 || w.rank != p.delay_rank) return;
	for (u64 start = now_ns(); now_ns() - start < p.delay_ns;) {
	}
}

// Pack converts 16 bytes of elements to the type Sum in which they are added, and back.
template <typename T> struct Pack;
template <> struct Pack<float> {
	typedef float Sum;
	enum { N = 4 };
	static __device__ __forceinline__ void widen(float *s, uint4 v) {
		s[0] = __uint_as_float(v.x), s[1] = __uint_as_float(v.y), s[2] = __uint_as_float(v.z), s[3] = __uint_as_float(v.w);
	}
	static __device__ __forceinline__ uint4 narrow(const float *s) {
		return make_uint4(__float_as_uint(s[0]), __float_as_uint(s[1]), __float_as_uint(s[2]), __float_as_uint(s[3]));
	}
	static __device__ __forceinline__ float up(float v) { return v; }
	static __device__ __forceinline__ float down(float v) { return v; }
};
template <> struct Pack<double> {
	typedef double Sum;
	enum { N = 2 };
	static __device__ __forceinline__ void widen(double *s, uint4 v) {
		s[0] = __hiloint2double(v.y, v.x), s[1] = __hiloint2double(v.w, v.z);
	}
	static __device__ __forceinline__ uint4 narrow(const double *s) {
		return make_uint4(__double2loint(s[0]), __double2hiint(s[0]), __double2loint(s[1]), __double2hiint(s[1]));
	}
	static __device__ __forceinline__ double up(double v) { return v; }
	static __device__ __forceinline__ double down(double v) { return v; }
};
template <> struct Pack<__half> {
	typedef float Sum;
	enum { N = 8 };
	static __device__ __forceinline__ void widen(float *s, uint4 v) {
		const __half2 *h = (const __half2 *)&v;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float2 f = __half22float2(h[i]);
			s[2 * i] = f.x, s[2 * i + 1] = f.y;
		}
	}
	static __device__ __forceinline__ uint4 narrow(const float *s) {
		uint4 v;
		__half2 *h = (__half2 *)&v;
#pragma unroll
		for (int i = 0; i < 4; i++) h[i] = __floats2half2_rn(s[2 * i], s[2 * i + 1]);
		return v;
	}
	static __device__ __forceinline__ float up(__half v) { return __half2float(v); }
	static __device__ __forceinline__ __half down(float v) { return __float2half_rn(v); }
};
template <> struct Pack<__nv_bfloat16> {
	typedef float Sum;
	enum { N = 8 };
	static __device__ __forceinline__ void widen(float *s, uint4 v) {
		const u32 w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
		for (int i = 0; i < 4; i++) s[2 * i] = __uint_as_float(w[i] << 16), s[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
	}
	static __device__ __forceinline__ uint4 narrow(const float *s) {
		uint4 v;
		__nv_bfloat162 *h = (__nv_bfloat162 *)&v;
#pragma unroll
		for (int i = 0; i < 4; i++) h[i] = __floats2bfloat162_rn(s[2 * i], s[2 * i + 1]);
		return v;
	}
	static __device__ __forceinline__ float up(__nv_bfloat16 v) { return __bfloat162float(v); }
	static __device__ __forceinline__ __nv_bfloat16 down(float v) { return __float2bfloat16_rn(v); }
};

// finish applies the epilogue to the sum of element i, before it is rounded.
template <typename T> __device__ __forceinline__ typename Pack<T>::Sum finish(const Params &p, typename Pack<T>::Sum sum, u64 i) {
	typedef typename Pack<T>::Sum S;
	sum = sum * (S)p.scale;
	if (p.bias != 0) sum += (S)Pack<T>::up(((const T *)p.bias)[(p.base + i) % p.bias_count]);
	if (p.residual != 0) sum += (S)Pack<T>::up(((const T *)p.residual)[i]);
	return sum;
}
template <typename T> __device__ __forceinline__ bool plain(const Params &p) { return p.scale == 1 && p.bias == 0 && p.residual == 0; }

template <typename T> __device__ __forceinline__ void finish_pack(const Params &p, typename Pack<T>::Sum *s, u64 pack) {
	typedef typename Pack<T>::Sum S;
	if (plain<T>(p)) return;
#pragma unroll
	for (int e = 0; e < Pack<T>::N; e++) s[e] = s[e] * (S)p.scale;
	if (p.bias != 0) {
		u64 at = (p.base + pack * Pack<T>::N) % p.bias_count;
#pragma unroll
		for (int e = 0; e < Pack<T>::N; e++) {
			s[e] += (S)Pack<T>::up(((const T *)p.bias)[at]);
			if (++at == p.bias_count) at = 0;
		}
	}
	if (p.residual != 0) {
		const T *from = (const T *)p.residual + pack * Pack<T>::N;
#pragma unroll
		for (int e = 0; e < Pack<T>::N; e++) s[e] += (S)Pack<T>::up(from[e]);
	}
}

__device__ __forceinline__ uint4 load16(const uint4 *at) { // bypasses L1: read only once
	uint4 v;
	asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
	return v;
}
__device__ __forceinline__ void store16(uint4 *at, uint4 v) { // streaming: not read again soon
	asm volatile("st.global.cs.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// ranks returns the number of ranks. The usual counts are compile-time constants, so that
// the loads of all ranks can be in flight at once; RANKS = 0 means any number.
template <int RANKS> __device__ __forceinline__ int ranks(const Params &p) { return RANKS ? RANKS : (int)p.size; }

// source returns the rank to read from in place of rank; they differ only for WRONG_SLOT.
__device__ __forceinline__ u32 source(const Params &p, u32 rank) { return rank == 0 && (p.options & WRONG_SLOT) ? 1 : rank; }

// sum_packs adds one pack from each rank, in rank order.
template <typename T, int RANKS> __device__ __forceinline__ void sum_packs(typename Pack<T>::Sum *sum, const uint4 *v) {
	typename Pack<T>::Sum next[Pack<T>::N];
	Pack<T>::widen(sum, v[0]);
#pragma unroll
	for (int r = 1; r < RANKS; r++) {
		Pack<T>::widen(next, v[r]);
#pragma unroll
		for (int e = 0; e < Pack<T>::N; e++) sum[e] += next[e];
	}
}

// A thread works on every step-th pack of its rank, beginning with lane.
__device__ __forceinline__ u64 lane(Who w) { return (u64)w.block * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 step(const Params &p) { return (u64)p.blocks * blockDim.x; }

// reduce sums packs i, i + step, ... below last over all inputs, UNROLL at a time, and
// passes each sum to store.
template <typename T, int RANKS, int UNROLL, typename Store>
__device__ __forceinline__ void reduce(const Params &p, u64 offset, u64 i, u64 last, u64 step, Store store) {
	if (RANKS == 0) { // the next rank's packs are loaded while the previous ones are added
		for (; i < last; i += 2 * step) {
			bool both = i + step < last;
			typename Pack<T>::Sum a[Pack<T>::N], b[Pack<T>::N], next[Pack<T>::N];
			const uint4 *from = (const uint4 *)(p.in[source(p, 0)] + offset) + i;
			Pack<T>::widen(a, load16(from));
			if (both) Pack<T>::widen(b, load16(from + step));
#pragma unroll 4
			for (u32 r = 1; r < p.size; r++) {
				from = (const uint4 *)(p.in[r] + offset) + i;
				uint4 v = load16(from), w2 = both ? load16(from + step) : v;
				Pack<T>::widen(next, v);
#pragma unroll
				for (int e = 0; e < Pack<T>::N; e++) a[e] += next[e];
				Pack<T>::widen(next, w2);
#pragma unroll
				for (int e = 0; e < Pack<T>::N; e++) b[e] += next[e];
				if (p.options & ROUND_EACH) {
					Pack<T>::widen(a, Pack<T>::narrow(a));
					Pack<T>::widen(b, Pack<T>::narrow(b));
				}
			}
			finish_pack<T>(p, a, i);
			store(i, Pack<T>::narrow(a));
			if (both) {
				finish_pack<T>(p, b, i + step);
				store(i + step, Pack<T>::narrow(b));
			}
		}
		return;
	}
	constexpr int R = RANKS ? RANKS : 1;
	const uint4 *in[R];
#pragma unroll
	for (int r = 0; r < R; r++) in[r] = (const uint4 *)(p.in[source(p, r)] + offset);
	for (; i + (UNROLL - 1) * step < last; i += UNROLL * step) {
		uint4 v[UNROLL][R];
#pragma unroll
		for (int u = 0; u < UNROLL; u++)
#pragma unroll
			for (int r = 0; r < R; r++) v[u][r] = load16(in[r] + i + u * step);
#pragma unroll
		for (int u = 0; u < UNROLL; u++) {
			typename Pack<T>::Sum sum[Pack<T>::N];
			sum_packs<T, R>(sum, v[u]);
			finish_pack<T>(p, sum, i + u * step);
			store(i + u * step, Pack<T>::narrow(sum));
		}
	}
	for (; i < last; i += step) {
		uint4 v[R];
#pragma unroll
		for (int r = 0; r < R; r++) v[r] = load16(in[r] + i);
		typename Pack<T>::Sum sum[Pack<T>::N];
		sum_packs<T, R>(sum, v);
		finish_pack<T>(p, sum, i);
		store(i, Pack<T>::narrow(sum));
	}
}

// element returns the sum of a single element.
template <typename T> __device__ __forceinline__ T element(const Params &p, u64 offset, u64 at) {
	typename Pack<T>::Sum sum = Pack<T>::up(((const volatile T *)(p.in[source(p, 0)] + offset))[at]);
	for (u32 r = 1; r < p.size; r++) {
		sum += Pack<T>::up(((const volatile T *)(p.in[r] + offset))[at]);
		if (p.options & ROUND_EACH) sum = Pack<T>::up(Pack<T>::down(sum));
	}
	return Pack<T>::down(finish<T>(p, sum, at));
}

// tail sums the elements after the last whole pack, one per thread of block 0.
template <typename T> __device__ __forceinline__ bool tail(const Params &p, Who w, u64 offset, u64 &at, T &value) {
	at = p.count / Pack<T>::N * Pack<T>::N + threadIdx.x;
	if (w.block != 0 || at >= p.count || (p.options & SKIP_TAIL)) return false;
	value = element<T>(p, offset, at);
	return true;
}

// KERNELS instantiates an algorithm for 2, 4, 8 and any number of ranks.
#define KERNEL(name, suffix, T, ranks, label) \
	extern "C" __global__ void __launch_bounds__(512, 2) name##_##suffix##_##label(const __grid_constant__ Params p) { name<T, ranks>(p); }
#define KERNELS_OF(name, suffix, T) \
	KERNEL(name, suffix, T, 2, 2) KERNEL(name, suffix, T, 4, 4) KERNEL(name, suffix, T, 8, 8) KERNEL(name, suffix, T, 0, any)
#define KERNELS(name) \
	KERNELS_OF(name, f32, float) KERNELS_OF(name, f16, __half) KERNELS_OF(name, bf16, __nv_bfloat16)
