// What the stand-ins for libcuda and libnccl share.
#pragma once

// A stream does its work at once, except for what libnccl is told to do on it.
struct stream { int pending; };

// note writes a line to the log of calls.
void note(const char *format, ...);

// current_device is the number of the GPU whose context is current on this thread.
int current_device(void);
