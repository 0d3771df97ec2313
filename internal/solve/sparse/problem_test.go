package sparse

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/kernbench/kernbench/internal/base/must"
)

// dense returns the whole matrix of a small problem.
func dense(p Problem) *mat.Dense {
	m := mat.NewDense(p.Size(), p.Size(), nil)
	var r Row
	for i := range p.Size() {
		p.Row(i, &r)
		for k, c := range r.Cols {
			m.Set(i, c, r.Vals[k])
		}
	}
	return m
}

// variant is a problem with its number of rows and the entries of its longest row; 0 is not checked.
type variant struct {
	kind   string
	params Params
	size   int
	widest int
}

var variants = []variant{
	{"poisson", Params{Rows: 90}, 90, 5},
	{"poisson", Params{Rows: 81, Stencil: 9}, 81, 9},
	{"poisson", Params{Rows: 60, Dim: 3}, 60, 7},
	{"poisson", Params{Rows: 64, Dim: 3, Stencil: 27}, 64, 27},
	{"anisotropic", Params{Rows: 90, Dim: 2}, 90, 5},
	{"anisotropic", Params{Rows: 60, Dim: 3}, 60, 7},
	{"variable", Params{Rows: 90, Seed: 3}, 90, 5},
	{"variable", Params{Rows: 60, Dim: 3, Seed: 3}, 60, 7},
	{"advection", Params{Rows: 90}, 90, 5},
	{"advection", Params{Rows: 60, Dim: 3}, 60, 7},
	{"mesh", Params{Rows: 600, Seed: 5}, 600, 9},
	{"neumann", Params{Rows: 90}, 90, 5},
	{"neumann", Params{Rows: 64, Dim: 3, Stencil: 27}, 64, 27},
	{"helmholtz", Params{Rows: 90}, 90, 5},
	{"helmholtz", Params{Rows: 60, Dim: 3}, 60, 7},
	{"hub", Params{Rows: 600}, 600, 41},
}

// TestProblems is the conformance suite of problems. It checks the variants above, and one
// of each further kind that is registered.
func TestProblems(t *testing.T) {
	all := slices.Clone(variants)
	for _, kind := range Kinds.Names() {
		if !slices.ContainsFunc(variants, func(v variant) bool { return v.kind == kind }) {
			all = append(all, variant{kind: kind, params: Params{Rows: 90}})
		}
	}
	for _, v := range all {
		p := must.Get(New(v.kind, v.params))(t)
		if p.Size() != v.size && v.size > 0 {
			t.Errorf("%s %+v has %d rows, want %d", v.kind, v.params, p.Size(), v.size)
		}
		var r Row
		widest := 0
		for i := range p.Size() {
			p.Row(i, &r)
			widest = max(widest, len(r.Cols))
			if !slices.IsSorted(r.Cols) || len(slices.Compact(slices.Clone(r.Cols))) != len(r.Cols) ||
				!slices.Contains(r.Cols, i) {
				t.Fatalf("%s %+v: row %d has columns %v", v.kind, v.params, i, r.Cols)
			}
		}
		if v.widest > 0 && (widest != v.widest && v.kind != "mesh" || widest > v.widest) {
			t.Errorf("%s %+v: the widest row has %d entries, want %d", v.kind, v.params, widest, v.widest)
		}
		m := dense(p)
		if got := mat.Equal(m, m.T()); got != p.Traits().Symmetric {
			t.Errorf("%s %+v: symmetric is %v, the traits say %v", v.kind, v.params, got, p.Traits().Symmetric)
		}
		if got := addUpToZero(p); got != p.Traits().Singular {
			t.Errorf("%s %+v: all rows add up to zero is %v, the traits say %v", v.kind, v.params, got, p.Traits().Singular)
		}
		if p.Traits().Indefinite {
			signs(t, v.kind, m)
		}
		if p.Traits().Singular { // definite on vectors that add up to zero
			m.Apply(func(_, _ int, x float64) float64 { return x + 1 }, m)
		}
		if p.Traits().Definite {
			var chol mat.Cholesky
			if !chol.Factorize(mat.NewSymDense(p.Size(), m.RawMatrix().Data)) {
				t.Errorf("%s %+v is not positive definite", v.kind, v.params)
			}
		}
	}
}

// signs checks that the matrix has eigenvalues of both signs, and none near zero.
func signs(t *testing.T, kind string, m *mat.Dense) {
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(m.RawMatrix().Rows, m.RawMatrix().Data), false) {
		t.Fatal("no eigenvalues")
	}
	below, above, nearest := 0, 0, math.Inf(1)
	for _, v := range eigen.Values(nil) {
		if nearest = min(nearest, math.Abs(v)); v < 0 {
			below++
		} else {
			above++
		}
	}
	if below == 0 || above == 0 || nearest < 0.01 {
		t.Errorf("%s: %d eigenvalues below zero, %d above, the nearest is %g off", kind, below, above, nearest)
	}
}

// A few hubs have a large part of the entries of a strip.
func TestHubsAreLong(t *testing.T) {
	p := must.Get(New("hub", Params{Rows: 100000}))(t)
	var r Row
	long := 0
	for i := range p.Size() {
		if p.Row(i, &r); len(r.Cols) > 5000 {
			long++
		} else if len(r.Cols) > 6 {
			t.Fatalf("row %d has %d entries", i, len(r.Cols))
		}
	}
	if long != 16 {
		t.Errorf("%d rows have thousands of entries", long)
	}
}

