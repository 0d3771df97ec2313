// The entries of a problem's matrix, computed from row numbers alone.
#pragma once
#include "rows.cuh"

// sides_of returns the sides of the grid at which a row lies, one bit per side.
DEVICE u32 sides_of(const Params *p, u64 row) {
	u32 sides = 0;
	for (int axis = 0; axis < 3; axis++) {
		u64 at = row % p->grid[axis];
		row /= p->grid[axis];
		if (at == 0) sides |= 1u << 2 * axis;
		if (at == p->grid[axis] - 1) sides |= 2u << 2 * axis;
	}
	return sides;
}

// coefficient returns the coefficient of a point, given its number in the whole grid.
DEVICE double coefficient(const Params *p, u64 point) {
	double u = unit(p->coef_seed, point);
	return 1 + 999 * u * u * u * u;
}

// entry returns the matrix entry of a row at the k-th point of the stencil.
DEVICE double entry(const Params *p, u64 row, u32 sides, u32 k) {
	if (!p->variable) return p->coef[k];
	double own = coefficient(p, row), diagonal = 0;
	if (k != p->points / 2) return -flux(own, coefficient(p, row + p->reach[k]));
	for (u32 q = 0; q < p->points; q++)
		if (q != k) diagonal += sides & p->sides[q] ? own : flux(own, coefficient(p, row + p->reach[q]));
	return diagonal;
}
