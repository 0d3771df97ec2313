// Declarations that the stand-ins for libcuda and libnccl share.
#pragma once
#include <stddef.h>
#include <stdint.h>

// A stream does its work at once, except for NCCL operations and slow copies. With $FAKE_CUDA_DEFER it
// does its work as late as possible: when somebody waits for it.
struct graph;
struct item;
// clock is in nanoseconds. If speeds are planted, it advances only by the times that follow from them,
// and by a million for each all-reduce.
struct stream { int pending; struct graph *recording; double clock; struct item *first, *last; size_t queued, done; };

// in_turn makes a stream call a function with a copy of an argument, in order with its other work.
void in_turn(struct stream *s, void (*run)(const void *), const void *argument, size_t bytes);

// A graph is the recorded work of a stream, in order.
struct graph { int n; struct { void (*run)(const void *); void *argument; } *nodes; };

// note writes a line to the log of calls.
void note(const char *format, ...);

// current_device returns the number of the GPU whose context is current on this thread.
int current_device(void);

// adopt makes a range of memory available to copies, and forget ends that. adopted reports whether an
// adopted range begins at an address.
void adopt(void *at, size_t bytes);
void forget(uint64_t p);
int adopted(uint64_t p);

// multicast_memory returns the memory of a device that a multicast address refers to, or NULL if there
// is none.
char *multicast_memory(uint64_t p, int device);

// product executes the kernels for matrix products, and reports whether it was one.
int product(const char *name, const void *argument);

// cache executes the kernels that time the cache, and reports whether it was one. Their results are
// never read.
int cache(const char *name, unsigned blocks, unsigned threads, const void *argument, struct stream *stream);

// planted returns a speed of $FAKE_CUDA_SPEEDS in bytes per nanosecond, or 0 if none is planted.
enum speed { COPY, CACHE_READ, CACHE_SHARED, CACHE_COPY };
double planted(enum speed which);

// copied executes the copy kernels, and reports whether it was one. copy_within is the driver's copy.
// Both require that the stream's earlier work is done.
int copied(const char *name, const void *argument, struct stream *stream);
void copy_within(uint64_t to, uint64_t from, uint64_t bytes, struct stream *stream);

// solve_step executes the kernels of solves, and reports whether it was one. It exists if a test has
// compiled their source.
int solve_step(const char *name, unsigned grid, const void *argument) __attribute__((weak));

// fused executes the kernels that sum products, and reports whether it was one.
int fused(const char *name, const void *argument);

// multiply_bf16 computes C, m rows with distance ldc, from A, m rows of k elements, and B, n rows of k
// elements.
void multiply_bf16(size_t m, size_t n, size_t k, const void *a, size_t lda, const void *b, size_t ldb, void *c, size_t ldc);

// streamed executes the kernels of the bench `bandwidth`, and reports whether it was one.
int streamed(const char *name, unsigned grid, const void *argument);

// product_fault reports whether a fault is planted in products.
int product_fault(const char *what);
