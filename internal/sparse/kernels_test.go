package sparse

import (
	"math"
	"syscall"
	"testing"
	"unsafe"

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

// Vectors that end right before an unreadable page can be used at every length:
// no kernel touches anything outside.
func TestEndOfMemory(t *testing.T) {
	const page = 1 << 16
	fenced := func() []float64 {
		room, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Munmap(room) })
		if err := syscall.Mprotect(room[page:], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
		return unsafe.Slice((*float64)(unsafe.Pointer(&room[0])), page/8)
	}
	a, b, c := fenced(), fenced(), fenced()
	for n := 1; n <= 90; n++ {
		x, y, z := a[len(a)-n:], b[len(b)-n:], c[len(c)-n:]
		Axpby(x, 2, y, 3, z)
		Times(x, y, z)
		Dot(x, y)
		for _, kind := range []string{"poisson", "variable", "mesh"} {
			p, m := wholeMatrix(t, kind, Params{Rows: n}, Compressed)
			if p.Size() <= n {
				m.Multiply(x[n-p.Size():], y[n-p.Size():], 0, p.Size())
			}
		}
	}
}

func TestLengthsMustMatch(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("vectors of different lengths were accepted")
		}
	}()
	Axpby(make([]float64, 3), 1, make([]float64, 2), 1, make([]float64, 3))
}
