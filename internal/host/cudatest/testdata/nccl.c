// A stand-in for libnccl, used with the one for libcuda. Ranks are threads or processes, each on its
// own fake GPU, and exchange bytes through shared memory. A thread of the communicator performs the
// operations while the stream is busy.
//
// $FAKE_NCCL_FAULT injects a fault: "call" (an all-reduce is refused), "async" (the communicator fails
// during an operation), "hang" (an operation never ends), "wrong" (an element of an all-reduce is
// wrong).
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "fake.h"

typedef int Result;
enum { OK, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS };
enum { RANKS = 16, CHANNEL = 1 << 16 };

typedef struct { char name[64]; unsigned char rest[64]; } Id;
typedef struct { size_t size; unsigned magic, version; int blocking; } Config;

struct channel { uint64_t sent, received; char data[CHANNEL]; }; // a ring buffer
struct board { int joined, device[RANKS]; struct channel way[RANKS][RANKS]; };

enum kind { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };
struct op { enum kind kind; char *in, *out; size_t count; int type, how, peer; char *temp; struct op *next; };
struct batch { struct op *first, *last; struct stream *stream; struct batch *next; };
struct comm {
	Id id;
	int rank, size, device, state, stop;
	struct board *board;
	pthread_t worker;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	struct batch *first, *last;
};

static __thread char said[256];
static __thread int depth;
static __thread struct comm *grouped;
static __thread struct batch *group;

static const char *fault(void) { const char *f = getenv("FAKE_NCCL_FAULT"); return f ? f : ""; }
static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

