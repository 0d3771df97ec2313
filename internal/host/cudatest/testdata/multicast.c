// Memory with handles, and multicast objects. Memory is a file. An object is a file too, in which
// every device records which memory it has bound. The address of an object maps no memory: only the
// kernels that look up the bound memory can use it.
//
// $FAKE_MULTICAST_FAULT injects a fault: unbound (the memory of GPU 1 is not bound, though the call
// succeeds), create, join, bind or map (the call fails on GPU 1; create on GPU 0).
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fake.h"

typedef int Result;
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_SUPPORTED = 801, DEVICES = 16, FINE = 2 << 20 };

// The content of an object's file. Bound memory is recorded as the process and its file descriptor
// plus one.
struct object { unsigned devices, joined; size_t bytes; struct { int pid, file; } bound[DEVICES]; };
struct handle { int fd, device; size_t bytes; struct object *object; int bound; };

// A view is an address at which a process has mapped an object, with the memory of each device that it
// has mapped.
struct view { uint64_t at; size_t bytes; struct object *object; void *memory[DEVICES]; struct view *next; };
static struct view *views;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards views

static int faulty(const char *what) {
	const char *fault = getenv("FAKE_MULTICAST_FAULT");
	return fault && !strcmp(fault, what);
}
static Result opened(struct handle **to, int fd, size_t bytes, int device, int object) {
	struct handle *h = calloc(1, sizeof *h);
	h->fd = fd, h->bytes = bytes, h->device = device;
	if (object && (h->object = mmap(NULL, sizeof *h->object, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) return NO_MEMORY;
	*to = h;
	return OK;
}
static int file_of(const char *name, size_t bytes) {
	int fd = memfd_create(name, MFD_CLOEXEC);
	return fd < 0 || ftruncate(fd, bytes) ? -1 : fd;
}

struct prop { unsigned kind, handles, location; int device; void *windows; char flags[8]; };
Result cuMemCreate(struct handle **h, size_t bytes, const struct prop *p, uint64_t flags) {
	note("cuMemCreate %zu", bytes);
	if (p->kind != 1 || p->handles != 1 || p->location != 1 || bytes % FINE) return INVALID;
	if (bytes > (size_t)1 << 30) return NO_MEMORY;
	int fd = file_of("fake-cuda-memory", bytes);
	return fd < 0 ? NO_MEMORY : opened(h, fd, bytes, p->device, 0);
}
struct multicast_prop { unsigned devices; size_t bytes; uint64_t handles, flags; };
Result cuMulticastGetGranularity(size_t *n, const struct multicast_prop *p, int option) { *n = FINE; return p->handles == 1 ? OK : INVALID; }
Result cuMulticastCreate(struct handle **h, const struct multicast_prop *p) {
	note("cuMulticastCreate %u %zu", p->devices, p->bytes);
	if (p->devices < 2 || faulty("create")) return NOT_SUPPORTED;
	if (p->devices > DEVICES || p->handles != 1 || p->bytes % FINE) return INVALID;
	int fd = file_of("fake-cuda-object", sizeof(struct object));
	if (fd < 0) return NO_MEMORY;
	Result r = opened(h, fd, p->bytes, -1, 1);
	if (r == OK) (*h)->object->devices = p->devices, (*h)->object->bytes = p->bytes;
	return r;
}
Result cuMemExportToShareableHandle(int *fd, struct handle *h, int type, uint64_t flags) {
	if (type != 1) return INVALID;
	*fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? NO_MEMORY : OK;
}
Result cuMemImportFromShareableHandle(struct handle **h, void *file, int type) {
	char link[64], name[64] = {0};
	int fd = fcntl((int)(uintptr_t)file, F_DUPFD_CLOEXEC, 0);
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	if (fd < 0 || type != 1 || readlink(link, name, sizeof name - 1) < 0) return INVALID;
	note("cuMemImportFromShareableHandle");
	return opened(h, fd, lseek(fd, 0, SEEK_END), -1, strstr(name, "fake-cuda-object") != NULL);
}
Result cuMemRelease(struct handle *h) {
	note("cuMemRelease");
	if (h->bound) return INVALID; // memory must be unbound before it is released
	if (h->object) munmap(h->object, sizeof *h->object);
	close(h->fd);
	free(h);
	return OK;
}

Result cuMulticastAddDevice(struct handle *h, int device) {
	note("cuMulticastAddDevice %d", device);
	if (device == 1 && faulty("join")) return NOT_SUPPORTED;
	if (!h->object || device >= DEVICES || __atomic_fetch_or(&h->object->joined, 1u << device, __ATOMIC_ACQ_REL) & 1u << device) return INVALID;
	return __builtin_popcount(h->object->joined) > h->object->devices ? INVALID : OK;
}
Result cuMulticastBindMem(struct handle *h, size_t at, struct handle *memory, size_t from, size_t bytes, uint64_t flags) {
	struct object *o = h->object;
	int d = memory->device;
	note("cuMulticastBindMem %d", d);
	if (d == 1 && faulty("bind")) return NOT_SUPPORTED;
	if (!o || d < 0 || at || from || bytes != o->bytes || bytes > memory->bytes || o->bound[d].file) return INVALID;
	if (__builtin_popcount(__atomic_load_n(&o->joined, __ATOMIC_ACQUIRE)) != o->devices) return INVALID; // some devices have not joined yet
	h->bound = 1 + fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
	if (d == 1 && faulty("unbound")) return OK;
	o->bound[d].pid = getpid();
	__atomic_store_n(&o->bound[d].file, h->bound, __ATOMIC_RELEASE);
	return OK;
}
Result cuMulticastUnbind(struct handle *h, int device, size_t at, size_t bytes) {
	note("cuMulticastUnbind %d", device);
	if (!h->bound) return INVALID;
	__atomic_store_n(&h->object->bound[device].file, 0, __ATOMIC_RELEASE);
	close(h->bound - 1);
	h->bound = 0;
	return OK;
}

Result cuMemAddressReserve(uint64_t *p, size_t bytes, size_t align, uint64_t wanted, uint64_t flags) {
	note("cuMemAddressReserve %zu", bytes);
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) return NO_MEMORY;
	*p = (uint64_t)(uintptr_t)at;
	return OK;
}
Result cuMemAddressFree(uint64_t p, size_t bytes) {
	note("cuMemAddressFree %zu", bytes);
	return munmap((void *)(uintptr_t)p, bytes) ? INVALID : OK;
}
Result cuMemMap(uint64_t p, size_t bytes, size_t off, struct handle *h, uint64_t flags) {
	note("cuMemMap %zu", bytes);
	void *at = (void *)(uintptr_t)p;
	if (!h->object) {
		if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, h->fd, off) != at) return NO_MEMORY;
		adopt(at, bytes);
		return OK;
	}
	struct view *v = calloc(1, sizeof *v);
	v->at = p, v->bytes = bytes;
	v->object = mmap(NULL, sizeof *v->object, PROT_READ, MAP_SHARED, h->fd, 0);
	pthread_mutex_lock(&lock);
	v->next = views, views = v;
	pthread_mutex_unlock(&lock);
	return v->object == MAP_FAILED ? NO_MEMORY : OK;
}
struct access { int location, device, flags; };
Result cuMemSetAccess(uint64_t p, size_t bytes, const struct access *a, size_t n) {
	if (a->device == 1 && faulty("map")) return NOT_SUPPORTED;
	if (n != 1 || a->location != 1 || a->flags != 3) return INVALID;
	return adopted(p) && mprotect((void *)(uintptr_t)p, bytes, PROT_READ | PROT_WRITE) ? INVALID : OK;
}
Result cuMemUnmap(uint64_t p, size_t bytes) {
	note("cuMemUnmap %zu", bytes);
	if (adopted(p)) {
		forget(p);
		return mmap((void *)(uintptr_t)p, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? INVALID : OK;
	}
	pthread_mutex_lock(&lock);
	struct view **v = &views;
	while (*v && (*v)->at != p) v = &(*v)->next;
	struct view *gone = *v;
	if (gone) *v = gone->next;
	pthread_mutex_unlock(&lock);
	if (!gone) return INVALID;
	for (int d = 0; d < DEVICES; d++)
		if (gone->memory[d]) munmap(gone->memory[d], gone->bytes);
	munmap(gone->object, sizeof *gone->object);
	free(gone);
	return OK;
}

char *multicast_memory(uint64_t p, int device) {
	pthread_mutex_lock(&lock);
	struct view *v = views;
	while (v && !(p >= v->at && p < v->at + v->bytes)) v = v->next;
	int file = v ? __atomic_load_n(&v->object->bound[device].file, __ATOMIC_ACQUIRE) : 0;
	if (file && !v->memory[device]) {
		char name[64];
		snprintf(name, sizeof name, "/proc/%d/fd/%d", v->object->bound[device].pid, file - 1);
		int fd = open(name, O_RDWR | O_CLOEXEC);
		void *at = fd < 0 ? MAP_FAILED : mmap(NULL, v->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (at != MAP_FAILED) v->memory[device] = at;
		if (fd >= 0) close(fd);
	}
	char *at = v && v->memory[device] ? (char *)v->memory[device] + (p - v->at) : NULL;
	pthread_mutex_unlock(&lock);
	return at;
}
