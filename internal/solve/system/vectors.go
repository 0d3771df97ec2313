package system

import (
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// number is the type of the vectors of the inner iterations.
type number interface{ float32 | float64 }

// kernels are the operations on vectors of one type. See package sparse.
type kernels[T number] struct {
	axpby   func(dst []T, a T, x []T, b T, y []T)
	times   func(dst, x, y []T)
	dot     func(x, y []T) float64
	product func(m *sparse.Matrix, dst, x []T, lo, hi int)
	bytes   int // of a value
}

var singles = kernels[float32]{sparse.Axpby32, sparse.Times32, sparse.Dot32,
	func(m *sparse.Matrix, dst, x []float32, lo, hi int) { m.Product32(dst[lo:hi], x, lo, hi) }, 4}

var doubles = kernels[float64]{sparse.Axpby, sparse.Times, sparse.Dot,
	func(m *sparse.Matrix, dst, x []float64, lo, hi int) { m.Multiply(dst, x, lo, hi) }, 8}

// vectors are the vectors of conjugate gradients on the rows of one rank. Like the stages of krylov.Engine, its passes
// move each vector through memory once.
type vectors[T number] struct {
	kernels[T]
	matrix     *sparse.Matrix
	pass       krylov.Pass
	enter      func(krylov.Phase)
	x, p, r, q []T // p has ghosts
	inverse    []T // the diagonal of the preconditioner, nil for none
	shifted    []T // a few rows of the preconditioned r
	sent       int // values that other ranks need
}

// stepBytes is the number of bytes of each vector that a pass works on at a time.
const stepBytes = 2048

func newVectors[T number](k kernels[T], m *sparse.Matrix, plan *sparse.Plan, inverse krylov.Diagonal) *vectors[T] {
	n := m.Rows()
	v := &vectors[T]{kernels: k, matrix: m, x: sparse.NewVector[T](n), p: sparse.NewVector[T](m.Columns()),
		r: sparse.NewVector[T](n), q: sparse.NewVector[T](n), enter: func(krylov.Phase) {},
		pass: krylov.Pass{Interior: plan.Interior, Boundary: plan.Boundary, Rows: n, Reach: m.Reach(),
			Step: stepBytes / k.bytes}}
	for i := range plan.Peers {
		v.sent += plan.Peers[i].SendCount()
	}
	if inverse != nil {
		v.inverse, v.shifted = make([]T, n), make([]T, v.pass.Step)
		for i, d := range inverse {
			v.inverse[i] = T(d)
		}
	}
	return v
}

// start makes the scaled residual the vector to work on. first also clears the solution and the direction.
func (v *vectors[T]) start(residual []float64, scale float64, first bool) {
	for i, r := range residual {
		v.r[i] = T(scale * r)
	}
	clear(v.x)
	if first {
		clear(v.p)
	}
}

// preconditioned returns rows of the preconditioned residual.
func (v *vectors[T]) preconditioned(lo, hi int) []T {
	if v.inverse == nil {
		return v.r[lo:hi]
	}
	out := v.shifted[:hi-lo]
	v.times(out, v.inverse[lo:hi], v.r[lo:hi])
	return out
}

// descend moves x along the old direction, makes the new direction, and multiplies it with the matrix: x += alpha*p,
// then p = z + beta*p, then q = A p. It returns this rank's part of (p, q).
func (v *vectors[T]) descend(alpha, beta float64, start, finish func() error) (sum float64, err error) {
	update := func(lo, hi int) {
		v.enter(krylov.Updates)
		p := v.p[lo:hi]
		if alpha != 0 {
			v.axpby(v.x[lo:hi], 1, v.x[lo:hi], T(alpha), p)
		}
		v.axpby(p, 1, v.preconditioned(lo, hi), T(beta), p)
	}
	multiply := func(lo, hi int) {
		v.enter(krylov.SpMV)
		v.product(v.matrix, v.q, v.p, lo, hi)
		v.enter(krylov.Dots)
		sum += v.dot(v.p[lo:hi], v.q[lo:hi])
	}
	return sum, v.pass.Product(update, multiply, start, finish)
}

// reduce shortens the residual, r -= alpha*q, and returns this rank's parts of (r, r) and (r, z).
func (v *vectors[T]) reduce(alpha float64) (rr, rz float64) {
	v.pass.Each(v.everyRow(), func(lo, hi int) {
		v.enter(krylov.Updates)
		r := v.r[lo:hi]
		if alpha != 0 {
			v.axpby(r, 1, r, T(-alpha), v.q[lo:hi])
		}
		v.enter(krylov.Dots)
		rr += v.dot(r, r)
		if v.inverse != nil {
			rz += v.dot(r, v.preconditioned(lo, hi))
		}
	})
	if v.inverse == nil {
		rz = rr
	}
	return rr, rz
}

// addTo adds the solution so far, with the last step along the direction, to x.
func (v *vectors[T]) addTo(x []float64, scale, alpha float64) {
	for i := range x {
		x[i] += scale * (float64(v.x[i]) + alpha*float64(v.p[i]))
	}
}

func (v *vectors[T]) everyRow() sparse.Range { return sparse.Range{Lo: 0, Hi: len(v.x)} }

// memory returns the bytes of the vectors and the matrix.
func (v *vectors[T]) memory() int {
	return v.bytes*(len(v.x)+len(v.p)+len(v.r)+len(v.q)+len(v.inverse)) + v.matrix.Bytes()
}

// work returns the work of an iteration by phase, by the model. It moves nine vectors, the matrix, and the diagonal
// twice. Messages carry doubles, whatever the vectors hold.
func (v *vectors[T]) work() (w [krylov.NumPhases]krylov.Work) {
	rows, diagonal, ghosts := float64(len(v.x)), float64(len(v.inverse)), float64(len(v.p)-len(v.x))
	size := float64(v.bytes)
	w[krylov.SpMV] = krylov.Work{Count: 1, Bytes: float64(v.matrix.Bytes()) + size*ghosts,
		Flops: 2 * float64(v.matrix.Entries())}
	w[krylov.Updates] = krylov.Work{Count: 2, Bytes: size * (9*rows + 2*diagonal), Flops: 6*rows + 2*diagonal}
	w[krylov.Dots] = krylov.Work{Count: 2, Flops: 4*rows + 2*diagonal}
	w[krylov.HaloPack] = krylov.Work{Count: 1, Bytes: 8 * float64(v.sent)}
	w[krylov.HaloWait] = krylov.Work{Count: 1, Bytes: 8 * ghosts}
	return w
}
