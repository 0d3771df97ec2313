package precondition

import "math"

// Some steps find the largest eigenvalue from below, to within some per cent, and safety is on top.
const (
	lanczosSteps = 8
	safety       = 1.1
)

// Lanczos finds the largest eigenvalue of D^-1 A. Its caller keeps the vectors: it begins with noise w, and in
// each step makes v = along w + beyond v, w = D^-1 A v - before v', where v' is the v of the step before and at
// first zero; w.v and w.w are scalar products with D between.
type Lanczos struct {
	bound         float64
	alpha, beta   float64
	alphas, betas []float64
}

// NewLanczos starts with the square of the norm of w, and what the eigenvalue cannot be above.
func NewLanczos(squared, bound float64) *Lanczos {
	return &Lanczos{bound: bound, beta: math.Sqrt(squared)}
}

// Next gives the factors of the next step; false when there is none.
func (l *Lanczos) Next() (along, beyond, before float64, more bool) {
	if len(l.alphas) == lanczosSteps || !(l.beta > 1e-12) || len(l.alphas) > 0 && l.Largest() >= l.bound {
		return 0, 0, 0, false
	}
	return 1 / l.beta, -l.alpha / l.beta, l.beta, true
}

// Made takes w.v and w.w of a step.
func (l *Lanczos) Made(wv, ww float64) {
	l.alpha, l.beta = wv, math.Sqrt(max(0, ww-wv*wv)) // the norm less its part along v, exact enough here
	l.alphas, l.betas = append(l.alphas, l.alpha), append(l.betas, l.beta)
}

// Largest is not below the eigenvalue.
func (l *Lanczos) Largest() float64 {
	if len(l.alphas) == 0 {
		return safety
	}
	return min(safety*tridiagonal(l.alphas, l.betas), l.bound)
}

// tridiagonal is the largest eigenvalue of the symmetric tridiagonal matrix, by bisection: above
// it no pivot is positive.
func tridiagonal(diagonal, beside []float64) float64 {
	lo, hi := math.Inf(-1), math.Inf(-1)
	for i, d := range diagonal {
		radius := 0.0
		if i > 0 {
			radius += math.Abs(beside[i-1])
		}
		if i < len(diagonal)-1 {
			radius += math.Abs(beside[i])
		}
		lo, hi = max(lo, d), max(hi, d+radius)
	}
	above := func(x float64) bool {
		pivot := 0.0
		for i, d := range diagonal {
			if i > 0 {
				d -= beside[i-1] * beside[i-1] / pivot
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
