// The kernels of the bench `bandwidth`. The planted fault "lost pack" leaves out the last pack of an
// array, or the last load of a chain.
#include <stdint.h>
#include <string.h>
#include "fake.h"

struct argument { uint64_t a, b, c, sums, packs; double scalar; uint64_t hops; }; // as in gpustream/params.cuh

int streamed(const char *name, unsigned grid, const void *argument) {
	if (strncmp(name, "stream_", 7)) return 0;
	const struct argument *p = argument;
	const char *op = name + 7;
	uint64_t lost = product_fault("lost pack"), n = 2 * (p->packs - (p->packs ? lost : 0));
	const double *a = (void *)(uintptr_t)p->a, *b = (void *)(uintptr_t)p->b;
	double *c = (void *)(uintptr_t)p->c;
	uint64_t *sums = (void *)(uintptr_t)p->sums;
	if (!strcmp(op, "read")) {
		memset(sums, 0, grid * sizeof *sums);
		for (uint64_t i = 0; i < n; i++) sums[i % grid] += ((const uint64_t *)a)[i];
	} else if (!strcmp(op, "chase")) {
		uint64_t line = 0;
		for (uint64_t i = lost; i < p->hops; i++) line = *(const uint64_t *)(uintptr_t)(p->a + line * 128);
		*sums = line;
	} else {
		switch (*op) {
		case 'w': for (uint64_t i = 0; i < n; i++) c[i] = p->scalar; break;
		case 'c': memcpy(c, a, 8 * n); break;
		case 's': for (uint64_t i = 0; i < n; i++) c[i] = p->scalar * a[i]; break;
		case 'a': for (uint64_t i = 0; i < n; i++) c[i] = a[i] + b[i]; break;
		case 't': for (uint64_t i = 0; i < n; i++) c[i] = a[i] + p->scalar * b[i]; break;
		}
	}
	return 1;
}
