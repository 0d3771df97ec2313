package solve

import (
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	_ "github.com/kernbench/kernbench/internal/solve/multigrid" // registers gmg and amg
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
)

type (
	// Spec describes a linear system and how to solve it. All ranks must give the same Spec.
	Spec = system.Spec
	// Outcome is the result of a solve.
	Outcome = system.Outcome
)

// System is one rank's part of a linear system, ready to be solved.
type System struct {
	Size  int // rows of the whole matrix
	inner *system.System
}

// New sets up a system together with the other ranks of the group: it partitions the matrix, generates the rows of this
// rank, plans the halo exchange and sets up the preconditioner.
func New(g *dist.Group, spec Spec) (*System, error) { return face(system.New(g, spec)) }

// Adjoint sets up the adjoint of the system that spec describes: the transposed matrix, with a gradient as right-hand
// side. If gradient is the derivative of a number L with respect to the solution x, the solution v of
// the adjoint system is the derivative of L with respect to the right-hand side b, and -v_i x_j is the
// derivative with respect to the entry (i, j) of the matrix. All ranks call it together.
//
// A matrix that is not symmetric must have a symmetric pattern, unless it comes from a file.
func Adjoint(g *dist.Group, spec Spec, gradient func(row int) float64) (*System, error) {
	return face(system.Adjoint(g, spec, gradient))
}

func face(s *system.System, err error) (*System, error) {
	if err != nil {
		return nil, err
	}
	return &System{s.Size, s}, nil
}

// Solve solves the system once, starting from zero. A limit above 0 replaces a larger Spec.MaxIter. For a fair time the
// ranks should start together.
func (s *System) Solve(limit int) (Outcome, error) { return s.inner.Solve(limit) }

// Check computes the true residual of the last solution, ||b - Ax|| / ||b||, and records it in the outcome of that
// solve, with an estimate of what rounding alone leaves. If the matrix is singular, the constant part of b is left out.
// All ranks call it together.
//
// Check shares only the numbering of the rows with the solve. It generates the rows again, multiplies them one by one,
// and asks other ranks for values by row number. A solve with a wrong halo exchange or a wrong stored matrix converges
// to the solution of another system, and only an independent check notices that.
func (s *System) Check(out *Outcome) error { return s.inner.Check(out) }

// Solution returns the part of the last solution that belongs to the rows of this rank: element i to row Global(i). The
// next solve overwrites it.
func (s *System) Solution() []float64 { return s.inner.Solution() }

// Global returns the row number in the whole matrix of row i of this rank.
func (s *System) Global(i int) int { return s.inner.Plan.Global(i) }

// VectorFile reads a right-hand side from a Matrix Market file in array format, plain or compressed, or from an archive
// of the SuiteSparse collection.
func VectorFile(path string) ([]float64, error) { return sparse.LoadVector(path) }

// Problems are square sparse matrices that return any row on demand.
type (
	// Problem is a matrix with the methods Size() int, Traits() Traits and Row(i int, r *Row). Row makes row i from its
	// number alone, with columns ascending. Problems must be safe for concurrent use.
	Problem = sparse.Problem
	// Row is one row of a matrix: the columns Cols, ascending, and the values Vals.
	Row = sparse.Row
	// Traits are the properties of a matrix that methods require: Symmetric, Definite and others.
	Traits = sparse.Traits
	// Gridded is implemented by a Problem whose rows are the points of a grid, in the order of the grid.
	Gridded = sparse.Gridded
	// Located is implemented by a Problem whose rows have coordinates.
	Located = sparse.Located
	// Grid is the number of points along x, y and z.
	Grid = sparse.Grid
	// Params select the size and the variant of a generated problem.
	Params = sparse.Params
	// Kind is a registered family of generated problems.
	Kind = sparse.Kind
)

// NewProblem makes a generated problem of the named kind.
func NewProblem(kind string, p Params) (Problem, error) { return sparse.New(kind, p) }

// RegisterProblem adds a kind of generated problem. Like all Register functions, it is meant for init functions and
// panics if the name is taken.
func RegisterProblem(k Kind) { sparse.Kinds.Register(k) }

// Problems lists the kinds of generated problems, ordered by name.
func Problems() []Kind { return sparse.Kinds.All() }

