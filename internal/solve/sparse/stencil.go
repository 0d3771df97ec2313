package sparse

import "fmt"

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
func (s *stencil) Locate(i int) [3]float64 { return s.grid.locate(i) }

func (g Grid) locate(i int) [3]float64 {
	p := g.Point(i)
	return [3]float64{float64(p[0]), float64(p[1]), float64(p[2])}
}

func (s *stencil) Row(i int, r *Row) {
	r.Reset()
	p := s.grid.Point(i)
	for _, q := range s.points {
		if at := [3]int{p[0] + q.step[0], p[1] + q.step[1], p[2] + q.step[2]}; s.grid.has(at) {
			r.Add(s.grid.Index(at), q.coef)
		}
	}
}

func (g Grid) has(at [3]int) bool {
	return uint(at[0]) < uint(g[0]) && uint(at[1]) < uint(g[1]) && uint(at[2]) < uint(g[2])
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
		return 0, 0, fmt.Errorf("dimension %d: 2 or 3", dim)
	case points == star, points == box && boxes:
		return dim, points, nil
	case boxes:
		return 0, 0, fmt.Errorf("a stencil of %d points in %d-D: %d or %d", points, dim, star, box)
	}
	return 0, 0, fmt.Errorf("a stencil of %d points in %d-D: only %d", points, dim, star)
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
