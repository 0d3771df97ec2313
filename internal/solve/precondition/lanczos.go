package precondition

import "math"

// A few Lanczos steps estimate the largest eigenvalue from below, to within a few per cent. safety makes the estimate
// an upper bound.
const (
	lanczosSteps = 8
	safety       = 1.1
)

// Lanczos estimates the largest eigenvalue of D^-1 A. It handles the scalars, and the caller the vectors. The caller
// starts with noise w and v = 0. In each step it computes v_new = along*w + beyond*v and w = D^-1 A v_new - before*v,
// and passes the scalar products w.v_new and w.w, weighted by D, to Made.
type Lanczos struct {
	bound         float64
	alpha, beta   float64
	alphas, betas []float64
}

// NewLanczos starts with the squared norm of w and an upper bound of the eigenvalue.
func NewLanczos(squared, bound float64) *Lanczos {
	return &Lanczos{bound: bound, beta: math.Sqrt(squared)}
}

// Next returns the factors of the next step. more is false if no step is left.
func (l *Lanczos) Next() (along, beyond, before float64, more bool) {
	if len(l.alphas) == lanczosSteps || !(l.beta > 1e-12) || len(l.alphas) > 0 && l.Largest() >= l.bound {
		return 0, 0, 0, false
	}
	return 1 / l.beta, -l.alpha / l.beta, l.beta, true
}

// Made takes the scalar products w.v and w.w of a step.
func (l *Lanczos) Made(wv, ww float64) {
	l.alpha, l.beta = wv, math.Sqrt(max(0, ww-wv*wv)) // the norm of w without its part along v, accurate enough here
	l.alphas, l.betas = append(l.alphas, l.alpha), append(l.betas, l.beta)
}

// Largest returns an upper estimate of the eigenvalue.
func (l *Lanczos) Largest() float64 {
	if len(l.alphas) == 0 {
		return safety
	}
	return min(safety*tridiagonal(l.alphas, l.betas), l.bound)
}

// tridiagonal returns the largest eigenvalue of a symmetric tridiagonal matrix by bisection. A shift is above all
// eigenvalues if and only if all pivots of the shifted matrix are negative (Sylvester's law of inertia). The search
// starts between the largest diagonal element and the largest row sum (Gershgorin).
func tridiagonal(diagonal, offDiagonal []float64) float64 {
	lo, hi := math.Inf(-1), math.Inf(-1)
	for i, d := range diagonal {
		radius := 0.0
		if i > 0 {
			radius += math.Abs(offDiagonal[i-1])
		}
		if i < len(diagonal)-1 {
			radius += math.Abs(offDiagonal[i])
		}
		lo, hi = max(lo, d), max(hi, d+radius)
	}
	above := func(x float64) bool {
		pivot := 0.0
		for i, d := range diagonal {
			if i > 0 {
				d -= offDiagonal[i-1] * offDiagonal[i-1] / pivot
			}
			if pivot = d - x; pivot >= 0 {
				return false
			}
		}
		return true
	}
	for range 60 {
		if mid := (lo + hi) / 2; above(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}
