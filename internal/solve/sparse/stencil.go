package sparse

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
)

func init() {
	Kinds.Register(Kind{Name: DefaultKind, Help: "-div grad u on a grid: 5 or 9 points in 2-D, 7 or 27 in 3-D",
		New: newPoisson})
	Kinds.Register(Kind{Name: "anisotropic", Help: "a hundred times weaker coupling along the lines of the grid",
		New: newAnisotropic, Contrast: true})
	Kinds.Register(Kind{Name: "variable", Help: "coefficients that jump by up to a factor of 1000 from point to point",
		New: newVariable, Contrast: true})
	Kinds.Register(Kind{Name: "neumann",
		Help: "the same with no flow across the boundary: singular, solved up to a constant",
		New:  newNeumann})
	Kinds.Register(Kind{Name: "helmholtz",
		Help: "-div grad u - k^2 u with three waves across the grid: indefinite, for minres",
		New:  newHelmholtz})
	Kinds.Register(Kind{Name: "hub", Help: "-div grad u with a few rows that are each coupled to a sixteenth of all " +
		"rows, like the supply nets of a circuit",
		New: newHub})
	Kinds.Register(Kind{Name: "advection", Help: "diffusion in a steady wind, upwind differences: not symmetric",
		New: newAdvection})
}

// stencil is a matrix with the same entries in every row, except for entries outside the grid, where the solution is
// zero.
type stencil struct {
	grid   Grid
	points []StencilPoint // in the order of ascending columns
	traits Traits
}

// StencilPoint is an entry of every row: its position relative to the row's point, in grid points, and its value.
type StencilPoint struct {
	Step [3]int
	Coef float64
}

func (s *stencil) Size() int               { return s.grid.Size() }
func (s *stencil) Grid() Grid              { return s.grid }
func (s *stencil) Traits() Traits          { return s.traits }
func (s *stencil) Points() int             { return len(s.points) }
func (s *stencil) Locate(i int) [3]float64 { return s.grid.Locate(i) }

func (s *stencil) Row(i int, r *Row) {
	r.Reset()
	p := s.grid.Point(i)
	for _, q := range s.points {
		if at := [3]int{p[0] + q.Step[0], p[1] + q.Step[1], p[2] + q.Step[2]}; s.grid.has(at) {
			r.Add(s.grid.Index(at), q.Coef)
		}
	}
}

// StencilOf returns the grid and the entries of a problem with the same entries in every row, in the order of ascending
// columns. ok is false for any other problem.
func StencilOf(p Problem) (grid Grid, points []StencilPoint, ok bool) {
	s, ok := p.(*stencil)
	if !ok {
		return grid, nil, false
	}
	return s.grid, slices.Clone(s.points), true
}

// stencilOn makes a stencil from the coefficient of every step. A coefficient of zero means no entry.
func stencilOn(grid Grid, dim int, traits Traits, coef func(step [3]int) float64) *stencil {
	s := &stencil{grid: grid, traits: traits}
	for z := -1; z <= 1; z++ {
		for y := -1; y <= 1; y++ {
			for x := -1; x <= 1; x++ {
				step := [3]int{x, y, z}
				if c := coef(step); c != 0 && (dim == 3 || z == 0) {
					s.points = append(s.points, StencilPoint{step, c})
				}
			}
		}
	}
	return s
}

// shape returns the dimension and the number of points, with defaults filled in. boxes means that stencils with
// diagonal neighbours (9 and 27 points) are allowed.
func (p Params) shape(boxes bool) (dim, points int, err error) {
	dim, points = p.Dim, p.Stencil
	if dim == 0 {
		dim = 2
	}
	star, box := 2*dim+1, 9
	if dim == 3 {
		box = 27
	}
	if points == 0 {
		points = star
	}
	switch {
	case dim != 2 && dim != 3:
		return 0, 0, fmt.Errorf("dimension %d: want 2 or 3", dim)
	case points == star, points == box && boxes:
		return dim, points, nil
	case boxes:
		return 0, 0, fmt.Errorf("a stencil of %d points in %d-D: want %d or %d", points, dim, star, box)
	}
	return 0, 0, fmt.Errorf("a stencil of %d points in %d-D: want %d", points, dim, star)
}

