/* Times the calls of one matrix product by oneDNN:
 *
 *   gemm_onednn M N K f32|bf16|i8 THREADS SECONDS packed|unpacked
 *
 * prints time_us=... for every call (several short calls are one sample, as in
 * kernbench) and wrong=... with the number of wrong elements among the ones that it
 * checks. packed means that oneDNN chooses the layout of B and that B is converted
 * before the timing, as frameworks do with weights; unpacked means that B is stored
 * by rows and that each call converts it as it needs. The library is opened at run
 * time, version 2 or 3; KERNBENCH_ONEDNN may name its file.
 *
 *   cc -O3 gemm_onednn.c -o gemm_onednn -ldl -lm
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { F32 = 3, BF16 = 2, S32 = 4, S8 = 5, ANY = 1, CPU = 1, IN_ORDER = 1 };
enum { IMPLEMENTATION = 8, WEIGHTS_MD = 131, SRC = 1, DST = 17, WEIGHTS = 33 };
typedef void *handle;
typedef int64_t dims[12];
typedef struct { int arg; handle memory; } exec_arg;
typedef struct { int major, minor, patch; const char *hash; unsigned cpu, gpu; } version;

static handle lib;
static void *must(const char *name) {
	void *f = dlsym(lib, name);
	if (!f) {
		fprintf(stderr, "gemm_onednn: the library has no %s\n", name);
		exit(1);
	}
	return f;
}
#define CALL(name, ...) do { \
	int status = ((int (*)())must(name))(__VA_ARGS__); \
	if (status) { fprintf(stderr, "gemm_onednn: %s returned %d\n", name, status); exit(1); } \
} while (0)

static handle engine, stream;
static int major;

/* A descriptor of version 2 is a struct of less than 4 KiB, one of version 3 an address. */
static handle describe(int64_t rows, int64_t cols, int type, int any) {
	dims size = {rows, cols}, strides = {cols, 1};
	handle md = calloc(1, 4096);
	const char *name = major < 3 ? (any ? "dnnl_memory_desc_init_by_tag" : "dnnl_memory_desc_init_by_strides")
		: (any ? "dnnl_memory_desc_create_with_tag" : "dnnl_memory_desc_create_with_strides");
	handle *to = major < 3 ? md : (handle)&md;
	if (any)
		CALL(name, to, 2, size, type, ANY);
	else
		CALL(name, to, 2, size, type, strides);
	return md;
}

