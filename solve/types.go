package solve

import (
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Problems: square sparse matrices that give any row on demand.
type (
	// Problem is a matrix: its Size, its Traits, and Row(i, *Row), which makes row i
	// from its number alone.
	Problem = sparse.Problem
	// Row is one row: columns, ascending, and values side by side.
	Row = sparse.Row
	// Traits are what methods need to know of a matrix: symmetric, definite.
	Traits = sparse.Traits
	// Gridded is a Problem whose rows are the points of a grid, in its order.
	Gridded = sparse.Gridded
	// Located is a Problem whose rows have coordinates.
	Located = sparse.Located
	// Grid is the number of points along x, y and z.
	Grid = sparse.Grid
	// Params choose among the sizes and variants of a generated problem.
	Params = sparse.Params
	// Kind is a registered family of generated problems.
	Kind = sparse.Kind
	// Storage is the form in which a rank keeps its rows.
	Storage = sparse.Format
	// Matrix is a rank's rows in that form.
	Matrix = sparse.Matrix
)

// The forms: both give the same bits.
const (
	Compressed = sparse.Compressed // the smallest that is exact
	Plain      = sparse.Plain      // every value a double, every column 32 bits
)

// NewProblem makes a generated problem by the name of its kind.
func NewProblem(kind string, p Params) (Problem, error) { return sparse.New(kind, p) }

// RegisterProblem adds a kind of generated problem. As all functions that register,
// it is meant for init functions, and panics when the name is taken.
func RegisterProblem(k Kind) { sparse.Kinds.Register(k) }

// Problems lists the kinds of generated problems by name.
func Problems() []Kind { return sparse.Kinds.All() }

// Partitions: who owns which rows.
type (
	// Layout tells the owner of a row and the rows of a rank.
	Layout = sparse.Layout
	// Range is the numbers from Lo up to, not including, Hi.
	Range = sparse.Range
	// Plan is what one rank exchanges with the others in a product.
	Plan = sparse.Plan
	// Partitioner is a registered way to make a layout, with what it needs and
	// promises.
	Partitioner = partition.Partitioner
	// PartitionOptions are what a partitioner is told beside the problem.
	PartitionOptions = partition.Options
	// Objective is what an optimising partitioner makes small.
	Objective = partition.Objective
	// Weights is what every rank is to have the same of.
	Weights = partition.Weights
)

// What a partitioner must know of a problem.
const (
	NeedsSize        = partition.Size
	NeedsGrid        = partition.Grid
	NeedsCoordinates = partition.Coordinates // or a grid
	NeedsGraph       = partition.Graph       // every row: rank 0 partitions for all
)

// The objectives.
const (
	EdgeCut = partition.EdgeCut
	Volume  = partition.Volume
)

// The weights.
const (
	ByRows    = partition.ByRows
	ByEntries = partition.ByEntries // of the matrix: of rows that differ much in length
)

// NewTable is the layout in which row i belongs to owners[i].
func NewTable(owners []int32, ranks int) (Layout, error) { return partition.NewTable(owners, ranks) }

// RegisterPartitioner adds a partitioner.
func RegisterPartitioner(p Partitioner) { partition.Partitioners.Register(p) }

// Partitioners lists the partitioners by name.
func Partitioners() []Partitioner { return partition.Partitioners.All() }

// Methods: they hand out stages and are told the sums.
type (
	// Method is a registered Krylov method, with what it needs.
	Method = krylov.Method
	// Core is a solve under way, as its method sees it.
	Core = krylov.Core
	// Stage is what a method wants done: vector updates, at most one preconditioner
	// and one product with the matrix, then scalar products.
	Stage = krylov.Stage
	// Vec is the number of a vector of the solve.
	Vec = krylov.Vec
	// Term is a vector times a number.
	Term = krylov.Term
	// Preconditioner is a registered preconditioner, with what it needs.
	Preconditioner = precondition.Preconditioner
	// Local is one rank's part of the matrix, from which a preconditioner is set up.
	Local = precondition.Local
	// Operator is a preconditioner that was set up: z = M r on the rows of one rank.
	Operator = krylov.Operator
	// Result is what a method knows of its solve.
	Result = krylov.Result
	// Status says how a solve ended.
	Status = krylov.Status
)

// The vectors that every method has. A method's own start at FirstOwn.
const (
	X        = krylov.X // the solution
	B        = krylov.B // the right-hand side
	FirstOwn = krylov.FirstOwn
)

// What a method demands of the matrix.
const (
	AnyMatrix         = krylov.Any
	Symmetric         = krylov.Symmetric
	SymmetricDefinite = krylov.SymmetricDefinite
)

// How a solve ends.
const (
	Converged         = krylov.Converged
	TooManyIterations = krylov.TooManyIterations
	Breakdown         = krylov.Breakdown
)

// RegisterMethod adds a method.
func RegisterMethod(m Method) { krylov.Methods.Register(m) }

// Methods lists the methods by name.
func Methods() []Method { return krylov.Methods.All() }

// RegisterPreconditioner adds a preconditioner.
func RegisterPreconditioner(p Preconditioner) { precondition.Preconditioners.Register(p) }

// DiagonalOf is the operator that multiplies each value by a number that follows from its row.
func DiagonalOf(l *Local, factor func(i int, r *Row) (float64, error)) (Operator, error) {
	return precondition.DiagonalOf(l, factor)
}

// Preconditioners lists the preconditioners by name.
func Preconditioners() []Preconditioner { return precondition.Preconditioners.All() }
