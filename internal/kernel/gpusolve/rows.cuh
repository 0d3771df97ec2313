// Matrix formats, and the product of a row with a vector.
#pragma once
#include "steps.cuh"

// The form of a matrix is one number: STARTS32 or STARTS64 for CSR with 32- or 64-bit row starts, and
// TILED32 or TILED64 if its rows are long, so that all threads of a block multiply entries together; the
// number of points for a stencil with constant entries, of which only each row's sides of the grid are
// stored; VARIABLE + points if the points' coefficients are stored too; DIAGONALS + n for n stored
// diagonals, with zeros where a row has no entry; TABLE + n for the same in a table by sides.
enum { STARTS32 = -1, STARTS64 = -2, TILED32 = -3, TILED64 = -4, VARIABLE = 64, DIAGONALS = 128, TABLE = 192 };

DEVICE int tiled(const int form) { return form == TILED32 || form == TILED64; }

// Kinds of vectors in a product: cg's new direction, cg-single's preconditioned next residual, a
// preconditioned vector, and a vector as it is.
enum { DIRECTION, DESCENDED, SCALED, BARE };

// Vector is the vector of a product. The first two kinds are not stored yet when they are needed;
// their values are computed on the fly.
typedef struct {
	const double *r, *p, *s, *w, *diagonal;
	double factor, alpha, beta;
	int kind;
} Vector;

DEVICE Vector vector_of(const Params *p, const int form) {
	Vector v;
	u32 old = p->turn;
	v.r = (const double *)p->r[old], v.p = (const double *)p->p[old], v.s = (const double *)p->s[old], v.w = (const double *)p->w[old];
	v.diagonal = form < 0 || form > VARIABLE ? (const double *)p->diagonal : 0, v.factor = p->factor, v.alpha = 0, v.beta = 0, v.kind = DIRECTION;
	return v;
}

DEVICE double preconditioned(const Vector *v, u64 j, double r) { return r * (v->diagonal ? v->diagonal[j] : v->factor); }

// descended returns cg-single's r of the next iteration, and sets its s.
DEVICE double descended(const Vector *v, u64 j, double *s) {
	*s = v->w[j] + v->beta * v->s[j];
	return v->r[j] - v->alpha * *s;
}
DEVICE double value(const Vector *v, u64 j) {
	if (v->kind == BARE) return v->r[j];
	if (v->kind == SCALED) return preconditioned(v, j, v->r[j]);
	if (v->kind == DIRECTION) return v->beta * v->p[j] + preconditioned(v, j, v->r[j]);
	double s, r = descended(v, j, &s);
	return preconditioned(v, j, r);
}

DEVICE u64 start(const Params *p, const int form, u64 row) {
	return form == STARTS64 || form == TILED64 ? ((const u64 *)p->starts)[row] : ((const u32 *)p->starts)[row];
}

// BATCH is the number of entries that a thread loads at a time: first the entries, then the vector's elements.
enum { BATCH = 5 };

// stored_product multiplies a row of stored entries by the vector. Every thread reads its own row. A warp's loads are not
// adjacent then, but the L1 cache holds short rows until all their entries were used, and no thread waits for
// another. With 27 entries per row it does not, and tiles are faster.
DEVICE double stored_product(const Params *p, const int form, const Vector *v, u64 row) {
	const u32 *cols = (const u32 *)p->cols;
	const double *vals = (const double *)p->vals;
	double sum = 0;
	u64 end = start(p, form, row + 1);
	for (u64 at = start(p, form, row); at < end; at += BATCH) {
		u32 col[BATCH];
		double val[BATCH];
		UNROLL
		for (int k = 0; k < BATCH; k++) {
			u64 e = at + k < end ? at + k : at;
			col[k] = cols[e], val[k] = vals[e];
		}
		UNROLL
		for (int k = 0; k < BATCH; k++) val[k] *= value(v, col[k]);
		UNROLL
		for (int k = 0; k < BATCH; k++)
			if (at + k < end) sum += val[k];
	}
	return sum;
}

// multiply_tile multiplies the entries of some rows by the vector, all threads together, into shared
// memory.
DEVICE void multiply_tile(const Params *p, const int form, const Vector *v, u64 row, u64 rows) {
	u64 lo = start(p, form, row), hi = start(p, form, row + rows);
	const u32 *cols = (const u32 *)p->cols;
	const double *vals = (const double *)p->vals;
	for (u64 at = lo + LANE; at < hi; at += BATCH * LANES) {
		u32 col[BATCH];
		double val[BATCH];
		UNROLL
		for (int k = 0; k < BATCH; k++) {
			u64 e = at + k * LANES < hi ? at + k * LANES : at;
			col[k] = load_streaming_u32(cols + e);
			val[k] = load_streaming(vals + e);
		}
		UNROLL
		for (int k = 0; k < BATCH; k++) val[k] *= value(v, col[k]);
		UNROLL
		for (int k = 0; k < BATCH; k++)
			if (at + k * LANES < hi) products[at + k * LANES - lo] = val[k];
	}
	SYNC();
}

