package vec

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Every number of every type is widened as in package dtype, for every length and address.
func TestWiden(t *testing.T) {
	for _, d := range []dtype.DType{dtype.F32, dtype.F16, dtype.BF16} {
		src := aligned(d.Size()<<16, 1)
		for i := range 1 << 16 {
			src[i*d.Size()+d.Size()-2], src[i*d.Size()+d.Size()-1] = byte(i), byte(i>>8)
		}
		for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 33, 40, 1 << 16} {
			got := make([]float32, n+1)
			got[n] = 99
			Widen(got[:n], src[:n*d.Size()], d)
			for i, v := range got[:n] {
				if want := d.Get(src, i); float64(v) != want && (v == v || want == want) {
					t.Fatalf("%v, element %d of %d is %v, want %v", d, i, n, v, want)
				}
			}
			if got[n] != 99 {
				t.Fatalf("%v: the element after %d was written", d, n)
			}
		}
	}
}

// Every float32 is rounded as in package dtype, to the last bit.
func TestNarrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := make([]float32, rapid.IntRange(0, 70).Draw(t, "count"))
		for i := range values {
			values[i] = math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		}
		n := len(values)
		for _, d := range []dtype.DType{dtype.F32, dtype.F16, dtype.BF16} {
			got := aligned(n*d.Size()+1, 1)
			got[n*d.Size()] = 99
			Narrow(got[:n*d.Size()], values, d)
			if got[n*d.Size()] != 99 {
				t.Fatalf("%v: the byte after %d elements was written", d, n)
			}
			for i, v := range values {
				switch d {
				case dtype.F32:
					if have := dtype.View[float32](got)[i]; math.Float32bits(have) != math.Float32bits(v) {
						t.Fatalf("f32 of %v is %v", v, have)
					}
				case dtype.F16:
					if have := dtype.View[dtype.Float16](got)[i]; have != dtype.Float16From(v) {
						t.Fatalf("f16 of %v (%#x) is %#x, want %#x", v, math.Float32bits(v), have, dtype.Float16From(v))
					}
				case dtype.BF16:
					if have := dtype.View[dtype.BFloat16](got)[i]; have != dtype.BFloat16From(v) {
						t.Fatalf("bf16 of %v (%#x) is %#x, want %#x", v, math.Float32bits(v), have, dtype.BFloat16From(v))
					}
				}
			}
		}
	})
}
