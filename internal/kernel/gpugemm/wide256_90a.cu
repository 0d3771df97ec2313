#include "wide.cuh"

TOGETHER(256, 4)
