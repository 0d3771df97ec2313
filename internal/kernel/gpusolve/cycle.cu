// A V-cycle of geometric multigrid as a preconditioner for cg, and its set-up. A coarser level
// keeps every other grid point along some axes. Each level has a right-hand side b, a solution x and
// a temporary vector t, all with ghosts, and is distributed in strips: a rank's points of a coarser
// grid are among its points of the finer one. The first level is the problem's own matrix A. The
// matrices of the other levels are Galerkin products R A P, stored by diagonals. If all rows of the
// problem have the same entries, they are instead stored in a table indexed by the sides of the grid
// at which a row lies, because rows at the same sides are equal on every level. P interpolates
// linearly and R is its transpose; neither is stored.
//
// The steps of one level, down and up:
//
//	SMOOTH    x = two steps of the Chebyshev iteration from zero; the first gives D^-1 b
//	DEFECT    t = b - A x
//	RESTRICT  b of the next level = R t, and its t = D^-1 b, which SMOOTH uses
//	          then the next level; on the last level SOLVE: x = inverse times b, on every rank
//	CORRECT   x = x + P times x of the next level
//	RELAX     t = D^-1 (b - A x)
//	FINISH    x = x + the same two Chebyshev steps; the first gives t
//
// The cycle is symmetric and positive definite and equals the one in package multigrid. A step sends
// its result to the neighbours' ghosts and reads ghosts of another vector only, so one wait for
// all ranks between two steps suffices.
#include "entries.cuh"

// ---- steps

// HELD is the largest number of rows that a thread has in a tile of level_product. It loads everything for them before the
// first store.
#define HELD (DEPTH * ROWS / LANES)

// last_step adds the last step to x, as cg's product does.
DEVICE void last_step(const Params *p, const State *s) {
	double step = (p->fault & STALE_SCALAR) ? s->before : s->alpha, *x = (double *)p->x;
	const double *along = (const double *)p->p[p->turn] + p->below;
	for (u64 row = (u64)BLOCK * LANES + LANE; row < p->rows; row += (u64)p->blocks * LANES) x[row] += step * along[row];
}

// ends_before_cycle reports whether the residual that cg has just computed ends the solve, which then needs no further
// cycle. squared is the square of its norm.
DEVICE int ends_before_cycle(const Params *p, State *s, double squared) {
	if (p->op != SMOOTH || p->level != 0 || !s->begun || !is_number(squared)) return 0;
	if (sqrt(squared) > p->tolerance * s->norm && s->iterations + 1 < p->most) return 0;
	s->reductions++;
	return next_residual(p, s, squared);
}

