// A stand-in for libcuda on machines without a GPU. Device memory is host memory that processes can
// share, streams do their work at once, and the CPU executes the all-reduce kernels, with the same
// flags and the same parameters. Every call is written to $FAKE_CUDA_LOG, one per line.
//
// Further variables:
//   $FAKE_CUDA_DEVICES    number of GPUs (1)
//   $FAKE_CUDA_MAJOR      their compute capability (8)
//   $FAKE_CUDA_MULTICAST  if set, they have multicast memory
//   $FAKE_CUDA_REFUSE     PTX that contains this word is rejected
//   $FAKE_CUDA_SPEEDS     results of the measurements of memory and cache
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "fake.h"

typedef int Result;
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, BAD_PTX = 218, NOT_FOUND = 500, NOT_READY = 600, NOT_SUPPORTED = 801 };

void note(const char *format, ...) {
	const char *path = getenv("FAKE_CUDA_LOG");
	if (!path) return;
	char line[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line - 1, format, args);
	va_end(args);
	line[n++] = '\n';
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) return;
	if (write(fd, line, n) != n) abort();
	close(fd);
}

static int devices(void) {
	const char *n = getenv("FAKE_CUDA_DEVICES");
	return n ? atoi(n) : 1;
}

// Like the real driver, this one looks for MPS only when it is opened.
static int mps;

Result cuInit(unsigned flags) {
	note("cuInit");
	mps = getenv("CUDA_MPS_PIPE_DIRECTORY") != NULL;
	return devices() > 0 ? OK : NO_DEVICE;
}
Result cuDriverGetVersion(int *v) { *v = 12040; return OK; }
Result cuGetErrorName(Result r, const char **s) {
	*s = r == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : r == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : r == BAD_PTX ? "CUDA_ERROR_INVALID_PTX" : r == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : r == NOT_SUPPORTED ? "CUDA_ERROR_NOT_SUPPORTED" : "CUDA_ERROR_INVALID_VALUE";
	return OK;
}
Result cuGetErrorString(Result r, const char **s) {
	*s = r == NO_DEVICE ? "no CUDA-capable device is detected" : r == NO_MEMORY ? "out of memory" : r == BAD_PTX ? "a PTX JIT compilation failed" : r == NOT_FOUND ? "named symbol not found" : r == NOT_SUPPORTED ? "operation not supported" : "invalid argument";
	return OK;
}
Result cuDeviceGetCount(int *n) { *n = devices(); return OK; }
Result cuDeviceGet(int *d, int ordinal) { *d = ordinal; return ordinal < devices() ? OK : INVALID; }
Result cuDeviceGetName(char *name, int len, int d) { snprintf(name, len, "Fake GPU %d", d); return OK; }
Result cuDeviceTotalMem_v2(size_t *n, int d) { *n = (size_t)1 << 30; return OK; }
Result cuDeviceGetUuid(char *uuid, int d) { memset(uuid, d, 16); return OK; }
Result cuDeviceGetPCIBusId(char *id, int len, int d) { snprintf(id, len, "0000:%02x:00.0", d); return OK; }
Result cuDeviceCanAccessPeer(int *can, int a, int b) { *can = a != b; return OK; }
Result cuDeviceGetAttribute(int *v, int a, int d) {
	switch (a) {
	case 13: *v = planted(COPY) > 0 ? 2000000 : 0; break; // clock in kHz; unknown unless speeds are planted
	case 16: *v = 4; break;        // multiprocessors
	case 20: *v = 0; break;        // compute mode
	case 36: *v = 1000000; break;  // memory clock in kHz
	case 37: *v = 4096; break;     // memory bus in bits
	case 38: *v = 1 << 20; break;  // L2
	case 39: *v = 2048; break;
	case 75: *v = getenv("FAKE_CUDA_MAJOR") ? atoi(getenv("FAKE_CUDA_MAJOR")) : 8; break;
	case 76: *v = 0; break;
	case 132: *v = getenv("FAKE_CUDA_MULTICAST") != NULL; break;
	case 133: *v = mps; break;
	case 41: case 95: case 102: case 103: *v = 1; break;
	default: *v = 0;
	}
	return OK;
}
Result cuDevicePrimaryCtxRetain(void **c, int d) { note("cuDevicePrimaryCtxRetain %d", d); *c = (void *)(uintptr_t)(d + 1); return OK; }
Result cuDevicePrimaryCtxRelease_v2(int d) { note("cuDevicePrimaryCtxRelease %d", d); return OK; }
static __thread int current = -1;
int current_device(void) { return current; }
Result cuCtxSetCurrent(void *c) { current = (int)(uintptr_t)c - 1; return c ? OK : INVALID; }
Result cuCtxSynchronize(void) { return OK; }
Result cuCtxEnablePeerAccess(void *c, unsigned f) { return OK; }

