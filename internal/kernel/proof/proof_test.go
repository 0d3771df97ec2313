package proof

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// naive computes a product with three loops.
func naive(fill func(a, b gemm.Matrix, seed uint64) error, d dtype.DType, m, n, k int) (c, a, b gemm.Matrix) {
	c, a, b = gemm.New(gemm.Result(d), m, n), gemm.New(d, m, k), gemm.New(d, k, n)
	if err := fill(a, b, 1); err != nil {
		panic(err)
	}
	multiply(c, a, b)
	return c, a, b
}

func multiply(c, a, b gemm.Matrix) {
	for i := range c.Rows {
		for j := range c.Cols {
			sum := 0.0
			for l := range a.Cols {
				sum += a.At(i, l) * b.At(l, j)
			}
			c.Set(i, j, sum)
		}
	}
}

// A change of any single element is found, counted and described. A correct product passes.
func TestExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20)
		c, a, b := naive(Operands, rapid.SampledFrom([]dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16}).Draw(t,
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

// A product of operands that were rounded to a narrower type first is wrong in most elements.
func TestRoundedOperandsAreFound(t *testing.T) {
	for _, c := range []struct{ d, narrower dtype.DType }{
		{dtype.F64, dtype.F32}, {dtype.F32, dtype.TF32}, {dtype.F32, dtype.F16}, {dtype.F32, dtype.BF16},
		{dtype.TF32, dtype.BF16}, {dtype.F16, dtype.BF16}, {dtype.BF16, dtype.E4M3},
	} {
		for _, k := range []int{1, 2, 3, 40, 1001} {
			out, a, b := gemm.New(gemm.Result(c.d), 6, 5), gemm.New(c.d, 6, k), gemm.New(c.d, 5, k).T()
			must.Do(t, Operands(a, b, 1))
			multiply(out, a, b)
			must.Do(t, Exact(out, a, b, 3))
			narrow := func(m gemm.Matrix) gemm.Matrix {
				r := gemm.New(dtype.F64, m.Rows, m.Cols)
				for i := range m.Rows {
					for j := range m.Cols {
						v := []float64{m.At(i, j)}
						c.narrower.Round(v)
						r.Set(i, j, v[0])
					}
				}
				return r
			}
			for name, operands := range map[string][2]gemm.Matrix{"A": {narrow(a), b}, "B": {a, narrow(b)}} {
				if name == "B" && k == 1 {
					continue // the only place along k is A's
				}
				multiply(out, operands[0], operands[1])
				var m *Mistake
				if err := Exact(out, a, b, 3); !errors.As(err, &m) || m.Count < 10 {
					t.Errorf("%v over k = %d with %s rounded to %v: %v", c.d, k, name, c.narrower, err)
				}
			}
		}
	}
}

// The largest sum of products of Operands is exact in the type of the result.
func TestOperandsAreExact(t *testing.T) {
	for d, top := range map[dtype.DType]float64{dtype.F64: 1 << 53, dtype.F32: 1 << 24, dtype.I8: math.MaxInt32,
		dtype.U8: math.MaxInt32} {
		for _, k := range []int{1, 2, 1 << 15, 53248, MaxDepth / 2, MaxDepth} {
			a, b := gemm.New(d, 3, k), gemm.New(d, 2, k).T()
			must.Do(t, Operands(a, b, 7))
			x, y, columns := make([]float64, k), make([]float64, k), b.T()
			for i := range a.Rows {
				for j := range b.Cols {
					d.Decode(x, a.Run(i, 0, k))
					d.Decode(y, columns.Run(j, 0, k))
					sum := 0.0
					for l := range k {
						sum += math.Abs(x[l] * y[l])
					}
					if sum > top {
						t.Errorf("%v over k = %d: magnitudes add up to %v", d, k, sum)
					}
				}
			}
		}
	}
	m := gemm.Matrix{Type: dtype.F32, Rows: 0, Cols: MaxDepth + 1}
	if Operands(m, gemm.Matrix{Type: dtype.F32, Rows: MaxDepth + 1}, 1) == nil {
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
	c, a, b := naive(Operands, dtype.F32, 5, 5, 5)
	Spoil(c)
	if Exact(c, a, b, 1) == nil || Close(c, a, b, 50, 1) == nil {
		t.Error("a product that nobody made passes")
	}
}
