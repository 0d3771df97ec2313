package sparse

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
)

// kindOf names the form of a run and the width of its columns and values.
func kindOf(f form) string {
	values := func(v64, v32, v16 bool) string {
		switch {
		case v64:
			return "64"
		case v16: // the first values are in single precision
			return "16"
		case v32:
			return "32"
		}
		return "8"
	}
	switch f := f.(type) {
	case *varying:
		return "varying " + values(f.vals64 != nil, f.vals32 != nil, f.vals16 != nil)
	case *scattered:
		kind := "scattered wide "
		if f.near != nil {
			kind = "scattered near "
		}
		return kind + values(f.vals64 != nil, f.vals32 != nil, f.vals16 != nil)
	case *periodic:
		return fmt.Sprintf("periodic %d %d", len(f.shapes), f.step)
	}
	return "constant"
}

// makeRows makes n rows. Row i has an entry in each of the given columns.
func makeRows(n int, columns func(i int) []int, value func(i, k int) float64) rowsOf {
	rows := make(rowsOf, n)
	for i := range rows {
		for k, c := range columns(i) {
			rows[i].Add(c, value(i, k))
		}
	}
	return rows
}

func shapesOf(rows rowsOf) *Shapes {
	s := NewShapes(len(rows), 0)
	for _, r := range rows {
		for k, c := range r.Cols {
			s.Add(int32(c), r.Vals[k])
		}
		s.End()
	}
	return s
}

// Every storage form is reached, and all kernels give the bits of a plain loop, for all rows and for some.
func TestForms(t *testing.T) {
	const n, near, wide = 100, 200, 50_000
	noise := func(i, k int) float64 { return Noise(9, 8*i+k) }
	single := func(i, k int) float64 { return float64(float32(noise(i, k))) }
	equal := func(_, k int) float64 { return float64(k) - 1.5 }
	few := func(i, k int) float64 { return float64((i+k)%3) - 1 }
	stencil := func(i int) []int { return []int{i, i + 1, i + 7} }
	scatter := func(width int) func(i int) []int {
		return func(i int) (cols []int) {
			for k := range i * 7 % 5 {
				cols = append(cols, (i*31+k*(width/3+1))%width)
			}
			return cols
		}
	}
	halves := func(i int) []int { // interpolation; every second row of the first half is empty
		if i%2 == 1 && i < n {
			return nil
		}
		return []int{i / 2, i/2 + 1}[:2-i%2]
	}
	doubles := func(i int) []int { return []int{2*i + 1, 2 * i} }
	mixed := slices.Concat(makeRows(3, scatter(near), noise), // short gaps around long runs
		makeRows(40, func(i int) []int { return []int{i + 3, i + 9} }, equal), makeRows(2, scatter(near), noise),
		makeRows(40, func(i int) []int { return []int{i / 2} }, func(i, _ int) float64 { return float64(i%2 + 1) }))
	for _, c := range []struct {
		want   string
		format Format
		rows   rowsOf
		cols   int
		shapes bool // build from Shapes
	}{
		{"constant", Compressed, makeRows(n, stencil, equal), near, false},
		{"varying 64", Compressed, makeRows(n, stencil, noise), near, false},
		{"varying 32", Compressed, makeRows(n, stencil, single), near, false},
		{"varying 16", Bfloat16, makeRows(n, stencil, noise), near, false},
		{"scattered near 64", Compressed, makeRows(n, scatter(near), noise), near, false},
		{"scattered near 32", Single, makeRows(n, scatter(near), noise), near, false},
		{"scattered near 16", Bfloat16, makeRows(n, scatter(near), noise), near, false},
		{"scattered near 8", Compressed, makeRows(n, scatter(near), few), near, false},
		{"scattered wide 64", Compressed, makeRows(n, scatter(wide), noise), wide, false},
		{"scattered wide 32", PlainSingle, makeRows(n, scatter(wide), noise), wide, false},
		{"scattered wide 16", Bfloat16, makeRows(n, scatter(wide), noise), wide, false},
		{"scattered wide 8", Compressed, makeRows(n, scatter(wide), few), wide, false},
		{"periodic 2 1", Compressed, makeRows(3*blockValues, halves, equal), 3 * blockValues, true},
		{"periodic 1 2", Compressed, makeRows(2*blockValues, doubles, equal), 4 * blockValues, true},
		// All columns belong to rows of this rank.
		{"periodic 1 2", Compressed, append(makeRows(n, doubles, equal), make(rowsOf, 2*n)...), 3 * n, true},
		{"constant", Compressed, mixed, near, true},
	} {
		t.Run(c.want, func(t *testing.T) {
			m := build(t, c.rows, c.cols, c.format)
			if c.shapes {
				m = must.Get(shapesOf(c.rows).Matrix(c.cols, c.format))(t)
			}
			var kinds []string
			for _, r := range m.runs {
				kinds = append(kinds, kindOf(r.form))
			}
			if !slices.Contains(kinds, c.want) {
				t.Fatalf("the runs are %v", kinds)
			}
			must.Do(t, wellFormed(m))
			if c.format == Compressed {
				must.Do(t, unpacksTo(m, c.rows))
			}
			vectors := map[int][]float64{}
			for _, width := range []int{1, 3, 19} {
				vectors[width] = blockOf(3, m.Columns(), width)
			}
			for _, lo := range []int{0, 1, 8, 41} {
				for _, hi := range []int{lo, lo + 1, lo + 2, lo + 19, m.Rows()} {
					bothKernels(func(kernels string) { compareProducts(t, m, vectors, lo, min(hi, m.Rows()), kernels) })
				}
			}
		})
	}
}

