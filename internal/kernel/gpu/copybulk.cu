// Copies with bulk instructions. One thread of a block starts copies of pieces into shared
// memory and from there to their destination, several at once; no element passes through a
// register. Source and destination must have the same offset modulo 16. Needs compute_90.
typedef unsigned int u32;
typedef unsigned long long u64;

struct Copy {
	u64 to, from, bytes;
	u64 flag;  // u32*, or 0; set at the end, by launches of one block only
	u32 value; // stored in the flag
	u32 unused;
};

static_assert(sizeof(Copy) == 40, "Copy of copy.go");

constexpr u32 PIECE = 16 << 10, STAGES = 4; // BulkBytes of copy.go
constexpr u64 LIMIT_NS = 10'000'000'000;    // per piece; a copy does not wait for other ranks

__device__ __forceinline__ u64 now_ns() {
	u64 t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

// arrived waits for a piece. The kernel traps if the memory does not answer within LIMIT_NS.
__device__ __forceinline__ void arrived(u32 barrier, u32 parity) {
	u64 start = 0;
	for (u32 tries = 1;; tries++) {
		u32 done;
		asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}"
					 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
		if (done) return;
		if (tries % 1024 != 0) continue;
		if (start == 0) start = now_ns();
		if (now_ns() - start > LIMIT_NS) asm volatile("trap;");
	}
}

__device__ __forceinline__ void fetch(u32 to, u64 from, u32 bytes, u32 barrier) {
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
				 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

__device__ __forceinline__ void put(u64 to, u32 from, u32 bytes) {
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}

// pieces copies this block's pieces, every gridDim.x-th of all.
__device__ void pieces(u64 to, u64 from, u64 bytes, u32 stages, u32 barriers) {
	u64 all = (bytes + PIECE - 1) / PIECE;
	u64 mine = blockIdx.x < all ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0, fetched = 0;
	for (u64 i = 0; i < mine; i++) {
		for (; fetched < mine && fetched < i + STAGES - 1; fetched++) {
			// The stage is free once its previous piece has been read, which was stored before the most
			// recent one: at most one store may still be reading.
			if (fetched >= STAGES) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
			u64 at = (blockIdx.x + fetched * gridDim.x) * PIECE;
			u32 stage = fetched % STAGES;
			fetch(stages + stage * PIECE, from + at, (u32)(bytes - at < PIECE ? bytes - at : PIECE), barriers + 8 * stage);
		}
		u64 at = (blockIdx.x + i * gridDim.x) * PIECE;
		u32 stage = i % STAGES;
		arrived(barriers + 8 * stage, (u32)(i / STAGES) & 1);
		put(to + at, stages + stage * PIECE, (u32)(bytes - at < PIECE ? bytes - at : PIECE));
	}
	asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); // stored, not only read
}

extern "C" __global__ void __launch_bounds__(32) copybulk(const __grid_constant__ Copy p) {
	extern __shared__ __align__(128) unsigned char memory[]; // the stages, then one barrier per stage
	u32 stages = (u32)__cvta_generic_to_shared(memory), barriers = stages + STAGES * PIECE;
	u64 head = (0 - p.to) & 15;
	if (head > p.bytes) head = p.bytes;
	u64 middle = (p.bytes - head) / 16 * 16, tail = head + middle;
	if (((p.to ^ p.from) & 15) != 0) asm volatile("trap;");
	if (blockIdx.x == 0) {
		if (threadIdx.x < head) ((volatile unsigned char *)p.to)[threadIdx.x] = ((const volatile unsigned char *)p.from)[threadIdx.x];
		if (tail + threadIdx.x < p.bytes) ((volatile unsigned char *)p.to)[tail + threadIdx.x] = ((const volatile unsigned char *)p.from)[tail + threadIdx.x];
	}
	__syncthreads();
	if (threadIdx.x != 0) return;
	for (u32 s = 0; s < STAGES; s++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * s) : "memory");
	asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
	pieces(p.to + head, p.from + head, middle, stages, barriers);
	if (p.flag != 0) asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"((u32 *)p.flag), "r"(p.value) : "memory");
}
