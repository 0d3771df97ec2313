package sparse

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
