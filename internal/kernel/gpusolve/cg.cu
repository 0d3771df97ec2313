// Conjugate gradients on one rank's rows: the classic method (cg) in two kernels per iteration, and
// the single-reduction method of Chronopoulos and Gear (cg-single) in one. No scalar leaves the GPU
// before a solve has ended.
//
// Every rank keeps ghost copies of its neighbours' boundary rows. One vector is sent per iteration (r
// by cg, w by cg-single), and both sides compute the other vectors from it. The halo travels
// together with the dot products, so that an iteration has no extra wait for it.
#include "entries.cuh"

// ---- steps

// cg_begin sets r = b and all other vectors to 0, and computes b.b and r.z. Every rank computes
// the ghosts of b by itself.
KERNEL(cg_begin) {
	Vector v = vector_of(&p, STARTS32);
	u32 old = p.turn;
	double *x = (double *)p.x, *r = (double *)p.r[old], *q = (double *)p.p[old], *s = (double *)p.s[old], *w = (double *)p.w[old];
	double sums[SUMS] = {0, 0, 0};
	u64 all = p.below + p.rows + p.above;
	for (u64 j = (u64)BLOCK * LANES + LANE; j < all; j += (u64)p.blocks * LANES) {
		u64 row = j - p.below; // wraps around for the ghosts below
		double b = right_hand_side(&p, row);
		int own = row < p.rows;
		r[j] = b;
		if (s) s[j] = 0, w[j] = 0;
		if (!s) q[j] = 0;
		else if (own) q[row] = 0;
		if (!own) continue;
		x[row] = 0;
		sums[0] += b * b;
		sums[1] += b * preconditioned(&v, j, b);
	}
	if (BLOCK == 0 && LANE == 0) {
		State none = {0};
		((Control *)p.control)->state[(p.step + 1) % 2] = none;
	}
	publish_sums(&p, sums, 2);
}

// direct_decide is the scalar part of cg: from r.r and r.z it computes beta and the status.
DEVICE void direct_decide(const Params *p, State *s, const double *sums, double *beta) {
	*beta = 0;
	s->reductions++;
	if (not_finite(s, sums, 2)) {
		s->alpha = 0;
		return;
	}
	if (!s->begun) {
		first_residual(p, s, sums[0]);
	} else {
		int over = next_residual(p, s, sums[0]);
		if (!over && sums[1] <= 0) break_down(s, BAD_PRECONDITIONER);
		*beta = sums[1] / s->rz;
	}
	s->rz = sums[1];
	if (s->status == RUNNING) s->products++;
}

// direct is the first kernel of an iteration. It applies the previous iteration's step to x,
// computes the new direction p and q = A p, and sums p.q.
DEVICE void direct(const Params *p, const int form) {
	State s;
	double sums[SUMS], beta;
	if (!enter(p, &s, sums)) return;
	direct_decide(p, &s, sums, &beta);
	double step = (p->fault & STALE_SCALAR) ? s.before : s.alpha;
	store_state(p, &s);
	Vector v = vector_of(p, form);
	v.beta = beta;
	double *x = (double *)p->x, *q = (double *)p->q, *made = (double *)p->p[p->turn ^ 1];
	double dot[SUMS] = {0, 0, 0};
	if (s.status != RUNNING) { // in a loop of its own: otherwise the loop below waits for x before it loads the rest
		for (u64 row = (u64)BLOCK * LANES + LANE; row < p->rows; row += (u64)p->blocks * LANES) x[row] += step * v.p[p->below + row];
		return;
	}
	for (u64 tile = (u64)BLOCK * ROWS; tile < p->rows; tile += (u64)p->blocks * ROWS) {
		u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
		if (tiled(form)) multiply_tile(p, form, &v, tile, rows);
		for (u64 i = LANE; i < rows; i += LANES) {
			u64 row = tile + i, j = p->below + row;
			double before = load_streaming(x + row), along = v.p[j]; // load everything before the first store
			double d = value(&v, j), product = row_product(p, form, &v, tile, row);
			made[j] = d;
			q[row] = product;
			dot[0] += d * product;
			store_streaming(x + row, before + step * along);
		}
		if (tiled(form)) SYNC();
	}
	u64 ghosts = p->below + p->above;
	for (u64 i = (u64)BLOCK * LANES + LANE; i < ghosts; i += (u64)p->blocks * LANES) {
		u64 j = i < p->below ? i : i + p->rows;
		made[j] = value(&v, j);
	}
	publish_sums(p, dot, 1);
}

