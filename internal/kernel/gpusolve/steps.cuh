// The synchronisation between the steps of a solve, within a rank and between ranks.
//
// A kernel ends with the rank's partial dot products, which its last block sends to every rank. The
// next kernel begins by waiting for the partial sums of all ranks and adds them in rank order, so that
// every block of every rank continues with the same bits. Within a rank, blocks have the same rows in
// every solve, and their partial sums are added in block order. A repeated solve therefore gives the
// same bits.
#pragma once
#include "params.cuh"

DEVICE Mail *mailbox(const Params *p, u32 owner, u32 step, u32 from) {
	return (Mail *)p->mail[owner] + (step % SLOTS) * MAX_RANKS + from;
}

// wait_for waits for a rank's mail of the previous step. It returns 0 if the mail does not arrive in time.
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

// load_state loads the state that the previous step stored. It returns 0 if the solve is over, the
// same to every thread of the block.
DEVICE int load_state(const Params *p, State *state) {
	SHARED u32 broken;
	Control *c = (Control *)p->control;
	*state = c->state[p->step % 2];
	if (LANE == 0) broken = *(volatile u32 *)&c->broken;
	SYNC();
	if (broken) return 0;
	if (state->status == RUNNING) return 1;
	if (BLOCK == 0 && LANE == 0) c->state[(p->step + 1) % 2] = *state;
	return 0;
}

// collect waits for all ranks and sums their mail of the previous step. It returns 0 after a timeout.
DEVICE int collect(const Params *p, double *sums) {
	SHARED double from[MAX_RANKS][SUMS];
	SHARED u32 lost;
	if (LANE == 0) lost = 0;
	SYNC();
	for (u32 r = LANE; r < p->size; r += LANES) {
		if (!wait_for(p, r)) lost = 1;
		const volatile Mail *m = mailbox(p, p->rank, p->step - ((p->fault & STALE_SUMS) ? 2 : 1), r);
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

DEVICE int enter(const Params *p, State *state, double *sums) { return load_state(p, state) && collect(p, sums); }

// store_state stores the state for the next step, and for the host once the solve is over.
DEVICE void store_state(const Params *p, State *state) {
	if (BLOCK != 0 || LANE != 0) return;
	if (state->status == RUNNING) state->steps++;
	((Control *)p->control)->state[(p->step + 1) % 2] = *state;
	if (state->status == RUNNING) return;
	Outcome *o = (Outcome *)p->outcome;
	o->state = *state;
	fence_system();
}

// publish_sums adds the sums of all blocks and sends them to all ranks.
DEVICE void publish_sums(const Params *p, const double *sums, int count) {
	SHARED u32 last;
	Control *c = (Control *)p->control;
	double *partials = (double *)p->partials;
	for (int k = 0; k < count; k++) {
		double all = block_sum(sums[k]);
		if (LANE == 0) partials[k * p->blocks + BLOCK] = all;
	}
	// Each thread's stores, here and at other ranks, are visible before the block's ticket.
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

// note_residual, first_residual and next_residual record the residual, as package krylov does, and
// report whether the solve is over.
DEVICE int note_residual(const Params *p, State *s, double squared) {
	double residual = sqrt(squared);
	s->residual = s->norm > 0 ? residual / s->norm : 0;
	if (BLOCK == 0 && LANE == 0) ((double *)p->history)[s->iterations] = s->residual;
	if (residual <= p->tolerance * s->norm) s->status = CONVERGED;
	else if (s->iterations >= p->most) s->status = TOO_MANY;
	return s->status != RUNNING;
}
DEVICE int first_residual(const Params *p, State *s, double squared) {
	s->begun = 1;
	s->norm = sqrt(squared);
	return note_residual(p, s, squared);
}
DEVICE int next_residual(const Params *p, State *s, double squared) {
	s->iterations++;
	return note_residual(p, s, squared);
}
DEVICE void break_down(State *s, u32 reason) { s->status = BREAKDOWN, s->reason = reason; }
DEVICE int not_finite(State *s, const double *sums, int count) {
	for (int k = 0; k < count; k++)
		if (!is_number(sums[k])) break_down(s, NOT_FINITE);
	return s->status != RUNNING;
}

// send stores a value of a vector at the ranks that have its row as a ghost. All ranks allocate their
// vectors in the same order, so a vector has the same distance from r[0] everywhere.
DEVICE void send(const Params *p, const double *vector, u64 row, double v) {
	if (row >= p->edge_lo && row < p->edge_hi) return;
	if (p->fault & DROPPED_HALO) return;
	for (u32 r = 0; r < p->size; r++)
		if (row >= p->send_lo[r] && row < p->send_hi[r]) ((double *)(p->ghosts[r] + ((u64)vector - p->r[0])))[row] = v;
}
