#include "turns.cuh"

TURNS(128, 6)