// fit returns the shape, and the grid whose size is nearest to p.Rows.
func (p Params) fit(boxes bool) (grid Grid, dim, points int, err error) {
	if dim, points, err = p.shape(boxes); err == nil {
		grid, err = FitGrid(p.Rows, dim)
	}
	return grid, dim, points, err
}

// nonzeroAxes returns the number of axes in which a step is not zero.
func nonzeroAxes(step [3]int) int {
	n := 0
	for _, d := range step {
		if d != 0 {
			n++
		}
	}
	return n
}

// newPoisson has points-1 on the diagonal and -1 for every neighbour.
func newPoisson(p Params) (Problem, error) {
	grid, dim, points, err := p.fit(true)
	if err != nil {
		return nil, err
	}
	return poissonOn(grid, dim, points), nil
}

// NewGridPoisson returns the Poisson problem on the given grid, with a stencil of the given number of points.
func NewGridPoisson(grid Grid, points int) (Problem, error) {
	dim, err := grid.dim()
	if err != nil {
		return nil, err
	}
	if _, _, err := (Params{Dim: dim, Stencil: points}).shape(true); err != nil {
		return nil, err
	}
	return poissonOn(grid, dim, points), nil
}

// dim returns the dimension of a grid that the caller chose.
func (g Grid) dim() (int, error) {
	switch {
	case min(g[0], g[1], g[2]) < 1:
		return 0, fmt.Errorf("a grid of %v: want at least 1 point along each axis", g)
	case g[2] == 1:
		return 2, nil
	}
	return 3, nil
}

func poissonOn(grid Grid, dim, points int) *stencil {
	star := points == 2*dim+1
	return stencilOn(grid, dim, Traits{Symmetric: true, Definite: true}, func(step [3]int) float64 {
		switch n := nonzeroAxes(step); {
		case n == 0:
			return float64(points - 1)
		case n == 1, !star:
			return -1
		}
		return 0
	})
}

// neumann is a Poisson problem without flow across the boundary: the diagonal is the sum of the couplings, so that each
// row adds up to zero.
type neumann struct{ *stencil }

func newNeumann(p Params) (Problem, error) {
	poisson, err := newPoisson(p)
	if err != nil {
		return nil, err
	}
	s := poisson.(*stencil)
	s.traits.Singular = true
	return neumann{s}, nil
}

func (n neumann) Row(i int, r *Row) {
	n.stencil.Row(i, r)
	at, flow := 0, 0.0
	for k, c := range r.Cols {
		if c == i {
			at = k
		} else {
			flow -= r.Vals[k]
		}
	}
	r.Vals[at] = flow
}

// newHelmholtz subtracts k^2 from the diagonal of the Poisson stencil.
func newHelmholtz(p Params) (Problem, error) {
	grid, dim, points, err := p.fit(false)
	if err != nil {
		return nil, err
	}
	shift, err := betweenEigenvalues(grid, dim)
	if err != nil {
		return nil, err
	}
	return stencilOn(grid, dim, Traits{Symmetric: true, Indefinite: true}, func(step [3]int) float64 {
		switch nonzeroAxes(step) {
		case 0:
			return float64(points-1) - shift
		case 1:
			return -1
		}
		return 0
	}), nil
}

