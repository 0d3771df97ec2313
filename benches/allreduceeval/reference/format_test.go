package reference

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/kernel/quant"
)

var quantisedTypes = []dist.DType{dist.F32, dist.F16, dist.BF16}

// quantisedAllReduce performs the quantised all-reduce with a codec: it encodes every input, adds up,
// and encodes the sum.
func quantisedAllReduce(c dist.Codec, d dist.DType, inputs [][]float64) []byte {
	n := len(inputs[0])
	var coded [][]byte
	out := make([]byte, n*d.Size())
	for _, in := range inputs {
		d.Encode(out, in)
		e := make([]byte, c.Size(d, n))
		c.Encode(e, out, d)
		coded = append(coded, e)
	}
	c.DecodeReduce(out, coded, d, dist.Sum)
	c.Encode(coded[0], out, d)
	c.DecodeReduce(out, coded[:1], d, dist.Sum)
	return out
}

// vectors returns each rank's inputs of a window.
func vectors(in Inputs, w Window) (list [][]float64) {
	for r := range in.ranks {
		v := make([]float64, w.Count)
		in.fill(v, r, w.First)
		list = append(list, v)
	}
	return list
}

// The codecs produce the bits that the format specifies, at every length, and these lie within the
// bound.
func TestCodecsHaveTheirFormat(t *testing.T) {
	for _, c := range quant.Codecs() {
		for _, d := range quantisedTypes {
			for _, kind := range []string{Exact, Adversarial, Mixed} {
				for _, count := range []int{1, 31, 32, 33, 5000, 10001} {
					in, w := NewInputs(kind, d, 3, 5), Window{0, count}
					e, err := expect(in, w, nil, FormatOf(c.Name()))
					if err != nil {
						t.Fatalf("%s, %s of %d %v: %v", c.Name(), kind, count, d, err)
					}
					if _, err := e.Compare(quantisedAllReduce(c, d, vectors(in, w)), w); err != nil {
						t.Fatalf("%s, %s of %d %v: %v", c.Name(), kind, count, d, err)
					}
				}
			}
		}
	}
	if FormatOf("int5") != nil || FormatOf("") != nil {
		t.Error("an undocumented codec has a format")
	}
}

// coarse is a faulty 8-bit codec that uses only some of the 127 levels.
type coarse struct{ levels float64 }

func (coarse) Name() string                 { return "int8" }
func (coarse) Group() int                   { return Group }
func (coarse) Size(_ dist.DType, n int) int { return n + 4*((n+Group-1)/Group) }
func (c coarse) scale(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i/Group*4:])))
}

func (c coarse) Encode(dst, src []byte, d dist.DType) {
	v := make([]float64, len(src)/d.Size())
	d.Decode(v, src)
	scales := dst[len(v):]
	for i := range v {
		if i%Group == 0 {
			most := maxMagnitude(v[i:min(i+Group, len(v))])
			binary.LittleEndian.PutUint32(scales[i/Group*4:], math.Float32bits(float32(most/c.levels)))
		}
		if s := c.scale(scales, i); s > 0 {
			dst[i] = byte(int8(math.RoundToEven(v[i] / s)))
		} else {
			dst[i] = 0
		}
	}
}

func (c coarse) DecodeReduce(dst []byte, srcs [][]byte, d dist.DType, _ dist.Reduction) {
	v := make([]float64, len(dst)/d.Size())
	for _, s := range srcs {
		for i := range v {
			v[i] = float64(float32(v[i]) + float32(float64(int8(s[i]))*c.scale(s[len(v):], i)))
		}
	}
	d.Encode(dst, v)
}

// An 8-bit codec that uses fewer than the 127 levels of its format fails the comparison of bits. With
// half of the levels or fewer it fails the bound too.
func TestCoarseCodecIsRefused(t *testing.T) {
	in, w := NewInputs(Mixed, dist.F32, 2, 5), Window{0, 5000}
	e := must.Get(expect(in, w, nil, FormatOf("int8")))(t)
	for _, levels := range []float64{126, 63, 15} {
		if _, err := e.Compare(quantisedAllReduce(coarse{levels}, dist.F32, vectors(in, w)), w); err == nil {
			t.Errorf("a codec with %v levels passes for one with 127", levels)
		}
	}
	format := FormatOf("int8")
	if _, err := checkBound(*format, coarse{127}, dist.F32, vectors(in, w)); err != nil {
		t.Errorf("127 levels: %v", err)
	}
	for _, levels := range []float64{50, 15} {
		if _, err := checkBound(*format, coarse{levels}, dist.F32, vectors(in, w)); err == nil {
			t.Errorf("a codec with %v levels is within the bound for 127", levels)
		}
	}
}

// checkBound compares a codec's result with the format's bound.
func checkBound(f Format, c dist.Codec, d dist.DType, inputs [][]float64) (worst float64, err error) {
	n := len(inputs[0])
	got := make([]float64, n)
	d.Decode(got, quantisedAllReduce(c, d, inputs))
	for from := 0; from < n; from += Group {
		to := min(from+Group, n)
		mosts, exact := make([]float64, len(inputs)), make([]float64, to-from)
		for r, in := range inputs {
			mosts[r] = maxMagnitude(in[from:to])
			for i, x := range in[from:to] {
				exact[i] += x
			}
		}
		bound := f.bound(d, mosts, maxMagnitude(exact))
		for i, want := range exact {
			diff := math.Abs(got[from+i] - want)
			if !(diff <= bound) {
				return 0, fmt.Errorf("element %d is %v, the sum is %v: the error %v exceeds %v", from+i, got[from+i], want, diff,
					bound)
			}
			if bound > 0 {
				worst = max(worst, diff/bound)
			}
		}
	}
	return worst, nil
}

// draw returns values of the element type, all within a factor of about 2^8 of one magnitude.
func draw(t *rapid.T, d dist.DType, n int) []float64 {
	values := make([]float64, n)
	most := rapid.IntRange(-20, 14).Draw(t, "exponent")
	for i := range values {
		values[i] = math.Ldexp(rapid.Float64Range(-1, 1).Draw(t, "value"), most-rapid.IntRange(0, 8).Draw(t, "smaller"))
	}
	b := make([]byte, n*d.Size())
	d.Encode(b, values)
	d.Decode(values, b)
	return values
}

// The bound holds for the codecs and is not loose: errors on random inputs reach more than a third of
// it.
func TestFormatBound(t *testing.T) {
	worst := 0.0
	rapid.Check(t, func(t *rapid.T) {
		c, d := rapid.SampledFrom(quant.Codecs()).Draw(t, "codec"), rapid.SampledFrom(quantisedTypes).Draw(t, "type")
		inputs := make([][]float64, rapid.IntRange(1, 8).Draw(t, "ranks"))
		n := rapid.IntRange(1, 2*Group).Draw(t, "n")
		for r := range inputs {
			inputs[r] = draw(t, d, n)
		}
		w, err := checkBound(*FormatOf(c.Name()), c, d, inputs)
		if err != nil {
			t.Fatalf("%s of %v: %v", c.Name(), d, err)
		}
		worst = max(worst, w)
	})
	if worst < 1./3 {
		t.Errorf("errors reach %.2f of the bound: it is too loose", worst)
	}
	tiny := []float64{0x1p-149, -0x1p-140, 0} // decodes to zeros
	for _, c := range quant.Codecs() {
		if _, err := checkBound(*FormatOf(c.Name()), c, dist.F32, [][]float64{tiny, tiny}); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
}
