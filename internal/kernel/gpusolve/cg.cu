// Conjugate gradients on one rank's rows: the classic method in two kernels an iteration,
// that of Chronopoulos and Gear in one. No scalar leaves the GPU before a solve has ended.
//
// A kernel ends with the rank's parts of its scalar products, which its last block sends to
// every rank; the next begins by waiting for those of all ranks, and adds them up in the
// order of ranks, so that every block of every rank goes on with the same bits. Within a
// rank, blocks have the same rows in every solve and their parts are added up in the order of
// blocks. So a solve that is repeated gives the same bits.
//
// Ghosts are kept by everyone: what a neighbour has is sent once an iteration (r by
// the classic method, w by the other), and what follows from it is computed on both sides.
// It travels with the scalar products, so that an iteration waits no further time for it.
#include "params.cuh"

// ---- between steps

DEVICE Mail *mailbox(const Params *p, u32 owner, u32 step, u32 from) {
	return (Mail *)p->mail[owner] + (step % SLOTS) * MAX_RANKS + from;
}

// wait_for returns once a rank's mail of the step before is there; 0 when it does not come.
DEVICE int wait_for(const Params *p, u32 from) {
	const u32 *at = &mailbox(p, p->rank, p->step - 1, from)->step;
	Control *c = (Control *)p->control;
	if (load_acquire(at) == p->step - 1 || (p->fault & MISSING_WAIT)) return 1;
	u64 began = now_ns();
	for (u32 spins = 1; load_acquire(at) != p->step - 1; spins++) {
		if (spins % 1024 != 0) continue;
		if (*(volatile u32 *)&c->broken) return 0;
		if (now_ns() - began > p->limit_ns) {
			if (claim(&c->broken) == 0) {
				Outcome *o = (Outcome *)p->outcome;
				o->waited_for = from, o->step = p->step, o->seen = load_acquire(at);
				fence_system();
				o->late = 1;
			}
			return 0;
		}
	}
	return 1;
}

// enter gives the state that the step before left, and the sums of that step; 0 when the
// solve is over. Every thread of the block gets the same answer.
DEVICE int enter(const Params *p, State *state, double *sums) {
	SHARED double from[MAX_RANKS][SUMS];
	SHARED u32 broken, lost;
	Control *c = (Control *)p->control;
	*state = c->state[p->step % 2];
	if (LANE == 0) broken = *(volatile u32 *)&c->broken, lost = 0;
	SYNC();
	if (broken) return 0;
	if (state->status != RUNNING) {
		if (BLOCK == 0 && LANE == 0) c->state[(p->step + 1) % 2] = *state;
		return 0;
	}
	for (u32 r = LANE; r < p->size; r += LANES) {
		if (!wait_for(p, r)) lost = 1;
		const volatile Mail *m = mailbox(p, p->rank, p->step - 1, r);
		for (int k = 0; k < SUMS; k++) from[r][k] = m->sums[k];
	}
	SYNC();
	if (lost) return 0;
	for (int k = 0; k < SUMS; k++) {
		sums[k] = from[0][k];
		for (u32 r = 1; r < p->size; r++) sums[k] += from[r][k];
	}
	return 1;
}

// keep leaves the state to the next step, and to the host once the solve is over.
DEVICE void keep(const Params *p, const State *state) {
	if (BLOCK != 0 || LANE != 0) return;
	((Control *)p->control)->state[(p->step + 1) % 2] = *state;
	if (state->status == RUNNING) return;
	Outcome *o = (Outcome *)p->outcome;
	o->state = *state;
	fence_system();
}

