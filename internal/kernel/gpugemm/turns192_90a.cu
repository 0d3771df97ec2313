#include "turns.cuh"

TURNS(192, 5)
