package sparse

import "fmt"

func init() {
	Register(Kind{DefaultKind, "-div grad u on a grid: 5 or 9 points in 2-D, 7 or 27 in 3-D", newPoisson})
	Register(Kind{"anisotropic", "a hundred times weaker coupling along the lines of the grid", newAnisotropic})
	Register(Kind{"variable", "coefficients that jump by up to a factor of 1000 from point to point", newVariable})
	Register(Kind{"advection", "diffusion in a steady wind, upwind differences: not symmetric", newAdvection})
}

// stencil is a matrix with the same entries in every row, less those that lie
// outside the grid (where the solution is zero).
type stencil struct {
	grid   Grid
	points []stencilPoint // by ascending column
	traits Traits
}

type stencilPoint struct {
	step [3]int
	coef float64
}

func (s *stencil) Size() int               { return s.grid.Size() }
func (s *stencil) Grid() Grid              { return s.grid }
func (s *stencil) Traits() Traits          { return s.traits }
func (s *stencil) Points() int             { return len(s.points) }
func (s *stencil) Locate(i int) [3]float64 { return s.grid.locate(i) }

func (s *stencil) Row(i int, r *Row) {
	r.Reset()
	p := s.grid.Point(i)
	for _, q := range s.points {
		if at := [3]int{p[0] + q.step[0], p[1] + q.step[1], p[2] + q.step[2]}; s.grid.has(at) {
			r.Add(s.grid.Index(at), q.coef)
		}
	}
}

// newStencil makes the points by asking for the coefficient of every step;
// zero is none.
func newStencil(p Params, dim int, traits Traits, coef func(step [3]int) float64) (*stencil, error) {
	grid, err := FitGrid(p.Rows, dim)
	if err != nil {
		return nil, err
	}
	s := &stencil{grid: grid, traits: traits}
	for z := -1; z <= 1; z++ {
		for y := -1; y <= 1; y++ {
			for x := -1; x <= 1; x++ {
				step := [3]int{x, y, z}
				if c := coef(step); c != 0 && (dim == 3 || z == 0) {
					s.points = append(s.points, stencilPoint{step, c})
				}
			}
		}
	}
	return s, nil
}

// shape resolves dimension and number of points; box is whether diagonal
// neighbours belong.
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

// along is the number of axes that a step moves along.
func along(step [3]int) int {
	n := 0
	for _, d := range step {
		if d != 0 {
			n++
		}
	}
	return n
}

// newPoisson has the points minus one on the diagonal and -1 beside it.
func newPoisson(p Params) (Problem, error) {
	dim, points, err := p.shape(true)
	if err != nil {
		return nil, err
	}
	star := points == 2*dim+1
	return newStencil(p, dim, Traits{Symmetric: true, Definite: true}, func(step [3]int) float64 {
		switch n := along(step); {
		case n == 0:
			return float64(points - 1)
		case n == 1, !star:
			return -1
		}
		return 0
	})
}

// newAnisotropic couples points along x a hundred times less than the others.
func newAnisotropic(p Params) (Problem, error) {
	const weak = 0.01
	dim, _, err := p.shape(false)
	if err != nil {
		return nil, err
	}
	return newStencil(p, dim, Traits{Symmetric: true, Definite: true}, func(step [3]int) float64 {
		switch n := along(step); {
		case n == 0:
			return 2*weak + 2*float64(dim-1)
		case n == 1 && step[0] != 0:
			return -weak
		case n == 1:
			return -1
		}
		return 0
	})
}

// newAdvection adds to -div grad u a wind that blows towards growing x, y and
// z. Differences against the wind make the entry on its side larger.
func newAdvection(p Params) (Problem, error) {
	wind := [3]float64{0.5, 0.25, 0.125} // cell Peclet numbers
	dim, _, err := p.shape(false)
	if err != nil {
		return nil, err
	}
	return newStencil(p, dim, Traits{}, func(step [3]int) float64 {
		n, coef := along(step), 0.0
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
	})
}

// variable is -div(k grad u) where k differs from point to point. The flux
// between two points goes by the harmonic mean of theirs, which keeps the
// matrix symmetric to the last bit.
type variable struct {
	grid Grid
	dim  int
	seed uint64
}

func newVariable(p Params) (Problem, error) {
	dim, _, err := p.shape(false)
	if err != nil {
		return nil, err
	}
	grid, err := FitGrid(p.Rows, dim)
	return &variable{grid, dim, p.Seed}, err
}

func (v *variable) Size() int               { return v.grid.Size() }
func (v *variable) Grid() Grid              { return v.grid }
func (v *variable) Traits() Traits          { return Traits{Symmetric: true, Definite: true} }
func (v *variable) Points() int             { return 2*v.dim + 1 }
func (v *variable) Locate(i int) [3]float64 { return v.grid.locate(i) }

// k is between 1 and 1000, mostly small.
func (v *variable) k(i int) float64 {
	u := unit(hash(v.seed, i))
	return 1 + 999*u*u*u*u
}

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