// leave sends the sums of all blocks to all ranks.
DEVICE void leave(const Params *p, const double *sums, int count) {
	SHARED u32 last;
	Control *c = (Control *)p->control;
	double *partials = (double *)p->partials;
	for (int k = 0; k < count; k++) {
		double all = block_sum(sums[k]);
		if (LANE == 0) partials[k * p->blocks + BLOCK] = all;
	}
	// Each thread's rows, here and at other ranks, are there before the block's ticket.
	if (p->size == 1) fence();
	else fence_system();
	SYNC();
	if (LANE == 0) last = next_ticket(&c->ticket) == p->blocks - 1;
	SYNC();
	if (!last) return;
	if (p->size == 1) fence();
	else fence_system();
	double total[SUMS];
	for (int k = 0; k < SUMS; k++) total[k] = 0;
	for (int k = 0; k < count; k++) {
		double mine = 0;
		for (u32 b = LANE; b < p->blocks; b += LANES)
			if (!((p->fault & WRONG_DOT) && count == 1 && b == 0)) mine += ((volatile double *)partials)[k * p->blocks + b];
		total[k] = block_sum(mine);
	}
	for (u32 r = LANE; r < p->size; r += LANES) {
		Mail *m = mailbox(p, r, p->step, p->rank);
		for (int k = 0; k < SUMS; k++) m->sums[k] = total[k];
		store_release(&m->step, p->step);
	}
	if (LANE == 0) c->ticket = 0;
}

// begun and iterated note the residual, as package krylov does, and tell whether
// the solve is over.
DEVICE int noted(const Params *p, State *s, double squared) {
	double residual = sqrt(squared);
	s->residual = s->norm > 0 ? residual / s->norm : 0;
	if (BLOCK == 0 && LANE == 0) ((double *)p->history)[s->iterations] = s->residual;
	if (residual <= p->tolerance * s->norm) s->status = CONVERGED;
	else if (s->iterations >= p->most) s->status = TOO_MANY;
	return s->status != RUNNING;
}
DEVICE int begun(const Params *p, State *s, double squared) {
	s->begun = 1;
	s->norm = sqrt(squared);
	return noted(p, s, squared);
}
DEVICE int iterated(const Params *p, State *s, double squared) {
	s->iterations++;
	return noted(p, s, squared);
}
DEVICE void break_down(State *s, u32 reason) { s->status = BREAKDOWN, s->reason = reason; }
DEVICE int spoilt(State *s, const double *sums, int count) {
	for (int k = 0; k < count; k++)
		if (!is_number(sums[k])) break_down(s, NOT_FINITE);
	return s->status != RUNNING;
}

// send gives a value to those for whom its row is a ghost.
DEVICE void send(const Params *p, const u64 *to, u64 row, double v) {
	if (row >= p->edge_lo && row < p->edge_hi) return;
	if (p->fault & DROPPED_HALO) return;
	for (u32 r = 0; r < p->size; r++)
		if (row >= p->send_lo[r] && row < p->send_hi[r]) ((double *)to[r])[row] = v;
}

// ---- rows

// The forms of a matrix: rows plain, with starts of 32 or 64 bits, or a stencil of so many
// points, of which only the sides of the grid are stored.
enum { STARTS32 = -1, STARTS64 = -2 };

// Vector is what a product multiplies by: it is computed where it is needed, because
// what others have just computed is not there yet.
typedef struct {
	const double *r, *p, *s, *w, *diagonal;
	double factor, alpha, beta;
	int single;
} Vector;

DEVICE double preconditioned(const Vector *v, u64 j, double r) { return r * (v->diagonal ? v->diagonal[j] : v->factor); }

// descended is r of the next iteration of the single-reduction method, and its s.
DEVICE double descended(const Vector *v, u64 j, double *s) {
	*s = v->w[j] + v->beta * v->s[j];
	return v->r[j] - v->alpha * *s;
}
DEVICE double value(const Vector *v, u64 j) {
	if (!v->single) return v->beta * v->p[j] + preconditioned(v, j, v->r[j]);
	double s, r = descended(v, j, &s);
	return preconditioned(v, j, r);
}

DEVICE u64 start(const Params *p, const int form, u64 row) {
	return form == STARTS64 ? ((const u64 *)p->starts)[row] : ((const u32 *)p->starts)[row];
}

