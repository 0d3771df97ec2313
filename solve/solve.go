package solve

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	_ "github.com/kernbench/kernbench/internal/solve/multigrid" // registers gmg and amg
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Spec is what is to be solved, and how. All ranks give the same.
type Spec struct {
	Source Source
	RHS    func(row int) float64 // the right-hand side
	// RHSRows is how many rows the right-hand side has, where that is not as many as the
	// problem has by its making; 0 is not known.
	RHSRows int

	Partitioner string    // "" is simple
	Objective   Objective // of partitioners that optimise; "" is EdgeCut
	Weights     Weights   // what ranks are to have the same of; "" is ByRows
	Seed        uint64    // of partitioners that draw at random
	Storage     Storage

	Method         string  // "" is cg
	Preconditioner string  // "" is none
	RTol           float64 // the norm of the residual to reach, relative to that of the right-hand side
	MaxIter        int     // 0: enough, see MaxIter
	Restart        int     // steps between restarts, of methods that restart; 0 is 30
	StopAfter      int     // iterations after which a solve ends, converged or not; 0: no such limit
}

// Refusal is the error of a method or a preconditioner that cannot work on the problem.
type Refusal struct{ Reason error }

func (r *Refusal) Error() string { return r.Reason.Error() }

// Unwrap gives the reason.
func (r *Refusal) Unwrap() error { return r.Reason }

// MaxIter is a limit that a method which works does not reach: unpreconditioned
// CG needs about 3 sqrt(n) iterations on a square of n points, and ten times as
// many where coefficients jump.
func MaxIter(rows int) int { return 10000 + 50*int(math.Sqrt(float64(rows))) }

// System is one rank's part of a linear system, ready to be solved.
type System struct {
	Plan   *Plan
	Matrix *Matrix
	Traits Traits
	Size   int // rows of the whole problem
	Times  SetupTimes

	// Removed is the part of the right-hand side's norm that was its constant part: where Traits.Singular, that is
	// projected out of it, of residuals and of the solution, and the residual is that of what is left.
	Removed float64
	// Unprojected is whether the rows add up to zero, but nothing is projected out as the matrix is not symmetric.
	Unprojected bool

	group    *dist.Group
	spec     Spec
	precond  Preconditioner
	operator krylov.Operator // of the preconditioner; nil is none
	engine   *krylov.Engine
	halo     krylov.Halo
	sums     *adder
	null     *projection // of a singular matrix

	messages int
}

// SetupTimes are what this rank spent before the first solve, in seconds.
type SetupTimes struct {
	Partition    float64 // deciding who owns what; 0 where another rank does
	Generation   float64 // making the rows
	Precondition float64 // setting the preconditioner up
	Total        float64 // everything

	PreconditionCPU float64 // processor time of the process while it set the preconditioner up
}

// CanRun reports whether a backend has what a solve by processors needs: sums of f64, and
// messages for the halo and for lists of rows. One of device memory is none: its rows would be those of the
// processors by another name.
func CanRun(d dist.Description) bool {
	can := d.Can()
	return !d.DeviceMemory && can.Has(dist.AllReduce) && can.Has(dist.Send) && can.Has(dist.Recv) &&
		slices.Contains(can.DTypes, dist.F64) && slices.Contains(can.DTypes, dist.I64) &&
		slices.Contains(can.Reductions, dist.Sum)
}

// New sets a system up together with the other ranks of the group.
func New(g *dist.Group, spec Spec) (*System, error) {
	clock := g.Clock()
	since := func(start int64) float64 { return float64(clock.Now()-start) / 1e12 }
	began := clock.Now()
	outline, err := spec.Source.Outline()
	if err != nil {
		return nil, err
	}
	s := &System{group: g, spec: spec, Traits: outline.Traits(), Size: outline.Size()}
	if n := spec.RHSRows; n > 0 && n != s.Size {
		return nil, fmt.Errorf("the right-hand side has %d values, the matrix %d rows", n, s.Size)
	}
	s.fillIn()
	if s.precond, err = precondition.Preconditioners.Lookup(cmp.Or(spec.Preconditioner, precondition.None)); err != nil {
		return nil, err
	}
	if err := s.suits(outline); err != nil {
		return nil, err
	}

	owners, seconds, err := layout(g, s.spec, outline)
	if err != nil {
		return nil, err
	}
	s.Times.Partition = seconds
	if err := s.build(owners); err != nil {
		return nil, err
	}
	s.Times.Total = since(began)
	return s, nil
}

