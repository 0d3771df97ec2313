package sparse

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// bfloat returns the nearest bfloat16, and the even one if two are as near.
func TestBfloat(t *testing.T) {
	for v, want := range map[float64]float64{1: 1, -2.5: -2.5, 1 + 1./256: 1, 1 + 3./256: 1 + 4./256,
		0x1p-130: 0x1p-130, 1e39: math.Inf(1), -0.1: -0.10009765625} {
		if got := widen(bfloat(v)); got != want {
			t.Errorf("%v becomes %v, want %v", v, got, want)
		}
	}
	if got := widen(bfloat(math.NaN())); got == got {
		t.Errorf("NaN becomes %v", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(-1e30, 1e30).Draw(t, "v")
		half := bfloat(v)
		for _, other := range []uint16{half - 1, half + 1} { // the neighbours, except across zero
			if d := math.Abs(widen(other) - v); half&0x7fff != 0 && d < math.Abs(widen(half)-v) {
				t.Fatalf("%v becomes %v, but %v is nearer", v, widen(half), widen(other))
			}
		}
	})
}

// The format Bfloat16 rounds couplings, keeps the sums of rows by their diagonal entries, which come first, and
// multiplies like a matrix with the rounded values.
func TestBfloat16Rows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := drawRows(t)
		m := build(t, rows, cols, Bfloat16)
		stored := m.Unpack()
		rounded := make(rowsOf, len(rows))
		for i, r := range rows {
			var want Row
			want.Add(i, 0)
			sum, size, diagonal := 0.0, 0.0, slices.Index(r.Cols, i)
			for k, v := range r.Vals {
				sum += v
				size += math.Abs(v)
				if k != diagonal {
					want.Add(r.Cols[k], widen(bfloat(v)))
				}
			}
			where, vals := stored.Row(i)
			for k, v := range vals {
				rounded[i].Add(int(where[k]), v)
				sum -= v
			}
			if !slices.Equal(rounded[i].Cols, want.Cols) || !slices.Equal(vals[1:], want.Vals[1:]) ||
				math.Abs(sum) > 0x1p-23*size {
				t.Fatalf("row %d is %v, want %v; its sum changed by %g", i, rounded[i], want, sum)
			}
		}
		x := make([]float64, cols)
		for i := range x {
			x[i] = Noise(7, i)
		}
		want := rounded.multiply(x)
		bothKernels(func(kernels string) {
			got := make([]float64, len(rows))
			m.Multiply(got, x, 0, len(rows))
			if i := sameBits(got, want); i >= 0 {
				t.Fatalf("%s: row %d is %v, want %v", kernels, i, got[i], want[i])
			}
		})
	})
}

// Rows that are stored once for a whole run keep their values.
func TestBfloat16KeepsSharedRows(t *testing.T) {
	_, exact := wholeMatrix(t, "poisson", Params{Rows: 3600}, Compressed)
	shapes := exact.Shapes()
	for k := range shapes.distinct.Vals {
		shapes.distinct.Vals[k] /= 3
	}
	m, err := shapes.Matrix(exact.Columns(), Bfloat16)
	if err != nil {
		t.Fatal(err)
	}
	csr := m.Unpack()
	if _, vals := csr.Row(1830); len(vals) != 5 || vals[2] != 4./3 {
		t.Errorf("a row of the run is %v", vals)
	}
	if m.Bytes() > 2*exact.Bytes() {
		t.Errorf("%d bytes, exact %d", m.Bytes(), exact.Bytes())
	}
}

// The couplings have 2 bytes, and the diagonal 4.
func TestBfloat16Bytes(t *testing.T) {
	for kind, atMost := range map[string]float64{"variable": 13.5, "mesh": 33} {
		p, m := wholeMatrix(t, kind, Params{Rows: 40000}, Bfloat16)
		if perRow := float64(m.Bytes()) / float64(p.Size()); perRow > atMost {
			t.Errorf("%s: %.1f bytes per row, want at most %.1f", kind, perRow, atMost)
		}
	}
}