// multiply_tile makes the products of the entries of some rows, all threads together. Each has
// some loads under way at once: first of its entries, then of what these are multiplied by.
DEVICE void multiply_tile(const Params *p, const int form, const Vector *v, u64 row, u64 rows) {
	enum { BATCH = 5 };
	u64 lo = start(p, form, row), hi = start(p, form, row + rows);
	const u32 *cols = (const u32 *)p->cols;
	const double *vals = (const double *)p->vals;
	for (u64 at = lo + LANE; at < hi; at += BATCH * LANES) {
		u32 col[BATCH];
		double val[BATCH];
		UNROLL
		for (int k = 0; k < BATCH; k++) {
			u64 e = at + k * LANES < hi ? at + k * LANES : at;
			col[k] = once_u32(cols + e);
			val[k] = once(vals + e);
		}
		UNROLL
		for (int k = 0; k < BATCH; k++) val[k] *= value(v, col[k]);
		UNROLL
		for (int k = 0; k < BATCH; k++)
			if (at + k * LANES < hi) products[at + k * LANES - lo] = val[k];
	}
	SYNC();
}

// row_product is one row times the vector, entries in the order of columns.
DEVICE double row_product(const Params *p, const int form, const Vector *v, u64 tile, u64 row) {
	double sum = 0;
	if (form < 0) {
		u64 base = start(p, form, tile);
		u32 lo = (u32)(start(p, form, row) - base), hi = (u32)(start(p, form, row + 1) - base);
		for (u32 e = lo; e < hi; e++) sum += products[e];
		return sum;
	}
	// Beyond a side of the grid lies another row, or room that the vectors have there: it is
	// loaded too, so that no load waits for the code, and left out.
	u32 code = ((const u8 *)p->codes)[row];
	UNROLL
	for (int k = 0; k < form; k++) {
		double more = sum + p->coef[k] * value(v, p->below + row + p->reach[k]);
		sum = code & p->sides[k] ? sum : more;
	}
	return sum;
}

// ---- steps

// begin makes r = b, everything else 0, and the squared norm of b and r.z. Ghosts of b
// are known to everyone.
DEVICE double noise(u64 seed, u64 i) {
	u64 h = seed + i * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	h ^= h >> 31;
	return 2 * ((double)(h >> 11) / 9007199254740992.0) - 1;
}
DEVICE Vector vector_of(const Params *p, const int form) {
	Vector v;
	u32 old = p->turn;
	v.r = (const double *)p->r[old], v.p = (const double *)p->p[old], v.s = (const double *)p->s[old], v.w = (const double *)p->w[old];
	v.diagonal = form < 0 ? (const double *)p->diagonal : 0, v.factor = p->factor, v.alpha = 0, v.beta = 0, v.single = 0;
	return v;
}

KERNEL(cg_begin) {
	Vector v = vector_of(&p, STARTS32);
	u32 old = p.turn;
	double *x = (double *)p.x, *r = (double *)p.r[old], *q = (double *)p.p[old], *s = (double *)p.s[old], *w = (double *)p.w[old];
	double sums[SUMS] = {0, 0, 0};
	u64 all = p.below + p.rows + p.above;
	for (u64 j = (u64)BLOCK * LANES + LANE; j < all; j += (u64)p.blocks * LANES) {
		u64 row = j - p.below; // wraps round below
		double b = p.rhs == ONES ? 1 : noise(p.seed, p.first + row);
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
		State none = {0, 0, 0, 0, 0, 0, 0, 0, 0};
		((Control *)p.control)->state[(p.step + 1) % 2] = none;
	}
	leave(&p, sums, 2);
}

// direct_decide is what the classic method does with r.r and r.z: it fills in beta.
DEVICE void direct_decide(const Params *p, State *s, const double *sums, double *beta) {
	*beta = 0;
	if (spoilt(s, sums, 2)) {
		s->alpha = 0;
		return;
	}
	if (!s->begun) {
		begun(p, s, sums[0]);
	} else {
		int over = iterated(p, s, sums[0]);
		if (!over && sums[1] <= 0) break_down(s, BAD_PRECONDITIONER);
		*beta = sums[1] / s->rz;
	}
	s->rz = sums[1];
}

