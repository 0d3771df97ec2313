// What the stand-ins for libcuda and libnccl share.
#pragma once
#include <stddef.h>
#include <stdint.h>

// A stream does its work at once, except for what libnccl is told to do on it, and for slow
// copies. With $FAKE_CUDA_DEFER it does it as late as can be: when somebody waits for it.
struct graph;
struct item;
// Where speeds are planted its time is theirs alone, in nanoseconds, and a call takes a million.
struct stream { int pending; struct graph *recording; double clock; struct item *first, *last; size_t queued, done; };

// in_turn has a stream do something with a copy of an argument.
void in_turn(struct stream *s, void (*run)(const void *), const void *argument, size_t bytes);

// note writes a line to the log of calls.
void note(const char *format, ...);

// current_device is the number of the GPU whose context is current on this thread.
int current_device(void);

// adopt makes a range of memory one that copies may use, and forget ends that; adopted tells
// whether one begins there.
void adopt(void *at, size_t bytes);
void forget(uint64_t p);
int adopted(uint64_t p);

// multicast_memory is the memory of a device that a multicast address reaches, NULL where there is none.
char *multicast_memory(uint64_t p, int device);

// product does the kernels for matrix products, and tells whether it was one.
int product(const char *name, const void *argument);

// cache does the kernels that time the cache, and tells whether it was one: nobody looks
// at what they leave.
int cache(const char *name, unsigned blocks, unsigned threads, const void *argument, struct stream *stream);

// planted is a speed of $FAKE_CUDA_SPEEDS, in bytes a nanosecond; 0: it is what it is.
enum speed { COPY, CACHE_READ, CACHE_SHARED, CACHE_COPY };
double planted(enum speed which);

// copied does the copy kernels, and tells whether it was one; copy_within is the driver's copy.
// What the stream did before is done.
int copied(const char *name, const void *argument, struct stream *stream);
void copy_within(uint64_t to, uint64_t from, uint64_t bytes, struct stream *stream);

// solve_step does the kernels of solves, and tells whether it was one. It is there where a test
// has handed their source over.
int solve_step(const char *name, unsigned grid, const void *argument) __attribute__((weak));

// fused does the kernels that add up products, and tells whether it was one.
int fused(const char *name, const void *argument);

// multiply_bf16 makes C, m rows ldc apart, of A, m rows of k elements, and B, n rows of them.
void multiply_bf16(size_t m, size_t n, size_t k, const void *a, size_t lda, const void *b, size_t ldb, void *c, size_t ldc);

// product_fault tells whether this error is planted in products.
int product_fault(const char *what);
