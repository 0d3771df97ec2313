package krylov

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Config holds the parameters of a solve. A solve converges when the norm of the residual is at most RTol times the
// norm of the right-hand side, or at most ATol.
type Config struct {
	RTol, ATol   float64
	MaxIter      int
	Restart      int  // steps between restarts, for methods that restart; 0 means 30
	Precondition bool // there is a preconditioner
	Stored       bool // the preconditioner is not a diagonal, so its result needs a vector
	Flexible     bool // the preconditioner is not the same symmetric operator in every application
}

// Status is the way in which a solve ended.
type Status uint8

// The possible values of Status.
const (
	Running Status = iota
	Converged
	TooManyIterations
	Breakdown
)

// String returns the status in words.
func (s Status) String() string {
	return [...]string{"running", "converged", "too many iterations", "breakdown"}[s]
}

// Result is the current state of a solve.
type Result struct {
	Status     Status
	Iterations int
	Reductions int       // stages whose sums were added up over the ranks
	Products   int       // number of products with the matrix
	Residual   float64   // according to the method, relative to the right-hand side
	History    []float64 // the residual at the start and after every iteration
	Reason     string    // of a breakdown
	// Rounding is the relative residual that remains if only the values of x are rounded: the norm of all a_ij x_j 2^-53
	// over the norm of b. No method can return an x that is reliably better. It is large if the entries differ by orders
	// of magnitude and x is large compared with b. Whoever computes the true residual sets it.
	Rounding float64
}

// MaxIter returns the default iteration limit. A method that works does not reach it: CG without a preconditioner needs
// about 3 sqrt(n) iterations on a square grid of n points, and ten times as many if the coefficients jump.
func MaxIter(rows int) int { return 10000 + 50*int(math.Sqrt(float64(rows))) }

// Refusal is the error for a method or a preconditioner that cannot work on a problem.
type Refusal struct{ Reason error }

func (r *Refusal) Error() string { return r.Reason.Error() }

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.Reason }

// Solver is a solve that Run carries out.
type Solver struct {
	core    Core
	iterate func()
}

// New prepares a solve. It returns an error if the method cannot work on a matrix with these traits.
func New(name string, traits sparse.Traits, cfg Config) (*Solver, error) {
	m, err := Methods.Lookup(name)
	if err != nil {
		return nil, err
	}
	if err := m.Check(traits); err != nil {
		return nil, err
	}
	if cfg.Flexible && !m.Flexible {
		able := Methods.NamesWhere(func(m Method) bool { return m.Flexible })
		return nil, fmt.Errorf("method %s needs a preconditioner that is the same symmetric operator in every iteration, "+
			"which an F- or K-cycle is not: use %s, or a V- or W-cycle", name, strings.Join(able, " or "))
	}
	if cfg.Restart == 0 {
		cfg.Restart = 30
	}
	switch {
	case !(cfg.RTol >= 0) || !(cfg.ATol >= 0) || cfg.RTol == 0 && cfg.ATol == 0:
		return nil, fmt.Errorf("tolerances %g (relative) and %g (absolute): want one positive and none negative", cfg.RTol,
			cfg.ATol)
	case cfg.MaxIter < 1:
		return nil, fmt.Errorf("a limit of %d iterations: want at least 1", cfg.MaxIter)
	case cfg.Restart < 1:
		return nil, errors.New("restart: want at least 1 step between restarts")
	}
	s := &Solver{core: Core{Config: cfg}}
	s.iterate = m.Start(&s.core)
	return s, nil
}

// Vectors returns the number of vectors of the solve, including X and B.
func (s *Solver) Vectors() int { return s.core.Vectors }

// MaxDots returns the largest number of scalar products of one stage.
func (s *Solver) MaxDots() int { return max(4, s.core.Dots) }

// Run solves. do carries out a stage on all ranks and returns the sums of its scalar products over the ranks, which are
// valid until its next call. An error of do ends the solve.
func (s *Solver) Run(do func(*Stage) ([]float64, error)) (Result, error) {
	s.core.do = do
	return s.core.Run(s.iterate)
}

// Result returns the current state of the solve. History is shared with the solver.
func (s *Solver) Result() Result { return s.core.Result }
