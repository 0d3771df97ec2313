// Package sparse holds square sparse matrices that are distributed over ranks: problems that return any row on demand,
// Matrix Market files, the form in which one rank multiplies its rows, the plan of its halo exchange, and the kernels
// that do the arithmetic.
//
// It does not move data between ranks, choose owners of rows, or solve anything: see packages partition and krylov. It
// reads no clock and starts no goroutine.
//
// # From a problem to a product
//
//  1. A Problem (from New, or ReadMatrix for a file) returns its rows by number.
//  2. NewPlan, with a Layout that assigns rows to ranks, finds the values that a rank needs from other ranks (its
//     ghosts). The ranks tell each other, and Plan.Serve records what other ranks need.
//  3. Plan.Matrix generates the rows of the rank in local numbers: owned values first, then ghosts, grouped by owner.
//  4. The ghosts are exchanged before a product: Plan.Pack gathers the values that a peer needs, and the values that
//     arrive are copied to the peer's range of ghosts. Rows that need no ghost (Plan.Interior) can be multiplied while
//     the messages travel.
//
// # Results are independent of machine and format
//
// A row is summed in the order of its entries, and products are rounded before they are added. Every stored form and
// every kernel gives the same bits.
package sparse

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/registry"
)

// Problem is a square matrix that returns any of its rows on demand, so that a rank generates only its own rows.
// Implementations must be safe for concurrent use.
type Problem interface {
	Size() int
	// Row sets r to row i, with columns ascending.
	Row(i int, r *Row)
	Traits() Traits
}

// Gridded is implemented by a Problem whose rows are the points of a grid, in the order of the grid.
type Gridded interface{ Grid() Grid }

// Located is implemented by a Problem whose rows have coordinates.
type Located interface{ Locate(i int) [3]float64 }

// Traits are the properties of a matrix that methods and preconditioners require.
type Traits struct {
	Symmetric bool
	// Definite means known to be positive definite, or positive definite on vectors that add up to zero if Singular. It is
	// never true without Symmetric.
	Definite   bool
	Indefinite bool // known to have eigenvalues of both signs
	Singular   bool // known to have the constants as its null space
}

// Row is one row of a matrix: entry k is Vals[k] in column Cols[k].
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

// AddsUpToZero reports whether the entries add up to zero, except for rounding. If all rows do, the product with a
// constant vector is zero.
func (r *Row) AddsUpToZero() bool {
	const rounding = 1e-13 // relative to the sum of magnitudes
	sum, size := 0.0, 0.0
	for _, v := range r.Vals {
		sum += v
		size += math.Abs(v)
	}
	return math.Abs(sum) <= rounding*size
}

// Params select the size and the variant of a generated problem.
type Params struct {
	Rows    int    // desired number of rows; the problem takes the nearest size that it has
	Dim     int    // 2 or 3; 0 means 2
	Stencil int    // number of points; 0 means the smallest stencil of the dimension
	Seed    uint64 // for random coefficients and coordinates
	// Contrast is the ratio of the largest to the smallest coefficient of a problem whose coefficients differ. 0 means
	// the default of the kind.
	Contrast float64
}

// DefaultKind is the kind of problem if none is named.
const DefaultKind = "poisson"

// Kind is a registered family of generated problems.
type Kind struct {
	Name     string
	Help     string
	New      func(Params) (Problem, error)
	Contrast bool // uses Params.Contrast
}

// Kinds is the registry of generated problems.
var Kinds = registry.New("problem", func(k Kind) registry.Entry {
	return registry.Entry{Name: k.Name, Help: k.Help}
})

// New makes a generated problem of the named kind.
func New(name string, p Params) (Problem, error) {
	k, err := Kinds.Lookup(name)
	if err != nil {
		return nil, err
	}
	problem, err := k.New(p)
	if err != nil {
		return nil, fmt.Errorf("problem %s: %w", name, err)
	}
	return problem, nil
}

// hash mixes its arguments well. It applies the finaliser of splitmix64 to each.
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

// unit converts a hash to a number in [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// Noise returns the i-th element of a random vector, uniform in [-1, 1). Each rank can generate its own part of the
// vector.
func Noise(seed uint64, i int) float64 { return 2*unit(hash(seed, i)) - 1 }

// Grid is the number of points along x, y and z. A plane has one point along z. Points are numbered along x first, then
// y, then z.
type Grid [3]int

// Size returns the number of points.
func (g Grid) Size() int { return g[0] * g[1] * g[2] }

// Index returns the number of a point.
func (g Grid) Index(at [3]int) int { return at[0] + g[0]*(at[1]+g[1]*at[2]) }

// Point returns the coordinates of the point with number i.
func (g Grid) Point(i int) [3]int { return [3]int{i % g[0], i / g[0] % g[1], i / (g[0] * g[1])} }

// String formats the grid as 100x100x1.
func (g Grid) String() string { return fmt.Sprintf("%dx%dx%d", g[0], g[1], g[2]) }

// has reports whether a point lies in the grid.
func (g Grid) has(at [3]int) bool {
	return uint(at[0]) < uint(g[0]) && uint(at[1]) < uint(g[1]) && uint(at[2]) < uint(g[2])
}

// Locate returns the coordinates of a point as floats, for Located problems.
func (g Grid) Locate(i int) [3]float64 {
	p := g.Point(i)
	return [3]float64{float64(p[0]), float64(p[1]), float64(p[2])}
}

// FitGrid returns the nearly square or cubic grid whose size is nearest to rows. A side may differ from the square or
// cube by an eighth or by one point. With that freedom most sizes have an exactly fitting grid, so that runs of
// different sizes can be compared.
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
			if difference := distance(x*y*z, rows); difference < off {
				best, off = Grid{x, y, z}, difference
			}
		}
	}
	return best, nil
}

// fitPair returns the nearly square pair of factors whose product is nearest to n.
func fitPair(n int) (int, int) {
	side := int(math.Sqrt(float64(n)) + 0.5)
	bx, by, off := side, side, distance(side*side, n)
	for d := 0; d <= side/8+1 && off > 0; d++ {
		x := side + d
		y := (n + x/2) / x
		if difference := distance(x*y, n); y > 0 && difference < off {
			bx, by, off = x, y, difference
		}
	}
	return bx, by
}

func distance(a, b int) int { return max(a-b, b-a) }
