package system

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/suggest"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// The precisions of a solve.
const (
	Double       = "f64"
	SingleMatrix = "f32-matrix" // matrix values in single precision, arithmetic in double
	Single       = "f32"        // matrix and vectors of the iteration in single precision
)

// Precisions lists the precisions.
func Precisions() []string { return []string{Double, SingleMatrix, Single} }

// RefinedMethod is the method that exists in lower precision.
const RefinedMethod = "cg"

const (
	// reliable is the factor by which the residual falls between two updates in double precision.
	reliable = 0.1
	// stalled is the least factor by which the true residual must fall between two updates.
	stalled = 0.9
	// maxStalls is the number of updates without progress that ends a solve.
	maxStalls = 3
)

// iteration is a conjugate gradient iteration in some precision.
type iteration interface {
	start(residual []float64, scale float64, first bool)
	descend(alpha, beta float64, start, finish func() error) (float64, error)
	reduce(alpha float64) (rr, rz float64)
	addTo(x []float64, scale, alpha float64)
	memory() int
	work() [krylov.NumPhases]krylov.Work
}

// Refined is one rank's part of a system that is solved by conjugate gradients in lower precision, to the accuracy of
// double precision. It is
// the mixed-precision method with reliable updates of Clark et al. ("Solving lattice QCD systems of equations using
// mixed precision solvers on GPUs", 2010), after Sleijpen and van der Vorst (1996): whenever the
// residual has become ten times smaller, it is computed again in double precision with the original
// matrix, and the iteration goes on from there. It keeps its search direction, so it takes about as
// many iterations as in double precision; restarting at each such point takes a quarter more.
type Refined struct {
	*System
	Updates int // number of residuals that the last solve computed in double precision

	inner         iteration
	start, finish func() error // of the exchange of the direction's ghosts
	trace         func(enter func(krylov.Phase))
	matrix        *sparse.Matrix
	residual      []float64 // with ghosts
}

// NewRefined prepares the solves of a system in lower precision. plain stores every value and every column of the
// matrix.
func NewRefined(s *System, precision string, plain bool) (*Refined, error) {
	inverse, diagonal := s.Applied.(krylov.Diagonal)
	if s.Applied != nil && !diagonal {
		return nil, &krylov.Refusal{Reason: fmt.Errorf("precision %s supports only the preconditioners none and jacobi, "+
			"and only matrices that are not singular", precision)}
	}
	format := sparse.Single
	if plain {
		format = sparse.PlainSingle
	}
	m, err := s.Matrix.Unpack().Matrix(s.Matrix.Columns(), format)
	if err != nil {
		return nil, err
	}
	r := &Refined{System: s, matrix: m, residual: make([]float64, m.Columns())}
	switch precision {
	case SingleMatrix:
		v := newVectors(doubles, m, s.Plan, inverse)
		r.inner, r.trace = v, v.traced
		r.start = func() error { return s.Halo.Start(v.p, 1) }
		r.finish = func() error { return s.Halo.Finish(v.p, 1) }
	case Single:
		v := newVectors(singles, m, s.Plan, inverse)
		r.inner, r.trace = v, v.traced
		r.start = func() error { return s.startSingle(v.p, r.residual) }
		r.finish = func() error { return s.finishSingle(v.p, r.residual) }
	default:
		return nil, suggest.Unknown("precision", precision, []string{SingleMatrix, Single})
	}
	return r, nil
}

// startSingle starts to send the values that other ranks need. The messages carry doubles, from a buffer.
func (s *System) startSingle(v []float32, buffer []float64) error {
	for i := range s.Plan.Peers {
		for _, r := range s.Plan.Peers[i].Send {
			for k := r.Lo; k < r.Hi; k++ {
				buffer[k] = float64(v[k])
			}
		}
	}
	return s.Halo.Start(buffer, 1)
}

// finishSingle receives the ghosts.
func (s *System) finishSingle(v []float32, buffer []float64) error {
	if err := s.Halo.Finish(buffer, 1); err != nil {
		return err
	}
	for k := s.Plan.Owned; k < len(v); k++ {
		v[k] = float32(buffer[k])
	}
	return nil
}

// traced makes the iteration report its phases.
func (v *vectors[T]) traced(enter func(krylov.Phase)) { v.enter, v.pass.Trace = enter, enter }

// Solve solves the system once, starting from zero. A limit above 0 replaces a larger iteration limit.
func (s *Refined) Solve(limit int) (Outcome, error) {
	return s.time(func() (krylov.Result, error) { return s.iterate(s.config(limit), s.sums.sum) })
}

// Bytes returns the memory of the matrix and the vectors in lower precision.
func (s *Refined) Bytes() int { return s.inner.memory() }

// MatrixBytes returns the memory of the matrix in lower precision.
func (s *Refined) MatrixBytes() int { return s.matrix.Bytes() }

// run is the state of a running solve.
type run struct {
	*Refined
	sum    func(local []float64) ([]float64, error)
	core   krylov.Core
	x, b   []float64
	scale  float64 // the iteration works with the residual divided by the norm of b
	last   float64 // true residual of the last update
	stalls int
}

