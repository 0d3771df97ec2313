// Package system solves sparse linear systems over the ranks of a group, and measures where the time goes. Package
// solve is its public face. The parts of a System that benches look at are exported. A Block solves for several
// right-hand sides, and a Refined system iterates in lower precision.
package system

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	_ "github.com/kernbench/kernbench/internal/solve/multigrid" // registers gmg and amg
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Spec describes a linear system and how to solve it. All ranks must give the same Spec.
type Spec struct {
	Problem sparse.Problem // the matrix, unless MatrixFile is set
	// MatrixFile is the path of a Matrix Market file, plain or compressed, or of an archive of the SuiteSparse
	// collection (NAME.tar.gz). Every rank reads the file and keeps only its own rows.
	MatrixFile string
	RHS        func(row int) float64 // the right-hand side b
	// RHSRows is the number of rows of b, if that is known from another source than the matrix, such as a file. New
	// returns an error if it differs from the size of the matrix. 0 means unknown.
	RHSRows int

	Partitioner  string              // "" means simple
	Objective    partition.Objective // for partitioners that optimise; "" means the edge cut
	Weights      partition.Weights   // what to balance over the ranks; "" means rows
	Seed         uint64              // for partitioners that use random numbers
	Uncompressed bool                // store each value in 64 bits and each column in 32, not the smallest exact form

	Method         string  // "" means cg
	Preconditioner string  // "" means none
	RTol           float64 // norm of the residual to reach, relative to the norm of the right-hand side
	MaxIter        int     // iteration limit; 0 means 10000 + 50 sqrt(rows)
	Restart        int     // steps between restarts, for methods that restart; 0 means 30
	StopAfter      int     // end a solve after this many iterations, converged or not; 0 means no such limit

	Multigrid precondition.Multigrid // settings of a multigrid preconditioner

	transpose  bool // take the transpose of the file
	symmetrise bool // replace each entry of the file by its mean with the mirror image
}

// System is one rank's part of a linear system, ready to be solved. All ranks call its methods together, except Alone.
type System struct {
	Size     int // rows of the whole matrix
	Plan     *sparse.Plan
	Matrix   *sparse.Matrix
	Traits   sparse.Traits
	Operator krylov.Operator // the preconditioner, nil for none
	Applied  krylov.Operator // the preconditioner with the projection around it, as the engine applies it
	Engine   *krylov.Engine
	Halo     krylov.Halo
	Messages int // messages that this rank sends for one product
	Times    SetupTimes
	Timed    Timed // the last solve

	// RemovedRHS is the norm of the constant part of the right-hand side, relative to the norm of the whole. If
	// Traits.Singular, that part is projected out of the right-hand side, the residuals and the solution.
	RemovedRHS float64
	// NullPieces is the number of uncoupled pieces of the matrix that are singular, and NullRows is the number of their
	// rows.
	NullPieces, NullRows int
	// Asymmetry is the largest relative difference between an entry of the matrix file and its mirror image, if the
	// solve replaced both by their mean. 0 means that it replaced none.
	Asymmetry float64
	// Unprojected reports that the rows add up to zero, but nothing is projected out because the matrix is not symmetric.
	Unprojected bool

	team
	spec    Spec
	precond precondition.Preconditioner
	sums    *reducer
	null    *projection // nil unless the matrix is singular
}

// New sets up a system together with the other ranks of the group: it partitions the matrix, generates the rows of this
// rank, plans the halo exchange and sets up the preconditioner.
func New(g *dist.Group, spec Spec) (*System, error) {
	clock := g.Clock()
	began := clock.Now()
	outline, err := spec.outline()
	if err != nil {
		return nil, err
	}
	s := newSystem(g, spec, outline)
	if n := spec.RHSRows; n > 0 && n != s.Size {
		return nil, fmt.Errorf("the right-hand side has %d values, the matrix %d rows", n, s.Size)
	}
	if s.precond, err = precondition.Preconditioners.Lookup(cmp.Or(spec.Preconditioner, precondition.None)); err != nil {
		return nil, err
	}
	if err := s.checkSuitable(outline); err != nil {
		return nil, err
	}
	owners, seconds, err := s.layout(&s.spec, outline)
	if err != nil {
		return nil, err
	}
	s.Times.Partition = seconds
	if err := s.build(owners); err != nil {
		return nil, err
	}
	s.Times.Total = float64(clock.Now()-began) / 1e12
	return s, nil
}

// newTeam returns the ranks of a group with a meter of their communication.
func newTeam(g *dist.Group) team { return team{g, &meter{clock: g.Clock()}} }

