package quant

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

var codecs = []Codec{Int8, Int6, Int4}

var dtypes = []dtype.DType{dtype.F32, dtype.F16, dtype.BF16}

// store converts numbers to bytes, and get reads one back.
func store(d dtype.DType, values []float64) []byte {
	b := make([]byte, len(values)*d.Size())
	d.Encode(b, values)
	return b
}

func get(b []byte, d dtype.DType, i int) float64 { return d.Get(b, i) }

// levels holds the documented largest integers, independent of the code.
var levels = map[Codec]float64{Int8: 127, Int6: 31, Int4: 7}

// reference is the encoding by definition: the decoded elements of a group.
func reference(c Codec, group []float64) []float64 {
	top := levels[c]
	most := 0.0
	for _, v := range group {
		most = max(most, math.Abs(v))
	}
	scale := float32(most) / float32(top)
	out := make([]float64, len(group))
	for i, v := range group {
		switch {
		case math.IsNaN(most) || math.IsInf(most, 0):
			out[i] = math.NaN()
		case scale >= 0x1p-126:
			q := math.RoundToEven(float64(float32(v) * (1 / scale)))
			out[i] = float64(float32(max(-top, min(top, q))) * scale)
		}
	}
	return out
}

func numbers(t *rapid.T, d dtype.DType, n int, label string) []float64 {
	values := make([]float64, n)
	most := rapid.IntRange(-20, 14).Draw(t, label+" exponent")
	for i := range values {
		values[i] = math.Ldexp(rapid.Float64Range(-1, 1).Draw(t, label), most-rapid.IntRange(0, 8).Draw(t, label+" smaller"))
	}
	b := store(d, values)
	for i := range values {
		values[i] = get(b, d, i) // as stored in the type
	}
	return values
}

// Encoding and decoding match the definition for every length.
func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, d := rapid.SampledFrom(codecs).Draw(t, "codec"), rapid.SampledFrom(dtypes).Draw(t, "type")
		values := numbers(t, d, rapid.IntRange(1, 3*Group).Draw(t, "n"), "value")
		coded := make([]byte, c.Size(d, len(values)))
		c.Encode(coded, store(d, values), d)
		back := make([]byte, len(values)*d.Size())
		c.DecodeReduce(back, [][]byte{coded}, d, dtype.Sum)
		for from := 0; from < len(values); from += Group {
			to := min(from+Group, len(values))
			want := store(d, reference(c, values[from:to]))
			for i := from; i < to; i++ {
				if got, want := get(back, d, i), get(want, d, i-from); got != want {
					t.Fatalf("%s of %v: element %d of %d is %v, want %v", c.Name(), d, i, len(values), got, want)
				}
			}
		}
	})
}

// reduced is the quantised all-reduce: all inputs are encoded, and so is their sum.
func reduced(c Codec, d dtype.DType, inputs [][]float64) []byte {
	n := len(inputs[0])
	var coded [][]byte
	for _, in := range inputs {
		e := make([]byte, c.Size(d, n))
		c.Encode(e, store(d, in), d)
		coded = append(coded, e)
	}
	sum := make([]byte, n*d.Size())
	c.DecodeReduce(sum, coded, d, dtype.Sum)
	c.Encode(coded[0], sum, d)
	c.DecodeReduce(sum, coded[:1], d, dtype.Sum)
	return sum
}

// A NaN or an infinity affects its whole group and no other group. Values that are too small for a scale become zero.
func TestSpecialGroups(t *testing.T) {
	for _, c := range codecs {
		for _, special := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			values := make([]float64, 3*Group)
			for i := range values {
				values[i] = 1
			}
			values[Group+5] = special
			got := reduced(c, dtype.F32, [][]float64{values, values})
			for i := range values {
				if v := get(got, dtype.F32, i); (i/Group == 1) != math.IsNaN(v) {
					t.Errorf("%s with %v: element %d is %v", c.Name(), special, i, v)
				}
			}
		}
		tiny := []float64{0x1p-149, -0x1p-140, 0}
		got := reduced(c, dtype.F32, [][]float64{tiny, tiny})
		for i := range tiny {
			if get(got, dtype.F32, i) != 0 {
				t.Errorf("%s: %v became %v", c.Name(), tiny[i], get(got, dtype.F32, i))
			}
		}
	}
}

// Encodings have the documented sizes.
func TestSizes(t *testing.T) {
	for c, want := range map[Codec]int{Int8: 36, Int6: 28, Int4: 20} {
		if c.Size(dtype.F32, 1) != want || c.Size(dtype.BF16, 33) != 2*want || c.Size(dtype.F16, 0) != 0 {
			t.Errorf("%s: %d bytes for one element, want %d", c.Name(), c.Size(dtype.F32, 1), want)
		}
	}
}

func TestReductions(t *testing.T) {
	a, b := store(dtype.F32, []float64{127, -127}), store(dtype.F32, []float64{2 * 127, 127})
	for r, want := range map[dtype.Reduction][]float64{dtype.Sum: {381, 0}, dtype.Prod: {2 * 127 * 127, -127 * 127},
		dtype.Min: {127, -127}, dtype.Max: {254, 127}} {
		ea, eb, out := make([]byte, 36), make([]byte, 36), make([]byte, 8)
		Int8.Encode(ea, a, dtype.F32)
		Int8.Encode(eb, b, dtype.F32)
		Int8.DecodeReduce(out, [][]byte{ea, eb}, dtype.F32, r)
		// With a largest value of 254, 127 is 63.5 steps and rounds to 64.
		for i := range want {
			if math.Abs(get(out, dtype.F32, i)-want[i]) > 127 {
				t.Errorf("%v: element %d is %v, want about %v", r, i, get(out, dtype.F32, i), want[i])
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	values := make([]float64, 1<<16)
	for i := range values {
		values[i] = math.Sin(float64(i))
	}
	for _, c := range codecs {
		for _, d := range dtypes {
			src, coded := store(d, values), make([]byte, c.Size(d, len(values)))
			b.Run(c.Name()+"/"+d.String(), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					c.Encode(coded, src, d)
				}
			})
			b.Run("decode-"+c.Name()+"/"+d.String(), func(b *testing.B) {
				b.SetBytes(int64(len(src)))
				for b.Loop() {
					c.DecodeReduce(src, [][]byte{coded, coded}, d, dtype.Sum)
				}
			})
		}
	}
}

func TestNamed(t *testing.T) {
	for _, c := range Codecs() {
		if got, ok := Named(c.Name()); !ok || got != c {
			t.Errorf("%s: got %v, %v", c.Name(), got, ok)
		}
	}
	if _, ok := Named("int5"); ok {
		t.Error("int5 is a codec")
	}
}
