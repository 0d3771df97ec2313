/* Times the calls of one matrix product by OpenBLAS:
 *
 *   gemm_cblas M N K f32|f64 THREADS SECONDS
 *
 * prints time_us=... for every call (several short calls are one sample, as in
 * kernbench) and wrong=... with the number of wrong elements among the ones that it
 * checks. It declares the prototypes itself, so that the library's headers are not
 * needed.
 *
 *   cc -O3 gemm_cblas.c -o gemm_cblas -l:libopenblas.so.0 -lm
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RowMajor = 101, NoTrans = 111 };
void cblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
void openblas_set_num_threads(int);
char *openblas_get_config(void);

static int m, n, k, wide;
static void *a, *b, *c;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void multiply(void) {
	if (wide)
		cblas_dgemm(RowMajor, NoTrans, NoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
	else
		cblas_sgemm(RowMajor, NoTrans, NoTrans, m, n, k, 1, a, k, b, n, 0, c, n);
}

static double at(const void *x, size_t i) { return wide ? ((const double *)x)[i] : ((const float *)x)[i]; }

static void *filled(size_t count, unsigned seed) {
	void *x = aligned_alloc(4096, (count * 8 + 4095) / 4096 * 4096);
	for (size_t i = 0; i < count; i++) {
		double v = (double)((i * 2654435761u + seed) % 1000) / 500 - 1;
		if (wide)
			((double *)x)[i] = v;
		else
			((float *)x)[i] = v;
	}
	return x;
}

int main(int argc, char **argv) {
	if (argc != 7) {
		fprintf(stderr, "usage: gemm_cblas M N K f32|f64 THREADS SECONDS\n");
		return 2;
	}
	m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]);
	wide = !strcmp(argv[4], "f64");
	openblas_set_num_threads(atoi(argv[5]));
	double seconds = atof(argv[6]);
	a = filled((size_t)m * k, 1), b = filled((size_t)k * n, 2), c = filled((size_t)m * n, 3);

	double start = now();
	int warm = 0;
	do
		multiply();
	while (++warm, now() - start < 0.1 * seconds);
	/* A sample takes at least 20 us, so that the cost of reading the clock is negligible. */
	int batch = 1 + (int)(20e-6 / ((now() - start) / warm));
	start = now();
	for (int i = 0; i < 1 || (now() - start < seconds && i < 5000); i++) {
		double t = now();
		for (int j = 0; j < batch; j++)
			multiply();
		printf("time_us=%.4f\n", (now() - t) * 1e6 / batch);
	}

	int wrong = 0;
	for (int q = 0; q < 50; q++) {
		size_t i = (size_t)q * 7919 % m, j = (size_t)q * 104729 % n;
		double sum = 0, size = 0;
		for (int l = 0; l < k; l++) {
			double p = at(a, i * k + l) * at(b, (size_t)l * n + j);
			sum += p, size += fabs(p);
		}
		wrong += !(fabs(at(c, i * n + j) - sum) <= 2 * (k + 1) * (wide ? 0x1p-53 : 0x1p-24) * size);
	}
	printf("wrong=%d\n%s\n", wrong, openblas_get_config());
	return wrong != 0;
}
