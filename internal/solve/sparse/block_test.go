package sparse

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// blockOf returns a block vector of noise.
func blockOf(seed uint64, rows, width int) []float64 {
	x := make([]float64, rows*width)
	for i := range x {
		x[i] = Noise(seed, i)
	}
	return x
}

// Each column of a block product has the bits of a product with that column alone, in every storage form.
func TestBlockProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := drawRows(t)
		width := rapid.SampledFrom([]int{1, 2, 4, 7, 8, 9, 16, 19, 64}).Draw(t, "width")
		format := rapid.SampledFrom([]Format{Compressed, Plain, Single, PlainSingle, Bfloat16}).Draw(t, "format")
		m := build(t, rows, cols, format)
		x := blockOf(5, cols, width)
		lo := rapid.IntRange(0, len(rows)).Draw(t, "lo")
		hi := rapid.IntRange(lo, len(rows)).Draw(t, "hi")
		one, want := make([]float64, cols), make([]float64, len(rows))
		bothKernels(func(kernels string) {
			got := make([]float64, len(rows)*width)
			m.MultiplyBlock(got, x, width, lo, hi)
			for j := range width {
				for i := range one {
					one[i] = x[i*width+j]
				}
				m.Multiply(want, one, lo, hi)
				for i := lo; i < hi; i++ {
					if math.Float64bits(got[i*width+j]) != math.Float64bits(want[i]) {
						t.Fatalf("%s, %v, width %d: row %d of column %d is %v, want %v", kernels, format, width, i, j, got[i*width+j],
							want[i])
					}
				}
			}
			for i := range got { // rows outside the range stay as they are
				if row := i / width; (row < lo || row >= hi) && got[i] != 0 {
					t.Fatalf("%s: row %d was written, outside [%d, %d)", kernels, row, lo, hi)
				}
			}
		})
	})
}

// The kernels for small matrices give the bits of the portable ones and leave all other memory alone.
func TestBlockKernels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.IntRange(0, 40).Draw(t, "rows")
		k, n := rapid.SampledFrom([]int{1, 3, 5, 8, 12, 16, 20}).Draw(t, "k"), rapid.IntRange(1, 35).Draw(t, "n")
		if rapid.Bool().Draw(t, "square") {
			n = k
		}
		cols := rapid.OneOf(rapid.Just(n), rapid.IntRange(0, n)).Draw(t, "cols")
		a, b, coef := blockOf(1, rows, k), blockOf(2, rows, n), blockOf(3, k, n)
		add, symmetric := rapid.Bool().Draw(t, "add"), k == n && rapid.Bool().Draw(t, "symmetric")
		var combined, grams [][]float64
		bothKernels(func(string) {
			dst, sums := append(blockOf(4, rows, n), 7, 7), append(blockOf(5, k, n), 7, 7)
			base := []float64(nil)
			if add {
				base = dst
			}
			Combine(dst, base, a, coef, rows, k, n, cols)
			Gram(sums, a, b, rows, k, n, symmetric)
			if k == n && n == cols && n <= InPlace {
				same := append(slices.Clone(a), 7, 7)
				if add {
					base = blockOf(4, rows, n)
				}
				if Combine(same, base, same, coef, rows, k, n, n); sameBits(same, dst) >= 0 {
					t.Fatal("Combine in place differs")
				}
			}
			combined, grams = append(combined, dst), append(grams, sums)
		})
		if i := sameBits(combined[0], combined[1]); i >= 0 {
			t.Fatalf("Combine: element %d is %v, portable %v", i, combined[0][i], combined[1][i])
		}
		if i := sameBits(grams[0], grams[1]); i >= 0 {
			t.Fatalf("Gram: element %d is %v, portable %v", i, grams[0][i], grams[1][i])
		}
		for i := range rows {
			for j := range n {
				want := 0.0
				if add || j >= cols {
					want = Noise(4, i*n+j)
				}
				for l := 0; l < k && j < cols; l++ {
					want += a[i*k+l] * coef[l*n+j]
				}
				if got := combined[0][i*n+j]; math.Abs(got-want) > 1e-13*float64(k+1) {
					t.Fatalf("Combine: element %d of row %d is %v, want %v", j, i, got, want)
				}
			}
		}
		for l := range k {
			for j := l; j < n; j++ {
				want := Noise(5, l*n+j)
				for i := range rows {
					want += a[i*k+l] * b[i*n+j]
				}
				if got := grams[0][l*n+j]; math.Abs(got-want) > 1e-13*float64(rows+1) {
					t.Fatalf("Gram: (%d, %d) is %v, want %v", l, j, got, want)
				}
			}
		}
	})
}

