#include "fp8.cuh"

FP8(192, 5)
