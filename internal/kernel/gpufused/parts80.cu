// The all-reduce of a partition; each kernel starts after its predecessor has ended.
#include "parts.cuh"

PARTS(80)
