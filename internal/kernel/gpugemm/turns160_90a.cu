#include "turns.cuh"

TURNS(160, 6)
