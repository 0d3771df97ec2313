// The all-reduce of a partition, each kernel after the end of the one before.
#include "parts.cuh"

PARTS(80)
