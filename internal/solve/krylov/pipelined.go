package krylov

import "math"

// pipelined is the variant of Ghysels and Vanroose (2014). Further recurrences, w = A M r, z = A q, s = A p
// and q = M s, let the scalar products of an iteration be known before its product is made: they are added up
// over the ranks while the preconditioner and the matrix are applied.
//
// The recurrences drift from the vectors that they stand for, and the more of them there are the more: so these are
// made anew from x and p now and then, and before the solve ends, which it does by the true residual.
type pipelined struct {
	*Core
	r, u, w, p, s, q, z, m, n Vec

	gamma, alpha float64 // of the iteration before; an alpha of 0 is before the first
	since        int     // iterations since the recurrences were last made anew
	highest      float64 // residual since then
	ending       bool    // they are made anew since the residual is small enough, as far as they tell
	resuming     bool    // it was not: no step was taken since
	steps        struct{ iterate, residual, directions, products, dots Step }
	replaces     bool
}

const (
	// replaceEvery is the most iterations between two replacements. A replacement costs four products.
	replaceEvery = 100
	// replaceBelow is how far the residual may fall in between: what was rounded while it was large stays.
	replaceBelow = 1e-3
)

func init() {
	Register(Method{Name: "cg-pipelined", Help: "conjugate gradients after Ghysels and Vanroose, its reduction hidden behind the product",
		Needs: SymmetricDefinite, Reductions: 1, Start: func(c *Core) { startPipelined(c, true) }})
}

func startPipelined(c *Core, replaces bool) {
	v := &pipelined{Core: c, r: FirstOwn, w: FirstOwn + 1, p: FirstOwn + 2, s: FirstOwn + 3, z: FirstOwn + 4, n: FirstOwn + 5, replaces: replaces}
	next := FirstOwn + 6
	v.u = c.Preconditioned(v.r, &next)
	v.m = c.Preconditioned(v.w, &next)
	v.q = c.Preconditioned(v.s, &next)
	c.Vectors = int(next)
	v.steps.iterate, v.steps.residual, v.steps.directions = v.iterate, v.residual, v.directions
	v.steps.products, v.steps.dots = v.products, v.dots
	c.Next = v.start
}

func (v *pipelined) start([]float64) *Stage {
	v.Next = v.started
	return v.Stage().Set(X).Set(v.r, Term{1, B}).Precondition(v.u, v.r).Multiply(v.w, v.u)
}

func (v *pipelined) started([]float64) *Stage {
	v.Next = v.first
	return v.pipeline(v.Stage())
}

// pipeline is the end of every iteration: r, u and w are final.
func (v *pipelined) pipeline(s *Stage) *Stage {
	s.Overlap().Dot(v.r, v.r).Dot(v.w, v.u)
	if v.u != v.r {
		s.Dot(v.r, v.u)
	}
	return s.Precondition(v.m, v.w).Multiply(v.n, v.m)
}

func (v *pipelined) first(sums []float64) *Stage {
	if v.Began(sums[0]) {
		return nil
	}
	v.highest = v.Norm
	return v.step(sums)
}

func (v *pipelined) iterate(sums []float64) *Stage {
	residual := math.Sqrt(sums[0])
	v.highest = max(v.highest, residual)
	if v.resuming {
		v.resuming = false
		return v.step(sums)
	}
	v.since++
	if v.Iterated(residual) {
		if v.Result.Status != Converged || !v.replaces {
			return nil
		}
		v.Result.Status, v.ending = Running, true
		return v.replace(v.Stage())
	}
	return v.step(sums)
}

// step takes the step of an iteration.
func (v *pipelined) step(sums []float64) *Stage {
	gamma, delta := sums[len(sums)-1], sums[1]
	if v.u == v.r {
		gamma = sums[0]
	}
	beta, curvature := 0.0, delta
	if v.alpha != 0 {
		beta = gamma / v.gamma
		curvature -= beta * gamma / v.alpha
	}
	if gamma <= 0 || curvature <= 0 {
		return v.Breakdown("the matrix or the preconditioner is not positive definite: use minres")
	}
	v.gamma, v.alpha = gamma, gamma/curvature
	s := v.Stage()
	v.direct(s, v.p, beta, v.u)
	if v.replaces && (v.since >= replaceEvery || math.Sqrt(sums[0]) < replaceBelow*v.highest) {
		return v.replace(s.Add(X, v.alpha, v.p))
	}
	v.direct(s, v.z, beta, v.n)
	v.direct(s, v.s, beta, v.w)
	if v.q != v.s {
		v.direct(s, v.q, beta, v.m)
	}
	s.Add(X, v.alpha, v.p).Add(v.r, -v.alpha, v.s).Add(v.w, -v.alpha, v.z)
	if v.u != v.r {
		s.Add(v.u, -v.alpha, v.q)
	}
	v.Next = v.steps.iterate
	return v.pipeline(s)
}

// direct is d = v + beta d; before the first iteration d is nobody's.
func (v *pipelined) direct(s *Stage, d Vec, beta float64, from Vec) {
	if beta == 0 {
		s.Set(d, Term{1, from})
	} else {
		s.Set(d, Term{beta, d}, Term{1, from})
	}
}

// replace makes the vectors anew that the recurrences carry along: r = b - A x, u = M r, w = A u; s = A p, q = M s,
// z = A q. The stage may have led to x and p.
func (v *pipelined) replace(s *Stage) *Stage {
	v.Next = v.steps.residual
	return s.Multiply(v.n, X)
}

func (v *pipelined) residual([]float64) *Stage {
	v.Next = v.steps.directions
	s := v.Stage().Set(v.r, Term{1, B}, Term{-1, v.n}).Precondition(v.u, v.r).Multiply(v.w, v.u)
	if v.ending {
		s.Dot(v.r, v.r)
	}
	return s
}

func (v *pipelined) directions(sums []float64) *Stage {
	if v.ending {
		v.ending = false
		if v.Corrected(math.Sqrt(sums[0])) {
			return nil
		}
		v.resuming = true
	}
	v.Next = v.steps.products
	return v.Stage().Multiply(v.s, v.p)
}

func (v *pipelined) products([]float64) *Stage {
	v.Next = v.steps.dots
	return v.Stage().Precondition(v.q, v.s).Multiply(v.z, v.q)
}

func (v *pipelined) dots([]float64) *Stage {
	v.since, v.highest = 0, 0
	v.Next = v.steps.iterate
	return v.pipeline(v.Stage())
}
