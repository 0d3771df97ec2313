// Lamport all-reduce: every rank sends its elements to all others, and the data serve as
// their own flags. Each store carries four bytes of data and the number of the call, so data
// with the current number have arrived. NCCL calls this protocol LL. Waiting for the elements
// is the only synchronisation.
//
// Nothing is ever cleared, and two alternating slots suffice. A rank that sends in call n has
// finished call n-1, so it has received everything the others sent in call n-1. The others
// sent that only after they had read this slot's previous content, from call n-2. Within one
// launch the argument holds for each thread alone, because a thread handles the same elements
// in every call.
#include "common.cuh"

// A line is half a pack of elements; the call's number follows each word.
__device__ __forceinline__ void send_line(ulonglong2 *at, uint2 v, u32 number) {
	u64 tag = (u64)number << 32;
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1,%2};" ::"l"(at), "l"(tag | v.x), "l"(tag | v.y) : "memory");
}
__device__ __forceinline__ ulonglong2 load_line(const ulonglong2 *at) {
	ulonglong2 v;
	asm volatile("ld.relaxed.sys.global.v2.u64 {%0,%1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(at) : "memory");
	return v;
}
__device__ __forceinline__ bool arrived(ulonglong2 line, u32 number) { return (u32)(line.x >> 32) == number && (u32)(line.y >> 32) == number; }

// line_at returns where rank `from` stores line i at rank `at` in the given call. The lines of
// one warp from all ranks are adjacent, so that the ranks' lines have a constant distance.
template <int RANKS> __device__ __forceinline__ ulonglong2 *line_at(const Params &p, u32 at, u32 from, u32 number, u64 i) {
	return (ulonglong2 *)(p.scratch[at] + (number % 2) * p.slot_bytes) + (i / 32 * ranks<RANKS>(p) + from) * 32 + i % 32;
}

// load_half loads the elements of a line, padded with zeros.
template <typename T> __device__ __forceinline__ uint2 load_half(const Params &p, const void *in, u64 i) {
	constexpr int N = Pack<T>::N / 2;
	uint2 v = make_uint2(0, 0);
	if ((i + 1) * N <= p.count) {
		asm volatile("ld.global.cg.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"((const uint2 *)in + i) : "memory");
		return v;
	}
	for (u64 e = i * N; e < p.count; e++) ((T *)&v)[e - i * N] = ((const volatile T *)in)[e];
	return v;
}

// store_half rounds and stores the sums of a line.
template <typename T> __device__ __forceinline__ void store_half(const Params &p, void *out, u64 i, typename Pack<T>::Sum *sum) {
	constexpr int N = Pack<T>::N / 2;
	if ((p.options & SKIP_TAIL) && i / 2 >= p.count / Pack<T>::N) return; // two lines make a pack
	if (!plain<T>(p))
#pragma unroll
		for (int e = 0; e < N; e++)
			if (i * N + e < p.count) sum[e] = finish<T>(p, sum[e], i * N + e);
	if ((i + 1) * N <= p.count) {
		uint4 v = Pack<T>::narrow(sum);
		asm volatile("st.global.cs.v2.u32 [%0], {%1,%2};" ::"l"((uint2 *)out + i), "r"(v.x), "r"(v.y) : "memory");
		return;
	}
#pragma unroll
	for (int e = 0; e < N; e++)
		if (i * N + e < p.count) ((T *)out)[i * N + e] = Pack<T>::down(sum[e]);
}

// receive waits for line i of FEW ranks, beginning with `from`, and adds them in rank order. It returns
// false if one does not arrive in time.
template <typename T, int RANKS, int FEW> __device__ __forceinline__ bool receive(const Params &p, Who w, u32 number, u64 i, u32 from, uint2 own, typename Pack<T>::Sum *sum) {
	const ulonglong2 *mine = line_at<RANKS>(p, w.rank, from, number, i);
	ulonglong2 line[FEW];
	u32 missing = 0;
#pragma unroll
	for (int r = 0; r < FEW; r++) {
		line[r] = make_ulonglong2(own.x, own.y);
		if ((int)from + r < ranks<RANKS>(p) && source(p, from + r) != w.rank) missing |= 1u << r;
	}
	int misled = (int)source(p, from) - (int)from; // 0 unless WRONG_SLOT is planted
	u64 start = 0;
	for (u32 spins = 0; missing != 0; spins++) {
#pragma unroll
		for (int r = 0; r < FEW; r++) // all loads in flight at once
			if (missing >> r & 1) line[r] = load_line(mine + 32 * (r == 0 ? misled : r));
#pragma unroll
		for (int r = 0; r < FEW; r++)
			if (arrived(line[r], number) || (p.options & DROP_END)) missing &= ~(1u << r);
		if (spins % 1024 == 1023) {
			if (start == 0) start = now_ns();
			if (must_stop(p, w, 3, from + __ffs(missing) - 1, number, (u32)i, start)) return false;
		}
	}
#pragma unroll
	for (int r = 0; r < FEW; r++) {
		if ((int)from + r >= ranks<RANKS>(p)) return true;
		typename Pack<T>::Sum next[Pack<T>::N];
		Pack<T>::widen(next, make_uint4((u32)line[r].x, (u32)line[r].y, 0, 0));
#pragma unroll
		for (int e = 0; e < Pack<T>::N / 2; e++) sum[e] = from + r == 0 ? next[e] : sum[e] + next[e];
	}
	return true;
}

template <typename T, int RANKS> __device__ __forceinline__ void lamport(const Params &p) {
	Who w = who(p);
	constexpr int FEW = RANKS ? RANKS : 4; // limited by registers
	const int size = ranks<RANKS>(p);
	u64 lines = (p.count + Pack<T>::N / 2 - 1) / (Pack<T>::N / 2), first = lane(w), stride = step(p);
	for (u32 call = 0; call < p.iterations; call++) {
		u32 number = p.epoch + call + 1; // counts all calls of the group; never 0, the initial content
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		const void *in = (const void *)(p.in[w.rank] + offset);
		void *out = (void *)(p.out[w.rank] + offset);
		uint2 held = make_uint2(0, 0); // the first line, which is usually the only one
		for (u64 i = first; i < lines; i += stride) {
			uint2 v = load_half<T>(p, in, i);
			if (i == first) held = v;
			for (int k = 1; k < size; k++) { // every rank starts with a different peer
				u32 to = (int)w.rank + k < size ? w.rank + k : w.rank + k - size;
				send_line(line_at<RANKS>(p, to, w.rank, number, i), v, number);
			}
		}
		for (u64 i = first; i < lines; i += stride) {
			typename Pack<T>::Sum sum[Pack<T>::N] = {};
			uint2 own = i == first ? held : load_half<T>(p, in, i);
			for (int from = 0; from < size; from += FEW)
				if (!receive<T, RANKS, FEW>(p, w, number, i, from, own, sum)) return;
			store_half<T>(p, out, i, sum);
		}
	}
}
KERNELS(lamport)
KERNEL(lamport, f64, double, 0, any)