// iterate solves with the reductions of sum.
func (s *Refined) iterate(cfg krylov.Config, sum func([]float64) ([]float64, error)) (krylov.Result, error) {
	r := &run{Refined: s, sum: sum, core: krylov.Core{Config: cfg}, x: s.Solution(), b: s.Engine.Vector(krylov.B)}
	s.Updates = 0
	clear(r.x)
	return r.core.Run(r.loop)
}

// add returns sums over the ranks.
func (r *run) add(local ...float64) []float64 {
	r.core.Result.Reductions++
	return r.core.Accept(r.sum(local))
}

// loop makes iterations until the solve ends. largest is the largest residual since the last update, because rounding
// errors made while the residual was large do not shrink with it.
func (r *run) loop() {
	if sums := r.add(sparse.Dot(r.b, r.b)); r.core.Began(sums[0]) {
		return
	}
	r.scale, r.last = 1/r.core.Norm, r.core.Norm
	r.inner.start(r.b, r.scale, true)
	rz := r.add(r.inner.reduce(0))[1]
	alpha, beta, largest := 0.0, 0.0, r.core.Norm
	for r.core.Result.Status == krylov.Running {
		r.core.Result.Products++
		pq, err := r.inner.descend(alpha, beta, r.start, r.finish)
		r.core.Accept(nil, err)
		sums := r.add(pq)
		if sums[0] <= 0 {
			r.core.Breakdown("the matrix is not positive definite, at least in single precision")
		}
		alpha = rz / sums[0]
		sums = r.add(r.inner.reduce(alpha))
		norm, next := math.Sqrt(sums[0])*r.core.Norm, sums[1]
		if over := r.core.Iterated(norm); over || norm < reliable*largest {
			if r.update(alpha); r.core.Result.Status != krylov.Running {
				return
			}
			alpha, largest = 0, r.last
			next = r.add(r.inner.reduce(0))[1]
		}
		largest = max(largest, norm)
		if r.stalls > 0 {
			beta = 0 // the last update made no progress: start with a new direction
		} else {
			beta = next / rz
		}
		rz = next
	}
}

// update adds the steps so far to the solution, and computes its residual in double precision.
func (r *run) update(alpha float64) {
	r.Updates++
	r.core.Result.Products++
	r.inner.addTo(r.x, r.core.Norm, alpha)
	r.core.Accept(nil, r.Multiply(r.residual, r.Engine.Padded(krylov.X)))
	own := r.residual[:len(r.b)]
	sparse.Axpby(own, 1, r.b, -1, own)
	norm := math.Sqrt(r.add(sparse.Dot(own, own))[0])
	if r.core.Corrected(norm) {
		return
	}
	if r.stalls++; norm <= stalled*r.last {
		r.stalls = 0
	}
	if r.stalls > maxStalls {
		r.core.Breakdown(fmt.Sprintf("lower precision no longer improves the residual of %.3g: use f64", norm/r.core.Norm))
	}
	r.last = norm
	r.inner.start(own, r.scale, false)
}

// Alone makes at most limit iterations on the rows of this rank as if there were no other ranks, and returns the
// seconds of one. See System.Alone.
func (s *Refined) Alone(limit int) (float64, error) {
	nothing := func() error { return nil }
	s.inner.start(s.Engine.Vector(krylov.B), 1, true)
	began := s.meter.clock.Now()
	for range limit {
		if _, err := s.inner.descend(1e-9, 1e-9, nothing, nothing); err != nil {
			return 0, err
		}
		s.inner.reduce(1e-9)
	}
	return seconds(s.meter.clock.Now()-began) / float64(limit), nil
}

// Communicate performs the communication of the given numbers of products and reductions, without any arithmetic. See
// System.Communicate.
func (s *Refined) Communicate(products, reductions int) (float64, error) {
	exchange := func() error {
		if err := s.start(); err != nil {
			return err
		}
		return s.finish()
	}
	return s.timeMessages(products, reductions, exchange, func(i int) error {
		_, err := s.sums.sum(make([]float64, 1+i%2))
		return err
	})
}

// Trace solves for at most limit iterations and times every phase.
func (s *Refined) Trace(limit int) (Profile, error) {
	watch := s.startWatch()
	s.trace(watch.enter)
	defer s.trace(func(krylov.Phase) {})
	result, err := s.iterate(s.config(limit), watch.sum(s.sums))
	work := s.inner.work()
	for phase := range work {
		w, iterations := &work[phase], float64(result.Iterations)
		w.Count, w.Bytes, w.Flops = iterations*w.Count, iterations*w.Bytes, iterations*w.Flops
	}
	for range s.Updates { // x twice, b, the product, the residual three times
		work[krylov.SpMV].Add(float64(s.Matrix.Bytes()), 2*float64(s.Matrix.Entries()))
		work[krylov.Updates].Add(8*7*float64(s.Plan.Owned), 0)
	}
	work[krylov.AllReduce] = krylov.Work{Count: float64(result.Reductions), Bytes: 12 * float64(result.Reductions)}
	return s.profile(watch, result.Iterations, work), err
}