// direct takes the step of x that the iteration before has found, makes the new direction,
// multiplies by it, and adds up p.q.
DEVICE void direct(const Params *p, const int form) {
	State s;
	double sums[SUMS], beta;
	if (!enter(p, &s, sums)) return;
	direct_decide(p, &s, sums, &beta);
	double step = (p->fault & STALE_SCALAR) ? s.before : s.alpha;
	keep(p, &s);
	Vector v = vector_of(p, form);
	v.beta = beta;
	double *x = (double *)p->x, *q = (double *)p->q, *made = (double *)p->p[p->turn ^ 1];
	double dot[SUMS] = {0, 0, 0};
	int over = s.status != RUNNING;
	for (u64 tile = (u64)BLOCK * ROWS; tile < p->rows; tile += (u64)p->blocks * ROWS) {
		u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
		if (form < 0 && !over) multiply_tile(p, form, &v, tile, rows);
		for (u64 i = LANE; i < rows; i += LANES) {
			u64 row = tile + i, j = p->below + row;
			double before = once(x + row), along = v.p[j]; // all loads come before the first store
			if (!over) {
				double d = value(&v, j), product = row_product(p, form, &v, tile, row);
				made[j] = d;
				q[row] = product;
				dot[0] += d * product;
			}
			put(x + row, before + step * along);
		}
		if (form < 0 && !over) SYNC();
	}
	if (over) return;
	u64 ghosts = p->below + p->above;
	for (u64 i = (u64)BLOCK * LANES + LANE; i < ghosts; i += (u64)p->blocks * LANES) {
		u64 j = i < p->below ? i : i + p->rows;
		made[j] = value(&v, j);
	}
	leave(p, dot, 1);
}

// cg_descend goes along the direction, and sends the residual to those who have it as a ghost.
KERNEL(cg_descend) {
	State s;
	double sums[SUMS];
	if (!enter(&p, &s, sums)) return;
	if (!spoilt(&s, sums, 1) && sums[0] <= 0) break_down(&s, NOT_DEFINITE);
	s.before = s.alpha;
	if (s.status == RUNNING) s.alpha = s.rz / sums[0];
	keep(&p, &s);
	if (s.status != RUNNING) return;
	Vector v = vector_of(&p, STARTS32);
	double *r = (double *)p.r[0];
	const double *q = (const double *)p.q;
	double dot[SUMS] = {0, 0, 0};
	for (u64 row = (u64)BLOCK * LANES + LANE; row < p.rows; row += (u64)p.blocks * LANES) {
		u64 j = p.below + row;
		double now = r[j] - s.alpha * q[row];
		r[j] = now;
		send(&p, p.ghosts, row, now);
		dot[0] += now * now;
		dot[1] += now * preconditioned(&v, j, now);
	}
	leave(&p, dot, 2);
}

// single_decide is what the method of Chronopoulos and Gear does with r.r, w.u and r.u. Before
// its first step it has multiplied, and gone nowhere.
DEVICE void single_decide(const Params *p, State *s, const double *sums, double *beta) {
	*beta = 0;
	s->before = s->alpha;
	if (s->begun == 0) { // there is no w yet
		s->begun = 1;
		s->alpha = 0;
		return;
	}
	if (spoilt(s, sums, 3)) return;
	double gamma = sums[2], delta = sums[1];
	if (s->begun == 1) {
		if (begun(p, s, sums[0])) return;
		s->begun = 2;
	} else {
		if (iterated(p, s, sums[0])) return;
		*beta = gamma / s->rz;
		delta -= *beta * gamma / s->alpha;
	}
	if (gamma <= 0 || delta <= 0) {
		break_down(s, NOT_DEFINITE);
		return;
	}
	s->rz = gamma;
	s->alpha = gamma / delta;
}