// newSystem returns a system without rows, whose spec has no defaults left to fill in.
func newSystem(g *dist.Group, spec Spec, outline sparse.Problem) *System {
	s := &System{team: newTeam(g), spec: spec, Size: outline.Size(), Traits: outline.Traits()}
	s.spec.Partitioner = cmp.Or(spec.Partitioner, partition.Default)
	s.spec.Method = cmp.Or(spec.Method, krylov.Default)
	s.spec.MaxIter = cmp.Or(spec.MaxIter, krylov.MaxIter(s.Size))
	if spec.StopAfter > 0 {
		s.spec.MaxIter = min(s.spec.MaxIter, spec.StopAfter)
	}
	return s
}

// checkSuitable returns a *Refusal if the method or the preconditioner cannot work on the problem. If one of them needs
// a symmetric matrix and the header of the file does not promise that, it reads the values of the whole file.
func (s *System) checkSuitable(outline sparse.Problem) error {
	check := func() error {
		if _, err := s.solver(0); err != nil {
			return err
		}
		if err := precondition.CheckMultigrid(s.precond, s.spec.Multigrid); err != nil {
			return err
		}
		return s.precond.Check(outline, s.Traits)
	}
	err := check()
	if err != nil && s.spec.MatrixFile != "" && !s.Traits.Symmetric {
		file, fault := s.spec.rows(func(int) bool { return false })
		if fault != nil {
			return fault
		}
		if s.Traits.Symmetric = file.Traits().Symmetric; !s.Traits.Symmetric {
			if fault := s.symmetrise(); fault != nil {
				return fault
			}
		}
		err = check()
	}
	if err != nil {
		return &krylov.Refusal{Reason: err}
	}
	return nil
}

// symmetrise treats a general file as symmetric if each entry equals its mirror image up to rounding. The ranks share
// the comparison.
func (s *System) symmetrise() error {
	rank, size := s.Group.Rank(), s.Group.Size()
	mine, err := sparse.LoadAsymmetry(s.spec.MatrixFile, func(index int) bool { return index%size == rank })
	if err != nil {
		return err
	}
	differences := make([]float64, size)
	differences[rank] = mine
	if differences, err = s.team.Sum(differences); err != nil {
		return err
	}
	if worst := slices.Max(differences); worst <= sparse.NearlySymmetric {
		s.Traits.Symmetric, s.spec.symmetrise, s.Asymmetry = true, true, worst
	}
	return nil
}

// build makes the rows of this rank, the halo plan, the preconditioner and the vectors.
func (s *System) build(owners sparse.Layout) error {
	clock, rank := s.meter.clock, s.Group.Rank()
	began := clock.Now()
	problem, err := s.spec.rows(func(row int) bool { return owners.Owner(row) == rank })
	if err != nil {
		return err
	}
	s.Plan = sparse.NewPlan(problem, owners, rank)
	planned := clock.Now()
	if err := s.tellWants(s.Plan); err != nil {
		return err
	}
	exchanged := clock.Now()
	format := sparse.Compressed
	if s.spec.Uncompressed {
		format = sparse.Plain
	}
	if s.Matrix, err = s.Plan.Matrix(problem, format); err != nil {
		return err
	}
	s.Times.Generation = float64(clock.Now()-exchanged+planned-began) / 1e12
	h, err := s.newHalo(s.Plan, 1)
	if err != nil {
		return err
	}
	s.Halo, s.Messages = h, h.messages()
	pieces, err := s.findNullSpace(problem)
	if err != nil {
		return fmt.Errorf("looking for a null space: %w", err)
	}
	if s.Traits.Singular = pieces != nil; s.Traits.Singular {
		s.NullPieces, s.NullRows = len(pieces.rows), int(lists.Sum(pieces.rows))
	}
	if err := s.precondition(problem); err != nil {
		return fmt.Errorf("setting up the preconditioner %s: %w", s.precond.Name, err)
	}
	s.Applied = s.Operator
	if pieces != nil {
		s.null = newProjection(s, pieces)
		s.Applied = s.null
	}
	first, err := s.solver(0)
	if err != nil {
		return err
	}
	s.Engine = krylov.NewEngine(s.Matrix, s.Plan, s.meter.metered(s.Applied), first.Vectors())
	b := s.Engine.Vector(krylov.B)
	for i := range b {
		b[i] = s.spec.RHS(s.Plan.Global(i))
	}
	s.sums = s.newReducer(first.MaxDots())
	s.Engine.Begin, s.Engine.Underway = s.sums.begin, s.sums.underway
	return s.projectRHS(b)
}

// precondition sets up the preconditioner.
func (s *System) precondition(problem sparse.Problem) (err error) {
	if s.precond.New == nil {
		return nil
	}
	began, spent := s.meter.clock.Now(), CPUTime()
	s.Operator, err = s.precond.New(&precondition.Local{Problem: problem, Plan: s.Plan, Matrix: s.Matrix, Halo: s.Halo,
		Traits: s.Traits, Team: s.team, Multigrid: s.spec.Multigrid})
	s.Times.Precondition, s.Times.PreconditionCPU = float64(s.meter.clock.Now()-began)/1e12, CPUTime()-spent
	return err
}

