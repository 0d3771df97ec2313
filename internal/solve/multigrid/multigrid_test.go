package multigrid

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/precondition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// The tests gather and factor levels at much smaller sizes than in practice.
func TestMain(m *testing.M) {
	lastRows, fewRows = 12, 20
	os.Exit(m.Run())
}

// counts returns the numbers of ranks to test.
func counts() []int {
	if testing.Short() {
		return []int{3}
	}
	return []int{1, 3}
}

func problem(t *testing.T, kind string, p sparse.Params) sparse.Problem {
	t.Helper()
	return must.Get(sparse.New(kind, p))(t)
}

// choiceOf returns the choice of the coarsener of a preconditioner, or nil if the problem has no grid for it.
func choiceOf(l *precondition.Local, name string) choice {
	if _, grid := l.Problem.(sparse.Gridded); name == "gmg" && grid {
		return newGeometric
	} else if name == "gmg" {
		return nil
	}
	return newAlgebraic
}

// dense is an operator as a dense matrix, gathered from all ranks.
type dense struct {
	mu         sync.Mutex
	rows, cols int
	at         []float64
}

func newDense(rows, cols int) *dense {
	return &dense{rows: rows, cols: cols, at: make([]float64, rows*cols)}
}

// fill applies an operator to the unit vectors of its columns, on every rank.
func (d *dense) fill(rank int, rows, cols sparse.Strips, apply func(dst, src []float64) error) {
	dst, src := make([]float64, rows.Of(rank)+1), make([]float64, cols.Of(rank))
	for c := range cols.Total() {
		clear(src)
		if k := c - cols[rank]; k >= 0 && k < len(src) {
			src[k] = 1
		}
		if err := apply(dst, src); err != nil {
			panic(err)
		}
		d.mu.Lock()
		for i := range rows.Of(rank) {
			d.at[(rows[rank]+i)*d.cols+c] = dst[i]
		}
		d.mu.Unlock()
	}
}

func (d *dense) times(b *dense) *dense {
	out := newDense(d.rows, b.cols)
	for i := range d.rows {
		for k := range d.cols {
			if v := d.at[i*d.cols+k]; v != 0 {
				for j := range b.cols {
					out.at[i*b.cols+j] += v * b.at[k*b.cols+j]
				}
			}
		}
	}
	return out
}

// off returns the largest difference between two matrices.
func (d *dense) off(b *dense) (most float64) {
	for i := range d.at {
		most = max(most, math.Abs(d.at[i]-b.at[i]))
	}
	return most
}

func (d *dense) transposed() *dense {
	out := newDense(d.cols, d.rows)
	for i := range d.rows {
		for j := range d.cols {
			out.at[j*d.rows+i] = d.at[i*d.cols+j]
		}
	}
	return out
}

// On one rank and on several, whoever owns the coarse rows: restriction is the transpose of interpolation, the coarse
// matrix is R A P and symmetric, and constants are interpolated to constants where the rows of A add up to zero.
func TestInvariants(t *testing.T) {
	for _, p := range []sparse.Problem{problem(t, "poisson", sparse.Params{Rows: 15 * 14}),
		problem(t, "poisson", sparse.Params{Rows: 6 * 5 * 6, Dim: 3, Stencil: 27}),
		problem(t, "anisotropic", sparse.Params{Rows: 15 * 14}),
		problem(t, "variable", sparse.Params{Rows: 15 * 14, Seed: 2}), problem(t, "mesh", sparse.Params{Rows: 210, Seed: 2}),
		problem(t, "neumann", sparse.Params{Rows: 15 * 14})} {
		for _, ranks := range counts() {
			for _, name := range []string{"amg", "gmg"} {
				invariants(t, fmt.Sprintf("%T %s on %d ranks", p, name, ranks), p, ranks, name)
			}
		}
	}
}

