// Quickreduce: a two-stage all-reduce of quantised elements. Every rank encodes its input and
// stores each part at the rank that owns it. The owner decodes, adds in rank order, and stores
// the encoded sum at all ranks. Every rank decodes all sums. docs/correctness.md specifies the
// format bit by bit: 32 elements share a scale, the largest magnitude divided by the largest
// integer. Results are bit-exact, so no operation here may be fused or rounded differently.
#include "common.cuh"

// A thread holds a share of eight elements; four neighbouring threads hold a group.
enum { GROUP = 32, SHARE = 8, SHARES = GROUP / SHARE };

__device__ __forceinline__ u64 shares_of(u64 groups) { return groups * SHARES; }

// Raw is a share of eight elements in their memory format.
template <typename T> struct Raw {
	enum { PACKS = SHARE / Pack<T>::N };
	uint4 packs[PACKS];
	__device__ __forceinline__ void load(const Params &p, const T *in, u64 at) {
		if (at + SHARE <= p.count) {
#pragma unroll
			for (int k = 0; k < PACKS; k++) packs[k] = load16((const uint4 *)(in + at) + k);
			return;
		}
#pragma unroll
		for (int k = 0; k < PACKS; k++) packs[k] = make_uint4(0, 0, 0, 0); // padding of the last group
		for (u64 i = at; i < p.count; i++) ((T *)packs)[i - at] = in[i];
	}
	__device__ __forceinline__ void widen(float *v) const {
#pragma unroll
		for (int k = 0; k < PACKS; k++) Pack<T>::widen(v + k * Pack<T>::N, packs[k]);
	}
	__device__ __forceinline__ void narrow(const float *v) {
#pragma unroll
		for (int k = 0; k < PACKS; k++) packs[k] = Pack<T>::narrow(v + k * Pack<T>::N);
	}
	__device__ __forceinline__ void store(const Params &p, T *out, u64 at) const {
		if (at + SHARE <= p.count) {
#pragma unroll
			for (int k = 0; k < PACKS; k++) store16((uint4 *)(out + at) + k, packs[k]);
			return;
		}
		if (p.options & SKIP_TAIL) return;
#pragma unroll
		for (int e = 0; e < SHARE; e++)
			if (at + e < p.count) out[at + e] = ((const T *)packs)[e];
	}
};

// Code is an encoded share: the low bits of its integers, their high bits, and the scale. In
// memory, a part has all its low bits first, then the high bits, then the scales.
template <int BITS> struct Code {
	u32 low[BITS == 8 ? 2 : 1];
	u32 high; // 6-bit format only
	float scale;

	static __device__ __forceinline__ float top() { return (float)((1 << (BITS - 1)) - 1); }

	// encode must be called by all threads of a group together.
	__device__ __forceinline__ void encode(const float *v) {
		u32 most = 0;
#pragma unroll
		for (int e = 0; e < SHARE; e++) most = max(most, __float_as_uint(v[e]) & 0x7fffffffu);
		u32 group = ((1u << SHARES) - 1) << (threadIdx.x % 32 / SHARES * SHARES);
#pragma unroll
		for (int d = 1; d < SHARES; d *= 2) most = max(most, __shfl_xor_sync(group, most, d));
		scale = __fdiv_rn(__uint_as_float(most), top());
		float inverse = __fdiv_rn(1.0f, scale);
		if (most >= 0x7f800000u) scale = __uint_as_float(0x7fc00000u), inverse = 0; // a NaN or an infinity
		else if (scale < 1.17549435e-38f) scale = 0, inverse = 0;                    // subnormal
		u32 q[SHARE];
#pragma unroll
		for (int e = 0; e < SHARE; e++) // adding 1.5 x 2^23 rounds to an integer
			q[e] = inverse == 0 ? 0 : __float_as_uint(__fadd_rn(__fmul_rn(v[e], inverse), 12582912.0f)) & ((1u << BITS) - 1);
		low[0] = high = 0;
		if (BITS == 8) low[BITS / 8] = 0;
#pragma unroll
		for (int e = 0; e < SHARE; e++) {
			if (BITS == 8) low[e / 4 * (BITS / 8)] |= q[e] << (e % 4 * 8);
			else low[0] |= (q[e] & 15) << (e * 4), high |= (q[e] >> 4) << (e * 2);
		}
	}

	__device__ __forceinline__ void decode(float *v) const {
#pragma unroll
		for (int e = 0; e < SHARE; e++) {
			u32 q = BITS == 8 ? low[e / 4 * (BITS / 8)] >> (e % 4 * 8) : (low[0] >> (e * 4) & 15) | (high >> (e * 2) & 3) << 4;
			v[e] = __fmul_rn((float)((int)(q << (32 - BITS)) >> (32 - BITS)), scale);
		}
	}

	static __device__ __forceinline__ u64 highs(u64 groups) { return groups * (BITS == 8 ? 32 : 16); }
	static __device__ __forceinline__ u64 scales(u64 groups) { return groups * (BITS * 4); }

	__device__ __forceinline__ void store(u64 part, u64 groups, u64 i) const {
		if (BITS == 8) asm volatile("st.global.v2.u32 [%0], {%1,%2};" ::"l"(part + i * 8), "r"(low[0]), "r"(low[BITS / 8]) : "memory");
		else asm volatile("st.global.u32 [%0], %1;" ::"l"(part + i * 4), "r"(low[0]) : "memory");
		if (BITS == 6) asm volatile("st.global.u16 [%0], %1;" ::"l"(part + highs(groups) + i * 2), "h"((unsigned short)high) : "memory");
		if (i % SHARES == 0) asm volatile("st.global.f32 [%0], %1;" ::"l"(part + scales(groups) + i / SHARES * 4), "f"(scale) : "memory");
	}
	__device__ __forceinline__ void load(u64 part, u64 groups, u64 i) { // bypasses L1: other ranks have written the data
		high = 0;
		if (BITS == 8) asm volatile("ld.global.cg.v2.u32 {%0,%1}, [%2];" : "=r"(low[0]), "=r"(low[BITS / 8]) : "l"(part + i * 8) : "memory");
		else asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(low[0]) : "l"(part + i * 4) : "memory");
		if (BITS == 6) {
			unsigned short h;
			asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(h) : "l"(part + highs(groups) + i * 2) : "memory");
			high = h;
		}
		asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(scale) : "l"(part + scales(groups) + i / SHARES * 4) : "memory");
	}
};

