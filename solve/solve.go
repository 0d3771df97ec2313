package solve

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
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Spec describes a linear system and how to solve it. All ranks must give the same Spec.
type Spec struct {
	Problem Problem // the matrix, unless MatrixFile is set
	// MatrixFile is the path of a Matrix Market file, plain or compressed, or of an archive of the SuiteSparse
	// collection (NAME.tar.gz). Every rank reads the file and keeps only its own rows.
	MatrixFile string
	RHS        func(row int) float64 // the right-hand side b
	// RHSRows is the number of rows of b, if that is known from another source than the matrix, such as a file. New
	// returns an error if it differs from the size of the matrix. 0 means unknown.
	RHSRows int

	Partitioner  string    // "" means simple
	Objective    Objective // for partitioners that optimise; "" means the edge cut
	Weights      Weights   // what to balance over the ranks; "" means rows
	Seed         uint64    // for partitioners that use random numbers
	Uncompressed bool      // store each value in 64 bits and each column in 32, not the smallest exact form

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

// System is one rank's part of a linear system, ready to be solved.
type System struct {
	Size int // rows of the whole matrix

	parts   profile.Internals
	group   *dist.Group
	spec    Spec
	precond Preconditioner
	sums    *reducer    // the same as parts.Sums, without the interface
	null    *projection // nil unless the matrix is singular
	meter   *meter
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
	owners, seconds, err := layout(g, &s.spec, outline)
	if err != nil {
		return nil, err
	}
	s.parts.Times.Partition = seconds
	if err := s.build(owners); err != nil {
		return nil, err
	}
	s.parts.Times.Total = float64(clock.Now()-began) / 1e12
	return s, nil
}

// newSystem returns a system without rows, whose spec has no defaults left to fill in.
func newSystem(g *dist.Group, spec Spec, outline Problem) *System {
	s := &System{group: g, spec: spec, Size: outline.Size(), meter: &meter{clock: g.Clock()}}
	s.parts.Traits, s.parts.Clock, s.parts.NewSolver = outline.Traits(), g.Clock(), s.solver
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
func (s *System) checkSuitable(outline Problem) error {
	check := func() error {
		if _, err := s.solver(0); err != nil {
			return err
		}
		if err := precondition.CheckMultigrid(s.precond, s.spec.Multigrid); err != nil {
			return err
		}
		return s.precond.Check(outline, s.parts.Traits)
	}
	err := check()
	if err != nil && s.spec.MatrixFile != "" && !s.parts.Traits.Symmetric {
		file, fault := s.spec.rows(func(int) bool { return false })
		if fault != nil {
			return fault
		}
		if s.parts.Traits.Symmetric = file.Traits().Symmetric; !s.parts.Traits.Symmetric {
			if fault := s.symmetrise(); fault != nil {
				return fault
			}
		}
		err = check()
	}
	if err != nil {
		return &Refusal{Reason: err}
	}
	return nil
}

// symmetrise treats a general file as symmetric if each entry equals its mirror image up to rounding. The ranks share
// the comparison.
func (s *System) symmetrise() error {
	rank, size := s.group.Rank(), s.group.Size()
	mine, err := sparse.LoadAsymmetry(s.spec.MatrixFile, func(index int) bool { return index%size == rank })
	if err != nil {
		return err
	}
	differences := make([]float64, size)
	differences[rank] = mine
	if differences, err = (team{s.group}).Sum(differences); err != nil {
		return err
	}
	if worst := slices.Max(differences); worst <= sparse.NearlySymmetric {
		s.parts.Traits.Symmetric, s.spec.symmetrise, s.parts.Asymmetry = true, true, worst
	}
	return nil
}

// build makes the rows of this rank, the halo plan, the preconditioner and the vectors.
func (s *System) build(owners sparse.Layout) error {
	g, clock, n := s.group, s.group.Clock(), &s.parts
	began := clock.Now()
	problem, err := s.spec.rows(func(row int) bool { return owners.Owner(row) == g.Rank() })
	if err != nil {
		return err
	}
	n.Plan = sparse.NewPlan(problem, owners, g.Rank())
	planned := clock.Now()
	if err := sendWants(g, n.Plan); err != nil {
		return fmt.Errorf("exchanging the lists of needed values: %w", err)
	}
	exchanged := clock.Now()
	format := sparse.Compressed
	if s.spec.Uncompressed {
		format = sparse.Plain
	}
	if n.Matrix, err = n.Plan.Matrix(problem, format); err != nil {
		return err
	}
	n.Times.Generation = float64(clock.Now()-exchanged+planned-began) / 1e12
	h, err := newHalo(g, n.Plan, 1)
	if err != nil {
		return err
	}
	h.meter = s.meter
	n.Halo, n.Messages = h, h.messages()
	pieces, err := s.findNullSpace(problem)
	if err != nil {
		return fmt.Errorf("looking for a null space: %w", err)
	}
	if n.Traits.Singular = pieces != nil; n.Traits.Singular {
		n.NullPieces, n.NullRows = len(pieces.rows), int(lists.Sum(pieces.rows))
	}
	if err := s.precondition(problem); err != nil {
		return fmt.Errorf("setting up the preconditioner %s: %w", s.precond.Name, err)
	}
	n.Applied = n.Operator
	if pieces != nil {
		s.null = newProjection(s, pieces)
		n.Applied = s.null
	}
	first, err := s.solver(0)
	if err != nil {
		return err
	}
	n.Engine = krylov.NewEngine(n.Matrix, n.Plan, s.meter.metered(n.Applied), first.Vectors())
	b := n.Engine.Vector(krylov.B)
	for i := range b {
		b[i] = s.spec.RHS(s.Global(i))
	}
	s.sums = newReducer(g, first.MaxDots())
	s.sums.meter = s.meter
	n.Sums, n.Engine.Begin, n.Engine.Underway = s.sums, s.sums.Begin, s.sums.underway
	n.Columns = s.columns()
	if s.null != nil {
		return s.projectRHS(b)
	}
	return nil
}

// precondition sets up the preconditioner.
func (s *System) precondition(problem Problem) (err error) {
	if s.precond.New == nil {
		return nil
	}
	n, clock := &s.parts, s.group.Clock()
	began, spent := clock.Now(), profile.CPUTime()
	n.Operator, err = s.precond.New(&precondition.Local{Problem: problem, Plan: n.Plan, Matrix: n.Matrix, Halo: n.Halo,
		Traits: n.Traits, Team: meteredTeam{team{s.group}, s.meter}, Multigrid: s.spec.Multigrid})
	n.Times.Precondition, n.Times.PreconditionCPU = float64(clock.Now()-began)/1e12, profile.CPUTime()-spent
	return err
}

// solver starts a solve of at most limit iterations. A limit of 0 stands for the limit of the spec.
func (s *System) solver(limit int) (*krylov.Solver, error) {
	return krylov.New(s.spec.Method, s.parts.Traits, s.config(limit))
}

// config returns the parameters of a solve of at most limit iterations. A limit of 0 stands for the limit of the spec.
func (s *System) config(limit int) krylov.Config {
	_, diagonal := s.parts.Applied.(krylov.Diagonal)
	cfg := krylov.Config{RTol: s.spec.RTol, MaxIter: s.spec.MaxIter, Restart: s.spec.Restart,
		Precondition: s.parts.Applied != nil, Stored: !diagonal, Flexible: s.spec.Multigrid.Flexible()}
	if limit > 0 {
		cfg.MaxIter = min(cfg.MaxIter, limit)
	}
	return cfg
}

// Internals gives the benches of this module access to the parts of the system. Its type is internal: other modules
// cannot rely on it.
func (s *System) Internals() *profile.Internals { return &s.parts }

// Global returns the row number in the whole matrix of row i of this rank.
func (s *System) Global(i int) int { return s.parts.Plan.Global(i) }

// Solution returns the part of the last solution that belongs to the rows of this rank: element i to row Global(i). The
// next solve overwrites it.
func (s *System) Solution() []float64 { return s.parts.Engine.Vector(krylov.X) }

// Outcome is the result of a solve.
type Outcome struct {
	Result
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
	end := s.count()
	if s.null != nil {
		s.null.reductions = 0
	}
	result, err := solver.Run(func(stage *krylov.Stage) ([]float64, error) {
		local, err := s.parts.Engine.Run(stage, s.parts.Halo)
		if err != nil {
			return nil, err
		}
		return s.sums.Sum(local)
	})
	if err != nil {
		return Outcome{}, err
	}
	if s.null != nil {
		if err := s.null.project(s.Solution()); err != nil {
			return Outcome{}, err
		}
		result.Reductions += s.null.reductions
	}
	s.parts.Timed = end()
	out := Outcome{Result: result, Seconds: s.parts.Timed.Total, TrueResidual: math.NaN()}
	out.Stopped = out.Status == krylov.TooManyIterations && out.Iterations == s.spec.StopAfter
	return out, nil
}

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
