// What the stand-ins for libcuda and libnccl share.
#pragma once

// A stream does its work at once, except for what libnccl is told to do on it.
struct graph;
struct stream { int pending; struct graph *recording; };

// note writes a line to the log of calls.
void note(const char *format, ...);

// current_device is the number of the GPU whose context is current on this thread.
int current_device(void);

// product does the kernels for matrix products, and tells whether it was one.
int product(const char *name, const void *argument);