// cg_descend is the second kernel of an iteration. It updates the residual and sends its boundary
// rows to the neighbours' ghosts.
KERNEL(cg_descend) {
	State s;
	double sums[SUMS];
	if (!enter(&p, &s, sums)) return;
	s.reductions++;
	if (!not_finite(&s, sums, 1) && sums[0] <= 0) break_down(&s, NOT_DEFINITE);
	s.before = s.alpha;
	if (s.status == RUNNING) s.alpha = s.rz / sums[0];
	store_state(&p, &s);
	if (s.status != RUNNING) return;
	Vector v = vector_of(&p, STARTS32);
	double *r = (double *)p.r[0];
	const double *q = (const double *)p.q;
	double dot[SUMS] = {0, 0, 0};
	for (u64 first = (u64)BLOCK * LANES * FLIGHT + LANE; first < p.rows; first += (u64)p.blocks * LANES * FLIGHT) {
		double now[FLIGHT], along[FLIGHT];
		UNROLL
		for (u64 u = 0; u < FLIGHT; u++) {
			u64 row = first + u * LANES < p.rows ? first + u * LANES : first;
			now[u] = r[p.below + row], along[u] = load_streaming(q + row);
		}
		UNROLL
		for (u64 u = 0; u < FLIGHT; u++) {
			u64 row = first + u * LANES, j = p.below + row;
			if (row >= p.rows) break;
			now[u] -= s.alpha * along[u];
			r[j] = now[u];
			send(&p, r, row, now[u]);
			dot[0] += now[u] * now[u];
			dot[1] += now[u] * preconditioned(&v, j, now[u]);
		}
	}
	publish_sums(&p, dot, 2);
}

// single_decide is the scalar part of cg-single: from r.r, w.u and r.u it computes alpha, beta and
// the status. The very first call only computes the product w = A u, without a step.
DEVICE void single_decide(const Params *p, State *s, const double *sums, double *beta) {
	*beta = 0;
	s->before = s->alpha;
	if (s->begun == 0) { // w is not computed yet
		s->begun = 1;
		s->alpha = 0;
		s->products++;
		return;
	}
	s->reductions++;
	if (not_finite(s, sums, 3)) return;
	double gamma = sums[2], delta = sums[1];
	if (s->begun == 1) {
		if (first_residual(p, s, sums[0])) return;
		s->begun = 2;
	} else {
		if (next_residual(p, s, sums[0])) return;
		*beta = gamma / s->rz;
		delta -= *beta * gamma / s->alpha;
	}
	if (gamma <= 0 || delta <= 0) {
		break_down(s, NOT_DEFINITE);
		return;
	}
	s->rz = gamma;
	s->alpha = gamma / delta;
	s->products++;
}

// single is a whole iteration of cg-single.
DEVICE void single(const Params *p, const int form) {
	State s;
	double sums[SUMS], beta;
	if (!enter(p, &s, sums)) return;
	single_decide(p, &s, sums, &beta);
	store_state(p, &s);
	if (s.status != RUNNING) return;
	Vector v = vector_of(p, form);
	v.kind = DESCENDED, v.alpha = s.alpha, v.beta = beta;
	double step = (p->fault & STALE_SCALAR) ? s.before : s.alpha;
	u32 made = p->turn ^ 1;
	double *x = (double *)p->x, *direction = (double *)p->p[0];
	double *r = (double *)p->r[made], *t = (double *)p->s[made], *w = (double *)p->w[made];
	double dot[SUMS] = {0, 0, 0};
	for (u64 tile = (u64)BLOCK * ROWS; tile < p->rows; tile += (u64)p->blocks * ROWS) {
		u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
		if (tiled(form)) multiply_tile(p, form, &v, tile, rows);
		for (u64 i = LANE; i < rows; i += LANES) {
			u64 row = tile + i, j = p->below + row;
			double before = load_streaming(x + row); // load everything before the first store
			double d = beta * load_streaming(direction + row) + preconditioned(&v, j, v.r[j]);
			double next, now = descended(&v, j, &next), u = preconditioned(&v, j, now);
			double product = row_product(p, form, &v, tile, row);
			store_streaming(direction + row, d);
			store_streaming(x + row, before + step * d);
			r[j] = now;
			t[j] = next;
			w[j] = product;
			send(p, w, row, product);
			dot[0] += now * now;
			dot[1] += product * u;
			dot[2] += now * u;
		}
		if (tiled(form)) SYNC();
	}
	u64 ghosts = p->below + p->above;
	for (u64 i = (u64)BLOCK * LANES + LANE; i < ghosts; i += (u64)p->blocks * LANES) {
		u64 j = i < p->below ? i : i + p->rows;
		double next;
		r[j] = descended(&v, j, &next);
		t[j] = next;
	}
	publish_sums(p, dot, 3);
}