// Memory. A handle is the path in /proc of the file that holds the memory. It becomes invalid when the
// process ends, however that happens.
struct block { void *at; size_t bytes; char name[64]; int fd, imported, fresh; struct block *next; };
static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards blocks

static struct block *find(uint64_t p) {
	pthread_mutex_lock(&lock);
	struct block *b = blocks;
	while (b && !(p >= (uint64_t)(uintptr_t)b->at && p < (uint64_t)(uintptr_t)b->at + b->bytes)) b = b->next;
	pthread_mutex_unlock(&lock);
	return b;
}
static Result map(struct block *b) {
	b->at = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
	if (b->at == MAP_FAILED) return NO_MEMORY;
	pthread_mutex_lock(&lock);
	b->next = blocks, blocks = b;
	pthread_mutex_unlock(&lock);
	return OK;
}
Result cuMemAlloc_v2(uint64_t *p, size_t bytes) {
	if (bytes > (size_t)1 << 30) return NO_MEMORY;
	struct block *b = calloc(1, sizeof *b);
	b->bytes = bytes, b->fresh = 1;
	b->fd = memfd_create("fake-cuda", MFD_CLOEXEC);
	if (b->fd < 0 || ftruncate(b->fd, bytes)) return NO_MEMORY;
	snprintf(b->name, sizeof b->name, "/proc/%d/fd/%d", getpid(), b->fd);
	Result r = map(b);
	if (r == OK) *p = (uint64_t)(uintptr_t)b->at;
	note("cuMemAlloc %zu", bytes);
	return r;
}
enum { ADOPTED = 2 }; // imported: this process has no file for it
void adopt(void *at, size_t bytes) {
	struct block *b = calloc(1, sizeof *b);
	b->at = at, b->bytes = bytes, b->imported = ADOPTED, b->fresh = 1;
	pthread_mutex_lock(&lock);
	b->next = blocks, blocks = b;
	pthread_mutex_unlock(&lock);
}
int adopted(uint64_t p) {
	struct block *b = find(p);
	return b && b->imported == ADOPTED && (uint64_t)(uintptr_t)b->at == p;
}
static struct block *removed(uint64_t p, int imported) {
	pthread_mutex_lock(&lock);
	struct block **b = &blocks;
	while (*b && !((uint64_t)(uintptr_t)(*b)->at == p && (*b)->imported == imported)) b = &(*b)->next;
	struct block *gone = *b;
	if (gone) *b = gone->next;
	pthread_mutex_unlock(&lock);
	return gone;
}
void forget(uint64_t p) { free(removed(p, ADOPTED)); }
static Result drop(uint64_t p, int imported) {
	struct block *gone = removed(p, imported);
	if (!gone) return INVALID;
	munmap(gone->at, gone->bytes);
	close(gone->fd);
	free(gone);
	return OK;
}
Result cuMemFree_v2(uint64_t p) { note("cuMemFree"); return drop(p, 0); }
Result cuMemGetInfo_v2(size_t *available, size_t *total) { *available = *total = (size_t)1 << 30; return OK; }
Result cuMemHostAlloc(void **p, size_t bytes, unsigned flags) { *p = calloc(1, bytes); return *p ? OK : NO_MEMORY; }
Result cuMemFreeHost(void *p) { free(p); return OK; }
Result cuMemHostGetDevicePointer_v2(uint64_t *d, void *p, unsigned flags) { *d = (uint64_t)(uintptr_t)p; return OK; }
void settle(struct stream *s); // waits until its work is done
static int inside(uint64_t p, size_t n) {
	struct block *b = find(p);
	return b && p + n <= (uint64_t)(uintptr_t)b->at + b->bytes;
}
Result cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) { if (!inside(to, n)) return INVALID; find(to)->fresh = 0; memcpy((void *)(uintptr_t)to, from, n); return OK; }
Result cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) { if (!inside(from, n)) return INVALID; memcpy(to, (void *)(uintptr_t)from, n); return OK; }
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) { settle(s); return product_fault("lost upload") ? OK : cuMemcpyHtoD_v2(to, from, n); }
Result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) { settle(s); return product_fault("lost download") ? OK : cuMemcpyDtoH_v2(to, from, n); }
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) {
	if (!inside(to, n) || !inside(from, n)) return INVALID;
	settle(s);
	find(to)->fresh = 0;
	if (!product_fault("lost copy")) copy_within(to, from, n, s);
	if (s && planted(COPY) > 0) ((struct stream *)s)->clock += 2 * n / planted(COPY);
	return OK;
}
// New memory is zero already. Zeroing it again would touch all its pages, so that is skipped.
Result cuMemsetD8_v2(uint64_t p, unsigned char v, size_t n) {
	if (!inside(p, n) || product_fault("lost fill")) return INVALID;
	struct block *b = find(p);
	if (v || !b->fresh) memset((void *)(uintptr_t)p, v, n);
	b->fresh = 0;
	return OK;
}