Result ncclGetVersion(int *v) { *v = 22809; return OK; }
const char *ncclGetErrorString(Result r) {
	static const char *texts[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"};
	return r >= 0 && r <= IN_PROGRESS ? texts[r] : "unknown result code";
}
const char *ncclGetLastError(struct comm *c) { return said; }
Result ncclGetUniqueId(Id *id) {
	static int n;
	memset(id, 0x5a, sizeof *id);
	struct timespec now; // makes the name unique, since process ids are reused
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(id->name, sizeof id->name, "/fake-nccl-%d-%d-%lx%lx", getpid(), __atomic_fetch_add(&n, 1, __ATOMIC_RELAXED), now.tv_sec, now.tv_nsec);
	return OK;
}

// Arithmetic by element type: integers are exact in 64 bits, sums of floats are rounded at every step,
// and an average of floats is a sum of inputs that were scaled and rounded first.
static int whole(int type) { return type < 6; }
static int64_t geti(int t, const char *p, size_t i) { return t == 1 ? ((const uint8_t *)p)[i] : t == 2 ? ((const int32_t *)p)[i] : ((const int64_t *)p)[i]; }
static void puti(int t, char *p, size_t i, int64_t v) {
	if (t == 1) ((uint8_t *)p)[i] = v;
	else if (t == 2) ((int32_t *)p)[i] = v;
	else ((int64_t *)p)[i] = v;
}
static double get(int t, const char *p, size_t i) {
	uint32_t u;
	float f;
	if (t == 8) return ((const double *)p)[i];
	if (t == 7) return ((const float *)p)[i];
	if (t == 6) return ((const _Float16 *)p)[i];
	u = (uint32_t)((const uint16_t *)p)[i] << 16;
	memcpy(&f, &u, 4);
	return f;
}
static double put(int t, char *p, size_t i, double v) {
	uint32_t u;
	float f = v;
	if (t == 8) ((double *)p)[i] = v;
	else if (t == 7) ((float *)p)[i] = f;
	else if (t == 6) ((_Float16 *)p)[i] = (_Float16)f;
	else {
		memcpy(&u, &f, 4);
		((uint16_t *)p)[i] = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	}
	return get(t, p, i);
}
#define COMBINE(a, b) (how == 1 ? (a) * (b) : how == 2 ? ((a) > (b) ? (a) : (b)) : how == 3 ? ((a) < (b) ? (a) : (b)) : (a) + (b))
static void combine(char *out, char **in, int n, size_t count, int type, int how) {
	for (size_t i = 0; i < count; i++) {
		if (whole(type)) {
			int64_t v = geti(type, in[0], i);
			for (int r = 1; r < n; r++) v = COMBINE(v, geti(type, in[r], i));
			puti(type, out, i, how == 4 ? v / n : v);
			continue;
		}
		char cell[8];
		double share = how == 4 ? 1.0 / n : 1, v = put(type, cell, 0, get(type, in[0], i) * share);
		for (int r = 1; r < n; r++) v = put(type, cell, 0, COMBINE(v, put(type, cell, 0, get(type, in[r], i) * share)));
		put(type, out, i, v);
	}
}

struct transfer { int send, peer; char *at; size_t n; };

static int transfers(struct comm *c, struct op *o, struct transfer *t) {
	int n = 0, me = c->rank;
	size_t bytes = o->count * widths[o->type];
	if (o->kind == ALL_REDUCE || o->kind == REDUCE_SCATTER || o->kind == REDUCE) o->temp = malloc(bytes * c->size + 1);
	if (o->kind == SEND || o->kind == RECV) {
		t[n++] = (struct transfer){o->kind == SEND, o->peer, o->kind == SEND ? o->in : o->out, bytes};
		return n;
	}
	for (int r = 0; r < c->size; r++) {
		if (r == me) continue;
		switch (o->kind) {
		case ALL_REDUCE: case REDUCE_SCATTER:
			t[n++] = (struct transfer){1, r, o->in + (o->kind == REDUCE_SCATTER ? r * bytes : 0), bytes};
			t[n++] = (struct transfer){0, r, o->temp + r * bytes, bytes};
			break;
		case ALL_GATHER:
			t[n++] = (struct transfer){1, r, o->in, bytes};
			t[n++] = (struct transfer){0, r, o->out + r * bytes, bytes};
			break;
		case BROADCAST:
			if (me == o->peer) t[n++] = (struct transfer){1, r, o->in, bytes};
			else if (r == o->peer) t[n++] = (struct transfer){0, r, o->out, bytes};
			break;
		default: // REDUCE
			if (me == o->peer) t[n++] = (struct transfer){0, r, o->temp + r * bytes, bytes};
			else if (r == o->peer) t[n++] = (struct transfer){1, r, o->in, bytes};
		}
	}
	return n;
}
static void finish(struct comm *c, struct op *o) {
	size_t bytes = o->count * widths[o->type];
	int own = o->kind != REDUCE || c->rank == o->peer;
	if (o->temp && own) {
		char *in[RANKS], *sum = malloc(bytes + 1);
		for (int r = 0; r < c->size; r++) in[r] = r == c->rank ? o->in + (o->kind == REDUCE_SCATTER ? r * bytes : 0) : o->temp + r * bytes;
		combine(sum, in, c->size, o->count, o->type, o->how);
		memcpy(o->out, sum, bytes);
		free(sum);
		if (!strcmp(fault(), "wrong") && o->kind == ALL_REDUCE && bytes) o->out[bytes - 1] ^= 1;
	}
	if (o->kind == ALL_GATHER) memmove(o->out + c->rank * bytes, o->in, bytes);
	if (o->kind == BROADCAST && c->rank == o->peer && o->out != o->in) memmove(o->out, o->in, bytes);
	free(o->temp);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// advance moves as much of a transfer as possible and reports whether it is complete.
static int advance(struct comm *c, struct transfer *t) {
	struct channel *w = t->send ? &c->board->way[c->rank][t->peer] : &c->board->way[t->peer][c->rank];
	uint64_t sent = __atomic_load_n(&w->sent, __ATOMIC_ACQUIRE), received = __atomic_load_n(&w->received, __ATOMIC_ACQUIRE);
	uint64_t at = t->send ? sent : received;
	size_t n = least(t->n, least(t->send ? CHANNEL - (sent - received) : sent - received, CHANNEL - at % CHANNEL));
	if (t->send) memcpy(w->data + at % CHANNEL, t->at, n);
	else memcpy(t->at, w->data + at % CHANNEL, n);
	__atomic_store_n(t->send ? &w->sent : &w->received, at + n, __ATOMIC_RELEASE);
	t->at += n, t->n -= n;
	return t->n == 0;
}
static void fail(struct comm *c, Result r) { __atomic_store_n(&c->state, r, __ATOMIC_RELEASE); }
static int stopped(struct comm *c) { return __atomic_load_n(&c->stop, __ATOMIC_ACQUIRE); }

static void run(struct comm *c, struct batch *b) {
	struct transfer *all = NULL;
	int n = 0;
	for (struct op *o = b->first; o; o = o->next) {
		all = realloc(all, (n + 2 * RANKS) * sizeof *all);
		n += transfers(c, o, all + n);
	}
	const char *f = fault();
	if (!strcmp(f, "async")) fail(c, REMOTE_ERROR);
	int hang = !strcmp(f, "async") || !strcmp(f, "hang");
	for (int left = 1; (left || hang) && !stopped(c);) {
		char busy[2][RANKS] = {0}; // later transfers between the same ranks wait
		left = 0;
		for (int i = 0; i < n; i++)
			if (!busy[all[i].send][all[i].peer] && !advance(c, all + i)) busy[all[i].send][all[i].peer] = 1, left = 1;
		if (left || hang) sched_yield();
	}
	for (struct op *o = b->first, *next; o; o = next) {
		next = o->next;
		if (!stopped(c)) finish(c, o);
		free(o);
	}
	__atomic_fetch_sub(&b->stream->pending, 1, __ATOMIC_RELEASE);
	free(all);
	free(b);
}

// join meets the other ranks. No two of them may have the same GPU.
static void join(struct comm *c) {
	int fd = shm_open(c->id.name, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *c->board)) { fail(c, SYSTEM_ERROR); return; }
	c->board = mmap(NULL, sizeof *c->board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	c->board->device[c->rank] = c->device;
	__atomic_fetch_add(&c->board->joined, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&c->board->joined, __ATOMIC_ACQUIRE) < c->size) {
		if (stopped(c)) return;
		sched_yield();
	}
	shm_unlink(c->id.name);
	for (int a = 0; a < c->size; a++)
		for (int b = 0; b < a; b++)
			if (c->board->device[a] == c->board->device[b]) { fail(c, INVALID_USAGE); return; }
	fail(c, OK);
}
static void *work(void *arg) {
	struct comm *c = arg;
	join(c);
	for (;;) {
		pthread_mutex_lock(&c->lock);
		while (!c->first && !stopped(c)) pthread_cond_wait(&c->moved, &c->lock);
		struct batch *b = c->first;
		if (b) c->first = b->next;
		pthread_mutex_unlock(&c->lock);
		if (!b) return NULL;
		run(c, b);
	}
}
Result ncclCommInitRankConfig(struct comm **out, int size, Id id, int rank, Config *config) {
	note("ncclCommInitRank rank %d of %d on GPU %d", rank, size, current_device());
	if (id.rest[63] != 0x5a || id.rest[0] != 0x5a || config->magic != 0xcafebeef || config->blocking || size > RANKS) {
		snprintf(said, sizeof said, "the id or the configuration did not arrive whole");
		return INVALID_ARGUMENT;
	}
	struct comm *c = *out = calloc(1, sizeof *c);
	*c = (struct comm){.id = id, .rank = rank, .size = size, .device = current_device(), .state = IN_PROGRESS};
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->moved, NULL);
	return pthread_create(&c->worker, NULL, work, c) ? SYSTEM_ERROR : IN_PROGRESS;
}
Result ncclCommGetAsyncError(struct comm *c, Result *state) {
	*state = __atomic_load_n(&c->state, __ATOMIC_ACQUIRE);
	if (*state == INVALID_USAGE) snprintf(said, sizeof said, "Duplicate GPU detected : rank %d and another", c->rank);
	if (*state == REMOTE_ERROR) snprintf(said, sizeof said, "planted: the connection was closed by a peer");
	return OK;
}
static Result end(struct comm *c, const char *how) {
	note("%s rank %d", how, c->rank);
	pthread_mutex_lock(&c->lock);
	__atomic_store_n(&c->stop, 1, __ATOMIC_RELEASE);
	pthread_cond_signal(&c->moved);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->worker, NULL);
	if (c->board) munmap(c->board, sizeof *c->board);
	shm_unlink(c->id.name); // if not all ranks arrived
	free(c);
	return OK;
}
Result ncclCommAbort(struct comm *c) { return end(c, "ncclCommAbort"); }
Result ncclCommDestroy(struct comm *c) { return end(c, "ncclCommDestroy"); }