FORMS(cg_direct, direct)
FORMS(cg_single, single)

// ---- assembling the matrix

// entries_before returns the number of matrix entries in the rows before row. For each point of the
// stencil, the rows that have an entry there form a box of the grid.
DEVICE u64 entries_before(const Params *p, u64 row) {
	u64 at[3], n = 0;
	for (int axis = 0; axis < 3; axis++) at[axis] = row % p->grid[axis], row /= p->grid[axis];
	at[2] += row * p->grid[2]; // row may be one past the last
	for (u32 k = 0; k < p->points; k++) {
		u64 before = 0, whole = 1; // rows of the box before row; rows in one line or plane of the box
		for (int axis = 0; axis < 3; axis++) {
			u64 lo = p->sides[k] >> 2 * axis & 1, hi = p->grid[axis] - (p->sides[k] >> (2 * axis + 1) & 1);
			int within = at[axis] >= lo && at[axis] < hi;
			u64 passed = at[axis] <= lo ? 0 : (at[axis] < hi ? at[axis] : hi) - lo;
			before = (within ? before : 0) + passed * whole;
			whole *= hi > lo ? hi - lo : 0;
		}
		n += before;
	}
	return n;
}

// make_points computes what is also needed for ghosts: reciprocals of the diagonal, and coefficients.
DEVICE void make_points(const Params *p, int coefficients) {
	u64 all = p->below + p->rows + p->above;
	for (u64 j = (u64)BLOCK * LANES + LANE; j < all; j += (u64)p->blocks * LANES) {
		u64 row = p->first + j - p->below;
		if (p->diagonal) ((double *)p->diagonal)[j] = p->variable ? 1 / entry(p, row, sides_of(p, row), p->points / 2) : p->factor;
		if (coefficients) ((double *)p->vals)[j] = coefficient(p, row);
	}
}

KERNEL(cg_make_stencil) {
	make_points(&p, p.variable);
	for (u64 row = (u64)BLOCK * LANES + LANE; row < p.rows; row += (u64)p.blocks * LANES)
		((u8 *)p.codes)[row] = (u8)sides_of(&p, p.first + row);
}

DEVICE void make_plain(const Params *p, const int form) {
	u64 base = entries_before(p, p->first);
	make_points(p, 0);
	for (u64 row = (u64)BLOCK * LANES + LANE; row <= p->rows; row += (u64)p->blocks * LANES) {
		u64 e = entries_before(p, p->first + row) - base;
		if (form == STARTS64) ((u64 *)p->starts)[row] = e;
		else ((u32 *)p->starts)[row] = (u32)e;
		if (row == p->rows) break;
		u32 sides = sides_of(p, p->first + row);
		for (u32 k = 0; k < p->points; k++) {
			if (sides & p->sides[k]) continue;
			((u32 *)p->cols)[e] = (u32)(p->below + row + p->reach[k]);
			((double *)p->vals)[e++] = entry(p, p->first + row, sides, k);
		}
	}
}
KERNEL(cg_make_plain32) { make_plain(&p, STARTS32); }
KERNEL(cg_make_plain64) { make_plain(&p, STARTS64); }

// cg_triad computes x = r + 3 q on vectors without ghosts, to measure the memory bandwidth.
KERNEL(cg_triad) {
	double *x = (double *)p.x;
	const double *a = (const double *)p.r[0], *b = (const double *)p.q;
	for (u64 first = (u64)BLOCK * LANES * FLIGHT + LANE; first < p.rows; first += (u64)p.blocks * LANES * FLIGHT) {
		double one[FLIGHT], other[FLIGHT];
		UNROLL
		for (u64 u = 0; u < FLIGHT; u++) {
			u64 i = first + u * LANES < p.rows ? first + u * LANES : first;
			one[u] = load_streaming(a + i), other[u] = load_streaming(b + i);
		}
		UNROLL
		for (u64 u = 0; u < FLIGHT; u++)
			if (first + u * LANES < p.rows) store_streaming(x + first + u * LANES, one[u] + 3 * other[u]);
	}
}