// betweenEigenvalues returns the shift k^2 for about three waves across the grid, or for fewer if the grid is too
// coarse. It lies in the middle of the widest gap between two eigenvalues of the Poisson star near the target, because
// the matrix is the closer to singular the closer the shift is to an eigenvalue.
func betweenEigenvalues(grid Grid, dim int) (float64, error) {
	const (
		waves  = 3.
		finest = 10. // minimum number of points per wave
		modes  = 12  // enough modes per axis to include all eigenvalues below four times the target
	)
	all := []float64{0}
	for _, n := range grid[:dim] {
		var more []float64
		for _, rest := range all {
			for i := 1; i <= min(n, modes); i++ {
				s := 2 * math.Sin(math.Pi*float64(i)/float64(2*(n+1)))
				more = append(more, rest+s*s)
			}
		}
		all = more
	}
	slices.Sort(all)
	target := math.Pow(2*math.Pi*min(waves/float64(slices.Max(grid[:])+1), 1/finest), 2)
	shift, widest := 0.0, 0.0
	for _, within := range []float64{0.5, math.Inf(1)} { // on a small grid no gap may be near the target
		for i := range all[1:] {
			middle, gap := (all[i]+all[i+1])/2, all[i+1]-all[i]
			if math.Abs(middle-target) <= within*target && gap > widest {
				shift, widest = middle, gap
			}
		}
		if widest > 0 {
			return shift, nil
		}
	}
	return 0, errors.New("a grid of one point has no waves: want at least 2")
}

// newAnisotropic couples points along x more weakly than along the other axes, by default a hundred times.
func newAnisotropic(p Params) (Problem, error) {
	grid, dim, _, err := p.fit(false)
	if err != nil {
		return nil, err
	}
	weak := 1 / cmp.Or(p.Contrast, 100)
	return stencilOn(grid, dim, Traits{Symmetric: true, Definite: true}, func(step [3]int) float64 {
		switch n := nonzeroAxes(step); {
		case n == 0:
			return 2*weak + 2*float64(dim-1)
		case n == 1 && step[0] != 0:
			return -weak
		case n == 1:
			return -1
		}
		return 0
	}), nil
}

// newAdvection adds a wind towards growing x, y and z to -div grad u. Upwind differences make the entry on the windward
// side larger.
func newAdvection(p Params) (Problem, error) {
	wind := [3]float64{0.5, 0.25, 0.125} // cell Peclet numbers
	grid, dim, _, err := p.fit(false)
	if err != nil {
		return nil, err
	}
	return stencilOn(grid, dim, Traits{}, func(step [3]int) float64 {
		n, coef := nonzeroAxes(step), 0.0
		for axis := range dim {
			switch {
			case n == 0:
				coef += 2 + wind[axis]
			case n == 1 && step[axis] < 0:
				coef = -1 - wind[axis]
			case n == 1 && step[axis] > 0:
				coef = -1
			}
		}
		return coef
	}), nil
}

// variable is -div(k grad u) with a coefficient k that differs from point to point. The flux between two points uses
// the harmonic mean of their coefficients, which keeps the matrix symmetric to the last bit.
type variable struct {
	grid     Grid
	dim      int
	seed     uint64
	contrast float64 // largest possible coefficient; the smallest is 1
}

// variableContrast is the default contrast of the problem with variable coefficients.
const variableContrast = 1000

func newVariable(p Params) (Problem, error) {
	grid, dim, _, err := p.fit(false)
	return &variable{grid, dim, p.Seed, cmp.Or(p.Contrast, variableContrast)}, err
}

// NewGridVariable returns the problem with variable coefficients on the given grid.
func NewGridVariable(grid Grid, seed uint64) (Problem, error) {
	dim, err := grid.dim()
	return &variable{grid, dim, seed, variableContrast}, err
}

// VariableOf returns the grid of a problem with variable coefficients, the steps from a point to the columns of its row
// in ascending order, and the seed of the coefficients. ok is false for any other problem, and if the contrast is not
// the default.
func VariableOf(p Problem) (grid Grid, steps [][3]int, seed uint64, ok bool) {
	v, ok := p.(*variable)
	if !ok || v.contrast != variableContrast {
		return grid, nil, 0, false
	}
	points := poissonOn(v.grid, v.dim, v.Points()).points
	return v.grid, lists.Map(points, func(q StencilPoint) [3]int { return q.Step }), v.seed, true
}

