#include "turns.cuh"

TURNS(176, 5)