// wellFormed checks that the runs follow each other without gaps, and that the reach is the distance to the farthest
// owned column.
func wellFormed(m *Matrix) error {
	next, reach, csr := 0, 0, m.Unpack()
	for k, r := range m.runs {
		if int(r.lo) != next || r.hi <= r.lo || r.through < r.hi {
			return fmt.Errorf("run %d has the rows %d to %d through %d, want them to start at %d", k, r.lo, r.hi, r.through,
				next)
		}
		next = int(r.hi)
	}
	for i := range csr.Rows() {
		cols, _ := csr.Row(i)
		for _, c := range cols {
			if int(c) < m.rows {
				reach = max(reach, int(c)-i)
			}
		}
	}
	if next != m.rows || csr.Rows() != m.rows || reach != m.Reach() || len(csr.Cols) != m.Entries() {
		return fmt.Errorf("the runs end at row %d of %d, the reach is %d, want %d; %d entries, want %d", next, m.rows,
			m.Reach(), reach, m.Entries(), len(csr.Cols))
	}
	return nil
}

// compareProducts compares the products of rows lo to hi with plain loops over the unpacked rows. vectors has a block
// vector of each width.
func compareProducts(t *testing.T, m *Matrix, vectors map[int][]float64, lo, hi int, kernels string) {
	const guard = 42
	x, csr := vectors[1], m.Unpack()
	x32 := to32(x)
	got, got32 := slices.Repeat([]float64{guard}, m.Rows()+1), slices.Repeat([]float32{guard}, m.Rows()+1)
	m.Product(got[lo:], x, lo, hi)
	m.Product32(got32[lo:], x32, lo, hi)
	for i, v := range got {
		sum, sum32 := minusZero, float32(minusZero)
		if i < lo || i >= hi {
			sum, sum32 = guard, guard
		} else {
			cols, vals := csr.Row(i)
			for k, c := range cols {
				sum += float64(vals[k] * x[c])
				sum32 += float32(float32(vals[k]) * x32[c])
			}
		}
		if math.Float64bits(v) != math.Float64bits(sum) || math.Float32bits(got32[i]) != math.Float32bits(sum32) {
			t.Fatalf("%s, rows %d to %d: row %d is %v and %v, want %v and %v", kernels, lo, hi, i, v, got32[i], sum, sum32)
		}
	}
	for width, x := range vectors {
		got := slices.Repeat([]float64{guard}, (m.Rows()+1)*width)
		m.MultiplyBlock(got, x, width, lo, hi)
		for at, v := range got {
			i, j, sum := at/width, at%width, minusZero
			if i < lo || i >= hi {
				sum = guard
			} else {
				cols, vals := csr.Row(i)
				for k, c := range cols {
					sum += float64(vals[k] * x[int(c)*width+j])
				}
			}
			if math.Float64bits(v) != math.Float64bits(sum) {
				t.Fatalf("%s, rows %d to %d: row %d of column %d of %d is %v, want %v", kernels, lo, hi, i, j, width, v, sum)
			}
		}
	}
}
