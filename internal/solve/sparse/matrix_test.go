package sparse

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/must"
)

// rowsOf is a matrix as a list of rows. Its product is the reference.
type rowsOf []Row

func (rows rowsOf) multiply(x []float64) []float64 {
	y := make([]float64, len(rows))
	for i, r := range rows {
		sum := minusZero
		for k, c := range r.Cols {
			sum += float64(r.Vals[k] * x[c])
		}
		y[i] = sum
	}
	return y
}

func build(t must.T, rows rowsOf, cols int, format Format) *Matrix {
	b := must.Get(NewBuilder(len(rows), cols, format))(t)
	for _, r := range rows {
		b.Add(r.Cols, r.Vals)
	}
	return b.Done()
}

// bothKernels calls fn twice: with the kernels of this machine, then with the portable kernels.
func bothKernels(fn func(kernels string)) {
	was := fast
	defer func() { fast = was }()
	for _, fast = range []bool{was, false} {
		fn(fmt.Sprintf("fast=%v", fast))
	}
}

func sameBits(a, b []float64) int {
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return i
		}
	}
	return -1
}

// drawRows makes stretches of rows in random order, one kind for each storage form: equal rows, equal offsets,
// arbitrary rows, empty rows, and rows of interpolation and restriction.
func drawRows(t *rapid.T) (rowsOf, int) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	stretches := rapid.IntRange(0, 6).Draw(t, "stretches")
	far := rapid.SampledFrom([]int{40, 40, 70000}).Draw(t, "columns") // sometimes more than 16 bits can address
	n := 0
	var lengths []int
	for range stretches {
		lengths = append(lengths, rng.IntN(80))
		n += lengths[len(lengths)-1]
	}
	cols := n + far
	value := []func() float64{
		func() float64 { return rng.NormFloat64() },
		func() float64 { return float64(float32(rng.NormFloat64())) },
		func() float64 { return float64(rng.IntN(3)) - 1 },
	}
	var rows rowsOf
	for _, length := range lengths {
		kind, val := rng.IntN(6), value[rng.IntN(3)]
		var pattern Row
		for range rng.IntN(9) {
			pattern.Add(rng.IntN(2*cols)-cols, val())
		}
		for k := range length {
			i := len(rows)
			if kind > 3 { // like the row before the last, moved by one; or like the last row, moved by two
				rows = append(rows, repeating(rows[i-k:], kind == 4, pattern, cols))
				continue
			}
			var r Row
			for k, d := range pattern.Cols {
				switch c := i + d; {
				case kind == 3: // any number of arbitrary columns
					if rng.IntN(3) > 0 {
						r.Add(rng.IntN(cols), val())
					}
				case c < 0 || c >= cols:
				case kind == 0:
					r.Add(c, pattern.Vals[k])
				default:
					r.Add(c, val())
				}
			}
			rows = append(rows, r)
		}
	}
	return rows, cols
}

// repeating returns the next row of a stretch. Every second row is the same, moved by one column, or every row is the
// same, moved by two.
func repeating(before []Row, second bool, pattern Row, cols int) (r Row) {
	n := len(before)
	shift, of := 2*n, pattern
	if second {
		shift = n / 2
	}
	if second && n%2 == 1 && len(pattern.Cols) > 0 {
		of = Row{Cols: pattern.Cols[1:], Vals: pattern.Vals[1:]}
	}
	for k, c := range of.Cols {
		if c = (c+cols)/2 + shift; c < cols { // columns were drawn from both sides of zero
			r.Add(c, of.Vals[k])
		}
	}
	return r
}

func TestEveryFormGivesTheSameBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := drawRows(t)
		x := make([]float64, cols)
		for i := range x {
			x[i] = Noise(7, i)
			if i%5 == 0 {
				x[i] = 0 // gives products of -0
			}
		}
		want := rows.multiply(x)
		made := build(t, rows, cols, Compressed)
		for _, tc := range []struct {
			format string
			*Matrix
		}{{"compressed", made}, {"plain", build(t, rows, cols, Plain)},
			{"by shapes", multiplied(t, made.Shapes(), cols, Compressed)},
			{"by shapes of rows", multiplied(t, made.Unpack().Shapes(), cols, Compressed)},
			{"by shapes, plain", multiplied(t, made.Shapes(), cols, Plain)}} {
			format, m := tc.format, tc.Matrix
			if err := cmp.Or(unpacksTo(m, rows), wellFormed(m)); err != nil {
				t.Fatalf("%v: %v", format, err)
			}
			bothKernels(func(kernels string) {
				got := make([]float64, len(rows)+1)
				got[len(rows)] = 42
				m.Multiply(got, x, 0, len(rows))
				if i := sameBits(got[:len(rows)], want); i >= 0 {
					t.Fatalf("%v, %s: row %d is %v, want %v", format, kernels, i, got[i], want[i])
				}
				if got[len(rows)] != 42 {
					t.Fatalf("%v, %s: wrote past the rows", format, kernels)
				}
				block := make([]float64, len(rows))
				m.Product(block, x, 0, len(rows))
				if i := sameBits(block, want); i >= 0 {
					t.Fatalf("%v, %s: row %d of a block is %v, want %v", format, kernels, i, block[i], want[i])
				}
				lo := rapid.IntRange(0, len(rows)).Draw(t, "lo")
				hi := rapid.IntRange(lo, len(rows)).Draw(t, "hi")
				part := make([]float64, len(rows))
				m.Multiply(part, x, lo, hi)
				m.Product(block, x, lo, hi)
				if i := sameBits(block[:hi-lo], part[lo:hi]); i >= 0 {
					t.Fatalf("%v, %s: rows %d to %d as a block: row %d is %v, want %v", format, kernels, lo, hi, lo+i, block[i],
						part[lo+i])
				}
				for i, v := range part {
					if in := i >= lo && i < hi; in && v != want[i] || !in && v != 0 {
						t.Fatalf("%v, %s: rows %d to %d: row %d is %v, want %v", format, kernels, lo, hi, i, v, want[i])
					}
				}
			})
		}
	})
}

func multiplied(t *rapid.T, s *Shapes, cols int, format Format) *Matrix {
	return must.Get(s.Matrix(cols, format))(t)
}

// unpacksTo returns an error if the unpacked rows of a matrix differ from rows.
func unpacksTo(m *Matrix, rows rowsOf) error {
	csr := m.Unpack()
	for i, r := range rows {
		cols, vals := csr.Row(i)
		if len(cols) != len(r.Cols) || sameBits(vals, r.Vals) >= 0 {
			return fmt.Errorf("row %d has the values %v, want %v", i, vals, r.Vals)
		}
		for k, c := range r.Cols {
			if int(cols[k]) != c {
				return fmt.Errorf("row %d has the columns %v, want %v", i, cols, r.Cols)
			}
		}
	}
	again, err := csr.Matrix(m.Columns(), Plain)
	if err == nil && (again.Entries() != m.Entries() || again.Rows() != m.Rows() || again.Reach() != m.Reach()) {
		err = fmt.Errorf("packed again: %d entries, want %d", again.Entries(), m.Entries())
	}
	return err
}

// The format Single rounds the values and changes nothing else.
func TestSingle(t *testing.T) {
	_, exact := wholeMatrix(t, "variable", Params{Rows: 5000, Seed: 3}, Compressed)
	_, single := wholeMatrix(t, "variable", Params{Rows: 5000, Seed: 3}, Single)
	if 10*single.Bytes() > 6*exact.Bytes() {
		t.Errorf("%d bytes, in double precision %d", single.Bytes(), exact.Bytes())
	}
	a, b := exact.Unpack(), single.Unpack()
	for k, v := range a.Vals {
		if b.Vals[k] != float64(float32(v)) || a.Cols[k] != b.Cols[k] {
			t.Fatalf("entry %d is %v in column %d, want %v in %d rounded", k, b.Vals[k], b.Cols[k], v, a.Cols[k])
		}
	}
}

