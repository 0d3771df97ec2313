package sparse

import (
	"fmt"
	"slices"
)

func init() {
	Kinds.Register(Kind{Name: "mesh", Help: "linear elements on an irregular triangle mesh, 2-D, numbered irregularly",
		New: newMesh})
}

// mesh is -div grad u, discretised by linear elements on an irregular mesh of triangles. The vertices are the points of
// a lattice, each moved at random, and every quadrilateral is cut along the diagonal that a Delaunay triangulation
// would choose. So each row depends only on its surroundings. Vertices on the boundary, where u is zero, are not
// unknowns.
//
// The numbering follows the lattice only roughly: within each window of 256 points it is shuffled, like the numbering
// of a mesh generator.
type mesh struct {
	grid Grid
	seed uint64
}

const (
	meshWindow = 256
	meshJitter = 0.2 // below 0.25 every quadrilateral stays convex
)

func newMesh(p Params) (Problem, error) {
	p.Stencil = 0
	grid, dim, _, err := p.fit(false)
	if err == nil && dim != 2 {
		err = fmt.Errorf("dimension %d: want 2, the mesh is flat", dim)
	}
	return &mesh{grid, p.Seed}, err
}

func (m *mesh) Size() int      { return m.grid.Size() }
func (m *mesh) Traits() Traits { return Traits{Symmetric: true, Definite: true} }

func (m *mesh) Locate(i int) [3]float64 {
	at := m.grid.Point(m.lattice(i))
	p := m.vertex(at[0], at[1])
	return [3]float64{p[0], p[1], 0}
}

// shuffle returns the constants of the permutation x -> (x^flip)*odd of a window.
func (m *mesh) shuffle(window int) (flip, odd uint8) {
	h := hash(m.seed^0x5eed, window)
	return uint8(h), uint8(h>>8) | 1
}

// number returns the row of a lattice point, and lattice is its inverse. The last window is shorter and is not
// shuffled.
func (m *mesh) number(i int) int {
	w := i / meshWindow
	if (w+1)*meshWindow > m.grid.Size() {
		return i
	}
	flip, odd := m.shuffle(w)
	return w*meshWindow + int((uint8(i)^flip)*odd)
}

func (m *mesh) lattice(row int) int {
	w := row / meshWindow
	if (w+1)*meshWindow > m.grid.Size() {
		return row
	}
	flip, odd := m.shuffle(w)
	inverse := odd // by Newton's iteration modulo 256
	for range 3 {
		inverse *= 2 - odd*inverse
	}
	return w*meshWindow + int(uint8(row)*inverse^flip)
}

// vertex returns the position of a lattice point. Points at -1 and at the size of the grid are the boundary.
func (m *mesh) vertex(x, y int) [2]float64 {
	p := [2]float64{float64(x), float64(y)}
	if !m.grid.has([3]int{x, y, 0}) {
		return p
	}
	h := hash(m.seed, x, y)
	p[0] += meshJitter * (2*unit(h) - 1)
	p[1] += meshJitter * (2*unit(hash(h, 1)) - 1)
	return p
}

func (m *mesh) Row(row int, r *Row) {
	r.Reset()
	at := m.grid.Point(m.lattice(row))
	r.Add(row, 0)
	for dy := -1; dy <= 0; dy++ {
		for dx := -1; dx <= 0; dx++ {
			m.cell(at[0]+dx, at[1]+dy, at, r)
		}
	}
	sortRow(r)
}

// cell adds the contribution of the two triangles of one quadrilateral to the row of the lattice point at.
func (m *mesh) cell(x, y int, at [3]int, r *Row) {
	corners := [4][2]int{{x, y}, {x + 1, y}, {x + 1, y + 1}, {x, y + 1}}
	var p [4][2]float64
	for c, q := range corners {
		p[c] = m.vertex(q[0], q[1])
	}
	triangles := [2][3]int{{0, 1, 2}, {0, 2, 3}}
	// the angles opposite to 0-2 add up to more than 180 degrees
	if cotangent(p[1], p[0], p[2])+cotangent(p[3], p[2], p[0]) < 0 {
		triangles = [2][3]int{{0, 1, 3}, {1, 2, 3}}
	}
	for _, t := range triangles {
		for k := range t {
			// The edge opposite to corner k couples its two ends by half the cotangent of the angle.
			a, b := t[(k+1)%3], t[(k+2)%3]
			w := cotangent(p[t[k]], p[a], p[b]) / 2
			switch [2]int{at[0], at[1]} {
			case corners[a]:
				m.couple(corners[b], w, r)
			case corners[b]:
				m.couple(corners[a], w, r)
			}
		}
	}
}

// couple adds an edge of weight w to the vertex q.
func (m *mesh) couple(q [2]int, w float64, r *Row) {
	r.Vals[0] += w
	if !m.grid.has([3]int{q[0], q[1], 0}) {
		return
	}
	col := m.number(m.grid.Index([3]int{q[0], q[1], 0}))
	if k := slices.Index(r.Cols, col); k >= 0 {
		r.Vals[k] -= w
	} else {
		r.Add(col, -w)
	}
}

// cotangent returns the cotangent of the angle at o between a and b.
func cotangent(o, a, b [2]float64) float64 {
	ax, ay, bx, by := a[0]-o[0], a[1]-o[1], b[0]-o[0], b[1]-o[1]
	cross := float64(ax*by) - float64(ay*bx)
	return (float64(ax*bx) + float64(ay*by)) / max(cross, -cross)
}

// sortRow sorts the columns by insertion, because a row has only a few.
func sortRow(r *Row) {
	for i := 1; i < len(r.Cols); i++ {
		for k := i; k > 0 && r.Cols[k] < r.Cols[k-1]; k-- {
			r.Cols[k], r.Cols[k-1] = r.Cols[k-1], r.Cols[k]
			r.Vals[k], r.Vals[k-1] = r.Vals[k-1], r.Vals[k]
		}
	}
}
