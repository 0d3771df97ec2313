// Copies any number of bytes between any addresses with ordinary loads and stores. A launch
// of one block can set a flag after the last store; the host sees it earlier than the end
// of the kernel.
#ifdef __CUDACC__
typedef unsigned int u32;
typedef unsigned long long u64;
typedef uint4 u128;

__device__ __forceinline__ u128 load(const u128 *at) { // bypasses L1: another GPU may have written the data
	u128 v;
	asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(at) : "memory");
	return v;
}
template <typename T> __device__ __forceinline__ T load(const T *at) { return *(const volatile T *)at; }
__device__ __forceinline__ void raise(u32 *flag, u32 value) {
	asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
#endif

struct Copy {
	u64 to, from, bytes;
	u64 flag;  // u32*, or 0; set at the end, by launches of one block only
	u32 value; // stored in the flag
	u32 unused;
};

static_assert(sizeof(Copy) == 40, "Copy of copy.go");

// Shape divides a copy: single bytes up to head, then units, then single bytes from tail on.
struct Shape {
	u64 unit, head, units, tail;
};

__device__ __forceinline__ Shape shape(const Copy &p) {
	u64 apart = p.to ^ p.from; // a unit is aligned at source and destination, or at neither
	u64 unit = apart & 1 ? 1 : apart & 2 ? 2 : apart & 4 ? 4 : apart & 8 ? 8 : 16;
	u64 head = (0 - p.to) & (unit - 1);
	if (head > p.bytes) head = p.bytes;
	u64 units = (p.bytes - head) / unit;
	return {unit, head, units, head + units * unit};
}

// each copies units lane, lane + step, ... with four loads in flight.
template <typename T> __device__ __forceinline__ void each(u64 to, u64 from, u64 units, u64 lane, u64 step) {
	const T *src = (const T *)from;
	T *dst = (T *)to;
	u64 i = lane;
	for (; i + 3 * step < units; i += 4 * step) {
		T a = load(src + i), b = load(src + i + step), c = load(src + i + 2 * step), d = load(src + i + 3 * step);
		dst[i] = a, dst[i + step] = b, dst[i + 2 * step] = c, dst[i + 3 * step] = d;
	}
	for (; i < units; i += step) dst[i] = load(src + i);
}

extern "C" __global__ void __launch_bounds__(512) copyloads(const __grid_constant__ Copy p) {
	u64 lane = (u64)blockIdx.x * blockDim.x + threadIdx.x, step = (u64)gridDim.x * blockDim.x;
	Shape s = shape(p);
	each<unsigned char>(p.to, p.from, s.head, lane, step);
	each<unsigned char>(p.to + s.tail, p.from + s.tail, p.bytes - s.tail, lane, step);
	u64 to = p.to + s.head, from = p.from + s.head;
	switch (s.unit) {
	case 16: each<u128>(to, from, s.units, lane, step); break;
	case 8: each<u64>(to, from, s.units, lane, step); break;
	case 4: each<u32>(to, from, s.units, lane, step); break;
	case 2: each<unsigned short>(to, from, s.units, lane, step); break;
	default: each<unsigned char>(to, from, s.units, lane, step);
	}
	if (p.flag == 0) return;
	__syncthreads(); // the flag releases the stores of all threads
	if (threadIdx.x == 0) raise((u32 *)p.flag, p.value);
}