// level_product runs the steps that multiply by a level's matrix.
DEVICE void level_product(const Params *p, const int form) {
	State s;
	double sums[SUMS], dot[SUMS] = {0, 0, 0};
	if (!enter(p, &s, sums)) return;
	int over = ends_before_cycle(p, &s, sums[0]);
	store_state(p, &s);
	if (over) {
		last_step(p, &s);
		return;
	}
	const u32 op = p->op;
	double *b = (double *)p->r[0], *x = (double *)p->s[0], *t = (double *)p->w[0];
	const int coarser = form > DIAGONALS;
	const Vector own = vector_of(p, form);
	Vector v = own; // its kind is a compile-time constant, so that loads do not depend on each other
	v.kind = coarser ? BARE : SCALED;
	v.r = op == FINISH || (op == SMOOTH && coarser) ? t : op == SMOOTH ? b : x;
	if (op != SMOOTH) v.diagonal = 0, v.factor = 1;
	const int needs_x = op == FINISH || op == LANCZOS, needs_b = op != SMOOTH && (op != FINISH || p->level == 0);
	const u64 size = tiled(form) ? ROWS : DEPTH * ROWS;
	for (u64 tile = BLOCK * size; tile < p->rows; tile += p->blocks * size) {
		u64 rows = p->rows - tile < size ? p->rows - tile : size;
		double before[HELD], rhs[HELD], scale[HELD], along[HELD], product[HELD];
		if (tiled(form)) multiply_tile(p, form, &v, tile, rows);
		UNROLL
		for (u64 k = 0; k < size / LANES; k++) {
			u64 i = LANE + k * LANES, row = tile + (i < rows ? i : 0), j = p->below + row;
			before[k] = needs_x ? x[j] : 0, rhs[k] = needs_b ? b[j] : 0;
			scale[k] = op == DEFECT ? 1 : preconditioned(&own, j, 1);
			along[k] = value(&v, j), product[k] = row_product(p, form, &v, tile, row);
		}
		UNROLL
		for (u64 k = 0; k < size / LANES; k++) {
			u64 row = tile + LANE + k * LANES, j = p->below + row;
			if (row >= p->rows) break;
			if (op == SMOOTH || op == FINISH) {
				double made = p->along * along[k] + p->beyond * (scale[k] * product[k]);
				if (op == FINISH) made += before[k];
				x[j] = made;
				send(p, x, row, made);
				if (op == FINISH && p->level == 0) dot[0] += rhs[k] * rhs[k], dot[1] += rhs[k] * made;
			} else if (op == LANCZOS) {
				double made = scale[k] * product[k] - p->along * rhs[k];
				t[j] = made;
				dot[0] += made * before[k] / scale[k], dot[1] += made * made / scale[k];
			} else {
				double made = rhs[k] - product[k];
				if (op == RELAX) made *= scale[k];
				t[j] = made;
				send(p, t, row, made);
			}
		}
		if (tiled(form)) SYNC();
	}
	publish_sums(p, dot, op == LANCZOS || (op == FINISH && p->level == 0) ? 2 : 0);
}
FORMS(cycle_product, level_product)
KERNEL(cycle_product_diagonals9) { level_product(&p, DIAGONALS + 9); }
KERNEL(cycle_product_diagonals27) { level_product(&p, DIAGONALS + 27); }
KERNEL(cycle_product_table9) { level_product(&p, TABLE + 9); }
KERNEL(cycle_product_table27) { level_product(&p, TABLE + 27); }

// ---- between levels

// Box is a box of grid points.
typedef struct {
	u32 lo[3], hi[3]; // hi is inclusive
} Box;

DEVICE u64 row_of(const u64 *grid, const u32 *at) { return at[0] + grid[0] * (at[1] + grid[1] * at[2]); }

// point_of computes the coordinates of a row in a grid. Coordinates have 32 bits, because a GPU computes with these twice
// as fast.
DEVICE void point_of(const u64 *grid, u64 row, u32 *at) {
	at[0] = (u32)(row % grid[0]), row /= grid[0];
	at[1] = (u32)(row % grid[1]), at[2] = (u32)(row / grid[1]);
}

// Walk iterates over the rows of a thread and tracks their grid coordinates. After the first row it
// needs no divisions, which are slow.
typedef struct {
	u64 row, by;
	u32 at[3], step[3];
} Walk;

DEVICE Walk walk_from(const Params *p, const u64 *grid) {
	Walk w;
	w.row = (u64)BLOCK * LANES + LANE, w.by = (u64)p->blocks * LANES;
	point_of(grid, p->first + w.row, w.at);
	point_of(grid, w.by, w.step);
	return w;
}
DEVICE void walk_on(Walk *w, const u64 *grid) {
	w->row += w->by;
	for (int axis = 0; axis < 3; axis++) w->at[axis] += w->step[axis];
	if (w->at[0] >= grid[0]) w->at[0] -= grid[0], w->at[1]++;
	if (w->at[1] >= grid[1]) w->at[1] -= grid[1], w->at[2]++;
}

// beneath returns the points of the finer grid that are interpolated from a coarse point, and sets at
// to the coarse point's own coordinates there.
DEVICE Box beneath(const Params *p, const u32 *coarse, u32 *at) {
	Box box;
	for (int axis = 0; axis < 3; axis++) {
		int halved = p->coarse[axis] != p->grid[axis];
		at[axis] = halved ? 2 * coarse[axis] + 1 : coarse[axis];
		box.lo[axis] = at[axis] - halved;
		box.hi[axis] = at[axis] + (halved && at[axis] + 1 < p->grid[axis] && !(p->fault & WRONG_RESTRICTION));
	}
	return box;
}

