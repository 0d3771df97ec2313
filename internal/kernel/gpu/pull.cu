// Two-stage all-reduce by pulling: every rank sums its part of the elements into its own
// scratch memory, then loads the other parts from the other ranks' scratch memory.
#include "common.cuh"

template <typename T, int RANKS> __device__ __forceinline__ void pull(const Params &p) {
	Who w = who(p);
	u32 epoch = p.epoch;
	u64 packs = p.count / Pack<T>::N;
	u64 first = packs * w.rank / p.size, last = packs * (w.rank + 1) / p.size;
	u64 stride = step(p);
	for (u32 call = 0; call < p.iterations; call++) {
		if (call == 0 && !(p.options & DROP_START) && !meet(p, w, ++epoch, 1)) return;
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		// Two alternating scratch halves: a rank may be one call ahead of a rank that is still loading.
		u64 half = (call & 1) * p.slot_bytes;
		uint4 *mine = (uint4 *)(p.scratch[w.rank] + half);
		reduce<T, RANKS, (RANKS == 2 ? 4 : 2)>(p, offset, first + lane(w), last, step(p), [&](u64 i, uint4 v) { mine[i - first] = v; });
		uint4 *out = (uint4 *)(p.out[w.rank] + offset);
		u64 at;
		T value;
		bool last = tail<T>(p, w, offset, at, value); // every rank computes the tail itself
		if (!(p.options & DROP_END) && !meet(p, w, ++epoch, 2)) return;
		if (last) ((T *)out)[at] = value; // in place: no rank reads this input any more
		for (u32 k = 0; k < p.size; k++) {
			u32 r = (w.rank + k) % p.size;
			u64 from = packs * r / p.size, to = packs * (r + 1) / p.size;
			const uint4 *theirs = (const uint4 *)(p.scratch[r] + half);
			u64 i = from + lane(w);
			for (; i + 3 * stride < to; i += 4 * stride) {
				uint4 v[4];
#pragma unroll
				for (int u = 0; u < 4; u++) v[u] = load16(theirs + i + u * stride - from);
#pragma unroll
				for (int u = 0; u < 4; u++) store16(out + i + u * stride, v[u]);
			}
			for (; i < to; i += stride) store16(out + i, load16(theirs + i - from));
		}
	}
}
KERNELS(pull)
KERNEL(pull, f64, double, 0, any)
