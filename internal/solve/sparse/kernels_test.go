package sparse

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestVectorKernels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 200).Draw(t, "n")
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := Noise(seed, -1), Noise(seed, -2)
		x, y := make([]float64, n), make([]float64, n)
		for i := range n {
			x[i], y[i] = Noise(seed, 2*i), Noise(seed, 2*i+1)
		}
		sum, product := make([]float64, n), make([]float64, n)
		for i := range n {
			sum[i] = float64(a*x[i]) + float64(b*y[i])
			product[i] = x[i] * y[i]
		}
		var dots []float64
		bothKernels(func(kernels string) {
			got := make([]float64, n)
			Axpby(got, a, x, b, y)
			if i := sameBits(got, sum); i >= 0 {
				t.Fatalf("Axpby, %s: element %d is %v, want %v", kernels, i, got[i], sum[i])
			}
			copy(got, x)
			Axpby(got, a, got, b, y) // in place
			if i := sameBits(got, sum); i >= 0 {
				t.Fatalf("Axpby in place, %s: element %d is %v, want %v", kernels, i, got[i], sum[i])
			}
			Times(got, x, y)
			if i := sameBits(got, product); i >= 0 {
				t.Fatalf("Times, %s: element %d is %v, want %v", kernels, i, got[i], product[i])
			}
			dots = append(dots, Dot(x, y))
		})
		exact := 0.0
		for _, v := range product {
			exact += v
		}
		if sameBits(dots[:1], dots[1:]) >= 0 || math.Abs(dots[0]-exact) > 1e-13*float64(n+1) {
			t.Fatalf("Dot of %d: %v, about %v", n, dots, exact)
		}
	})
}

func TestLengthsMustMatch(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("vectors of different lengths were accepted")
		}
	}()
	Axpby(make([]float64, 3), 1, make([]float64, 2), 1, make([]float64, 3))
}