// between returns the weight, along an axis, of each coarse point next to a point that the coarser grid drops. The last
// point of a line lies between a coarse point and the boundary, which may be nearer.
DEVICE double between(const Params *p, int axis, u32 at) { return at + 1 == p->grid[axis] ? p->edge[axis] : .5; }

// above returns the coarse points from which a fine point is interpolated, all with the same weight.
// Points outside the grid count as zero.
DEVICE Box above(const Params *p, const u32 *at, double *weight) {
	Box box;
	*weight = 1;
	for (int axis = 0; axis < 3; axis++) {
		box.lo[axis] = box.hi[axis] = at[axis];
		if (p->coarse[axis] == p->grid[axis]) continue;
		box.lo[axis] = box.hi[axis] = at[axis] / 2;
		if (at[axis] % 2) continue;
		*weight *= between(p, axis, at[axis]);
		if (at[axis] > 0) box.lo[axis]--;
		if (box.hi[axis] == p->coarse[axis]) box.hi[axis]--;
	}
	return box;
}

// weight_of returns the weight with which a fine point is interpolated from its neighbour a, which is a coarse point.
DEVICE double weight_of(const Params *p, const u32 *a, u32 x, u32 y, u32 z) {
	return (a[0] == x ? 1 : between(p, 0, x)) * (a[1] == y ? 1 : between(p, 1, y)) * (a[2] == z ? 1 : between(p, 2, z));
}

// restricted returns a coarse point's row of R times the finer level's t.
DEVICE double restricted(const Params *p, const u32 *coarse) {
	u32 at[3];
	double sum = 0;
	Box box = beneath(p, coarse, at);
	const double *t = (const double *)p->other + row_of(p->grid, at);
	i64 line = p->grid[0], plane = line * (i64)p->grid[1];
	for (int z = (int)(box.lo[2] - at[2]); z <= (int)(box.hi[2] - at[2]); z++) {
		// All nine points of a plane are loaded at once; the sum leaves out points outside of the box.
		UNROLL
		for (int k = 0; k < 9; k++) {
			int x = k % 3 - 1, y = k / 3 - 1;
			int inside = at[0] + x >= box.lo[0] && at[0] + x <= box.hi[0] && at[1] + y >= box.lo[1] && at[1] + y <= box.hi[1];
			double more = sum + weight_of(p, at, at[0] + x, at[1] + y, at[2] + z) * t[plane * z + (inside ? x + line * y : 0)];
			sum = inside ? more : sum;
		}
	}
	return sum;
}

// interpolated returns a point's row of P times the coarser level's x.
DEVICE double interpolated(const Params *p, const u32 *at) {
	double sum = 0, weight;
	Box box = above(p, at, &weight);
	const double *x = (const double *)p->other + row_of(p->coarse, box.lo);
	for (u32 plane = 0; plane <= box.hi[2] - box.lo[2]; plane++)
		for (u32 line = 0; line <= box.hi[1] - box.lo[1]; line++) {
			const double *from = x + p->coarse[0] * (line + p->coarse[1] * plane);
			sum += from[0];
			if (box.hi[0] > box.lo[0]) sum += from[1];
		}
	return weight * sum;
}

// solve multiplies by the inverse, one block per row. Every rank holds all rows of the last level, as
// its own or as ghosts.
DEVICE void solve(const Params *p, double *dot) {
	const double *b = (const double *)p->r[0], *inverse = (const double *)p->inverse;
	double *x = (double *)p->s[0];
	u64 all = p->below + p->rows + p->above;
	for (u64 i = BLOCK; i < all; i += p->blocks) {
		double mine = 0;
		for (u64 k = LANE; k < all; k += LANES) mine += inverse[i * all + k] * b[k];
		double made = block_sum(mine);
		if (LANE != 0) continue;
		x[i] = made;
		if (p->level == 0 && i - p->below < p->rows) dot[0] += b[i] * b[i], dot[1] += b[i] * made;
	}
}