typedef struct { char name[64]; } Handle;
Result cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t p) {
	struct block *b = find(p);
	if (!b) return INVALID;
	*base = (uint64_t)(uintptr_t)b->at, *bytes = b->bytes;
	return OK;
}
Result cuIpcGetMemHandle(Handle *h, uint64_t p) {
	struct block *b = find(p);
	if (!b || b->imported || (uint64_t)(uintptr_t)b->at != p) return INVALID;
	memcpy(h->name, b->name, sizeof h->name);
	return OK;
}
Result cuIpcOpenMemHandle_v2(uint64_t *p, Handle h, unsigned flags) {
	note("cuIpcOpenMemHandle %.40s flags %u", h.name[0] == '/' ? "named" : "unnamed", flags);
	struct block *b = calloc(1, sizeof *b);
	memcpy(b->name, h.name, sizeof b->name);
	b->imported = 1;
	b->fd = open(b->name, O_RDWR | O_CLOEXEC);
	if (b->fd < 0) return INVALID;
	b->bytes = lseek(b->fd, 0, SEEK_END);
	Result r = map(b);
	if (r == OK) *p = (uint64_t)(uintptr_t)b->at;
	return r;
}
Result cuIpcCloseMemHandle(uint64_t p) { return drop(p, 1); }

Result cuModuleLoadData(void **m, const char *ptx) {
	const char *refuse = getenv("FAKE_CUDA_REFUSE");
	if (refuse && strstr(ptx, refuse)) return BAD_PTX;
	*m = strdup(ptx);
	note("cuModuleLoadData %zu", strlen(ptx));
	return OK;
}
Result cuModuleGetFunction(void **f, void *m, const char *name) {
	char entry[256];
	snprintf(entry, sizeof entry, ".entry %s(", name);
	if (!strstr(m, entry)) return NOT_FOUND;
	*f = strdup(name);
	return OK;
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int threads, size_t shared) { *n = 2; return OK; }
Result cuFuncSetAttribute(void *f, int a, int v) { note("cuFuncSetAttribute %s %d %d", (char *)f, a, v); return OK; }

