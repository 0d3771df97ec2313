// Lamport: every rank sends its elements to all, and the data are their own flags:
// a slot is free while it holds negative zeros, which are never sent. Four slots
// in turn. Its barrier is to wait for the elements.
//
// At its end a call clears the slot of the call before, which others write three calls
// later. They begin that call when they have this rank's elements of the one before it, and
// these are not sent before the cleared slot has been read back: a store that were still on its
// way then would wipe out what has come. A fence would do as well, at a third of the time of
// a small call. Between launches there is nothing to read back.
#include "common.cuh"

template <typename T> __device__ __forceinline__ uint4 without_negative_zero(uint4 v) {
	u32 *w = (u32 *)&v;
	if (sizeof(T) == 2) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			if ((w[i] & 0xffffu) == 0x8000u) w[i] &= 0xffff0000u;
			if ((w[i] >> 16) == 0x8000u) w[i] &= 0xffffu;
		}
	} else if (sizeof(T) == 4) {
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (w[i] == 0x80000000u) w[i] = 0;
	} else {
#pragma unroll
		for (int i = 0; i < 4; i += 2)
			if (w[i] == 0 && w[i + 1] == 0x80000000u) w[i + 1] = 0;
	}
	return v;
}
template <typename T> __device__ __forceinline__ bool arrived(uint4 v) {
	if (sizeof(T) == 8) return !(v.x == 0 && v.y == 0x80000000u) && !(v.z == 0 && v.w == 0x80000000u);
	if (sizeof(T) == 2) return v.x != 0x80008000u && v.y != 0x80008000u && v.z != 0x80008000u && v.w != 0x80008000u;
	return v.x != 0x80000000u && v.y != 0x80000000u && v.z != 0x80000000u && v.w != 0x80000000u;
}
template <typename T> __device__ __forceinline__ uint4 free_slot() {
	if (sizeof(T) == 8) return make_uint4(0, 0x80000000u, 0, 0x80000000u);
	u32 z = sizeof(T) == 2 ? 0x80008000u : 0x80000000u;
	return make_uint4(z, z, z, z);
}
__device__ __forceinline__ uint4 load_volatile(const uint4 *at, bool wide) {
	uint4 v;
	if (wide) { // each element must be read in one piece
		ulonglong2 u;
		asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];" : "=l"(u.x), "=l"(u.y) : "l"(at) : "memory");
		return make_uint4((u32)u.x, (u32)(u.x >> 32), (u32)u.y, (u32)(u.y >> 32));
	}
	asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
	return v;
}
__device__ __forceinline__ void store_volatile(uint4 *at, uint4 v, bool wide) {
	if (wide) {
		asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(at), "l"((u64)v.x | (u64)v.y << 32), "l"((u64)v.z | (u64)v.w << 32) : "memory");
		return;
	}
	asm volatile("st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// slot is where rank `from` leaves its elements at rank `at`, in the call of that number.
__device__ __forceinline__ uint4 *slot(const Params &p, u32 at, u32 from, u32 call) {
	return (uint4 *)(p.scratch[at] + ((u64)(call % 4) * p.size + from) * p.slot_bytes);
}

template <typename T, int RANKS> __device__ __forceinline__ void lamport(const Params &p) {
	Who w = who(p);
	constexpr bool wide = sizeof(T) == 8;
	constexpr int R = RANKS ? RANKS : MAX_RANKS, FEW = R < 2 ? R : 2; // as registers allow
	u64 packs = (p.count + Pack<T>::N - 1) / Pack<T>::N; // the last one padded
	u64 whole = p.count / Pack<T>::N;
	u64 first = lane(w), stride = step(p);
	for (u32 call = 0; call < p.iterations; call++) {
		u32 number = p.epoch + call; // of all calls of this group
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		const uint4 *in = (const uint4 *)(p.in[w.rank] + offset);
		uint4 *out = (uint4 *)(p.out[w.rank] + offset);
		for (u64 i = first; i < packs; i += stride) {
			uint4 v;
			if (i < whole) v = load16(in + i);
			else {
				v = make_uint4(0, 0, 0, 0);
				for (u64 e = whole * Pack<T>::N; e < p.count; e++) ((T *)&v)[e - whole * Pack<T>::N] = ((const volatile T *)in)[e];
			}
			v = without_negative_zero<T>(v);
#pragma unroll
			for (int k = 0; k < R; k++)
				if (RANKS || k < (int)p.size) store_volatile(slot(p, k, w.rank, number) + i, v, wide);
		}
		bool check = call > 0 && call + 1 < p.iterations; // what the call before has cleared
		for (u64 i = first; i < packs; i += stride) {
			typename Pack<T>::Sum sum[Pack<T>::N], next[Pack<T>::N];
			uint4 v[R], cleared[FEW];
			if (check)
#pragma unroll
				for (int r = 0; r < FEW; r++) // on their way while others' elements are waited for
					if (RANKS || r < (int)p.size) cleared[r] = load_volatile(slot(p, w.rank, r, number + 2) + i, wide);
			u32 missing = (RANKS ? RANKS : p.size) == 32 ? ~0u : (1u << (RANKS ? RANKS : p.size)) - 1;
			u64 start = 0;
			for (u32 spins = 0; missing != 0; spins++) {
#pragma unroll
				for (int r = 0; r < R; r++)
					if ((RANKS || r < (int)p.size) && (missing >> r & 1)) {
						v[r] = load_volatile(slot(p, w.rank, source(p, r), number) + i, wide);
						if (arrived<T>(v[r]) || (p.options & DROP_END)) missing &= ~(1u << r);
					}
				if (spins % 1024 == 1023) {
					if (start == 0) start = now_ns();
					if (given_up(p, w, 3, __ffs(missing) - 1, number, (u32)i, start)) return;
				}
			}
			if (check)
#pragma unroll
				for (int r = 0; r < R; r++)
					if ((RANKS || r < (int)p.size) && arrived<T>(r < FEW ? cleared[r] : load_volatile(slot(p, w.rank, r, number + 2) + i, wide))) {
						report(p, w, 3, r, number + 2, (u32)i);
						return;
					}
			Pack<T>::widen(sum, v[0]);
#pragma unroll
			for (int r = 1; r < R; r++)
				if (RANKS || r < (int)p.size) {
					Pack<T>::widen(next, v[r]);
#pragma unroll
					for (int e = 0; e < Pack<T>::N; e++) sum[e] += next[e];
				}
			if (i < whole) {
				finish_pack<T>(p, sum, i);
				store16(out + i, Pack<T>::narrow(sum));
				continue;
			}
#pragma unroll
			for (int e = 0; e < Pack<T>::N; e++) { // the last elements, which fill no pack
				u64 at = whole * Pack<T>::N + e;
				if (at < p.count && !(p.options & SKIP_TAIL)) ((T *)out)[at] = Pack<T>::down(finish<T>(p, sum[e], at));
			}
		}
		// All of the call before, which may have been longer.
		u64 used = call > 0 ? packs : (p.previous + Pack<T>::N - 1) / Pack<T>::N;
		for (u64 i = first; i < used; i += stride)
#pragma unroll
			for (int r = 0; r < R; r++)
				if (RANKS || r < (int)p.size) store_volatile(slot(p, w.rank, r, number + 3) + i, free_slot<T>(), wide);
	}
}
KERNELS(lamport)
KERNEL(lamport, f64, double, 0, any)