KERNEL(cycle_transfer) {
	State s;
	double sums[SUMS], dot[SUMS] = {0, 0, 0};
	if (!enter(&p, &s, sums)) return;
	store_state(&p, &s);
	const u32 op = p.op;
	double *b = (double *)p.r[0], *x = (double *)p.s[0], *t = (double *)p.w[0];
	Vector v = vector_of(&p, STARTS32);
	if (op == SOLVE) solve(&p, dot);
	const u64 *grid = op == RESTRICT ? p.coarse : p.grid;
	for (Walk w = walk_from(&p, grid); w.row < p.rows && op != SOLVE; walk_on(&w, grid)) {
		u64 j = p.below + w.row;
		if (op == RESTRICT) {
			double made = restricted(&p, w.at), scaled = preconditioned(&v, j, made);
			b[j] = made, t[j] = scaled;
			send(&p, b, w.row, made);
			send(&p, t, w.row, scaled);
		} else if (op == CORRECT) {
			double made = x[j] + (p.fault & NO_CORRECTION ? 0 : interpolated(&p, w.at));
			x[j] = made;
			send(&p, x, w.row, made);
		} else if (op == BEGIN_LANCZOS) {
			double noise = right_hand_side(&p, w.row);
			t[j] = sqrt(preconditioned(&v, j, 1)) * noise;
			x[j] = 0;
			dot[0] += noise * noise;
		} else {
			double made = p.along * t[j] + p.beyond * x[j];
			b[j] = x[j];
			x[j] = made;
			send(&p, x, w.row, made);
		}
	}
	publish_sums(&p, dot, op == SOLVE && p.level == 0 ? 2 : op == BEGIN_LANCZOS ? 1 : 0);
}

// ---- setting up levels

// sides_at returns the sides of a grid at which a point lies, one bit per side.
DEVICE u32 sides_at(const u64 *grid, const u32 *at) {
	u32 sides = 0;
	for (int axis = 0; axis < 3; axis++) {
		if (at[axis] == 0) sides |= 1u << 2 * axis;
		if (at[axis] == grid[axis] - 1) sides |= 2u << 2 * axis;
	}
	return sides;
}

// any_at finds a grid point that lies at exactly the given sides. It returns 0 if there is none.
DEVICE int any_at(const u64 *grid, u32 sides, u32 *at) {
	for (int axis = 0; axis < 3; axis++) {
		u32 first = sides >> 2 * axis & 1, last = sides >> (2 * axis + 1) & 1;
		at[axis] = first ? 0 : last ? (u32)grid[axis] - 1 : 1;
	}
	return at[0] < grid[0] && at[1] < grid[1] && at[2] < grid[2] && sides_at(grid, at) == sides;
}

// step_of returns the distance of a row's k-th entry from the diagonal along an axis.
DEVICE int step_of(const Params *p, u32 k, int axis) { return (int)(p->sides[k] >> (2 * axis + 1) & 1) - (int)(p->sides[k] >> 2 * axis & 1); }

// entry_of returns the k-th entry of a row at the current level. The entry must lie inside the grid.
DEVICE double entry_of(const Params *p, u64 row, u32 sides, u32 k) {
	if (p->level == 0) return entry(p, row, sides, k);
	return ((const double *)p->other)[p->table ? sides * MAX_POINTS + k : k * p->other_stride + row];
}

