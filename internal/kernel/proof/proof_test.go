package proof

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// naive computes a product with three loops.
func naive(fill func(gemm.Matrix, uint64), d dtype.DType, m, n, k int) (c, a, b gemm.Matrix) {
	c, a, b = gemm.New(gemm.Result(d), m, n), gemm.New(d, m, k), gemm.New(d, k, n)
	fill(a, 1)
	fill(b, 2)
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range k {
				sum += a.At(i, l) * b.At(l, j)
			}
			c.Set(i, j, sum)
		}
	}
	return c, a, b
}

// A change of any single element is found, counted and described. A correct product passes.
func TestExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20)
		c, a, b := naive(Integers, rapid.SampledFrom([]dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16}).Draw(t,
			"type"),
			size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k"))
		if err := Exact(c, a, b, 3); err != nil {
			t.Fatalf("a right product: %v", err)
		}
		i, j := rapid.IntRange(0, c.Rows-1).Draw(t, "i"), rapid.IntRange(0, c.Cols-1).Draw(t, "j")
		was := c.At(i, j)
		for _, now := range []float64{was + 1, was - 1, was + 0.5, math.NaN(), math.Inf(1)} {
			c.Set(i, j, now)
			var m *Mistake
			if err := Exact(c, a, b, 3); !errors.As(err, &m) || m.Count != 1 {
				t.Errorf("(%d, %d) is %v instead of %v: %v", i, j, now, was, err)
			}
		}
	})
}

func TestExactRefusesWhatIsNotExact(t *testing.T) {
	m := gemm.Matrix{Type: dtype.F32, Rows: 0, Cols: MaxDepth + 1}
	if err := Exact(gemm.New(dtype.F32, 0, 0), m, gemm.New(dtype.F32, 0, 0), 1); err == nil {
		t.Error("a sum that f32 rounds was accepted")
	}
}

// Rounding errors pass, and larger errors fail, in every element if all are sampled.
func TestClose(t *testing.T) {
	for _, d := range []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16} {
		c, a, b := naive(Reals, d, 9, 7, 40)
		if err := Close(c, a, b, 500, 3); err != nil {
			t.Fatalf("%v: a right product: %v", d, err)
		}
		for _, off := range []float64{1e-4, math.NaN()} {
			was := c.At(4, 3)
			c.Set(4, 3, was+off)
			if Close(c, a, b, 500, 3) == nil { // 500 samples draw each of the 63 elements
				t.Errorf("%v: an element that is off by %v is close", d, off)
			}
			c.Set(4, 3, was)
		}
	}
}

// Elements that were not written fail the check.
func TestSpoil(t *testing.T) {
	c, a, b := naive(Integers, dtype.F32, 5, 5, 5)
	Spoil(c)
	if Exact(c, a, b, 1) == nil || Close(c, a, b, 50, 1) == nil {
		t.Error("a product that nobody made passes")
	}
}