// single is a whole iteration.
DEVICE void single(const Params *p, const int form) {
	State s;
	double sums[SUMS], beta;
	if (!enter(p, &s, sums)) return;
	single_decide(p, &s, sums, &beta);
	keep(p, &s);
	if (s.status != RUNNING) return;
	Vector v = vector_of(p, form);
	v.single = 1, v.alpha = s.alpha, v.beta = beta;
	double step = (p->fault & STALE_SCALAR) ? s.before : s.alpha;
	u32 made = p->turn ^ 1;
	double *x = (double *)p->x, *direction = (double *)p->p[0];
	double *r = (double *)p->r[made], *t = (double *)p->s[made], *w = (double *)p->w[made];
	double dot[SUMS] = {0, 0, 0};
	for (u64 tile = (u64)BLOCK * ROWS; tile < p->rows; tile += (u64)p->blocks * ROWS) {
		u64 rows = p->rows - tile < ROWS ? p->rows - tile : ROWS;
		if (form < 0) multiply_tile(p, form, &v, tile, rows);
		for (u64 i = LANE; i < rows; i += LANES) {
			u64 row = tile + i, j = p->below + row;
			double before = once(x + row); // all loads come before the first store
			double d = beta * once(direction + row) + preconditioned(&v, j, v.r[j]);
			double next, now = descended(&v, j, &next), u = preconditioned(&v, j, now);
			double product = row_product(p, form, &v, tile, row);
			put(direction + row, d);
			put(x + row, before + step * d);
			r[j] = now;
			t[j] = next;
			w[j] = product;
			send(p, made ? p->ghosts2 : p->ghosts, row, product);
			dot[0] += now * now;
			dot[1] += product * u;
			dot[2] += now * u;
		}
		if (form < 0) SYNC();
	}
	u64 ghosts = p->below + p->above;
	for (u64 i = (u64)BLOCK * LANES + LANE; i < ghosts; i += (u64)p->blocks * LANES) {
		u64 j = i < p->below ? i : i + p->rows;
		double next;
		r[j] = descended(&v, j, &next);
		t[j] = next;
	}
	leave(p, dot, 3);
}

#define STEPS(name) \
	KERNEL(cg_##name##_plain32) { name(&p, STARTS32); } \
	KERNEL(cg_##name##_plain64) { name(&p, STARTS64); } \
	KERNEL(cg_##name##_stencil5) { name(&p, 5); } \
	KERNEL(cg_##name##_stencil7) { name(&p, 7); } \
	KERNEL(cg_##name##_stencil9) { name(&p, 9); } \
	KERNEL(cg_##name##_stencil27) { name(&p, 27); }
STEPS(direct)
STEPS(single)

// ---- making the matrix

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

// entries_before is how many entries the rows before one have: for each point of
// the stencil, the rows that have it are those of a box of the grid.
DEVICE u64 entries_before(const Params *p, u64 row) {
	u64 at[3], n = 0;
	for (int axis = 0; axis < 3; axis++) at[axis] = row % p->grid[axis], row /= p->grid[axis];
	at[2] += row * p->grid[2]; // behind the last row
	for (u32 k = 0; k < p->points; k++) {
		u64 before = 0, whole = 1; // rows of the box before, and in one line or plane of it
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

KERNEL(cg_make_stencil) {
	for (u64 row = (u64)BLOCK * LANES + LANE; row < p.rows; row += (u64)p.blocks * LANES)
		((u8 *)p.codes)[row] = (u8)sides_of(&p, p.first + row);
}

DEVICE void make_plain(const Params *p, const int form) {
	u64 base = entries_before(p, p->first), all = p->below + p->rows + p->above;
	if (p->diagonal)
		for (u64 j = (u64)BLOCK * LANES + LANE; j < all; j += (u64)p->blocks * LANES) ((double *)p->diagonal)[j] = p->factor;
	for (u64 row = (u64)BLOCK * LANES + LANE; row <= p->rows; row += (u64)p->blocks * LANES) {
		u64 e = entries_before(p, p->first + row) - base;
		if (form == STARTS64) ((u64 *)p->starts)[row] = e;
		else ((u32 *)p->starts)[row] = (u32)e;
		if (row == p->rows) break;
		u32 sides = sides_of(p, p->first + row);
		for (u32 k = 0; k < p->points; k++) {
			if (sides & p->sides[k]) continue;
			((u32 *)p->cols)[e] = (u32)(p->below + row + p->reach[k]);
			((double *)p->vals)[e++] = p->coef[k];
		}
	}
}
KERNEL(cg_make_plain32) { make_plain(&p, STARTS32); }
KERNEL(cg_make_plain64) { make_plain(&p, STARTS64); }

// cg_triad is x = r + 3 q on vectors without ghosts: what the memory gives.
KERNEL(cg_triad) {
	double *x = (double *)p.x;
	const double *a = (const double *)p.r[0], *b = (const double *)p.q;
	for (u64 i = (u64)BLOCK * LANES + LANE; i < p.rows; i += (u64)p.blocks * LANES) put(x + i, once(a + i) + 3 * once(b + i));
}
