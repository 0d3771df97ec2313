// The pipelined conjugate gradients of Ghysels and Vanroose: one kernel an iteration, whose
// product needs no scalar. So a block multiplies its first rows before it waits for the
// scalar products of other ranks: all its rows, where a rank has few, which is where waiting costs.
//
// The recurrences drift from the vectors that they stand for. The method makes r and w anew from x now and then, as package
// krylov does, and before it ends, which it does by the true residual. The drift of s and z shrinks with it. What a kernel is
// to do follows from the state, so that the host starts one like the other. A preconditioner is a diagonal: u = M r and
// q = M s are computed where they are needed.
#include "rows.cuh"

// What is to be done next: w = A M r, an iteration (the first, any other, one that is not counted
// because no step was taken), r from x (of a solve that goes on or is to end), w from that.
enum { PRODUCT, FIRST, ITERATE, RESUME, RESIDUAL, END_RESIDUAL, RENEW, END_RENEW };

// What a kernel does: nothing, w = A M r, a step, one after which others need x, no step but that, r = b - A x.
enum { REST, MULTIPLY, STEP, STEP_AND_SHARE, SHARE, FIND_RESIDUAL };

// Recurrences are made anew after so many iterations, or once the residual has fallen that far: what was
// rounded while it was large stays.
enum { REPLACE_EVERY = 200 };
#define REPLACE_BELOW 1e-3

KERNEL(pipelined_begin) {
	double *x = (double *)p.x, *z = (double *)p.q, *r = (double *)p.r[0], *d = (double *)p.p[0], *s = (double *)p.s[0];
	u64 all = p.below + p.rows + p.above;
	double none[SUMS] = {0, 0, 0};
	for (u64 j = (u64)BLOCK * LANES + LANE; j < all; j += (u64)p.blocks * LANES) {
		u64 row = j - p.below; // wraps round below
		r[j] = right_hand_side(&p, row);
		d[j] = 0, s[j] = 0;
		if (row < p.rows) x[row] = 0, z[row] = 0;
	}
	if (BLOCK == 0 && LANE == 0) {
		State fresh = {0};
		((Control *)p.control)->state[(p.step + 1) % 2] = fresh;
	}
	leave(&p, none, 0);
}

// take finds the factors of a step.
DEVICE u32 take(State *s, const double *sums, double *beta) {
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

// iterate is what follows from r.r, w.u and r.u.
DEVICE u32 iterate(const Params *p, State *s, const double *sums, double *beta) {
	s->reductions++;
	if (spoilt(s, sums, 3)) return REST;
	double residual = sqrt(sums[0]);
	if (residual > s->highest) s->highest = residual;
	if (s->phase == FIRST && begun(p, s, sums[0])) return REST;
	if (s->phase == ITERATE) {
		s->since++;
		if (iterated(p, s, sums[0])) {
			if (s->status != CONVERGED) return REST;
			s->status = RUNNING, s->phase = END_RESIDUAL;
			return SHARE;
		}
	}
	return take(s, sums, beta);
}

// decide says what this kernel does, and notes what the next one has to.
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
	case END_RENEW: // the residual is the true one
		s->reductions++;
		if (spoilt(s, sums, 1) || noted(p, s, sums[0])) return REST;
		// fall through
	case RENEW:
		s->phase = s->phase == RENEW ? ITERATE : RESUME;
		s->since = 0, s->highest = 0, s->products++;
		return MULTIPLY;
	}
	return iterate(p, s, sums, beta);
}

// hold keeps the products of some rows with a vector.
DEVICE void hold(const Params *p, const int form, const Vector *v, u64 tile, double *held) {
	u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
	if (form < 0) multiply_tile(p, form, v, tile, rows);
	for (u64 i = LANE; i < rows; i += LANES) held[i] = row_product(p, form, v, tile, tile + i);
	if (form < 0) SYNC();
}

// inner tells whether rows can be multiplied without ghosts.
DEVICE int inner(const Params *p, u64 tile) {
	return (i64)tile + p->reach[0] >= 0 && (i64)tile + ROWS + p->reach[p->points - 1] <= (i64)p->rows;
}

// Vectors are those of a rank, from its own row 0 on.
typedef struct {
	double *x, *z, *p, *r, *s, *w, *made; // made: w of the next iteration
} Vectors;

// advance is the step of one row, whose product is n.
DEVICE void advance(const Params *p, const Vector *m, const Vectors *a, u64 row, double n, double beta, double alpha, double step, double *dot) {
	double x = once(a->x + row), d = once(a->p + row), r = once(a->r + row), s = once(a->s + row), z = once(a->z + row), w = a->w[row];
	d = beta * d + preconditioned(m, p->below + row, r);
	z = beta * z + n;
	s = beta * s + w;
	r -= alpha * s;
	w -= alpha * z;
	put(a->x + row, x + step * d);
	put(a->p + row, d);
	put(a->z + row, z);
	put(a->s + row, s);
	put(a->r + row, r);
	a->made[row] = w;
	send(p, a->made - p->below, row, w);
	double u = preconditioned(m, p->below + row, r);
	dot[0] += r * r;
	dot[1] += w * u;
	dot[2] += r * u;
}

// pipelined is a whole iteration, or a part of making its vectors anew.
DEVICE void pipelined(const Params *p, const int form) {
	SHARED double held[ROWS];
	State s;
	double sums[SUMS], beta, dot[SUMS] = {0, 0, 0};
	if (!look(p, &s)) return;
	u64 below = p->below, mine = (u64)BLOCK * ROWS;
	Vectors a = {(double *)p->x, (double *)p->q, (double *)p->p[0] + below, (double *)p->r[0] + below, (double *)p->s[0] + below,
		(double *)p->w[s.turn] + below, (double *)p->w[s.turn ^ 1] + below};
	Vector m = vector_of(p, form);
	m.kind = SCALED, m.r = a.w - below;
	int early = s.phase >= FIRST && s.phase <= RESUME && mine < p->rows && inner(p, mine);
	if (early) hold(p, form, &m, mine, held);
	if (!collect(p, sums)) return;
	u32 what = decide(p, &s, sums, &beta);
	keep(p, &s);
	if (what == REST) return;
	double step = (p->fault & STALE_SCALAR) ? s.before : s.alpha;
	if (what == FIND_RESIDUAL) m.kind = BARE, m.r = a.x - below;
	if (what == MULTIPLY) m.r = a.r - below;
	for (u64 tile = mine; tile < p->rows; tile += (u64)p->blocks * ROWS) {
		u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
		if (what != SHARE && !(early && tile == mine)) hold(p, form, &m, tile, held);
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
	leave(p, dot, what == STEP_AND_SHARE || what == SHARE ? 0 : 3);
}
FORMS(pipelined_step, pipelined)