// suits refuses a method or a preconditioner that cannot work on the problem. A matrix that
// is not known to be symmetric is looked at where one of them asks for that.
func (s *System) suits(outline sparse.Problem) error {
	check := func() error {
		if _, err := s.solver(0); err != nil {
			return err
		}
		return s.precond.Check(outline, s.Traits)
	}
	err := check()
	if values, ok := s.spec.Source.(interface{ Symmetric() (bool, error) }); err != nil && ok && !s.Traits.Symmetric {
		var fault error
		if s.Traits.Symmetric, fault = values.Symmetric(); fault != nil {
			return fault
		}
		err = check()
	}
	if err != nil {
		return &Refusal{err}
	}
	return nil
}

// fillIn replaces what the spec leaves open.
func (s *System) fillIn() {
	s.spec.Partitioner = cmp.Or(s.spec.Partitioner, partition.Default)
	s.spec.Method = cmp.Or(s.spec.Method, krylov.Default)
	if s.spec.MaxIter == 0 {
		s.spec.MaxIter = MaxIter(s.Size)
	}
	if s.spec.StopAfter > 0 {
		s.spec.MaxIter = min(s.spec.MaxIter, s.spec.StopAfter)
	}
}

// build makes this rank's rows, the plan of exchanges, the preconditioner and the vectors.
func (s *System) build(owners sparse.Layout) error {
	g, clock := s.group, s.group.Clock()
	began := clock.Now()
	problem, err := s.spec.Source.Rows(func(row int) bool { return owners.Owner(row) == g.Rank() })
	if err != nil {
		return err
	}
	s.Plan = sparse.NewPlan(problem, owners, g.Rank())
	planned := clock.Now()
	if err := tellWants(g, s.Plan); err != nil {
		return fmt.Errorf("exchanging the lists of needed values: %w", err)
	}
	told := clock.Now()
	if s.Matrix, err = s.Plan.Matrix(problem, s.spec.Storage); err != nil {
		return err
	}
	s.Times.Generation = float64(clock.Now()-told+planned-began) / 1e12
	h, err := newHalo(g, s.Plan)
	if err != nil {
		return err
	}
	s.halo, s.messages = h, h.messages()
	if err := s.findNullSpace(problem); err != nil {
		return fmt.Errorf("looking for a null space: %w", err)
	}
	if err := s.precondition(problem); err != nil {
		return fmt.Errorf("setting up the preconditioner %s: %w", s.precond.Name, err)
	}
	if s.Traits.Singular {
		s.null = &projection{inner: s.operator, sums: newAdder(g, 1), rows: s.Plan.Owned, size: float64(s.Size)}
	}
	first, err := s.solver(0)
	if err != nil {
		return err
	}
	s.engine = krylov.NewEngine(s.Matrix, s.Plan, s.applied(), first.Vectors())
	b := s.engine.Vector(krylov.B)
	for i := range b {
		b[i] = s.spec.RHS(s.Plan.Global(i))
	}
	s.sums = newAdder(g, first.MaxDots())
	s.engine.Begin, s.engine.Underway = s.sums.begin, s.sums.underway
	if s.null != nil {
		return s.projectRHS(b)
	}
	return nil
}

// precondition sets the preconditioner up.
func (s *System) precondition(problem sparse.Problem) (err error) {
	if s.precond.New == nil {
		return nil
	}
	began, spent := s.group.Clock().Now(), ProcessorTime()
	s.operator, err = s.precond.New(&precondition.Local{Problem: problem, Plan: s.Plan, Matrix: s.Matrix, Halo: s.halo,
		Traits: s.Traits, Team: team{s.group}})
	s.Times.Precondition, s.Times.PreconditionCPU = float64(s.group.Clock().Now()-began)/1e12, ProcessorTime()-spent
	return err
}