func invariants(t *testing.T, what string, p sparse.Problem, ranks int, name string) {
	var once sync.Once
	var a, prolong, restrict, coarse *dense
	onRanks(t, ranks, 37, p, func(l *precondition.Local) {
		choose := choiceOf(l, name)
		if choose == nil {
			return
		}
		f, err := finest(l, sparse.Compressed)
		if err != nil {
			t.Error(err)
			return
		}
		c, err := choose(l, f)
		if err != nil {
			t.Error(err)
			return
		}
		lv, err := newLevel(f)
		if err != nil {
			t.Error(err)
			return
		}
		next, err := lv.coarsen(f, c)
		if err != nil || next == nil {
			t.Errorf("%s: no coarser level: %v", what, err)
			return
		}
		once.Do(func() {
			n, m := f.space.Total(), next.space.Total()
			a, prolong, restrict, coarse = newDense(n, n), newDense(n, m), newDense(m, n), newDense(m, m)
		})
		rank := l.Team.Rank()
		apply := func(m *matrix) func(dst, src []float64) error {
			return func(dst, src []float64) error {
				copy(m.x, src)
				return m.Multiply(dst, m.x)
			}
		}
		multiply := func(f *fine) func(dst, src []float64) error {
			x := make([]float64, max(1, f.square.Matrix.Columns()))
			return func(dst, src []float64) error {
				copy(x, src)
				return f.square.Multiply(dst, x)
			}
		}
		a.fill(rank, f.space.Strips, f.space.Strips, multiply(f))
		prolong.fill(rank, f.space.Strips, next.space.Strips, apply(lv.p))
		restrict.fill(rank, next.space.Strips, f.space.Strips, apply(lv.r))
		coarse.fill(rank, next.space.Strips, next.space.Strips, multiply(next))
	})
	if a == nil {
		return
	}
	if off := restrict.off(prolong.transposed()); off != 0 {
		t.Errorf("%s: R is not the transpose of P, by %g", what, off)
	}
	scale := a.at[0]
	if off := coarse.off(restrict.times(a).times(prolong)); off > 1e-12*scale {
		t.Errorf("%s: the coarse matrix is not R A P, by %g", what, off)
	}
	if off := coarse.off(coarse.transposed()); off > 1e-12*scale {
		t.Errorf("%s: the coarse matrix is not symmetric, by %g", what, off)
	}
	inner := 0
	for i := range a.rows {
		sum, to := 0.0, 0.0
		for j := range a.cols {
			sum += a.at[i*a.cols+j]
		}
		for j := range prolong.cols {
			to += prolong.at[i*prolong.cols+j]
		}
		if math.Abs(sum) < 1e-9*scale {
			if inner++; math.Abs(to-1) > 1e-9 {
				t.Errorf("%s: the constant one is %v at row %d", what, to, i)
				return
			}
		}
	}
	if inner < a.rows/4 {
		t.Errorf("%s: only %d rows add up to zero", what, inner)
	}
}

// dented is a problem on a grid with a different diagonal in one row.
type dented struct {
	sparse.Problem
	row int
}

func (d dented) Grid() sparse.Grid { return d.Problem.(sparse.Gridded).Grid() }

func (d dented) Row(i int, r *sparse.Row) {
	if d.Problem.Row(i, r); i == d.row {
		r.Vals[slices.Index(r.Cols, i)] += 1
	}
}

// Rows of the coarse matrix are repeated only where everything they are made of repeats: a single different entry of
// the matrix changes every row that depends on it.
func TestRepeatedRows(t *testing.T) {
	flat := problem(t, "poisson", sparse.Params{Rows: 24 * 24})
	again := func(p sparse.Problem) (out []bool) {
		onRanks(t, 1, 1, p, func(l *precondition.Local) {
			f := must.Get(finest(l, sparse.Compressed))(t)
			g := must.Get(newGeometric(l, f))(t)
			own := must.Get(g.pick(f))(t)
			coarse := newSpace(sparse.Strips{0, own}, 0)
			p := must.Get(g.interpolate(f, 0, coarse))(t)
			is := repeated(f.rows, p, transposed(p, own))
			for c := range own {
				out = append(out, is(c))
			}
		})
		return out
	}
	plain, other := again(flat), again(dented{flat, 12*24 + 13})
	for c, repeats := range plain {
		x, y := c%12, c/12
		if inner := x > 1 && x < 11; repeats != inner && y > 0 && y < 11 {
			t.Errorf("point %d, %d: repeated %v", x, y, repeats)
		}
		// The point (13, 12) contributes to the coarse points at x = 13 and y = 11 or 13. These rows, and the rows that
		// follow them, cannot be repeated.
		beside := (y == 5 || y == 6) && (x == 6 || x == 7)
		if other[c] != (repeats && !beside) {
			t.Errorf("point %d, %d: repeated %v with another entry beside it: %v", x, y, other[c], beside)
		}
	}
	for _, ranks := range counts() {
		invariants(t, fmt.Sprintf("a dented grid on %d ranks", ranks), dented{flat, 12*24 + 13}, ranks, "gmg")
	}
}