// Each kind of problem is stored in the form that was designed for it.
func TestStoredBytes(t *testing.T) {
	for _, tc := range []struct {
		problem string
		params  Params
		format  Format
		atMost  float64 // bytes per row
	}{
		{"poisson", Params{Rows: 40000, Dim: 2}, Compressed, 1.5},
		{"poisson", Params{Rows: 64000, Dim: 3, Stencil: 27}, Compressed, 6},
		{"advection", Params{Rows: 64000, Dim: 3}, Compressed, 6},
		{"variable", Params{Rows: 40000, Dim: 2}, Compressed, 42},
		{"mesh", Params{Rows: 40000}, Compressed, 73},
		{"poisson", Params{Rows: 40000, Dim: 2}, Plain, 64},
		{"poisson", Params{Rows: 64000, Dim: 3}, Plain, 88},
		{"poisson", Params{Rows: 64000, Dim: 3, Stencil: 27}, Plain, 328},
	} {
		p, m := wholeMatrix(t, tc.problem, tc.params, tc.format)
		perRow := float64(m.Bytes()) / float64(p.Size())
		if perRow > tc.atMost {
			t.Errorf("%s %+v %v: %.1f bytes per row, want at most %.1f", tc.problem, tc.params, tc.format, perRow, tc.atMost)
		}
	}
}

type oneRank int

func (n oneRank) Owner(int) int    { return 0 }
func (n oneRank) Rows(int) []Range { return []Range{{0, int(n)}} }

func wholeMatrix(t *testing.T, problem string, params Params, format Format) (Problem, *Matrix) {
	t.Helper()
	p := must.Get(New(problem, params))(t)
	m := must.Get(NewPlan(p, oneRank(p.Size()), 0).Matrix(p, format))(t)
	return p, m
}

func TestReach(t *testing.T) {
	_, m := wholeMatrix(t, "poisson", Params{Rows: 10000}, Compressed)
	if m.Reach() != 100 {
		t.Errorf("reach %d, want a line of 100", m.Reach())
	}
}

func TestBuilderRefuses(t *testing.T) {
	if _, err := NewBuilder(1, math.MaxInt32+1, Plain); err == nil {
		t.Error("more columns than 32 bits hold were accepted")
	}
	for name, misuse := range map[string]func(b *Builder){
		"a column outside":    func(b *Builder) { b.Add([]int{2}, []float64{1}) },
		"a row too many":      func(b *Builder) { b.Add(nil, nil); b.Add(nil, nil) },
		"a row too few":       func(b *Builder) { b.Done() },
		"uneven rows":         func(b *Builder) { b.Add([]int{0}, nil) },
		"a column that wraps": func(b *Builder) { b.Add([]int{1 << 32}, []float64{1}) },
		"a negative column":   func(b *Builder) { b.Add([]int{-1}, []float64{1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			b := must.Get(NewBuilder(1, 2, Compressed))(t)
			misuse(b)
		}()
	}
}

// A product may begin and end at any row, including the first row of a run.
func TestProductOfSomeRows(t *testing.T) {
	for _, kind := range []string{"poisson", "variable", "mesh"} {
		p, m := wholeMatrix(t, kind, Params{Rows: 900}, Compressed)
		x, want := make([]float64, m.Columns()), make([]float64, p.Size())
		for i := range x {
			x[i] = Noise(3, i)
		}
		m.Multiply(want, x, 0, p.Size())
		for lo := range p.Size() {
			for _, n := range []int{1, 5, 40, 300, p.Size()} {
				hi := min(lo+n, p.Size())
				got := make([]float64, hi-lo)
				m.Product(got, x, lo, hi)
				if i := sameBits(got, want[lo:hi]); i >= 0 {
					t.Fatalf("%s: rows [%d, %d): row %d is %v, want %v", kind, lo, hi, lo+i, got[i], want[lo+i])
				}
			}
		}
	}
}