// Operator is the preconditioner, nil where there is none.
func (s *System) Operator() Operator { return s.operator }

// solver starts a solve of at most limit iterations; 0 is as many as specified.
func (s *System) solver(limit int) (*krylov.Solver, error) {
	operator := s.applied()
	_, diagonal := operator.(krylov.Diagonal)
	cfg := krylov.Config{RTol: s.spec.RTol, MaxIter: s.spec.MaxIter, Restart: s.spec.Restart,
		Precondition: operator != nil, Stored: !diagonal}
	if limit > 0 {
		cfg.MaxIter = min(cfg.MaxIter, limit)
	}
	return krylov.New(s.spec.Method, s.Traits, cfg)
}

// Outcome is what a solve came to.
type Outcome struct {
	Result
	Seconds float64 // that this rank took
	Stopped bool    // after as many iterations as suffice, not converged
	// TrueResidual is ||b - Ax|| / ||b|| of the solution itself, by Check.
	TrueResidual float64
}

// Solve solves once, from zero. A limit above 0 ends it early. The ranks should
// start together. The true residual is left to Check.
func (s *System) Solve(limit int) (Outcome, error) {
	solver, err := s.solver(limit)
	if err != nil {
		return Outcome{}, err
	}
	clock := s.group.Clock()
	began := clock.Now()
	if s.null != nil {
		s.null.reductions = 0
	}
	var sums []float64
	for stage := solver.Next(nil); stage != nil; stage = solver.Next(sums) {
		local, err := s.engine.Run(stage, s.halo)
		if err != nil {
			return Outcome{}, err
		}
		if sums, err = s.sums.add(local); err != nil {
			return Outcome{}, err
		}
	}
	result := solver.Result()
	if s.null != nil {
		if err := s.null.project(s.engine.Vector(krylov.X)); err != nil {
			return Outcome{}, err
		}
		result.Reductions += s.null.reductions
	}
	out := Outcome{Result: result, Seconds: float64(clock.Now()-began) / 1e12, TrueResidual: math.NaN()}
	out.Stopped = out.Status == krylov.TooManyIterations && out.Iterations == s.spec.StopAfter
	return out, nil
}

// Solution is this rank's part of the last solution; Plan.Global numbers it.
func (s *System) Solution() []float64 { return s.engine.Vector(krylov.X) }

// Multiply sets dst to A times x. Both have room for Matrix.Columns() values, of which the first are this rank's; it
// brings the others of x up to date. All ranks call it together.
func (s *System) Multiply(dst, x []float64) error {
	return precondition.Square{Matrix: s.Matrix, Halo: s.halo}.Multiply(dst, x)
}

// Messages is how many messages this rank sends for one product.
func (s *System) Messages() int { return s.messages }

// Gate says what is wrong with a solve, nil if nothing: it did not converge, or
// its solution does not have the residual that the method claims. Of a solve that
// was to stop early only the second is asked.
func (o Outcome) Gate(rtol float64) error {
	switch {
	case o.Stopped && math.Abs(o.TrueResidual-o.Residual) <= 10*rtol:
		return nil
	case o.Stopped:
		return fmt.Errorf("the solution is wrong: its true relative residual after %d iterations is %.3g, though the "+
			"method says %.3g",
			o.Iterations, o.TrueResidual, o.Residual)
	case o.Status != krylov.Converged && o.Reason != "":
		return fmt.Errorf("the solve did not converge: %v after %d iterations, %s", o.Status, o.Iterations, o.Reason)
	case o.Status != krylov.Converged:
		return fmt.Errorf("the solve did not converge: %v (%d), relative residual %.3g, want %.3g", o.Status, o.Iterations,
			o.Residual, rtol)
	case !(o.TrueResidual <= 10*rtol):
		return fmt.Errorf("the solution is wrong: its true relative residual is %.3g, above 10 x %.3g, though the "+
			"method says %.3g",
			o.TrueResidual, rtol, o.Residual)
	}
	return nil
}
