// The copy kernels of package gpu. $FAKE_COPY_FAULT injects a fault: early (the flag is raised before
// the elements are copied), slot (the elements come from the next slot), stale (the flag keeps the
// number of the copy before) or lost (nothing is copied). With slow there is no fault, but all copies,
// those of the driver too, take a while, as on a GPU.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "fake.h"

struct copy { uint64_t to, from, bytes, flag; uint32_t value, unused; };

// job is a copy that is made after the call has returned.
struct job { struct copy c; struct stream *stream; };

static int faulty(const char *how) {
	const char *fault = getenv("FAKE_COPY_FAULT");
	return fault && !strcmp(fault, how);
}
static void move(const struct copy *c) { memmove((void *)(uintptr_t)c->to, (void *)(uintptr_t)c->from, c->bytes); }
static void raise_flag(const struct copy *c) {
	if (c->flag) __atomic_store_n((uint32_t *)(uintptr_t)c->flag, c->value - faulty("stale"), __ATOMIC_RELEASE);
}
// move_late copies memory that may have been unmapped meanwhile, because nobody waited for the copy.
// It lets the kernel check the addresses, so that the process does not crash.
static void move_late(const struct copy *c) {
	struct iovec from = {(void *)(uintptr_t)c->from, c->bytes}, to = {(void *)(uintptr_t)c->to, c->bytes};
	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0) note("a copy came too late");
}
static void *slowly(void *argument) {
	struct job *j = argument;
	usleep(2000);
	move_late(&j->c);
	raise_flag(&j->c);
	__atomic_fetch_sub(&j->stream->pending, 1, __ATOMIC_RELEASE);
	free(j);
	return NULL;
}
static void *too_late(void *argument) {
	struct job *j = argument;
	usleep(100000);
	move_late(&j->c);
	free(j);
	return NULL;
}
static void begin(void *(*how)(void *), const struct copy *c, struct stream *stream) {
	struct job *j = malloc(sizeof *j);
	pthread_t thread;
	j->c = *c, j->stream = stream;
	if (pthread_create(&thread, NULL, how, j)) abort();
	pthread_detach(thread);
}

static void copy(const struct copy *c, struct stream *stream) {
	if (!faulty("slow") || !stream) {
		move(c);
		raise_flag(c);
		return;
	}
	__atomic_fetch_add(&stream->pending, 1, __ATOMIC_RELEASE);
	begin(slowly, c, stream);
}

void copy_within(uint64_t to, uint64_t from, uint64_t bytes, struct stream *stream) {
	copy(&(struct copy){.to = to, .from = from, .bytes = bytes}, stream);
}

int copied(const char *name, const void *argument, struct stream *stream) {
	if (strncmp(name, "copy", 4)) return 0;
	struct copy c = *(const struct copy *)argument;
	if (faulty("slot")) c.from += 8;
	if (faulty("early")) begin(too_late, &c, NULL);
	if (faulty("early") || faulty("lost")) raise_flag(&c);
	else copy(&c, stream);
	return 1;
}
