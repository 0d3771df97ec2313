#include "fp8.cuh"

FP8(128, 6)