// The upper end of the smoother's interval is at least the largest eigenvalue found by power iteration, and not far
// above it. It equals the bound of the rows if that is as close.
func TestLargestEigenvalue(t *testing.T) {
	for _, c := range []struct {
		p     sparse.Problem
		bound bool
	}{{problem(t, "poisson", sparse.Params{Rows: 900}), true},
		{problem(t, "poisson", sparse.Params{Rows: 1000, Dim: 3}), true},
		{problem(t, "variable", sparse.Params{Rows: 900, Seed: 2}), true},
		{problem(t, "poisson", sparse.Params{Rows: 1000, Dim: 3, Stencil: 27}), false}} {
		for _, ranks := range counts() {
			onRanks(t, ranks, 300, c.p, func(l *precondition.Local) {
				f, err := finest(l, sparse.Compressed)
				if err != nil {
					t.Error(err)
					return
				}
				n, last := f.space.own, 0.0
				x, ax := make([]float64, f.square.Matrix.Columns()), make([]float64, n)
				for i := range n {
					x[i] = sparse.Noise(1, l.Plan.Global(i))
				}
				for range 300 { // power iteration with Rayleigh quotients in the scalar product of D
					if err := f.square.Multiply(ax, x); err != nil {
						t.Error(err)
					}
					dots := make([]float64, 2)
					for i := range n {
						dots[0] += x[i] * ax[i]
						dots[1] += x[i] * x[i] * f.diagonal[i]
						x[i] = ax[i] / f.diagonal[i]
					}
					dots, _ = l.Team.Sum(dots)
					last = dots[0] / dots[1]
				}
				if most := f.largest; most < last || most > 1.11*last || c.bound != (math.Abs(most-2) < 1e-12) {
					t.Errorf("%T on %d ranks: taken as %v, it is at least %v", c.p, ranks, most, last)
				}
			})
		}
	}
}

// wrong is a way to spoil a cycle, on each rank.
type wrong func(l *precondition.Local, c *Cycle)

// quality returns how far a cycle is from symmetric, and the factor by which each of ten cycles reduces a residual.
func quality(t *testing.T, ranks int, p sparse.Problem, name string, format sparse.Format, spoil wrong) (asymmetry,
	factor, complexity float64) {
	t.Helper()
	each := 37 // rows of a rank are coupled more to other ranks than to its own rows
	if name == "amg" {
		each = (p.Size() + ranks - 1) / ranks // aggregates leave out couplings to other ranks
	}
	onRanks(t, ranks, each, p, func(l *precondition.Local) {
		op, err := build(l, choiceOf(l, name), format)
		if err != nil {
			t.Error(err)
			return
		}
		c := op.(*Cycle)
		if spoil != nil {
			spoil(l, c)
		}
		n, width := l.Plan.Owned, l.Matrix.Columns()
		vector := func(seed uint64) []float64 {
			v := make([]float64, width)
			for i := range n {
				v[i] = sparse.Noise(seed, l.Plan.Global(i))
			}
			return v
		}
		apply := func(src []float64) []float64 {
			dst := vector(99)
			if err := c.Apply(dst, src); err != nil {
				t.Error(err)
			}
			return dst
		}
		u, v := vector(1), vector(2)
		mu, mv := apply(u), apply(v)
		dots, _ := l.Team.Sum([]float64{sparse.Dot(v[:n], mu[:n]), sparse.Dot(u[:n], mv[:n]), sparse.Dot(u[:n], mu[:n])})
		rhs := vector(3)
		if l.Traits.Singular { // make the system solvable
			sum := 0.0
			for _, v := range rhs[:n] {
				sum += v
			}
			sums, _ := l.Team.Sum([]float64{sum})
			for i := range n {
				rhs[i] -= sums[0] / float64(p.Size())
			}
		}
		x, r, ax := make([]float64, width), slices.Clone(rhs), make([]float64, width)
		first := 0.0
		const cycles = 10
		for k := range cycles {
			e := apply(r)
			sparse.Axpby(x[:n], 1, x[:n], 1, e[:n])
			if err := c.levels[0].a.Multiply(ax, x); err != nil {
				t.Error(err)
			}
			sparse.Axpby(r[:n], 1, rhs[:n], -1, ax[:n])
			if norm, _ := l.Team.Sum([]float64{sparse.Dot(r[:n], r[:n])}); k == 0 {
				first = norm[0]
			} else if k == cycles-1 && l.Team.Rank() == 0 {
				asymmetry = math.Abs(dots[0]-dots[1]) / dots[2]
				factor = math.Pow(norm[0]/first, 0.5/(cycles-1))
				complexity, _ = c.Complexities()
				if !(dots[2] > 0) || c.Levels() < 3 {
					t.Errorf("(u, Mu) = %v, %d levels", dots[2], c.Levels())
				}
			}
		}
	})
	return asymmetry, factor, complexity
}

