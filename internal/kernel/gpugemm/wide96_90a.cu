#include "wide.cuh"

TOGETHER(96, 8)
