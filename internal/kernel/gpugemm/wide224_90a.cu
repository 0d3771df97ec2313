#include "wide.cuh"

TOGETHER(224, 5)
