package sparse

import (
	"fmt"
	"slices"
	"strings"
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

// Located is a Problem whose rows have places in space.
type Located interface{ Locate(i int) [3]float64 }

// Traits are what methods need to know of a matrix.
type Traits struct {
	Symmetric bool
	Definite  bool // known to be positive definite; never true without Symmetric
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

// Params choose among the sizes and variants of a generated problem.
type Params struct {
	Rows    int    // wanted; the problem takes the nearest size that it has
	Dim     int    // 2 or 3; 0 is 2
	Stencil int    // points; 0 is the smallest of the dimension
	Seed    uint64 // of random coefficients and places
}

// Kind is a family of generated problems.
type Kind struct {
	Name string
	Help string
	New  func(Params) (Problem, error)
}

// kinds is every generated problem: a new one is a file of its own and a line
// here.
var kinds = []Kind{
	{"poisson", "-div grad u on a grid: 5 or 9 points in 2-D, 7 or 27 in 3-D", newPoisson},
	{"anisotropic", "a hundred times weaker coupling along the lines of the grid", newAnisotropic},
	{"variable", "coefficients that jump by up to a factor of 1000 from point to point", newVariable},
	{"advection", "diffusion in a steady wind, upwind differences: not symmetric", newAdvection},
	{"mesh", "linear elements on an irregular triangle mesh, 2-D, numbered irregularly", newMesh},
}

// Kinds lists the generated problems.
func Kinds() []Kind { return slices.Clone(kinds) }

// New makes a generated problem by name.
func New(name string, p Params) (Problem, error) {
	var names []string
	for _, k := range kinds {
		if k.Name == name {
			made, err := k.New(p)
			if err != nil {
				return nil, fmt.Errorf("problem %s: %w", name, err)
			}
			return made, nil
		}
		names = append(names, k.Name)
	}
	return nil, fmt.Errorf("problem %q is unknown: there are %s", name, strings.Join(names, ", "))
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