// On every grid the shift of helmholtz is far from all eigenvalues, relative to the distance between them.
func TestHelmholtzIsFarFromSingular(t *testing.T) {
	for n := 3; n < 200; n += 7 {
		grid := Grid{n, n + 1, 1}
		shift := must.Get(betweenEigenvalues(grid, 2))(t)
		nearest, below := math.Inf(1), 0
		for i := 1; i <= n; i++ {
			for j := 1; j <= n+1; j++ {
				a, b := math.Sin(math.Pi*float64(i)/float64(2*n+2)), math.Sin(math.Pi*float64(j)/float64(2*n+4))
				v := 4*a*a + 4*b*b - shift
				if nearest = min(nearest, math.Abs(v)); v < 0 {
					below++
				}
			}
		}
		if nearest*float64(n*n) < 4 || below == 0 || n > 40 && (below < 5 || below > 60) {
			t.Errorf("%v: the nearest eigenvalue is %.3g/n^2 off, %d below", grid, nearest*float64(n*n), below)
		}
	}
	if _, err := New("helmholtz", Params{Rows: 1}); err == nil || !strings.Contains(err.Error(), "want at least 2") {
		t.Errorf("one point: %v", err)
	}
}

func TestVariableCoefficientsVary(t *testing.T) {
	p, _ := New("variable", Params{Rows: 100, Seed: 1})
	q, _ := New("variable", Params{Rows: 100, Seed: 2})
	if mat.Equal(dense(p), dense(q)) {
		t.Error("the seed changes nothing")
	}
}

// The numbering of the mesh is a permutation and differs from the numbering of the lattice.
func TestMeshNumbers(t *testing.T) {
	p := must.Get(New("mesh", Params{Rows: 1000}))(t)
	m := p.(*mesh)
	moved := 0
	seen := map[int]bool{}
	for i := range m.Size() {
		n := m.number(i)
		if m.lattice(n) != i || seen[n] {
			t.Fatalf("lattice point %d is row %d, which is lattice point %d", i, n, m.lattice(n))
		}
		seen[n] = true
		if n != i {
			moved++
		}
	}
	if moved < m.Size()/2 {
		t.Errorf("only %d of %d numbers were shuffled", moved, m.Size())
	}
	for i := range m.Size() { // neighbours in the matrix are close in space
		var r Row
		m.Row(i, &r)
		for _, c := range r.Cols {
			a, b := m.Locate(i), m.Locate(c)
			if dx, dy := a[0]-b[0], a[1]-b[1]; dx*dx+dy*dy > 4 {
				t.Fatalf("rows %d and %d are coupled across %v", i, c, [2]float64{dx, dy})
			}
		}
	}
}

func TestFitGrid(t *testing.T) {
	for _, tc := range []struct {
		rows, dim int
		want      Grid
	}{
		{1000000, 2, Grid{1000, 1000, 1}},
		{1000000, 3, Grid{100, 100, 100}},
		{200000, 2, Grid{}},
		{100000, 3, Grid{}},
		{1, 2, Grid{1, 1, 1}},
		{2, 3, Grid{}},
		{7, 2, Grid{}},
	} {
		g := must.Get(FitGrid(tc.rows, tc.dim))(t)
		if tc.want != (Grid{}) && g != tc.want {
			t.Errorf("FitGrid(%d, %d) = %v, want %v", tc.rows, tc.dim, g, tc.want)
		}
		if off := distance(g.Size(), tc.rows); off*1000 > tc.rows && off > 1 {
			t.Errorf("FitGrid(%d, %d) = %v: %d off", tc.rows, tc.dim, g, off)
		}
	}
	if _, err := FitGrid(0, 2); err == nil {
		t.Error("an empty grid was made")
	}
}

func TestParamsAreChecked(t *testing.T) {
	for _, tc := range []struct {
		kind string
		p    Params
		want string
	}{
		{"poison", Params{Rows: 9}, "did you mean \"poisson\""},
		{"poisson", Params{Rows: 9, Dim: 4}, "2 or 3"},
		{"poisson", Params{Rows: 9, Stencil: 7}, "5 or 9"},
		{"variable", Params{Rows: 9, Dim: 3, Stencil: 27}, "want 7"},
		{"mesh", Params{Rows: 9, Dim: 3}, "flat"},
		{"advection", Params{Rows: -1}, "at least 1"},
	} {
		if _, err := New(tc.kind, tc.p); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%q, %+v): error %v, want one with %q", tc.kind, tc.p, err, tc.want)
		}
	}
}

// A grid of the caller needs a point along each axis. One with a single layer has two dimensions.
func TestGridOfTheCaller(t *testing.T) {
	for grid, want := range map[Grid]int{{4, 5, 6}: 7, {4, 5, 1}: 5, {1, 1, 1}: 1, {4, 1, 6}: 5, {1, 5, 6}: 5,
		{0, 5, 6}: 0, {4, 0, 6}: 0, {4, 5, 0}: 0, {-4, 5, 6}: 0} {
		points := 7
		if grid[2] == 1 {
			points = 5
		}
		p, err := NewGridPoisson(grid, points)
		v, verr := NewGridVariable(grid, 3)
		if want == 0 {
			for _, err := range []error{err, verr} {
				if err == nil || !strings.Contains(err.Error(), "want at least 1 point along each axis") {
					t.Errorf("%v: %v", grid, err)
				}
			}
			continue
		}
		must.Do(t, errors.Join(err, verr))
		var row Row
		p.Row(p.Size()/2, &row)
		if size := grid[0] * grid[1] * grid[2]; p.Size() != size || v.Size() != size || len(row.Cols) > want {
			t.Errorf("%v: %d and %d rows, one with %d entries", grid, p.Size(), v.Size(), len(row.Cols))
		}
	}
}

// addUpToZero reports whether every row of a problem adds up to zero.
func addUpToZero(p Problem) bool {
	var row Row
	for i := range p.Size() {
		if p.Row(i, &row); !row.AddsUpToZero() {
			return false
		}
	}
	return true
}