func (v *variable) Size() int               { return v.grid.Size() }
func (v *variable) Grid() Grid              { return v.grid }
func (v *variable) Traits() Traits          { return Traits{Symmetric: true, Definite: true} }
func (v *variable) Points() int             { return 2*v.dim + 1 }
func (v *variable) Locate(i int) [3]float64 { return v.grid.Locate(i) }

// k returns the coefficient of a point, between 1 and the contrast and mostly small compared with the contrast.
func (v *variable) k(i int) float64 {
	u := unit(hash(v.seed, i))
	return 1 + (v.contrast-1)*u*u*u*u
}

// Row implements Problem. Fluxes to points outside the grid, where u is zero, count in the diagonal only.
func (v *variable) Row(i int, r *Row) {
	r.Reset()
	p, own := v.grid.Point(i), v.k(i)
	diag, at := 0.0, 0
	for n := range 2*v.dim + 1 {
		if n == v.dim {
			at = len(r.Cols)
			r.Add(i, 0)
			continue
		}
		// Columns ascend from -z, -y, -x over the point itself to +x, +y, +z.
		axis, d := v.dim-1-n, -1
		if n > v.dim {
			axis, d = n-v.dim-1, 1
		}
		q := p
		q[axis] += d
		flux := own // towards the boundary
		if v.grid.has(q) {
			j := v.grid.Index(q)
			other := v.k(j)
			flux = 2 * own * other / (own + other)
			r.Add(j, -flux)
		}
		diag += flux
	}
	r.Vals[at] = diag
}

// hub is a Poisson problem whose first points are hubs: each hub is also coupled, weakly, to every hubs-th of the other
// rows. So a few rows have very many entries, and each other row has a neighbour that may be far away. The problem has
// coordinates but is not a grid.
type hub struct {
	base *stencil
	hubs int
}

const (
	maxHubs   = 16
	hubWeight = 1. / 64 // coupling to a hub, relative to 1 for a neighbour
)

func newHub(p Params) (Problem, error) {
	p.Stencil = 0
	poisson, err := newPoisson(p)
	if err != nil {
		return nil, err
	}
	base := poisson.(*stencil)
	return &hub{base, min(maxHubs, base.Size()/(2*maxHubs))}, nil
}

func (h *hub) Size() int               { return h.base.Size() }
func (h *hub) Traits() Traits          { return h.base.Traits() }
func (h *hub) Locate(i int) [3]float64 { return h.base.Locate(i) }

func (h *hub) Row(i int, r *Row) {
	h.base.Row(i, r)
	switch {
	case h.hubs == 0:
	case i < h.hubs:
		h.spread(i, r)
	default:
		r.addTo(i%h.hubs, -hubWeight)
		r.addTo(i, hubWeight)
	}
}

// spread adds the couplings of hub i to its row.
func (h *hub) spread(i int, r *Row) {
	base := Row{slices.Clone(r.Cols), slices.Clone(r.Vals)}
	r.Reset()
	k, total := 0, 0.0
	before := func(col int) {
		for ; k < len(base.Cols) && base.Cols[k] < col; k++ {
			r.Add(base.Cols[k], base.Vals[k])
		}
	}
	for j := h.hubs + i; j < h.Size(); j += h.hubs {
		before(j)
		v := -hubWeight
		if k < len(base.Cols) && base.Cols[k] == j {
			v += base.Vals[k]
			k++
		}
		r.Add(j, v)
		total += hubWeight
	}
	before(h.Size())
	r.addTo(i, total)
}

// addTo adds val to the entry of a column, and inserts the entry if it does not exist.
func (r *Row) addTo(col int, val float64) {
	at, found := slices.BinarySearch(r.Cols, col)
	if !found {
		r.Cols, r.Vals = slices.Insert(r.Cols, at, col), slices.Insert(r.Vals, at, 0)
	}
	r.Vals[at] += val
}