// Parameters of the all-reduce kernels: see common.cuh.
enum { RANKS = 16 };
struct params {
	uint64_t in[RANKS], out[RANKS], scratch[RANKS], flags[RANKS];
	uint64_t count, failure, limit_ns, bias, bias_count, residual, stride, slot_bytes, delay_ns, base, weight, row;
	double epsilon, scale;
	uint32_t rank, size, blocks, epoch, iterations, rotation, options, delay_rank;
};
static double get(const char *type, const char *at, uint64_t i) {
	uint32_t u;
	float f;
	if (!strncmp(type, "f64", 3)) return ((const double *)at)[i];
	if (!strncmp(type, "f32", 3)) return ((const float *)at)[i];
	if (!strncmp(type, "f16", 3)) return ((const _Float16 *)at)[i];
	u = (uint32_t)((const uint16_t *)at)[i] << 16;
	memcpy(&f, &u, 4);
	return f;
}
static void put(const char *type, char *at, uint64_t i, double v) {
	uint32_t u;
	float f = v;
	if (!strncmp(type, "f64", 3)) ((double *)at)[i] = v;
	else if (!strncmp(type, "f32", 3)) ((float *)at)[i] = f;
	else if (!strncmp(type, "f16", 3)) ((_Float16 *)at)[i] = (_Float16)f;
	else {
		memcpy(&u, &f, 4);
		((uint16_t *)at)[i] = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	}
}
static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static int meet(const struct params *p, uint32_t rank, uint32_t line, uint32_t epoch, uint32_t phase) {
	for (uint32_t r = 0; r < p->size; r++) __atomic_store_n((uint32_t *)(uintptr_t)p->flags[r] + line + rank, epoch, __ATOMIC_RELEASE);
	uint64_t start = now();
	for (uint32_t r = 0; r < p->size; r++)
		while ((int32_t)(__atomic_load_n((uint32_t *)(uintptr_t)p->flags[rank] + line + r, __ATOMIC_ACQUIRE) - epoch) < 0) {
			if (__atomic_load_n((uint32_t *)(uintptr_t)p->failure, __ATOMIC_ACQUIRE)) return 0;
			if (now() - start > p->limit_ns) {
				uint32_t *f = (uint32_t *)(uintptr_t)p->failure;
				f[1] = rank, f[2] = 0, f[3] = phase, f[4] = r, f[5] = epoch, f[6] = 0;
				__atomic_store_n(f, 2, __ATOMIC_RELEASE);
				return 0;
			}
			sched_yield();
		}
	return 1;
}
static double rounded(int wide, double v) { return wide ? v : (float)v; }

// Encodes the group of 32 elements at first as quickreduce does, and decodes it again.
static void encoded(int bits, float *v) {
	float most = 0, top = (1 << (bits - 1)) - 1;
	int spoilt = 0;
	for (int i = 0; i < 32; i++) {
		spoilt |= !isfinite(v[i]);
		if (fabsf(v[i]) > most) most = fabsf(v[i]);
	}
	float scale = most / top, inverse = 1 / scale;
	for (int i = 0; i < 32; i++) v[i] = spoilt ? NAN : scale < 0x1p-126f ? 0 : (float)(int)rintf(v[i] * inverse) * scale;
}
// quickreduce leaves the sums that result when inputs and sums are sent as integers.
static void quickreduce(int bits, const char *type, const struct params *p, uint64_t off, double *sums) {
	for (uint64_t g = 0; g < p->count; g += 32) {
		int n = p->count - g < 32 ? p->count - g : 32;
		float sum[32], v[32];
		for (uint32_t r = 0; r < p->size; r++) {
			for (int i = 0; i < 32; i++) v[i] = i < n ? get(type, (char *)(uintptr_t)(p->in[r] + off), g + i) : 0;
			encoded(bits, v);
			for (int i = 0; i < 32; i++) sum[i] = r ? sum[i] + v[i] : v[i];
		}
		for (int k = 0; k < 2; k++) { // round to the element type, encode, round again
			char hop[8];
			for (int i = 0; i < 32; i++) put(type, hop, 0, sum[i]), sum[i] = get(type, hop, 0);
			if (k == 0) encoded(bits, sum);
		}
		for (int i = 0; i < n; i++) sums[g + i] = sum[i];
	}
}
// normalise applies the norm to the rows of an output that the epilogue has stored.
static void normalise(const char *type, const struct params *p, double *sums) {
	for (uint64_t first = 0; first < p->count; first += p->row) {
		float squares = 0;
		for (uint64_t i = first; i < first + p->row; i++) {
			char hop[8];
			put(type, hop, 0, sums[i]);
			float h = sums[i] = get(type, hop, 0);
			squares += h * h;
		}
		float factor = 1 / sqrtf(squares / (float)p->row + (float)p->epsilon);
		for (uint64_t i = first; i < first + p->row; i++)
			sums[i] = (float)((float)sums[i] * factor) * (float)get(type, (char *)(uintptr_t)p->weight, i - first);
	}
}
// lost reports whether a fault keeps an element of the output from being written: one of the last
// elements or, on all ranks but the late one, the part of the late rank.
static int lost(const char *type, const struct params *p, uint32_t rank, uint64_t i) {
	uint64_t pack = type[1] == '6' ? 2 : type[1] == '3' ? 4 : 8;
	if (p->options & 8 && i >= p->count / pack * pack) return 1;
	return p->options & 2 && p->delay_ns && rank != p->delay_rank && i >= p->count * p->delay_rank / p->size && i < p->count * (p->delay_rank + 1) / p->size;
}

