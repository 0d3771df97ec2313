package krylov

import "math"

// pipelined is the method of Ghysels and Vanroose (2014). An additional recurrence for w = A M r makes the scalar
// products of an iteration available before its product n = A M w. They are added up over the ranks while the
// preconditioner and the matrix are applied.
//
// The paper updates r along s = A p, and w along A M s. This implementation stores neither s nor A M s: the previous
// step contains them, so r and w follow from their values in the two previous iterations, which saves memory traffic.
// Residuals are orthogonal to each other, so their differences lose no digits. Differences of x would, so x keeps its
// direction p. Nothing else needs x and p. They take two steps in every other iteration, when both residuals are
// available.
//
// The recurrences drift away from the vectors that they represent. The vectors are therefore recomputed from x now and
// then, and once more before the solve ends, so that the true residual decides.
type pipelined struct {
	*Core
	p, n       Vec
	r, u, w, m vecPair // u = M r, m = M w
	carries    bool    // u has its own recurrence, because the preconditioner is not a diagonal

	gamma, alpha, beta float64 // from the previous iteration; alpha is 0 before the first
	pending            bool    // x has not taken its last step
	since              int     // iterations since the last replacement
	highest            float64 // largest residual since the last replacement
	replaces           bool    // false only in tests
}

// vecPair is a vector and its value one iteration ago. The next value overwrites the old one.
type vecPair struct{ now, old Vec }

func (t *vecPair) swap() { t.now, t.old = t.old, t.now }

const (
	// replaceEvery is the maximum number of iterations between two replacements. A replacement costs two products. The
	// drift grows with about the fourth power of the interval: with twice the interval, problems with jumping coefficients
	// need more iterations.
	replaceEvery = 200
	// replaceBelow is the factor by which the residual may fall between replacements. Rounding errors made while the
	// residual was large do not shrink with it.
	replaceBelow = 1e-3
)

func init() {
	Methods.Register(Method{Name: "cg-pipelined",
		Help:  "conjugate gradients after Ghysels and Vanroose, its reduction hidden behind the product",
		Needs: SymmetricDefinite, Reductions: 1, Start: func(c *Core) func() { return startPipelined(c, true) }})
}

func startPipelined(c *Core, replaces bool) func() {
	v := &pipelined{Core: c, p: FirstOwn, n: FirstOwn + 1, r: vecPair{FirstOwn + 2, FirstOwn + 3},
		w: vecPair{FirstOwn + 4, FirstOwn + 5}, replaces: replaces}
	next := FirstOwn + 6
	preconditioned := func(t vecPair) vecPair {
		return vecPair{c.Preconditioned(t.now, &next), c.Preconditioned(t.old, &next)}
	}
	v.m = preconditioned(v.w)
	if v.carries = c.Config.Precondition && c.Config.Stored; c.Config.Precondition && !v.carries {
		v.u = vecPair{Inverted(v.r.now), Inverted(v.r.old)} // computed on the fly
	} else {
		v.u = preconditioned(v.r)
	}
	c.Vectors = int(next)
	return v.iterate
}

func (v *pipelined) iterate() {
	v.Do(apply(v.Stage().Set(X).Set(v.r.now, Term{1, B}), v.w.now, v.u.now, v.r.now, v.m.now))
	sums := v.Do(v.pipeline(v.Stage()))
	if v.Began(sums[0]) {
		return
	}
	v.highest = v.Norm
	for {
		sums = v.Do(v.pipeline(v.step(sums)))
		residual := math.Sqrt(sums[0])
		v.highest = max(v.highest, residual)
		v.since++
		if !v.Iterated(residual) {
			continue
		}
		s := v.finishPending(v.Stage())
		if v.Result.Status != Converged || !v.replaces {
			v.Do(s)
			return
		}
		// The recurrences report convergence, and the true residual decides.
		if sums = v.Do(v.replace(s).Dot(v.r.now, v.r.now)); v.Corrected(math.Sqrt(sums[0])) {
			return
		}
		sums = v.Do(v.pipeline(v.resume()))
		v.highest = math.Sqrt(sums[0])
	}
}

// apply adds u = M r and w = A u to a stage. The product needs u in a vector; spare is used if u is not stored.
func apply(s *Stage, w, u, r, spare Vec) *Stage {
	if _, inverted := u.of(); inverted {
		u = spare
	}
	return s.Precondition(u, r).Multiply(w, u)
}

