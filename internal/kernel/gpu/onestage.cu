// One-stage all-reduce: every rank reads all inputs and computes the whole sum.
#include "common.cuh"

template <typename T, int RANKS> __device__ __forceinline__ void onestage(const Params &p) {
	Who w = who(p);
	u32 epoch = p.epoch;
	u64 packs = p.count / Pack<T>::N;
	for (u32 call = 0; call < p.iterations; call++) {
		// Within a launch, the barrier at the end of a call is also the start of the next.
		if (call == 0 && !(p.options & DROP_START) && !meet(p, w, ++epoch, 1)) return;
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		uint4 *out = (uint4 *)(p.out[w.rank] + offset);
		reduce<T, RANKS, (RANKS == 2 ? 4 : RANKS == 4 ? 2 : 1)>(p, offset, lane(w), packs, step(p), [&](u64 i, uint4 v) { store16(out + i, v); });
		u64 at;
		T value;
		if (tail<T>(p, w, offset, at, value)) ((T *)out)[at] = value;
		if (!(p.options & DROP_END) && !meet(p, w, ++epoch, 2)) return;
	}
}
KERNELS(onestage)
KERNEL(onestage, f64, double, 0, any)
