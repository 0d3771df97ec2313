#include "fp8.cuh"

FP8(160, 6)