// A cycle is a symmetric operator, reduces the error as published for such cycles, and costs little more than its
// finest level.
func TestCycle(t *testing.T) {
	for _, c := range []struct {
		kind, name         string
		params             sparse.Params
		factor, complexity float64
	}{
		{"poisson", "gmg", sparse.Params{Rows: 41 * 40}, 0.12, 1.7},
		{"poisson", "gmg", sparse.Params{Rows: 11 * 12 * 11, Dim: 3}, 0.2, 1.7},
		{"anisotropic", "gmg", sparse.Params{Rows: 41 * 40}, 0.3, 3},
		{"poisson", "amg", sparse.Params{Rows: 41 * 40}, 0.4, 1.6},
		{"anisotropic", "amg", sparse.Params{Rows: 41 * 40}, 0.3, 2.2},
		{"variable", "amg", sparse.Params{Rows: 41 * 40, Contrast: 1e6}, 0.3, 2.4},
		{"mesh", "amg", sparse.Params{Rows: 1600, Seed: 2}, 0.6, 1.6},
		{"neumann", "gmg", sparse.Params{Rows: 41 * 40}, 0.3, 1.7},
		{"neumann", "amg", sparse.Params{Rows: 41 * 40}, 0.5, 1.6},
	} {
		for _, ranks := range counts() {
			p := problem(t, c.kind, c.params)
			asymmetry, factor, complexity := quality(t, ranks, p, c.name, sparse.Compressed, nil)
			if asymmetry > 1e-10 || !(factor < c.factor) || !(complexity < c.complexity) {
				t.Errorf("%s, %s, %d ranks: asymmetry %.2g, factor %.3f, complexity %.2f", c.kind, c.name, ranks, asymmetry,
					factor, complexity)
			}
		}
	}
}

// With rounded matrices a cycle moves fewer bytes and works as well: it is symmetric except for rounding, and converges
// as fast.
func TestRoundedMatrices(t *testing.T) {
	p := problem(t, "mesh", sparse.Params{Rows: 1600, Seed: 2})
	for _, c := range []struct {
		format       sparse.Format
		change, part float64 // largest change of the convergence factor; bytes relative to double precision
	}{{sparse.Single, 1e-3, 0.7}, {sparse.Bfloat16, 0.01, 0.55}} {
		for _, ranks := range counts() {
			_, exact, _ := quality(t, ranks, p, "amg", sparse.Compressed, nil)
			asymmetry, factor, _ := quality(t, ranks, p, "amg", c.format, nil)
			if asymmetry > 1e-6 || math.Abs(factor-exact) > c.change {
				t.Errorf("%v, %d ranks: asymmetry %.2g, factor %.4f, in double precision %.4f", c.format, ranks, asymmetry,
					factor, exact)
			}
		}
		onRanks(t, 1, 1, p, func(l *precondition.Local) {
			bytes := map[sparse.Format]int{}
			for _, format := range []sparse.Format{sparse.Compressed, c.format} {
				op := must.Get(build(l, choiceOf(l, "amg"), format))(t)
				for _, lv := range op.(*Cycle).levels {
					bytes[format] += lv.a.Matrix.Bytes()
				}
			}
			if float64(bytes[c.format]) > c.part*float64(bytes[sparse.Compressed]) {
				t.Errorf("%v: matrices of %d bytes, in double precision %d", c.format, bytes[c.format],
					bytes[sparse.Compressed])
			}
		})
	}
}

// Planted errors in a cycle show in its convergence or its symmetry.
func TestPlantedErrors(t *testing.T) {
	p := problem(t, "poisson", sparse.Params{Rows: 41 * 40})
	reassemble := func(l *precondition.Local, m *matrix, factor func(row int) float64) *matrix {
		other := *m
		b := must.Get(sparse.NewBuilder(m.Matrix.Rows(), m.Matrix.Columns(), sparse.Plain))(t)
		unit, column := make([]float64, m.Matrix.Columns()), make([]float64, m.Matrix.Rows())
		cols, vals := make([][]int, m.Matrix.Rows()), make([][]float64, m.Matrix.Rows())
		for c := range unit {
			unit[c] = 1
			m.Matrix.Multiply(column, unit, 0, m.Matrix.Rows())
			for i, v := range column {
				if v != 0 {
					cols[i], vals[i] = append(cols[i], c), append(vals[i], v*factor(i))
				}
			}
			unit[c] = 0
		}
		for i := range cols {
			b.Add(cols[i], vals[i])
		}
		other.Matrix = b.Done()
		return &other
	}
	for name, spoil := range map[string]wrong{
		"dropped coarse correction": func(l *precondition.Local, c *Cycle) {
			c.levels[0].p = reassemble(l, c.levels[0].p, func(int) float64 { return 0 })
		},
		"wrong restriction": func(l *precondition.Local, c *Cycle) {
			c.levels[0].r = reassemble(l, c.levels[0].r, func(i int) float64 { return 1 + float64(i%2)/2 })
		},
	} {
		for _, ranks := range counts() {
			if asymmetry, factor, _ := quality(t, ranks, p, "gmg", sparse.Compressed, spoil); asymmetry < 1e-6 && factor < 0.5 {
				t.Errorf("%s on %d ranks was not seen: asymmetry %.2g, factor %.3f", name, ranks, asymmetry, factor)
			}
		}
	}
}
