// The kernels that time the cache. Their results are never read, so they only log the call and, if a
// speed is planted, advance the clock.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake.h"

struct argument { uint64_t memory, sink, packs; uint32_t rounds, readers; }; // as in cache.cu

double planted(enum speed which) {
	const char *text = getenv("FAKE_CUDA_SPEEDS");
	double s[4];
	return text && sscanf(text, "%lf,%lf,%lf,%lf", s, s + 1, s + 2, s + 3) == 4 ? s[which] : 0;
}

int cache(const char *name, unsigned blocks, unsigned threads, const void *argument, struct stream *stream) {
	if (strncmp(name, "cache_", 6)) return 0;
	const struct argument *a = argument;
	int copy = !strcmp(name, "cache_copy");
	double speed = planted(copy ? CACHE_COPY : a->readers > 1 ? CACHE_SHARED : CACHE_READ);
	if (speed > 0) stream->clock += (copy ? 2. : 1.) * blocks * threads * 4 * 16 * a->rounds / speed;
	note("%s of %u rounds by %u, %llu packs", name, a->rounds, a->readers, (unsigned long long)a->packs);
	return 1;
}
