// One-stage all-reduce with RMS norm. Every rank reads all inputs and computes the whole sum;
// a block handles complete rows: out = h / sqrt(mean(h^2) + epsilon) * weight, where h is the
// sum after the epilogue, rounded to the element type.
#include "common.cuh"

// total returns the sum of v over the block's threads, always added in the same order.
__device__ __forceinline__ float total(float v) {
	__shared__ float warps[32];
#pragma unroll
	for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
	__syncthreads(); // the previous row's partial sums have been read
	if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
	__syncthreads();
	v = 0;
	for (u32 i = 0; i < blockDim.x / 32; i++) v += warps[i];
	return v;
}

template <typename T, int RANKS> __device__ __forceinline__ void norm(const Params &p) {
	Who w = who(p);
	u32 epoch = p.epoch;
	constexpr int N = Pack<T>::N;
	bool packed = p.row % N == 0;
	for (u32 call = 0; call < p.iterations; call++) {
		if (call == 0 && !(p.options & DROP_START) && !meet(p, w, ++epoch, 1)) return;
		delay(p, w);
		u64 offset = (call % p.rotation) * p.stride;
		T *out = (T *)(p.out[w.rank] + offset);
		const T *weight = (const T *)p.weight;
		for (u64 row = w.block; row < p.count / p.row; row += p.blocks) {
			u64 first = row * p.row, last = first + p.row;
			float squares = 0;
			if (packed)
				reduce<T, RANKS, 1>(p, offset, first / N + threadIdx.x, last / N, blockDim.x, [&](u64 i, uint4 v) {
					float h[N];
					Pack<T>::widen(h, v);
#pragma unroll
					for (int e = 0; e < N; e++) squares += h[e] * h[e];
					((uint4 *)out)[i] = v;
				});
			else
				for (u64 i = first + threadIdx.x; i < last; i += blockDim.x) {
					T v = element<T>(p, offset, i);
					float h = Pack<T>::up(v);
					squares += h * h;
					out[i] = v;
				}
			float factor = 1 / sqrtf(total(squares) / (float)p.row + (float)p.epsilon);
			if (packed)
				for (u64 i = first / N + threadIdx.x; i < last / N; i += blockDim.x) { // written by this same thread
					float h[N], g[N];
					Pack<T>::widen(h, ((const uint4 *)out)[i]);
					Pack<T>::widen(g, ((const uint4 *)weight)[i - first / N]);
#pragma unroll
					for (int e = 0; e < N; e++) h[e] = h[e] * factor * g[e];
					((uint4 *)out)[i] = Pack<T>::narrow(h);
				}
			else
				for (u64 i = first + threadIdx.x; i < last; i += blockDim.x)
					out[i] = Pack<T>::down(Pack<T>::up(out[i]) * factor * Pack<T>::up(weight[i - first]));
		}
		if (!(p.options & DROP_END) && !meet(p, w, ++epoch, 2)) return;
	}
}
KERNELS(norm)
