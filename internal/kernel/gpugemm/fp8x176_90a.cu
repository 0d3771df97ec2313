#include "fp8.cuh"

FP8(176, 5)
