// The pipelined conjugate gradients of Ghysels and Vanroose, one kernel per iteration. The product
// needs no scalar, so a block multiplies its first rows before it waits for the other ranks' dot
// products. On small problems, where waiting matters most, these are all its rows.
//
// The recurrences drift from the vectors they represent. Like package krylov, the method recomputes r
// and w from x now and then, and before it ends, so that it ends on the true residual; the drift of s
// and z shrinks with it. What a kernel does depends only on the state, so the host launches the same
// kernel every time. Only diagonal preconditioners are supported: u = M r and q = M s are computed
// where they are needed.
#include "rows.cuh"

// Phases, in order: compute w = A M r; an iteration (the first, any other, one that is not counted
// because no step was taken); recompute r from x (in a solve that continues, or before it ends);
// recompute w from that r (likewise).
enum { PRODUCT, FIRST, ITERATE, RESUME, RESIDUAL, END_RESIDUAL, RENEW, END_RENEW };

// Actions of a kernel, in order: nothing; w = A M r; a step; a step that also sends x to the neighbours;
// only send x; r = b - A x.
enum { REST, MULTIPLY, STEP, STEP_AND_SHARE, SHARE, FIND_RESIDUAL };

// The recurrences are recomputed after REPLACE_EVERY iterations, or when the residual has fallen by
// REPLACE_BELOW: rounding errors made while it was large do not shrink with it.
enum { REPLACE_EVERY = 200 };
#define REPLACE_BELOW 1e-3

KERNEL(pipelined_begin) {
	double *x = (double *)p.x, *z = (double *)p.q, *r = (double *)p.r[0], *d = (double *)p.p[0], *s = (double *)p.s[0];
	u64 all = p.below + p.rows + p.above;
	double none[SUMS] = {0, 0, 0};
	for (u64 j = (u64)BLOCK * LANES + LANE; j < all; j += (u64)p.blocks * LANES) {
		u64 row = j - p.below; // wraps around for the ghosts below
		r[j] = right_hand_side(&p, row);
		d[j] = 0, s[j] = 0;
		if (row < p.rows) x[row] = 0, z[row] = 0;
	}
	if (BLOCK == 0 && LANE == 0) {
		State fresh = {0};
		((Control *)p.control)->state[(p.step + 1) % 2] = fresh;
	}
	publish_sums(&p, none, 0);
}

// step_factors computes the factors of a step and returns the kernel's action.
DEVICE u32 step_factors(State *s, const double *sums, double *beta) {
	double gamma = sums[2], curvature = sums[1];
	if (s->alpha != 0) {
		*beta = gamma / s->rz;
		curvature -= *beta * gamma / s->alpha;
	}
	if (gamma <= 0 || curvature <= 0) {
		break_down(s, NOT_DEFINITE);
		return REST;
	}
	s->before = s->alpha, s->rz = gamma, s->alpha = gamma / curvature;
	s->turn ^= 1, s->products++;
	if (s->since >= REPLACE_EVERY || sqrt(sums[0]) < REPLACE_BELOW * s->highest) {
		s->phase = RESIDUAL;
		return STEP_AND_SHARE;
	}
	s->phase = ITERATE;
	return STEP;
}

// iterate is the scalar part of an iteration, from r.r, w.u and r.u.
DEVICE u32 iterate(const Params *p, State *s, const double *sums, double *beta) {
	s->reductions++;
	if (not_finite(s, sums, 3)) return REST;
	double residual = sqrt(sums[0]);
	if (residual > s->highest) s->highest = residual;
	if (s->phase == FIRST && first_residual(p, s, sums[0])) return REST;
	if (s->phase == ITERATE) {
		s->since++;
		if (next_residual(p, s, sums[0])) {
			if (s->status != CONVERGED) return REST;
			s->status = RUNNING, s->phase = END_RESIDUAL;
			return SHARE;
		}
	}
	return step_factors(s, sums, beta);
}

// decide returns this kernel's action and sets the phase of the next kernel.
DEVICE u32 decide(const Params *p, State *s, const double *sums, double *beta) {
	*beta = 0;
	switch (s->phase) {
	case PRODUCT:
		s->phase = FIRST, s->products++;
		return MULTIPLY;
	case RESIDUAL:
	case END_RESIDUAL:
		s->phase += RENEW - RESIDUAL, s->products++;
		return FIND_RESIDUAL;
	case END_RENEW: // the residual is now the true one
		s->reductions++;
		if (not_finite(s, sums, 1) || note_residual(p, s, sums[0])) return REST;
		// fall through
	case RENEW:
		s->phase = s->phase == RENEW ? ITERATE : RESUME;
		s->since = 0, s->highest = 0, s->products++;
		return MULTIPLY;
	}
	return iterate(p, s, sums, beta);
}