static void enqueue(struct comm *c, struct batch *b) {
	__atomic_fetch_add(&b->stream->pending, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&c->lock);
	if (c->first) c->last->next = b;
	else c->first = b;
	c->last = b;
	pthread_cond_signal(&c->moved);
	pthread_mutex_unlock(&c->lock);
}
static Result start(struct comm *c, struct stream *s, struct op o, const char *name) {
	note("%s rank %d count %zu type %d how %d peer %d", name, c->rank, o.count, o.type, o.how, o.peer);
	struct batch *b = depth && group ? group : calloc(1, sizeof *b);
	struct op *copy = malloc(sizeof *copy);
	*copy = o;
	b->stream = s;
	if (b->last) b->last->next = copy;
	else b->first = copy;
	b->last = copy;
	if (depth) group = b, grouped = c;
	else enqueue(c, b);
	return OK;
}
Result ncclGroupStart(void) { depth++; return OK; }
Result ncclGroupEnd(void) {
	if (--depth == 0 && group) enqueue(grouped, group), group = NULL;
	return OK;
}
Result ncclAllReduce(void *in, void *out, size_t n, int type, int how, struct comm *c, struct stream *s) {
	if (!strcmp(fault(), "call")) {
		snprintf(said, sizeof said, "planted: no channels");
		return INVALID_USAGE;
	}
	return start(c, s, (struct op){ALL_REDUCE, in, out, n, type, how}, "ncclAllReduce");
}
Result ncclBroadcast(void *in, void *out, size_t n, int type, int root, struct comm *c, struct stream *s) { return start(c, s, (struct op){BROADCAST, in, out, n, type, 0, root}, "ncclBroadcast"); }
Result ncclReduce(void *in, void *out, size_t n, int type, int how, int root, struct comm *c, struct stream *s) { return start(c, s, (struct op){REDUCE, in, out, n, type, how, root}, "ncclReduce"); }
Result ncclAllGather(void *in, void *out, size_t n, int type, struct comm *c, struct stream *s) { return start(c, s, (struct op){ALL_GATHER, in, out, n, type}, "ncclAllGather"); }
Result ncclReduceScatter(void *in, void *out, size_t n, int type, int how, struct comm *c, struct stream *s) { return start(c, s, (struct op){REDUCE_SCATTER, in, out, n, type, how}, "ncclReduceScatter"); }
Result ncclSend(void *in, size_t n, int type, int peer, struct comm *c, struct stream *s) { return start(c, s, (struct op){SEND, in, NULL, n, type, 0, peer}, "ncclSend"); }
Result ncclRecv(void *out, size_t n, int type, int peer, struct comm *c, struct stream *s) { return start(c, s, (struct op){RECV, NULL, out, n, type, 0, peer}, "ncclRecv"); }
