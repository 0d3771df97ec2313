// Multimem: the NVLink switch adds. A load from multicast memory returns the sum over all
// ranks, and a store to it writes to the outputs of all ranks. Every rank does both for its
// share of the elements. in[0] and out[0] are multicast addresses. Needs compute_90.
#include "common.cuh"

template <typename T> __device__ __forceinline__ uint4 load_sum(u64 at);
#define LOAD_SUM(T, what) \
	template <> __device__ __forceinline__ uint4 load_sum<T>(u64 at) { \
		uint4 v; \
		asm volatile("multimem.ld_reduce.relaxed.sys.global.add" what " {%0,%1,%2,%3}, [%4];" \
			: "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory"); \
		return v; \
	}
LOAD_SUM(__half, ".acc::f32.v4.f16x2")
LOAD_SUM(__nv_bfloat16, ".acc::f32.v4.bf16x2")
template <> __device__ __forceinline__ uint4 load_sum<float>(u64 at) {
	float x, y, z, w;
	asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "l"(at) : "memory");
	return make_uint4(__float_as_uint(x), __float_as_uint(y), __float_as_uint(z), __float_as_uint(w));
}
template <> __device__ __forceinline__ uint4 load_sum<double>(u64 at) { // there is no two-element f64 load
	double x, y;
	asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];" : "=d"(x) : "l"(at) : "memory");
	asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];" : "=d"(y) : "l"(at + 8) : "memory");
	double s[2] = {x, y};
	return Pack<double>::narrow(s);
}
__device__ __forceinline__ void store_all(u64 at, uint4 v) {
	asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(at), "f"(__uint_as_float(v.x)), "f"(__uint_as_float(v.y)),
		"f"(__uint_as_float(v.z)), "f"(__uint_as_float(v.w)) : "memory");
}

// The buffers extend to the end of the last pack, so that it can be added as a whole.
template <typename T, int> __device__ __forceinline__ void multimem(const Params &p) {
	Who w = who(p);
	u32 epoch = p.epoch;
	typedef typename Pack<T>::Sum S;
	u64 packs = (p.count + (p.options & SKIP_TAIL ? 0 : Pack<T>::N - 1)) / Pack<T>::N;
	u64 first = packs * w.rank / p.size, last = packs * (w.rank + 1) / p.size, stride = step(p);
	for (u32 call = 0; call < p.iterations; call++) {
		if (call == 0 && !(p.options & DROP_START) && !meet(p, w, ++epoch, 1)) return;
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		for (u64 i = first + lane(w); i < last; i += stride) {
			uint4 v = load_sum<T>(p.in[0] + offset + i * 16);
			if (p.scale != 1) {
				S s[Pack<T>::N];
				Pack<T>::widen(s, v);
#pragma unroll
				for (int e = 0; e < Pack<T>::N; e++) s[e] *= (S)p.scale;
				v = Pack<T>::narrow(s);
			}
			store_all(p.out[0] + offset + i * 16, v);
		}
		if (!(p.options & DROP_END) && !meet(p, w, ++epoch, 2)) return;
	}
}
KERNEL(multimem, f32, float, 0, any)
KERNEL(multimem, f16, __half, 0, any)
KERNEL(multimem, bf16, __nv_bfloat16, 0, any)
KERNEL(multimem, f64, double, 0, any)