// reduce has the effect of all the kernels, whatever their algorithm: it meets the other ranks, sums
// everything, and stores its output when all have read their inputs. The Lamport kernel has no flags,
// and its epoch counts calls; here it uses separate flags.
static void reduce(const char *name, const struct params *argument, uint32_t rank) {
	struct params fixed = *argument, *p = &fixed;
	if (p->options & 16) p->in[0] = p->in[1];
	const char *type = strchr(name, '_') + 1;
	int quick = strncmp(name, "quickreduce", 11) ? 0 : name[11] - '0';
	int wide = !strncmp(type, "f64", 3), lamport = !strncmp(name, "lamport", 7);
	uint32_t epoch = lamport ? 2 * p->epoch : p->epoch, line = lamport ? 2 * RANKS : 0;
	double *sums = malloc((p->count + 1) * sizeof *sums);
	for (uint32_t call = 0; call < p->iterations; call++) {
		if ((call == 0 || lamport || quick) && !(p->options & 1) && !meet(p, rank, line, ++epoch, 1)) break;
		uint64_t off = call % p->rotation * p->stride;
		if (quick) quickreduce(quick, type, p, off, sums);
		for (uint64_t i = 0; i < p->count; i++) {
			double sum = quick ? sums[i] : get(type, (char *)(uintptr_t)(p->in[0] + off), i);
			for (uint32_t r = 1; r < p->size && !quick; r++) {
				sum = rounded(wide, sum + get(type, (char *)(uintptr_t)(p->in[r] + off), i));
				if (p->options & 4) {
					char hop[8];
					put(type, hop, 0, sum);
					sum = get(type, hop, 0);
				}
			}
			sum = rounded(wide, sum * (wide ? p->scale : (float)p->scale));
			if (p->bias) sum = rounded(wide, sum + get(type, (char *)(uintptr_t)p->bias, (p->base + i) % p->bias_count));
			if (p->residual) sum = rounded(wide, sum + get(type, (char *)(uintptr_t)p->residual, i));
			sums[i] = sum;
		}
		if (!strncmp(name, "norm", 4)) normalise(type, p, sums);
		if (!(p->options & 2) && !meet(p, rank, line, ++epoch, 2)) break;
		for (uint64_t i = 0; i < p->count; i++)
			if (!lost(type, p, rank, i)) put(type, (char *)(uintptr_t)(p->out[rank] + off), i, sums[i]);
	}
	free(sums);
}
// multimem plays the switch: every rank sums the elements of its part over all bound memory, and
// stores the sums in all of it.
static void multimem(const char *name, const struct params *p) {
	const char *type = strchr(name, '_') + 1;
	int wide = !strncmp(type, "f64", 3);
	uint64_t pack = wide ? 2 : type[1] == '3' ? 4 : 8, packs = (p->count + pack - 1) / pack;
	uint32_t epoch = p->epoch;
	for (uint32_t call = 0; call < p->iterations; call++) {
		if (call == 0 && !(p->options & 1) && !meet(p, p->rank, 0, ++epoch, 1)) return;
		uint64_t off = call % p->rotation * p->stride;
		char *in[RANKS], *out[RANKS];
		for (int d = 0; d < RANKS; d++) in[d] = multicast_memory(p->in[0] + off, d), out[d] = multicast_memory(p->out[0] + off, d);
		for (uint64_t i = packs * p->rank / p->size * pack; i < packs * (p->rank + 1) / p->size * pack; i++) {
			double sum = -0.;
			char hop[8];
			for (int d = 0; d < RANKS; d++)
				if (in[d]) sum = rounded(wide, sum + get(type, in[d], i));
			put(type, hop, 0, sum);
			sum = rounded(wide, get(type, hop, 0) * (wide ? p->scale : (float)p->scale));
			for (int d = 0; d < RANKS; d++)
				if (out[d] && !lost(type, p, d, i)) put(type, out[d], i, sum);
		}
		if (!(p->options & 2) && !meet(p, p->rank, 0, ++epoch, 2)) return;
	}
}
// together does the work of all ranks as blocks of one kernel, so no rank waits for another.
static void together(const char *name, const struct params *p) {
	struct params one = *p;
	one.options |= 3;
	one.iterations = 1;
	uint64_t bytes = p->count * (strstr(name, "f64") ? 8 : strstr(name, "f32") ? 4 : 2);
	for (uint32_t call = 0; call < p->iterations; call++) {
		for (uint32_t r = 0; r < p->size; r++) {
			uint64_t off = call % p->rotation * p->stride;
			one.in[r] = p->in[r] + off, one.out[r] = p->out[r] + off;
		}
		reduce(name, &one, 0);
		for (uint32_t r = 1; r < p->size; r++) memcpy((void *)(uintptr_t)one.out[r], (void *)(uintptr_t)one.out[0], bytes);
	}
}

