package dtype

import (
	"math"
	"testing"
)

// What a type holds exactly comes back, at every position; the rest is rounded.
func TestConvert(t *testing.T) {
	for _, d := range All() {
		b := make([]byte, 5*d.Size()+1)[1:] // at an odd address
		want := []float64{0, 1, 2, 100, 7}
		d.Encode(b, want)
		got := make([]float64, 5)
		d.Decode(got, b)
		for i := range want {
			if got[i] != want[i] || d.Get(b, i) != want[i] {
				t.Errorf("%v: element %d is %v and %v, want %v", d, i, got[i], d.Get(b, i), want[i])
			}
		}
		d.Put(b, 3, 42)
		if d.Get(b, 3) != 42 || d.Get(b, 2) != 2 || d.Get(b, 4) != 7 {
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
		{BF16, 1 + 0x1p-8, 1}, {BF16, 1 + 3*0x1p-8, 1 + 0x1p-6}, {I32, -3.9, -3}, {I32, 1<<32 + 5, 5}, {I64, -1 << 40, -1 << 40}, {U8, 257, 1}, {U8, -1, 255},
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