// cycle_measure computes the coupling along each axis, the largest ratio of a row's absolute sum to
// its diagonal, and the reciprocals of a stored diagonal. On the first level it is the first step of
// all, so there is no state and nothing to receive from other ranks.
KERNEL(cycle_measure) {
	State s = {0};
	double sums[SUMS] = {0, 0, 0}, largest = 0;
	if (p.level != 0 && !enter(&p, &s, sums)) return;
	store_state(&p, &s);
	double coupled[SUMS] = {0, 0, 0};
	for (Walk w = walk_from(&p, p.grid); w.row < p.rows; walk_on(&w, p.grid)) {
		double sum = 0, diagonal = 0;
		u32 sides = sides_at(p.grid, w.at);
		for (u32 k = 0; k < p.points; k++) {
			if (sides & p.sides[k]) continue;
			double e = entry_of(&p, p.first + w.row, sides, k);
			sum += fabs(e);
			if (k == p.points / 2) diagonal = e;
			for (int axis = 0; axis < 3; axis++)
				if (step_of(&p, k, axis)) coupled[axis] += fabs(e);
		}
		if (sum > largest * fabs(diagonal)) largest = sum / fabs(diagonal);
	}
	raise_to((u64 *)p.bound, largest);
	u64 all = p.level == 0 ? 0 : p.below + p.rows + p.above;
	for (u64 j = (u64)BLOCK * LANES + LANE; j < all; j += (u64)p.blocks * LANES) {
		u64 row = p.first + j - p.below;
		u32 at[3];
		point_of(p.grid, row, at);
		((double *)p.diagonal)[j] = 1 / entry_of(&p, row, sides_at(p.grid, at), p.points / 2);
	}
	publish_sums(&p, coupled, SUMS);
}

// gather adds weight times a fine row of A to a coarse point's row of R A P, given by diagonals.
DEVICE void gather(const Params *p, const u32 *coarse, const u32 *at, double weight, double *sums) {
	u64 row = row_of(p->grid, at);
	u32 sides = sides_at(p->grid, at);
	for (u32 k = 0; k < p->points; k++) {
		if (sides & p->sides[k]) continue;
		u32 next[3];
		double part;
		for (int axis = 0; axis < 3; axis++) next[axis] = at[axis] + step_of(p, k, axis);
		Box box = above(p, next, &part);
		part *= weight * entry_of(p, row, sides, k);
		for (u32 z = box.lo[2]; z <= box.hi[2]; z++)
			for (u32 y = box.lo[1]; y <= box.hi[1]; y++)
				for (u32 x = box.lo[0]; x <= box.hi[0]; x++) {
					u32 away = x - coarse[0] + 1 + 3 * (y - coarse[1] + 1);
					if (p->diagonals == 27) away += 9 * (z - coarse[2] + 1);
					sums[away] += part;
				}
	}
}

// galerkin_row computes a coarse point's row of R A P. It only couples to direct neighbours.
DEVICE void galerkin_row(const Params *p, const u32 *coarse, double *sums) {
	u32 at[3], near[3];
	for (u32 k = 0; k < p->diagonals; k++) sums[k] = 0;
	Box box = beneath(p, coarse, at);
	for (near[2] = box.lo[2]; near[2] <= box.hi[2]; near[2]++)
		for (near[1] = box.lo[1]; near[1] <= box.hi[1]; near[1]++)
			for (near[0] = box.lo[0]; near[0] <= box.hi[0]; near[0]++)
				gather(p, coarse, near, weight_of(p, at, near[0], near[1], near[2]), sums);
}

// cycle_galerkin computes the matrix of the next level: every row, or, for a table, one row for each
// combination of sides, on every rank.
KERNEL(cycle_galerkin) {
	State s;
	double received[SUMS], none[SUMS] = {0, 0, 0}, sums[MAX_POINTS];
	u32 coarse[3];
	if (!enter(&p, &s, received)) return;
	store_state(&p, &s);
	for (Walk w = walk_from(&p, p.coarse); w.row < p.rows; walk_on(&w, p.coarse)) {
		if (p.table) {
			((u8 *)p.codes)[w.row] = (u8)sides_at(p.coarse, w.at);
			continue;
		}
		galerkin_row(&p, w.at, sums);
		for (u32 k = 0; k < p.diagonals; k++) {
			double *diagonal = (double *)p.vals + k * p.stride;
			diagonal[p.below + w.row] = sums[k];
			send(&p, diagonal, w.row, sums[k]);
		}
	}
	for (u32 sides = BLOCK * LANES + LANE; p.table && sides < SIDES; sides += p.blocks * LANES) {
		if (!any_at(p.coarse, sides, coarse)) continue;
		galerkin_row(&p, coarse, sums);
		for (u32 k = 0; k < p.diagonals; k++) ((double *)p.vals)[sides * MAX_POINTS + k] = sums[k];
	}
	publish_sums(&p, none, 0);
}
