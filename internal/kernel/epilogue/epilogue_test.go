package epilogue

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

func bytesOf[E any](s []E) []byte {
	if len(s) == 0 {
		return nil
	}
	var e E
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(e)))
}

// Applied in pieces or to the whole, the step computes the formula for every element.
func TestFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		ranks := rapid.IntRange(0, 5).Draw(t, "ranks") // 0 means no average
		scale := rapid.SampledFrom([]float64{0, 0.5, 3}).Draw(t, "scale")
		out, residual := make([]float32, n), make([]float32, n)
		bias := make([]float32, rapid.SampledFrom([]int{0, 1, n}).Draw(t, "bias"))
		for i := range n {
			out[i], residual[i] = float32(i%17-5), float32(i%7)
		}
		for i := range bias {
			bias[i] = float32(i % 5)
		}
		var s Step
		alpha := 1.0
		if ranks > 0 {
			s, alpha = Average(dtype.F32, ranks), 1/float64(ranks)
		}
		if scale != 0 {
			alpha *= scale
		}
		want := make([]float32, n)
		for i := range want {
			want[i] = out[i] * float32(alpha)
			if len(bias) > 0 {
				want[i] += bias[i%len(bias)]
			}
			want[i] += residual[i]
		}
		s = s.Then(dtype.F32, scale, bytesOf(bias), bytesOf(residual))
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		s.Apply(bytesOf(out[:cut]), 0)
		s.Apply(bytesOf(out[cut:]), 4*cut)
		for i := range want {
			if out[i] != want[i] {
				t.Fatalf("element %d is %v, want %v", i, out[i], want[i])
			}
		}
	})
}

// Integers are divided and truncated, and the zero step changes nothing.
func TestIntegers(t *testing.T) {
	var none Step
	s := []int32{-7, 7, 8}
	none.Apply(bytesOf(s), 0)
	if s[0] != -7 {
		t.Errorf("nothing made %v", s)
	}
	three := Average(dtype.I32, 3)
	three.Apply(bytesOf(s), 0)
	if s[0] != -2 || s[1] != 2 || s[2] != 2 {
		t.Errorf("thirds are %v", s)
	}
	b := []uint8{255, 9}
	many := Average(dtype.U8, 300)
	many.Apply(b, 0)
	if b[0] != 0 || b[1] != 0 {
		t.Errorf("quotients by 300 are %v", b)
	}
	wide := []int64{1 << 40}
	two := Average(dtype.I64, 2)
	two.Apply(bytesOf(wide), 0)
	if wide[0] != 1<<39 {
		t.Errorf("half of 2^40 is %d", wide[0])
	}
}
