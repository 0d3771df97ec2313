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
	Symmetric bool
	// known to be positive definite; never true without Symmetric. Where Singular, on vectors that add up
	// to zero
	Definite   bool
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

// Kinds is the registry of generated problems.
var Kinds = registry.New("problem", func(k Kind) registry.Entry {
	return registry.Entry{Name: k.Name, Help: k.Help}
})

// New makes a generated problem by name.
func New(name string, p Params) (Problem, error) {
	k, err := Kinds.Lookup(name)
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

// Grid is the number of points along x, y and z; a plane has one along z. Points
// are numbered along x first, then y, then z.
type Grid [3]int

// Size is the number of points.
func (g Grid) Size() int { return g[0] * g[1] * g[2] }

// Index is the number of a point.
func (g Grid) Index(at [3]int) int { return at[0] + g[0]*(at[1]+g[1]*at[2]) }

// Point is the coordinates of a point by its number.
func (g Grid) Point(i int) [3]int { return [3]int{i % g[0], i / g[0] % g[1], i / (g[0] * g[1])} }

// String is the grid's sizes as 100x100x1.
func (g Grid) String() string { return fmt.Sprintf("%dx%dx%d", g[0], g[1], g[2]) }

// has reports whether a point lies in the grid.
func (g Grid) has(at [3]int) bool {
	return uint(at[0]) < uint(g[0]) && uint(at[1]) < uint(g[1]) && uint(at[2]) < uint(g[2])
}

// Locate is the coordinates of a point as a Located problem gives them.
func (g Grid) Locate(i int) [3]float64 {
	p := g.Point(i)
	return [3]float64{float64(p[0]), float64(p[1]), float64(p[2])}
}

// FitGrid is the nearly square or cubic grid whose size comes nearest to rows.
// Exactly fitting grids are common, so runs at different sizes can be compared:
// an eighth off the square, or a point, is allowed per axis.
func FitGrid(rows, dim int) (Grid, error) {
	if rows < 1 || dim < 2 || dim > 3 {
		return Grid{}, fmt.Errorf("a grid of %d points in %d dimensions: want at least 1 point in 2 or 3", rows, dim)
	}
	if dim == 2 {
		x, y := fitPair(rows)
		return Grid{x, y, 1}, nil
	}
	best, off := Grid{}, math.MaxInt
	side := int(math.Cbrt(float64(rows)) + 0.5)
	for d := 0; d <= side/8+1 && off > 0; d++ {
		for _, z := range [2]int{side - d, side + d} {
			if z < 1 {
				continue
			}
			x, y := fitPair(max(1, (rows+z/2)/z))
			if far := distance(x*y*z, rows); far < off {
				best, off = Grid{x, y, z}, far
			}
		}
	}
	return best, nil
}

// fitPair is the nearly square pair whose product comes nearest to n.
func fitPair(n int) (int, int) {
	side := int(math.Sqrt(float64(n)) + 0.5)
	bx, by, off := side, side, distance(side*side, n)
	for d := 0; d <= side/8+1 && off > 0; d++ {
		x := side + d
		y := (n + x/2) / x
		if far := distance(x*y, n); y > 0 && far < off {
			bx, by, off = x, y, far
		}
	}
	return bx, by
}

func distance(a, b int) int { return max(a-b, b-a) }
