#include "wide.cuh"

TOGETHER(128, 7)
