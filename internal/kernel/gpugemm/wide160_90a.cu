#include "wide.cuh"

TOGETHER(160, 6)