static handle memory(handle md, void *data) {
	handle m;
	CALL("dnnl_memory_create", &m, md, engine, data);
	return m;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double at(const void *x, size_t i, int type) {
	if (type == S8) return ((const int8_t *)x)[i];
	if (type == S32) return ((const int32_t *)x)[i];
	if (type == F32) return ((const float *)x)[i];
	uint32_t bits = (uint32_t)((const uint16_t *)x)[i] << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}

static void *filled(size_t count, unsigned seed, int type) {
	void *x = aligned_alloc(4096, (count * 4 + 4095) / 4096 * 4096);
	for (size_t i = 0; i < count; i++) {
		float v = (float)((i * 2654435761u + seed) % 1000) / 500 - 1;
		uint32_t bits;
		memcpy(&bits, &v, 4);
		if (type == S8) ((int8_t *)x)[i] = (int8_t)(127 * v);
		else if (type == BF16) ((uint16_t *)x)[i] = bits >> 16;
		else ((float *)x)[i] = v;
	}
	return x;
}

int main(int argc, char **argv) {
	if (argc != 8) {
		fprintf(stderr, "usage: gemm_onednn M N K f32|bf16|i8 THREADS SECONDS packed|unpacked\n");
		return 2;
	}
	int m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]), packed = !strcmp(argv[7], "packed");
	int type = !strcmp(argv[4], "i8") ? S8 : !strcmp(argv[4], "bf16") ? BF16 : F32, result = type == S8 ? S32 : F32;
	double seconds = atof(argv[6]);
	setenv("OMP_NUM_THREADS", argv[5], 1);
	const char *names[] = {getenv("KERNBENCH_ONEDNN"), "libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2"};
	for (int i = 0; i < 4 && !lib; i++)
		if (names[i]) lib = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
	if (!lib) {
		fprintf(stderr, "gemm_onednn: %s (Debian: libdnnl2)\n", dlerror());
		return 1;
	}
	const version *v = ((const version *(*)(void))must("dnnl_version"))();
	major = v->major;
	CALL("dnnl_engine_create", &engine, CPU, (size_t)0);
	CALL("dnnl_stream_create", &stream, engine, IN_ORDER);

	void *a = filled((size_t)m * k, 1, type), *b = filled((size_t)k * n, 2, type), *c = filled((size_t)m * n, 3, F32);
	handle a_md = describe(m, k, type, 0), b_md = describe(k, n, type, 0), c_md = describe(m, n, result, 0);
	handle any_md = packed ? describe(k, n, type, 1) : b_md, desc, multiply;
	if (major < 3) {
		char op[16384] = {0};
		CALL("dnnl_matmul_desc_init", op, a_md, any_md, (handle)0, c_md);
		CALL("dnnl_primitive_desc_create", &desc, op, (handle)0, engine, (handle)0);
	} else
		CALL("dnnl_matmul_primitive_desc_create", &desc, engine, a_md, any_md, (handle)0, c_md, (handle)0);
	CALL("dnnl_primitive_create", &multiply, desc);
	const char *implementation = "?";
	CALL("dnnl_primitive_desc_query", desc, IMPLEMENTATION, 0, &implementation);

	handle weights = memory(b_md, b);
	if (packed) {
		handle packed_md = ((handle(*)())must("dnnl_primitive_desc_query_md"))(desc, WEIGHTS_MD, 0), reorder_desc, reorder;
		size_t bytes = ((size_t(*)())must("dnnl_memory_desc_get_size"))(packed_md);
		handle to = memory(packed_md, aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
		CALL("dnnl_reorder_primitive_desc_create", &reorder_desc, b_md, engine, packed_md, engine, (handle)0);
		CALL("dnnl_primitive_create", &reorder, reorder_desc);
		exec_arg args[] = {{SRC, weights}, {DST, to}};
		CALL("dnnl_primitive_execute", reorder, stream, 2, args);
		CALL("dnnl_stream_wait", stream);
		weights = to;
	}
	exec_arg args[] = {{SRC, memory(a_md, a)}, {WEIGHTS, weights}, {DST, memory(c_md, c)}};
	int (*execute)() = must("dnnl_primitive_execute"), (*wait)() = must("dnnl_stream_wait"), failed = 0;

	double start = now();
	int warm = 0;
	do
		failed |= execute(multiply, stream, 3, args) | wait(stream);
	while (++warm, now() - start < 0.1 * seconds);
	/* A sample takes at least 20 us, so that the cost of reading the clock is negligible. */
	int batch = 1 + (int)(20e-6 / ((now() - start) / warm));
	start = now();
	for (int i = 0; i < 1 || (now() - start < seconds && i < 5000); i++) {
		double t = now();
		for (int j = 0; j < batch; j++)
			failed |= execute(multiply, stream, 3, args) | wait(stream);
		printf("time_us=%.4f\n", (now() - t) * 1e6 / batch);
	}

	int wrong = failed;
	for (int q = 0; q < 50; q++) {
		size_t i = (size_t)q * 7919 % m, j = (size_t)q * 104729 % n;
		double sum = 0, size = 0;
		for (int l = 0; l < k; l++) {
			double p = at(a, i * k + l, type) * at(b, (size_t)l * n + j, type);
			sum += p, size += fabs(p);
		}
		wrong += !(fabs(at(c, i * n + j, result) - sum) <= (type == S8 ? 0 : 2 * (k + 1) * 0x1p-24 * size));
	}
	printf("wrong=%d\noneDNN %d.%d.%d %s\n", wrong, v->major, v->minor, v->patch, implementation);
	return wrong != 0;
}