static void perform(const char *name, const struct params *p) {
	if (!strncmp(name, "multimem", 8)) multimem(name, p);
	else if (p->rank == ~0u) together(name, p);
	else reduce(name, p, p->rank);
}
static int kernel_of(const char *name, const char *family) { return !strncmp(name, family, strlen(family)); }
// A launch that a stream keeps. No kernel has longer parameters.
struct launched { const char *name; const void *argument; struct params copy; };
static void begin(const void *argument) {
	const struct launched *l = argument;
	const void *p = l->argument ? l->argument : &l->copy;
	if (!product(l->name, p) && !fused(l->name, p)) perform(l->name, p);
}
static Result launch(const char *name, unsigned grid, unsigned block, void *stream, void **args, const char *how) {
	note("%s %s %u x %u", how, name, grid, block);
	if (!getenv("FAKE_CUDA_DEFER") || kernel_of(name, "copy")) settle(stream); // copies are not deferred, and may be slow
	if (copied(name, args[0], stream)) return OK;
	if (!strchr(name, '_')) return INVALID;
	if (cache(name, grid, block, args[0], stream) || streamed(name, grid, args[0])) return OK;
	if (solve_step && solve_step(name, grid, args[0])) return OK;
	struct graph *g = stream ? ((struct stream *)stream)->recording : NULL;
	struct launched l = {name, args[0]};
	int own = kernel_of(name, "gemm") || kernel_of(name, "skinny") || kernel_of(name, "peak") ? 384 : kernel_of(name, "gate") || kernel_of(name, "sum") || kernel_of(name, "onekernel") ? 640 : 0;
	if (stream && !own) ((struct stream *)stream)->clock += 1e6 * ((struct params *)args[0])->iterations;
	if (g || stream && getenv("FAKE_CUDA_DEFER")) {
		memcpy(&l.copy, args[0], own ? own : sizeof l.copy);
		l.argument = NULL;
	}
	in_turn(stream, begin, &l, sizeof l);
	return OK;
}
Result cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **args, void **extra) {
	return launch(f, x, bx, s, args, "cuLaunchKernel");
}
// See CUlaunchConfig and CUlaunchAttribute.
struct attribute { unsigned id, unused; unsigned value[16]; };
struct config { unsigned grid[3], block[3], shared; void *stream; struct attribute *attributes; unsigned count; };
Result cuLaunchKernelEx(const struct config *c, void *f, void **args, void **extra) {
	unsigned cluster = 0, dependent = 0;
	for (unsigned i = 0; i < c->count; i++) {
		const struct attribute *a = c->attributes + i;
		if (a->id == 6 && a->value[0] == 1) dependent = 1;
		else if (a->id == 4 && a->value[0] && c->grid[0] % a->value[0] == 0 && a->value[1] == 1 && a->value[2] == 1) cluster = a->value[0];
		else return INVALID;
	}
	char how[64];
	snprintf(how, sizeof how, "cuLaunchKernelEx%s", dependent ? " dependent" : "");
	if (cluster) snprintf(how + strlen(how), sizeof how - strlen(how), " clusters of %u", cluster);
	return launch(f, c->grid[0], c->block[0], c->stream, args, how);
}
Result cuLaunchCooperativeKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s, void **args) {
	return launch(f, x, bx, s, args, "cuLaunchCooperativeKernel");
}
Result cuStreamBeginCapture_v2(struct stream *s, int mode) { s->recording = calloc(1, sizeof *s->recording); return OK; }
Result cuStreamEndCapture(struct stream *s, void **g) { *g = s->recording, s->recording = NULL; return OK; }
Result cuGraphInstantiateWithFlags(struct graph **e, struct graph *g, uint64_t f) { *e = malloc(sizeof **e), **e = *g; return OK; }
Result cuGraphLaunch(struct graph *e, void *s) {
	note("cuGraphLaunch of %d", e->n);
	((struct stream *)s)->clock += 1e6 * e->n;
	for (int i = 0; i < e->n; i++) e->nodes[i].run(e->nodes[i].argument);
	return OK;
}
Result cuGraphExecDestroy(struct graph *e) {
	for (int i = 0; i < e->n; i++) free(e->nodes[i].argument);
	free(e->nodes);
	free(e);
	return OK;
}
Result cuGraphDestroy(void *g) { free(g); return OK; }

