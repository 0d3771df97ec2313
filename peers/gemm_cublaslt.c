// Computes C = A x B with cuBLASLt, called from C, as a reference for the provider cublaslt
// of the bench gemm. The operands are bf16 from -1 to 1, and B is stored by columns. The first
// argument is the type of the result, f32 or bf16; the others are shapes. For each shape it
// prints the TFLOP/s of the heuristic's first choice and of the fastest algorithm offered.
// The variable ROUNDS sets the number of 2 ms samples of the first choice (250, which is also
// the maximum; 10 end before the GPU is hot and lowers its clock).
//
//	nvcc -O2 -o gemm_cublaslt peers/gemm_cublaslt.c -lcublasLt && ./gemm_cublaslt f32 4096x4096x4096
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call) do { int r = (call); if (r) { fprintf(stderr, "%s: %d\n", #call, r); exit(1); } } while (0)

static uint16_t *random_bf16(size_t n, uint64_t state) {
	uint16_t *host = malloc(2 * n), *device;
	for (size_t i = 0; i < n; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		float f = (float)((double)(state >> 33) / (1u << 30) - 1);
		uint32_t u;
		memcpy(&u, &f, 4);
		host[i] = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	}
	CHECK(cudaMalloc((void **)&device, 2 * n));
	CHECK(cudaMemcpy(device, host, 2 * n, cudaMemcpyHostToDevice));
	free(host);
	return device;
}
static int up(const void *a, const void *b) { double x = *(double *)a - *(double *)b; return x < 0 ? -1 : x > 0; }

int main(int argc, char **argv) {
	size_t room = 64 << 20;
	void *space;
	cublasLtHandle_t lt;
	cudaEvent_t e0, e1;
	cudaStream_t s;
	CHECK(cublasLtCreate(&lt)); CHECK(cudaMalloc(&space, room)); CHECK(cudaEventCreate(&e0)); CHECK(cudaEventCreate(&e1)); CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	cudaDataType_t out = argc > 1 && !strcmp(argv[1], "bf16") ? CUDA_R_16BF : CUDA_R_32F;
	for (int arg = 2; arg < argc; arg++) {
		uint64_t m, n, k;
		if (sscanf(argv[arg], "%lux%lux%lu", &m, &n, &k) != 3) return 2;
		uint16_t *a = random_bf16(m * k, 1), *b = random_bf16(n * k, 2);
		void *c;
		CHECK(cudaMalloc(&c, 4 * m * n));
		cublasLtMatmulDesc_t op;
		cublasLtMatrixLayout_t la, lb, lc;
		cublasLtMatmulPreference_t want;
		cublasOperation_t t = CUBLAS_OP_T;
		// cuBLASLt stores matrices by columns, so our row-major C is its transpose: B times A.
		CHECK(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F)); CHECK(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t));
		CHECK(cublasLtMatrixLayoutCreate(&lb, CUDA_R_16BF, k, n, k)); CHECK(cublasLtMatrixLayoutCreate(&la, CUDA_R_16BF, k, m, k)); CHECK(cublasLtMatrixLayoutCreate(&lc, out, n, m, n));
		CHECK(cublasLtMatmulPreferenceCreate(&want)); CHECK(cublasLtMatmulPreferenceSetAttribute(want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
		static cublasLtMatmulHeuristicResult_t got[1000];
		int offered;
		CHECK(cublasLtMatmulAlgoGetHeuristic(lt, op, lb, la, lc, lc, want, 1000, got, &offered));
		float one = 1, zero = 0;
		double first = 0, best = 0;
		int which = 0, calls = 2e-3 / (2.0 * m * n * k / 8e14 + 1e-6) + 3;
		for (int i = 0; i < offered; i++) {
			// The first choice runs as long as a point of the bench, because a GPU under load lowers its clock.
			static double us[250];
			const char *set = getenv("ROUNDS");
			int rounds = i > 0 ? 5 : set && atoi(set) > 0 && atoi(set) < 250 ? atoi(set) : 250;
			for (int round = -1; round < rounds; round++) {
				float ms;
				CHECK(cudaEventRecord(e0, s));
				for (int call = 0; call < calls; call++) CHECK(cublasLtMatmul(lt, op, &one, b, lb, a, la, &zero, c, lc, c, lc, &got[i].algo, space, room, s));
				CHECK(cudaEventRecord(e1, s)); CHECK(cudaEventSynchronize(e1)); CHECK(cudaEventElapsedTime(&ms, e0, e1));
				if (round >= 0) us[round] = 1e3 * ms / calls;
			}
			qsort(us, rounds, sizeof *us, up);
			double tflops = 2e-6 * m * n * k / us[rounds / 2];
			if (i == 0) first = tflops;
			if (tflops > best) best = tflops, which = i;
		}
		printf("%s cublaslt from C, bf16 -> %s: first %.1f TFLOP/s, best %.1f (number %d of %d), version %zu\n", argv[arg], argv[1], first, best, which, offered, cublasLtGetVersion());
		cudaFree(a); cudaFree(b); cudaFree(c);
	}
}