// solver starts a solve of at most limit iterations. A limit of 0 stands for the limit of the spec.
func (s *System) solver(limit int) (*krylov.Solver, error) {
	return krylov.New(s.spec.Method, s.Traits, s.config(limit))
}

// config returns the parameters of a solve of at most limit iterations. A limit of 0 stands for the limit of the spec.
func (s *System) config(limit int) krylov.Config {
	_, diagonal := s.Applied.(krylov.Diagonal)
	cfg := krylov.Config{RTol: s.spec.RTol, MaxIter: s.spec.MaxIter, Restart: s.spec.Restart,
		Precondition: s.Applied != nil, Stored: !diagonal, Flexible: s.spec.Multigrid.Flexible()}
	if limit > 0 {
		cfg.MaxIter = min(cfg.MaxIter, limit)
	}
	return cfg
}

// Rows returns the number of rows of this rank.
func (s *System) Rows() int { return s.Plan.Owned }

// Solution returns the part of the last solution that belongs to the rows of this rank. The next solve overwrites it.
func (s *System) Solution() []float64 { return s.Engine.Vector(krylov.X) }

// Outcome is the result of a solve.
type Outcome struct {
	krylov.Result
	Seconds float64 // time on this rank
	Stopped bool    // ended by Spec.StopAfter before it converged
	// TrueResidual is ||b - Ax|| / ||b|| for the solution. Solve leaves it NaN, and Check sets it.
	TrueResidual float64
}

// Solve solves the system once, starting from zero. A limit above 0 replaces a larger Spec.MaxIter. For a fair time the
// ranks should start together.
func (s *System) Solve(limit int) (Outcome, error) {
	solver, err := s.solver(limit)
	if err != nil {
		return Outcome{}, err
	}
	return s.time(func() (krylov.Result, error) {
		if s.null != nil {
			s.null.reductions = 0
		}
		result, err := solver.Run(func(stage *krylov.Stage) ([]float64, error) {
			local, err := s.Engine.Run(stage, s.Halo)
			if err != nil {
				return nil, err
			}
			return s.sums.sum(local)
		})
		if err == nil && s.null != nil {
			err = s.null.project(s.Solution())
			result.Reductions += s.null.reductions
		}
		return result, err
	})
}

// time times a solve and returns its outcome.
func (s *System) time(solve func() (krylov.Result, error)) (Outcome, error) {
	s.meter.reset()
	began := s.meter.clock.Now()
	result, err := solve()
	if err != nil {
		return Outcome{}, err
	}
	s.Timed = s.meter.timed(s.meter.clock.Now() - began)
	stop := s.spec.StopAfter
	return Outcome{Result: result, Seconds: s.Timed.Total, TrueResidual: math.NaN(),
		Stopped: stop > 0 && result.Status == krylov.TooManyIterations && result.Iterations == stop}, nil
}

// LastSolve returns the parts of the last solve on this rank.
func (s *System) LastSolve() Timed { return s.Timed }

// roundingLimit is the largest ratio of the true residual to Result.Rounding that is attributed to rounding. The
// iterations round x again and again, which leaves more than rounding it once.
const roundingLimit = 100

// Gate returns an error if the solve did not converge or if its true residual contradicts the residual that the method
// reports. Solves that were stopped early need not have converged. Call Check first.
func (o Outcome) Gate(rtol float64) error {
	switch {
	case o.Stopped && math.Abs(o.TrueResidual-o.Residual) <= 10*rtol:
		return nil
	case o.Stopped:
		return fmt.Errorf("the solution is wrong: its true relative residual after %d iterations is %.3g, though the "+
			"method says %.3g", o.Iterations, o.TrueResidual, o.Residual)
	case o.Status != krylov.Converged && o.Reason != "":
		return fmt.Errorf("the solve did not converge: %v after %d iterations, %s", o.Status, o.Iterations, o.Reason)
	case o.Status != krylov.Converged:
		return fmt.Errorf("the solve did not converge: %v (%d), relative residual %.3g, want %.3g", o.Status, o.Iterations,
			o.Residual, rtol)
	case !(o.TrueResidual <= 10*rtol) && rtol < o.Rounding && o.TrueResidual < roundingLimit*o.Rounding:
		return fmt.Errorf("double precision cannot reach the tolerance %.3g: rounding x alone leaves a relative residual "+
			"of about %.1g, and the solution has %.3g: ask for a tolerance of %.0e or more", rtol, o.Rounding, o.TrueResidual,
			2*o.TrueResidual)
	case !(o.TrueResidual <= 10*rtol):
		return fmt.Errorf("the solution is wrong: its true relative residual is %.3g, above 10 x %.3g, though the "+
			"method says %.3g", o.TrueResidual, rtol, o.Residual)
	}
	return nil
}