// Partitions assign rows to ranks.
type (
	// Layout knows the owner of each row and the rows of each rank.
	Layout = sparse.Layout
	// Range is the half-open interval of integers [Lo, Hi).
	Range = sparse.Range
	// Partitioner is a registered way to make a layout, with its requirements and its guarantee of balance.
	Partitioner = partition.Partitioner
	// PartitionOptions are the arguments of a partitioner besides the problem.
	PartitionOptions = partition.Options
	// Objective is the quantity that an optimising partitioner minimises. The default is the edge cut.
	Objective = partition.Objective
	// Weights is the quantity that a partitioner balances over the ranks. The default is the number of rows.
	Weights = partition.Weights
)

// Partitioner.Needs is one of these: the part of a problem that a partitioner looks at.
const (
	NeedsSize        = partition.Size
	NeedsGrid        = partition.Grid
	NeedsCoordinates = partition.Coordinates // or a grid
	NeedsGraph       = partition.Graph       // every row, so rank 0 partitions for all ranks
)

const (
	// Volume is the Objective that minimises the number of values exchanged in a product.
	Volume = partition.Volume
	// ByEntries is the Weights that balances matrix entries. Use it if rows differ much in length.
	ByEntries = partition.ByEntries
)

// NewTable returns the layout in which row i belongs to rank owners[i].
func NewTable(owners []int32, ranks int) (Layout, error) { return partition.NewTable(owners, ranks) }

// RegisterPartitioner adds a partitioner.
func RegisterPartitioner(p Partitioner) { partition.Partitioners.Register(p) }

// Partitioners lists the partitioners, ordered by name.
func Partitioners() []Partitioner { return partition.Partitioners.All() }

// Methods request work in stages and continue with the sums of each stage.
type (
	// Method is a registered Krylov method, with its requirements.
	Method = krylov.Method
	// Core is the state of a running solve that its method works with.
	Core = krylov.Core
	// Stage is a request of a method: vector updates, at most one preconditioner and one product with the matrix, then
	// scalar products.
	Stage = krylov.Stage
	// Vec is the number of a vector of the solve.
	Vec = krylov.Vec
	// Term is a vector times a number.
	Term = krylov.Term
	// Preconditioner is a registered preconditioner, with its requirements.
	Preconditioner = precondition.Preconditioner
	// Local is one rank's part of the matrix, from which a preconditioner is set up.
	Local = precondition.Local
	// Operator is a preconditioner that has been set up: z = M r on the rows of one rank.
	Operator = krylov.Operator
	// Result is the result of a solve as its method knows it.
	Result = krylov.Result
	// Status is the way in which a solve ended.
	Status = krylov.Status
	// Refusal is the error of New if a method or a preconditioner cannot work on the problem.
	Refusal = krylov.Refusal
)

// Every method has the vectors X and B. Its own vectors start at FirstOwn.
const (
	X        = krylov.X // the solution
	B        = krylov.B // the right-hand side
	FirstOwn = krylov.FirstOwn
)

// Method.Needs and Preconditioner.Needs are one of these. The zero value means any matrix.
const (
	Symmetric         = krylov.Symmetric
	SymmetricDefinite = krylov.SymmetricDefinite
)

// A solve ends with one of these.
const (
	Converged         = krylov.Converged
	TooManyIterations = krylov.TooManyIterations
	Breakdown         = krylov.Breakdown
)

// RegisterMethod adds a method.
func RegisterMethod(m Method) { krylov.Methods.Register(m) }

// Methods lists the methods, ordered by name.
func Methods() []Method { return krylov.Methods.All() }

// RegisterPreconditioner adds a preconditioner.
func RegisterPreconditioner(p Preconditioner) { precondition.Preconditioners.Register(p) }

// Preconditioners lists the preconditioners, ordered by name.
func Preconditioners() []Preconditioner { return precondition.Preconditioners.All() }

// DiagonalOf returns the operator that multiplies the value of each row by factor(i, row i). Methods
// fuse such operators into their passes over memory.
func DiagonalOf(l *Local, factor func(i int, r *Row) (float64, error)) (Operator, error) {
	return precondition.DiagonalOf(l, factor)
}
