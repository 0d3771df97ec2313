package krylov

import (
	"errors"
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Config is what a solve is asked for. It stops when the norm of the residual
// is at most RTol times that of the right-hand side, or ATol.
type Config struct {
	RTol, ATol   float64
	MaxIter      int
	Restart      int  // steps between restarts, of methods that restart; 0 is 30
	Precondition bool // stages may ask for the preconditioner
	Stored       bool // which is no diagonal: what it gives needs a vector
}

// Status says how a solve ended.
type Status uint8

// The ways to end.
const (
	Running Status = iota
	Converged
	TooManyIterations
	Breakdown
)

// String is the status in words.
func (s Status) String() string {
	return [...]string{"running", "converged", "too many iterations", "breakdown"}[s]
}

// Result is how far a solve is.
type Result struct {
	Status     Status
	Iterations int
	Reductions int       // stages whose sums had to be added up over the ranks
	Products   int       // with the matrix
	Residual   float64   // as the method knows it, relative to the right-hand side
	History    []float64 // the same after every iteration, the start included
	Reason     string    // of a breakdown
}

// MaxIter returns the default iteration limit. A method that works does not reach it: CG without a preconditioner needs
// about 3 sqrt(n) iterations on a square grid of n points, and ten times as many if the coefficients jump.
func MaxIter(rows int) int { return 10000 + 50*int(math.Sqrt(float64(rows))) }

// Refusal is the error for a method or a preconditioner that cannot work on a problem.
type Refusal struct{ Reason error }

func (r *Refusal) Error() string { return r.Reason.Error() }

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.Reason }

// Solver is one solve under way.
type Solver struct{ core Core }

// New starts a solve. A method that cannot work on such a matrix is refused with
// the reason.
func New(name string, traits sparse.Traits, cfg Config) (*Solver, error) {
	m, err := Methods.Lookup(name)
	if err != nil {
		return nil, err
	}
	if err := m.Check(traits); err != nil {
		return nil, err
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
	s := &Solver{Core{Config: cfg}}
	m.Start(&s.core)
	return s, nil
}

// Vectors is how many vectors the solve uses, X and B included.
func (s *Solver) Vectors() int { return s.core.Vectors }

// MaxDots is the most scalar products of one stage.
func (s *Solver) MaxDots() int { return max(4, s.core.Dots) }

// Next takes the sums of the last stage, over all ranks, and gives the next one;
// nil when the solve has ended. The stage is valid until the next call.
func (s *Solver) Next(sums []float64) *Stage {
	c := &s.core
	if c.Result.Status != Running && c.Next == nil {
		return nil
	}
	for _, v := range sums {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return c.Breakdown("a scalar product is not finite")
		}
	}
	stage := c.Next(sums)
	if stage == nil {
		c.Next = nil
		return nil
	}
	if len(stage.dots) > 0 {
		c.Result.Reductions++
	}
	if stage.Multiplies() {
		c.Result.Products++
	}
	return stage
}

// Result is how far the solve is. History is shared with the solver.
func (s *Solver) Result() Result { return s.core.Result }