// NVML: the sensors of the GPUs. The temperature rises with every reading.
Result nvmlInit_v2(void) { return OK; }
const char *nvmlErrorString(Result r) { return "Not Found"; }
Result nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **d) {
	unsigned bus;
	if (sscanf(id, "0000:%x:00.0", &bus) != 1) return 6;
	*d = (void *)(uintptr_t)(bus + 1);
	return OK;
}
Result nvmlDeviceGetClockInfo(void *d, int which, unsigned *mhz) { *mhz = which == 1 ? 1980 : which == 2 ? 3201 : 0; return OK; }
Result nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = 120400; return OK; }
Result nvmlDeviceGetTemperature(void *d, int which, unsigned *celsius) {
	static unsigned looks;
	*celsius = 40 + __atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
	return which ? INVALID : OK;
}

// The processes on every GPU, from FAKE_NVML_PROCESSES: "PID:SM%:NAME,...", with SM% empty where the use is not
// known. FAKE_NVML_REASONS has the bits that say why the clock is held down.
static int foreign(unsigned i, unsigned *pid, int *use, char *name) {
	const char *list = getenv("FAKE_NVML_PROCESSES");
	while (list && *list) {
		if (i-- == 0) {
			char text[16] = "";
			if (sscanf(list, "%u:%15[0-9]:%63[^,]", pid, text, name) != 3 && sscanf(list, "%u::%63[^,]", pid, name) != 2) return 0;
			*use = *text ? atoi(text) : -1;
			return 1;
		}
		list = strchr(list, ',');
		if (list) list++;
	}
	return 0;
}
struct nvml_process { unsigned pid; unsigned long long bytes; unsigned instance, compute; };
struct nvml_use { unsigned pid; unsigned long long at; unsigned sm, memory, encoder, decoder; };
Result nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct nvml_process *list) {
	unsigned i = 0, pid;
	int use;
	char name[64];
	for (; i < *n && foreign(i, &pid, &use, name); i++) list[i] = (struct nvml_process){pid, 1 << 20, 0, 0};
	*n = i;
	return OK;
}
Result nvmlDeviceGetProcessUtilization(void *d, struct nvml_use *list, unsigned *n, unsigned long long since) {
	unsigned i = 0, found = 0, pid;
	int use;
	char name[64];
	if (!list) {
		*n = 8;
		return 7;
	}
	if (*n < 8) return 7; // like the real one, it wants room for all of its samples
	for (; found < *n && foreign(i, &pid, &use, name); i++)
		if (use >= 0) list[found++] = (struct nvml_use){pid, since + 1, use, 0, 0, 0};
	*n = found;
	return found ? OK : 6;
}
Result nvmlSystemGetProcessName(unsigned pid, char *to, unsigned length) {
	unsigned i = 0, p;
	int use;
	char name[64];
	for (; foreign(i, &p, &use, name); i++)
		if (p == pid) {
			snprintf(to, length, "%s", name);
			return OK;
		}
	return 6;
}
Result nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits) {
	const char *text = getenv("FAKE_NVML_REASONS");
	*bits = text ? strtoull(text, 0, 0) : 0;
	return OK;
}
Result nvmlDeviceGetCount_v2(unsigned *n) {
	const char *text = getenv("FAKE_CUDA_DEVICES");
	*n = text ? atoi(text) : 1;
	return OK;
}
Result nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(uintptr_t)(i + 1); return OK; }
Result nvmlDeviceGetMemoryInfo(void *d, unsigned long long v[3]) { v[0] = 1ull << 30, v[1] = v[0], v[2] = 0; return OK; }
Result nvmlDeviceGetName(void *d, char *to, unsigned length) { snprintf(to, length, "Fake GPU %d", (int)(uintptr_t)d - 1); return OK; }
