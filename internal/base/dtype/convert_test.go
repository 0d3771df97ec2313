package dtype

import (
	"math"
	"testing"
)

// TestConvert checks that values that a type represents exactly survive a round trip, at every
// position.
func TestConvert(t *testing.T) {
	for _, d := range append(All(), Products()...) {
		b := make([]byte, 5*d.Size()+1)[1:] // at an odd address
		want := []float64{0, 1, 2, 96, 7}
		d.Encode(b, want)
		got := make([]float64, 5)
		d.Decode(got, b)
		for i := range want {
			if got[i] != want[i] || d.Get(b, i) != want[i] {
				t.Errorf("%v: element %d is %v and %v, want %v", d, i, got[i], d.Get(b, i), want[i])
			}
		}
		d.Put(b, 3, 44)
		if d.Get(b, 3) != 44 || d.Get(b, 2) != 2 || d.Get(b, 4) != 7 {
			t.Errorf("%v: putting element 3 gives %v, %v, %v", d, d.Get(b, 2), d.Get(b, 3), d.Get(b, 4))
		}
	}
}

func TestBytes(t *testing.T) {
	elements := []int32{1, -2, 3}
	b := Bytes(elements)
	if len(b) != 12 || &View[int32](b)[0] != &elements[0] || View[int32](b)[1] != -2 {
		t.Errorf("%d bytes, %v", len(b), View[int32](b))
	}
	if Bytes[int64](nil) != nil || len(View[float32](nil)) != 0 {
		t.Error("nothing has bytes")
	}
}

func TestConvertRounds(t *testing.T) {
	for _, c := range []struct {
		d        DType
		in, want float64
	}{
		{F32, 1 + 0x1p-25, 1}, {F16, 1 + 0x1p-11, 1}, {F16, 1 + 3*0x1p-11, 1 + 0x1p-9}, {F16, 70000, math.Inf(1)},
		{BF16, 1 + 0x1p-8, 1}, {BF16, 1 + 3*0x1p-8, 1 + 0x1p-6}, {I32, -3.9, -3}, {I32, 1<<32 + 5, 5},
		{I64, -1 << 40, -1 << 40}, {U8, 257, 1}, {U8, -1, 255}, {I8, -1, -1}, {I8, 128, -128},
		{TF32, 1 + 0x1p-11, 1}, {TF32, 1 + 3*0x1p-11, 1 + 0x1p-9}, {E4M3, 1 + 0x1p-4, 1}, {E4M3, -1 - 3*0x1p-4, -1.25},
		{E4M3, 464, 448}, {E4M3, 0x1p-10, 0},
		{E4M3, 3 * 0x1p-10, 0x1p-8},
	} {
		b := make([]byte, c.d.Size())
		if c.d.Put(b, 0, c.in); c.d.Get(b, 0) != c.want {
			t.Errorf("%v of %v is %v, want %v", c.d, c.in, c.d.Get(b, 0), c.want)
		}
		v := []float64{c.in}
		if c.d.Round(v); v[0] != c.want {
			t.Errorf("%v rounds %v to %v, want %v", c.d, c.in, v[0], c.want)
		}
	}
}

// TestFloat8 checks that each Float8 survives a round trip, that values between neighbours are
// rounded to the nearer one, and that too large values become NaN.
func TestFloat8(t *testing.T) {
	for i := range 256 {
		h := Float8(i)
		v := h.Float32()
		if got := Float8From(v); got != h {
			t.Errorf("%#x is %v, which rounds to %#x", i, v, got)
		}
		if next := (h + 1).Float32(); i&0x7f < 0x7e {
			if got := Float8From(v + (next-v)*0.49); got != h {
				t.Errorf("%v rounds to %#x, want %#x", v+(next-v)*0.49, got, i)
			}
			if got := Float8From(v + (next-v)*0.51); got != h+1 {
				t.Errorf("%v rounds to %#x, want %#x", v+(next-v)*0.51, got, i+1)
			}
		}
	}
	for _, v := range []float64{465, 1e9, math.Inf(1), math.NaN()} {
		if f := Float8From(float32(v)).Float32(); f == f {
			t.Errorf("%v is %v", v, f)
		}
	}
}
