// The all-reduce of a partition, whose kernels may be started before the end of the one
// before. Needs compute_90.
#define DEPENDENT_LAUNCH
#include "parts.cuh"

PARTS(90)