// tile_products stores the products of a tile's rows with a vector in held.
DEVICE void tile_products(const Params *p, const int form, const Vector *v, u64 tile, double *held) {
	u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
	if (tiled(form)) multiply_tile(p, form, v, tile, rows);
	for (u64 i = LANE; i < rows; i += LANES) held[i] = row_product(p, form, v, tile, tile + i);
	if (tiled(form)) SYNC();
}

// inner reports whether a tile can be multiplied without ghosts.
DEVICE int inner(const Params *p, u64 tile) {
	return (i64)tile + p->reach[0] >= 0 && (i64)tile + ROWS + p->reach[p->points - 1] <= (i64)p->rows;
}

// Vectors points at a rank's vectors, from its own row 0 on.
typedef struct {
	double *x, *z, *p, *r, *s, *w, *made; // made is w of the next iteration
} Vectors;

// advance does the step of one row; n is the row's product.
DEVICE void advance(const Params *p, const Vector *m, const Vectors *a, u64 row, double n, double beta, double alpha, double step, double *dot) {
	double x = load_streaming(a->x + row), d = load_streaming(a->p + row), r = load_streaming(a->r + row), s = load_streaming(a->s + row), z = load_streaming(a->z + row), w = a->w[row];
	d = beta * d + preconditioned(m, p->below + row, r);
	z = beta * z + n;
	s = beta * s + w;
	r -= alpha * s;
	w -= alpha * z;
	store_streaming(a->x + row, x + step * d);
	store_streaming(a->p + row, d);
	store_streaming(a->z + row, z);
	store_streaming(a->s + row, s);
	store_streaming(a->r + row, r);
	a->made[row] = w;
	send(p, a->made - p->below, row, w);
	double u = preconditioned(m, p->below + row, r);
	dot[0] += r * r;
	dot[1] += w * u;
	dot[2] += r * u;
}

// pipelined is a whole iteration, or one stage of recomputing the vectors.
DEVICE void pipelined(const Params *p, const int form) {
	SHARED double held[ROWS];
	State s;
	double sums[SUMS], beta, dot[SUMS] = {0, 0, 0};
	if (!load_state(p, &s)) return;
	u64 below = p->below, mine = (u64)BLOCK * ROWS;
	Vectors a = {(double *)p->x, (double *)p->q, (double *)p->p[0] + below, (double *)p->r[0] + below, (double *)p->s[0] + below,
		(double *)p->w[s.turn] + below, (double *)p->w[s.turn ^ 1] + below};
	Vector m = vector_of(p, form);
	m.kind = SCALED, m.r = a.w - below;
	int early = s.phase >= FIRST && s.phase <= RESUME && mine < p->rows && inner(p, mine);
	if (early) tile_products(p, form, &m, mine, held);
	if (!collect(p, sums)) return;
	u32 what = decide(p, &s, sums, &beta);
	store_state(p, &s);
	if (what == REST) return;
	double step = (p->fault & STALE_SCALAR) ? s.before : s.alpha;
	if (what == FIND_RESIDUAL) m.kind = BARE, m.r = a.x - below;
	if (what == MULTIPLY) m.r = a.r - below;
	for (u64 tile = mine; tile < p->rows; tile += (u64)p->blocks * ROWS) {
		u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
		if (what != SHARE && !(early && tile == mine)) tile_products(p, form, &m, tile, held);
		for (u64 i = LANE; i < rows; i += LANES) {
			u64 row = tile + i;
			if (what == STEP || what == STEP_AND_SHARE) advance(p, &m, &a, row, held[i], beta, s.alpha, step, dot);
			if (what == STEP_AND_SHARE || what == SHARE) send(p, a.x - below, row, a.x[row]);
			if (what == FIND_RESIDUAL) {
				double r = right_hand_side(p, row) - held[i];
				a.r[row] = r;
				send(p, a.r - below, row, r);
				dot[0] += r * r;
			} else if (what == MULTIPLY) {
				double r = a.r[row], w = held[i], u = preconditioned(&m, below + row, r);
				a.w[row] = w;
				send(p, a.w - below, row, w);
				dot[0] += r * r, dot[1] += w * u, dot[2] += r * u;
			}
		}
	}
	publish_sums(p, dot, what == STEP_AND_SHARE || what == SHARE ? 0 : 3);
}
FORMS(pipelined_step, pipelined)
