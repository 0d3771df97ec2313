// Two-stage all-reduce by pushing: every rank sums its part of the elements and stores the
// sums into the outputs of all ranks.
#include "common.cuh"

template <typename T, int RANKS> __device__ __forceinline__ void push(const Params &p) {
	Who w = who(p);
	u32 epoch = p.epoch;
	u64 packs = p.count / Pack<T>::N;
	u64 first = packs * w.rank / p.size, last = packs * (w.rank + 1) / p.size;
	constexpr int R = RANKS ? RANKS : MAX_RANKS;
	for (u32 call = 0; call < p.iterations; call++) {
		if (call == 0 && !(p.options & DROP_START) && !meet(p, w, ++epoch, 1)) return;
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		reduce<T, RANKS, (RANKS == 2 ? 4 : 2)>(p, offset, first + lane(w), last, step(p), [&](u64 i, uint4 v) {
#pragma unroll
			for (int r = 0; r < R; r++)
				if (RANKS || r < (int)p.size) store16((uint4 *)(p.out[r] + offset) + i, v);
		});
		u64 at;
		T value;
		if (w.rank == p.size - 1 && tail<T>(p, w, offset, at, value))
			for (u32 r = 0; r < p.size; r++) ((T *)(p.out[r] + offset))[at] = value;
		if (!(p.options & DROP_END) && !meet(p, w, ++epoch, 2)) return;
	}
}
KERNELS(push)
KERNEL(push, f64, double, 0, any)
