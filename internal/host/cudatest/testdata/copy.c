// The copy kernels of package gpu. $FAKE_COPY_FAULT is what they do wrong: early (the flag
// is raised before the elements are there), slot (they are those of the next place), stale
// (the flag keeps the number of the copy before) or lost (they do not come).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "fake.h"

struct copy { uint64_t to, from, bytes, flag; uint32_t value, unused; };

static void *later(void *argument) {
	struct copy *c = argument;
	usleep(100000);
	// The memory may be gone by now: the kernel looks before it writes.
	struct iovec from = {(void *)(uintptr_t)c->from, c->bytes}, to = {(void *)(uintptr_t)c->to, c->bytes};
	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0) note("a copy came too late");
	free(c);
	return NULL;
}

int copied(const char *name, const void *argument) {
	if (strncmp(name, "copy", 4)) return 0;
	const struct copy *c = argument;
	const char *fault = getenv("FAKE_COPY_FAULT");
	if (!fault) fault = "";
	if (!strcmp(fault, "early")) {
		struct copy *own = malloc(sizeof *own);
		pthread_t thread;
		*own = *c;
		if (pthread_create(&thread, NULL, later, own)) abort();
		pthread_detach(thread);
	} else if (strcmp(fault, "lost"))
		memmove((void *)(uintptr_t)c->to, (void *)(uintptr_t)(c->from + (strcmp(fault, "slot") ? 0 : 8)), c->bytes);
	if (c->flag) __atomic_store_n((uint32_t *)(uintptr_t)c->flag, c->value - !strcmp(fault, "stale"), __ATOMIC_RELEASE);
	return 1;
}