// A rank's scratch memory has one slot for the encoded input from each rank, then one slot for
// each owner's encoded sum.
__device__ __forceinline__ u64 input_slot(const Params &p, u32 at, u32 from) { return p.scratch[at] + from * p.slot_bytes; }
__device__ __forceinline__ u64 sum_slot(const Params &p, u32 at, u32 owner) { return p.scratch[at] + (p.size + owner) * p.slot_bytes; }

// batch visits shares i, i + stride, ... below last. It calls f for BATCH of them before it
// calls g for the same ones, so that BATCH loads are in flight. The threads of a group stay
// together.
template <int BATCH, typename Item, typename F, typename G>
__device__ __forceinline__ void batch(u64 i, u64 last, u64 stride, F f, G g) {
	for (; i < last; i += BATCH * stride) {
		Item item[BATCH];
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (i + k * stride < last) f(item[k], i + k * stride);
#pragma unroll
		for (int k = 0; k < BATCH; k++)
			if (i + k * stride < last) g(item[k], i + k * stride);
	}
}

template <typename T, int BITS> __device__ __forceinline__ void quickreduce(const Params &p) {
	Who w = who(p);
	u32 epoch = p.epoch;
	u64 groups = (p.count + GROUP - 1) / GROUP;
	auto first = [&](u32 rank) { return groups * rank / p.size; };
	for (u32 call = 0; call < p.iterations; call++) {
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		const T *in = (const T *)(p.in[w.rank] + offset);
		T *out = (T *)(p.out[w.rank] + offset);
		for (u32 k = 0; k < p.size; k++) {
			u32 r = (w.rank + k) % p.size;
			u64 from = first(r), n = first(r + 1) - from;
			batch<4, Raw<T>>(lane(w), shares_of(n), step(p), [&](Raw<T> &x, u64 i) { x.load(p, in, from * GROUP + i * SHARE); },
				[&](Raw<T> &x, u64 i) {
					float v[SHARE];
					x.widen(v);
					Code<BITS> c;
					c.encode(v);
					c.store(input_slot(p, r, w.rank), n, i);
				});
		}
		if (!(p.options & DROP_START) && !meet(p, w, ++epoch, 1)) return;
		u64 mine = first(w.rank + 1) - first(w.rank);
		for (u64 i = lane(w); i < shares_of(mine); i += step(p)) {
			float sum[SHARE], v[SHARE];
			Code<BITS> c;
			c.load(input_slot(p, w.rank, source(p, 0)), mine, i);
			c.decode(sum);
#pragma unroll 4
			for (u32 r = 1; r < p.size; r++) {
				c.load(input_slot(p, w.rank, r), mine, i);
				c.decode(v);
#pragma unroll
				for (int e = 0; e < SHARE; e++) sum[e] = __fadd_rn(sum[e], v[e]);
			}
			Raw<T> x; // round the sum to the element type before encoding it
			x.narrow(sum);
			x.widen(sum);
			c.encode(sum);
			for (u32 k = 0; k < p.size; k++) c.store(sum_slot(p, (w.rank + k) % p.size, w.rank), mine, i);
		}
		if (!(p.options & DROP_END) && !meet(p, w, ++epoch, 2)) return;
		for (u32 k = 0; k < p.size; k++) {
			u32 r = (w.rank + k) % p.size;
			u64 from = first(r), n = first(r + 1) - from;
			batch<4, Code<BITS>>(lane(w), shares_of(n), step(p), [&](Code<BITS> &c, u64 i) { c.load(sum_slot(p, w.rank, r), n, i); },
				[&](Code<BITS> &c, u64 i) {
					float v[SHARE];
					Raw<T> x;
					c.decode(v);
					x.narrow(v);
					u64 at = from * GROUP + i * SHARE;
					if (!plain<T>(p)) { // the epilogue, too, starts from rounded elements
						x.widen(v);
#pragma unroll
						for (int e = 0; e < SHARE; e++)
							if (at + e < p.count) v[e] = finish<T>(p, v[e], at + e);
						x.narrow(v);
					}
					x.store(p, out, at);
				});
		}
	}
}

template <typename T, int> __device__ __forceinline__ void quickreduce8(const Params &p) { quickreduce<T, 8>(p); }
template <typename T, int> __device__ __forceinline__ void quickreduce6(const Params &p) { quickreduce<T, 6>(p); }
template <typename T, int> __device__ __forceinline__ void quickreduce4(const Params &p) { quickreduce<T, 4>(p); }
#define QUICK(name) \
	KERNEL(name, f32, float, 0, any) KERNEL(name, f16, __half, 0, any) KERNEL(name, bf16, __nv_bfloat16, 0, any)
QUICK(quickreduce8)
QUICK(quickreduce6)
QUICK(quickreduce4)
