// The all-reduce of a partition with dependent launches: a kernel may start before its
// predecessor has ended. Needs compute_90.
#define DEPENDENT_LAUNCH
#include "parts.cuh"

PARTS(90)
