// The entries of a problem's matrix, from the numbers of rows alone.
#pragma once
#include "rows.cuh"

// sides_of is at which sides of the grid a point lies, one bit each.
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

// coefficient is that of a point by its number in the whole grid.
DEVICE double coefficient(const Params *p, u64 point) {
	double u = unit(p->coef_seed, point);
	return 1 + 999 * u * u * u * u;
}

// entry is that of a row in the k-th column of the stencil.
DEVICE double entry(const Params *p, u64 row, u32 sides, u32 k) {
	if (!p->variable) return p->coef[k];
	double own = coefficient(p, row), diagonal = 0;
	if (k != p->points / 2) return -flux(own, coefficient(p, row + p->reach[k]));
	for (u32 q = 0; q < p->points; q++)
		if (q != k) diagonal += sides & p->sides[q] ? own : flux(own, coefficient(p, row + p->reach[q]));
	return diagonal;
}
