// Package sparse holds square sparse matrices spread over ranks: problems that
// give any row on demand, Matrix Market files, the form in which one rank
// multiplies its rows, the plan of what it exchanges with others, and the
// kernels that do the arithmetic.
//
// It moves no data between ranks, chooses no owner of rows and solves nothing:
// see packages partition and krylov. It reads no clock and starts no goroutine.
//
// # From a problem to a product
//
//  1. A Problem (New, or ReadMatrix for a file) knows its rows by number.
//  2. NewPlan, with a Layout that says who owns which rows, finds which values
//     a rank needs from others (its ghosts). The ranks tell each other, and
//     Plan.Serve notes what others need.
//  3. Plan.Matrix makes the rank's rows, in local numbers: owned values first,
//     then ghosts, those of one owner together.
//  4. Before a product the ghosts are exchanged: Plan.Pack gathers what a peer
//     needs; what arrives goes to the peer's range of ghosts as it is. Rows
//     that need no ghost, Plan.Interior, can be multiplied meanwhile.
//
// # Results do not depend on the machine or the form
//
// A row is summed in the order of its entries, products rounded before they are
// added. Every stored form, and every kernel, gives the same bits.
package sparse

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/registry"
)

// Problem is a square matrix that gives any of its rows on demand, so that a
// rank makes its own rows and no more. Implementations are safe for concurrent
// use.
type Problem interface {
	Size() int
	// Row sets r to row i, columns ascending.
	Row(i int, r *Row)
	Traits() Traits
}

// Gridded is a Problem whose rows are the points of a grid in its order.
type Gridded interface{ Grid() Grid }

// Located is a Problem whose rows have coordinates.
type Located interface{ Locate(i int) [3]float64 }

// Traits are what methods need to know of a matrix.
type Traits struct {
	Symmetric  bool
	Definite   bool // known to be positive definite; never true without Symmetric. Where Singular, on vectors that add up to zero
	Indefinite bool // known to have eigenvalues of both signs
	Singular   bool // known that its null space is the constants, which are then what no product has a part of
}

// Row is one row: columns and values side by side.
type Row struct {
	Cols []int
	Vals []float64
}

// Reset empties the row and keeps its memory.
func (r *Row) Reset() { r.Cols, r.Vals = r.Cols[:0], r.Vals[:0] }

// Add appends an entry.
func (r *Row) Add(col int, val float64) {
	r.Cols, r.Vals = append(r.Cols, col), append(r.Vals, val)
}

// AddsUpToZero reports whether the entries do, but for rounding: where all rows do, the product with a
// constant is zero.
func (r *Row) AddsUpToZero() bool {
	const rounding = 1e-13 // of the sum without signs
	sum, size := 0.0, 0.0
	for _, v := range r.Vals {
		sum += v
		size += math.Abs(v)
	}
	return math.Abs(sum) <= rounding*size
}

// AddUpToZero reports whether all rows of a problem do.
func AddUpToZero(p Problem) bool {
	var row Row
	for i := range p.Size() {
		if p.Row(i, &row); !row.AddsUpToZero() {
			return false
		}
	}
	return true
}

// Params choose among the sizes and variants of a generated problem.
type Params struct {
	Rows    int    // wanted; the problem takes the nearest size that it has
	Dim     int    // 2 or 3; 0 is 2
	Stencil int    // points; 0 is the smallest of the dimension
	Seed    uint64 // of random coefficients and coordinates
}

// DefaultKind is the generated problem where none is named.
const DefaultKind = "poisson"

// Kind is a registered family of generated problems.
type Kind struct {
	Name string
	Help string
	New  func(Params) (Problem, error)
}

var kinds = registry.New("problem", func(k Kind) string { return k.Name })

// Register adds a kind of problem. A program calls it before it makes problems,
// usually in an init function; a name that is taken panics.
func Register(k Kind) { kinds.Register(k) }

// Kinds lists the generated problems by name.
func Kinds() []Kind { return kinds.All() }

// New makes a generated problem by name.
func New(name string, p Params) (Problem, error) {
	k, err := kinds.Lookup(name)
	if err != nil {
		return nil, err
	}
	made, err := k.New(p)
	if err != nil {
		return nil, fmt.Errorf("problem %s: %w", name, err)
	}
	return made, nil
}

// hash is a well-mixed function of its arguments (the finaliser of
// splitmix64, applied to each).
func hash(seed uint64, more ...int) uint64 {
	h := seed
	for _, m := range more {
		h += uint64(m)*0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// unit is a hash as a number in [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// Noise is the i-th element of a random vector, uniform in [-1, 1). Every rank
// can make its own part of it.
func Noise(seed uint64, i int) float64 { return 2*unit(hash(seed, i)) - 1 }