// flux returns the harmonic mean of two coefficients.
DEVICE double flux(double own, double other) { return 2 * own * other / (own + other); }

// variable_product multiplies a row by the vector; its entries are computed from coefficients.
DEVICE double variable_product(const Params *p, const int points, const Vector *v, u64 row) {
	const double *coefficients = (const double *)p->vals + p->below + row;
	u32 code = ((const u8 *)p->codes)[row];
	double sum = 0, diagonal = 0, own = coefficients[0], entry[7];
	UNROLL
	for (int k = 0; k < points; k++) {
		double mean = flux(own, coefficients[p->reach[k]]);
		if (k == points / 2) continue;
		entry[k] = code & p->sides[k] ? own : mean;
		diagonal += entry[k];
	}
	UNROLL
	for (int k = 0; k < points; k++) {
		double more = sum + (k == points / 2 ? diagonal : -entry[k]) * value(v, p->below + row + p->reach[k]);
		sum = code & p->sides[k] ? sum : more;
	}
	return sum;
}

// diagonals_product multiplies a row by the vector; the matrix is stored by diagonals, and the row's
// entries are `apart` values from each other. Values beyond the grid are undefined and are left out.
DEVICE double diagonals_product(const Params *p, const int diagonals, const double *entries, u64 apart, const Vector *v, u64 row) {
	double sum = 0;
	UNROLL
	for (int k = 0; k < diagonals; k++) {
		double entry = entries[k * apart], more = sum + entry * value(v, p->below + row + p->reach[k]);
		sum = entry == 0 ? sum : more;
	}
	return sum;
}

// row_product multiplies a row by the vector, adding in the order of columns.
DEVICE double row_product(const Params *p, const int form, const Vector *v, u64 tile, u64 row) {
	double sum = 0;
	if (form == STARTS32 || form == STARTS64) return stored_product(p, form, v, row);
	if (tiled(form)) {
		u64 base = start(p, form, tile);
		u32 lo = (u32)(start(p, form, row) - base), hi = (u32)(start(p, form, row + 1) - base);
		for (u32 e = lo; e < hi; e++) sum += products[e];
		return sum;
	}
	const double *vals = (const double *)p->vals;
	if (form > TABLE) return diagonals_product(p, form - TABLE, vals + ((const u8 *)p->codes)[row] * MAX_POINTS, 1, v, row);
	if (form > DIAGONALS) return diagonals_product(p, form - DIAGONALS, vals + p->below + row, p->stride, v, row);
	if (form > VARIABLE) return variable_product(p, form - VARIABLE, v, row);
	// Beyond a side of the grid lies another row, or padding. It is loaded too, so that no load
	// depends on the row's code, and then left out.
	u32 code = ((const u8 *)p->codes)[row];
	UNROLL
	for (int k = 0; k < form; k++) {
		double more = sum + p->coef[k] * value(v, p->below + row + p->reach[k]);
		sum = code & p->sides[k] ? sum : more;
	}
	return sum;
}

// FORMS instantiates the kernels of a step, one for each form. Long rows need more registers.
#define FORMS(name, step) \
	KERNEL(name##_plain32) { step(&p, STARTS32); } \
	KERNEL(name##_plain64) { step(&p, STARTS64); } \
	KERNEL_OF(3, name##_tiled32) { step(&p, TILED32); } \
	KERNEL_OF(3, name##_tiled64) { step(&p, TILED64); } \
	KERNEL(name##_stencil5) { step(&p, 5); } \
	KERNEL(name##_stencil7) { step(&p, 7); } \
	KERNEL(name##_stencil9) { step(&p, 9); } \
	KERNEL_OF(3, name##_stencil27) { step(&p, 27); } \
	KERNEL(name##_variable5) { step(&p, VARIABLE + 5); } \
	KERNEL(name##_variable7) { step(&p, VARIABLE + 7); }

// ---- right-hand side

// unit returns a hash of i in [0, 1).
DEVICE double unit(u64 seed, u64 i) {
	u64 h = seed + i * 0x9e3779b97f4a7c15ull + 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	h ^= h >> 31;
	return (double)(h >> 11) / 9007199254740992.0;
}
DEVICE double right_hand_side(const Params *p, u64 row) {
	if (p->rhs == GIVEN) return ((const double *)p->given)[row];
	return p->rhs == ONES ? 1 : 2 * unit(p->seed, p->first + row) - 1;
}
