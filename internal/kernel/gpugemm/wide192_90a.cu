#include "wide.cuh"

TOGETHER(192, 5)