// pipeline adds the end of every iteration to a stage. r, u and w are final.
func (v *pipelined) pipeline(s *Stage) *Stage {
	r, u, w := v.r.now, v.u.now, v.w.now
	s.Overlap().Dot(r, r).Dot(w, u)
	if u != r {
		s.Dot(r, u)
	}
	return s.Precondition(v.m.now, w).Multiply(v.n, v.m.now)
}

// step takes the step of an iteration. sums holds (r, r), (w, u) and, with a preconditioner, (r, u). x moves in every
// other iteration, by two steps at once. step returns the stage that makes r, u and w final.
func (v *pipelined) step(sums []float64) *Stage {
	gamma, delta := sums[len(sums)-1], sums[1]
	if v.u == v.r { // without a preconditioner, (r, u) is (r, r)
		gamma = sums[0]
	}
	// The curvature (p, Ap) of the new direction follows from the sums and the previous step, as in cg-single. onward is
	// the part of the last step of r, u and w that is repeated: r - alpha (w + beta s) with the last step -alpha' s is
	// r + onward (r - old r) - alpha w, where onward is alpha beta / alpha'.
	beta, curvature, onward := 0.0, delta, 0.0
	if v.alpha != 0 {
		beta = gamma / v.gamma
		curvature -= beta * gamma / v.alpha
	}
	if gamma <= 0 || curvature <= 0 {
		v.Breakdown("the matrix or the preconditioner is not positive definite: use minres")
	}
	alpha := gamma / curvature
	if beta != 0 {
		onward = alpha * beta / v.alpha
	}
	waits := !v.pending
	s := v.finishPending(v.Stage())
	v.gamma, v.alpha, v.beta = gamma, alpha, beta
	replacing := v.replaces && (v.since >= replaceEvery || math.Sqrt(sums[0]) < replaceBelow*v.highest)
	if v.pending = waits && !replacing; !v.pending {
		v.move(s, v.u.now)
	}
	v.advance(s, v.w, onward, v.n)
	v.advance(s, v.r, onward, v.w.now)
	if v.carries {
		v.advance(s, v.u, onward, v.m.now)
	}
	for _, t := range []*vecPair{&v.r, &v.u, &v.w, &v.m} {
		t.swap()
	}
	if replacing {
		v.Do(v.replace(s))
		return v.resume()
	}
	return s
}

// move updates x with the step of the last iteration, which began with u.
func (v *pipelined) move(s *Stage, u Vec) *Stage {
	if v.beta == 0 { // p is undefined before the first iteration
		s.Set(v.p, Term{1, u})
	} else {
		s.Set(v.p, Term{v.beta, v.p}, Term{1, u})
	}
	return s.Add(X, v.alpha, v.p)
}

// finishPending updates x if its last step is still pending.
func (v *pipelined) finishPending(s *Stage) *Stage {
	if v.pending {
		v.pending = false
		v.move(s, v.u.old)
	}
	return s
}

// advance extrapolates the last step of a vector by onward and subtracts alpha times the product.
func (v *pipelined) advance(s *Stage, t vecPair, onward float64, product Vec) {
	if onward == 0 {
		s.Set(t.old, Term{1, t.now}, Term{-v.alpha, product})
	} else {
		s.Set(t.old, Term{-onward, t.old}, Term{1 + onward, t.now}, Term{-v.alpha, product})
	}
}

// replace returns the stage that recomputes the vectors of the recurrences: r = b - A x, u = M r, w = A u. resume
// completes it. Their previous values move by the same amount, so that the last steps do not change. The drift of the
// steps shrinks with the residual, and recomputing them would cost two more products. The stage s may still update x.
func (v *pipelined) replace(s *Stage) *Stage {
	v.Do(s.Multiply(v.n, X))
	s = v.Stage()
	v.back(s, -1)
	return apply(s.Set(v.r.now, Term{1, B}, Term{-1, v.n}), v.w.now, v.u.now, v.r.now, v.m.now)
}

// resume begins the stage after a replacement.
func (v *pipelined) resume() *Stage {
	v.since, v.highest = 0, 0
	s := v.Stage()
	v.back(s, 1)
	return s
}

// back adds c times the current vectors to their previous values. These first lose the old current vectors and later
// gain the new ones.
func (v *pipelined) back(s *Stage, c float64) {
	s.Add(v.r.old, c, v.r.now).Add(v.w.old, c, v.w.now)
	if v.carries {
		s.Add(v.u.old, c, v.u.now)
	}
}
