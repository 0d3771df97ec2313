// Streams and events of the stand-in for libcuda. Normally a stream does its work at once. With
// $FAKE_CUDA_DEFER it does so only when its completion is queried, or when a stream that waits for it
// is: work that nobody has waited for has not happened yet.
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "fake.h"

typedef int Result;
enum { OK = 0, NOT_READY = 600 };

struct item { struct item *next; void (*run)(const void *); char argument[]; };
struct event { uint64_t at; struct stream *stream; size_t ticket; };

void in_turn(struct stream *s, void (*run)(const void *), const void *argument, size_t bytes) {
	if (s && s->recording) {
		struct graph *g = s->recording;
		g->nodes = realloc(g->nodes, (g->n + 1) * sizeof *g->nodes);
		g->nodes[g->n].run = run;
		g->nodes[g->n++].argument = memcpy(malloc(bytes), argument, bytes);
		return;
	}
	if (!s || !getenv("FAKE_CUDA_DEFER")) {
		run(argument);
		return;
	}
	struct item *i = calloc(1, sizeof *i + bytes);
	i->run = run;
	memcpy(i->argument, argument, bytes);
	if (s->first) s->last->next = i;
	else s->first = i;
	s->last = i;
	s->queued++;
}
// catch_up executes a stream's work up to a given position.
static void catch_up(struct stream *s, size_t ticket) {
	while (s && s->first && s->done < ticket) {
		struct item *i = s->first;
		s->first = i->next;
		i->run(i->argument);
		s->done++;
		free(i);
	}
}
void settle(struct stream *s) {
	if (!s) return;
	catch_up(s, s->queued);
	while (__atomic_load_n(&s->pending, __ATOMIC_ACQUIRE)) sched_yield();
}
Result cuStreamCreate(void **s, unsigned f) { *s = calloc(1, sizeof(struct stream)); return OK; }
Result cuStreamCreateWithPriority(void **s, unsigned f, int priority) {
	note("cuStreamCreateWithPriority %d", priority);
	return cuStreamCreate(s, f);
}
Result cuStreamDestroy_v2(void *s) { free(s); return OK; }
Result cuStreamSynchronize(void *s) { settle(s); return OK; }
Result cuStreamQuery(struct stream *s) {
	if (!s) return OK;
	catch_up(s, s->queued);
	if (!__atomic_load_n(&s->pending, __ATOMIC_ACQUIRE)) return OK;
	sched_yield(); // to the thread that does the work
	return NOT_READY;
}

static void happen(const void *argument) {
	struct event *e = *(struct event *const *)argument;
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	e->at = e->stream && planted(COPY) > 0 ? (uint64_t)e->stream->clock : t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void await(const void *argument) {
	const struct event *e = argument;
	catch_up(e->stream, e->ticket);
}
Result cuEventCreate(void **e, unsigned f) { *e = calloc(1, sizeof(struct event)); return OK; }
Result cuEventDestroy_v2(void *e) { free(e); return OK; }
Result cuEventRecord(struct event *e, struct stream *s) {
	e->stream = s;
	in_turn(s, happen, &e, sizeof e);
	e->ticket = s ? s->queued : 0;
	return OK;
}
Result cuStreamWaitEvent(struct stream *s, struct event *e, unsigned f) {
	note("cuStreamWaitEvent");
	in_turn(s, await, e, sizeof *e);
	return OK;
}
Result cuEventQuery(struct event *e) { await(e); return OK; }
Result cuEventSynchronize(struct event *e) { await(e); return OK; }
Result cuEventElapsedTime(float *ms, struct event *a, struct event *b) { *ms = (b->at - a->at) / 1e6; return OK; }