// Products and vector operations in single precision have the bits of a plain loop, in every storage form.
func TestSinglePrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := drawRows(t)
		format := rapid.SampledFrom([]Format{Single, PlainSingle, Compressed}).Draw(t, "format")
		m := build(t, rows, cols, format)
		x := make([]float32, cols)
		for i := range x {
			x[i] = float32(Noise(5, i))
		}
		lo := rapid.IntRange(0, len(rows)).Draw(t, "lo")
		hi := rapid.IntRange(lo, len(rows)).Draw(t, "hi")
		bothKernels(func(kernels string) {
			got := make([]float32, hi-lo)
			m.Product32(got, x, lo, hi)
			for i, v := range got {
				want := float32(minusZero)
				for k, c := range rows[lo+i].Cols {
					want += float32(float32(rows[lo+i].Vals[k]) * x[c])
				}
				if math.Float32bits(v) != math.Float32bits(want) {
					t.Fatalf("%s, %v: row %d is %v, want %v", kernels, format, lo+i, v, want)
				}
			}
			a, b := x[lo:hi], x[len(x)-(hi-lo):]
			sum, product, dot := make([]float32, hi-lo), make([]float32, hi-lo), 0.0
			Axpby32(sum, 0.3, a, -2, b)
			Times32(product, a, b)
			for i := range a {
				dot += float64(a[i]) * float64(b[i])
				if sum[i] != float32(0.3*a[i])+float32(-2*b[i]) || product[i] != a[i]*b[i] {
					t.Fatalf("%s: element %d is %v and %v", kernels, i, sum[i], product[i])
				}
			}
			if got := Dot32(a, b); math.Abs(got-dot) > 1e-13*float64(len(a)+1) {
				t.Fatalf("%s: a scalar product of %v, want %v", kernels, got, dot)
			}
		})
	})
}

// Kernels read and write through pointers, so that slices that are too short must be refused before.
func TestShortBlocksAreRefused(t *testing.T) {
	const rows, k, n = 5, 3, 4
	lengths := map[string]int{"dst": rows * n, "base": rows * n, "src": rows * k, "coef": k * n, "sums": k * n,
		"a": rows * k, "b": rows * n}
	panics := func(short string) (combine, gram bool) {
		of := func(name string) []float64 {
			if name == short {
				return make([]float64, lengths[name]-1)
			}
			return make([]float64, lengths[name])
		}
		caught := func(call func()) (caught bool) {
			defer func() { caught = recover() != nil }()
			call()
			return false
		}
		return caught(func() { Combine(of("dst"), of("base"), of("src"), of("coef"), rows, k, n, n) }),
			caught(func() { Gram(of("sums"), of("a"), of("b"), rows, k, n, false) })
	}
	for name := range lengths {
		inCombine := slices.Contains([]string{"dst", "base", "src", "coef"}, name)
		if combine, gram := panics(name); combine != inCombine || gram == inCombine {
			t.Errorf("a short %s is refused by Combine: %v, by Gram: %v", name, combine, gram)
		}
	}
	if combine, gram := panics(""); combine || gram {
		t.Errorf("slices that are long enough are refused by Combine: %v, by Gram: %v", combine, gram)
	}
}
