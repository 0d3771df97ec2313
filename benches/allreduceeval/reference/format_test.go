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

// reduced is the quantised all-reduce by a codec: every input encoded, the sum encoded.
func reduced(c dist.Codec, d dist.DType, inputs [][]float64) []byte {
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

// vectors are the ranks' inputs of a window.
func vectors(in Inputs, w Window) (list [][]float64) {
	for r := range in.ranks {
		v := make([]float64, w.Count)
		in.fill(v, r, w.First)
		list = append(list, v)
	}
	return list
}

// The codecs give the bits that follow from the format, at every length, and these are
// within the bound.
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
					if _, err := e.Compare(reduced(c, d, vectors(in, w)), w); err != nil {
						t.Fatalf("%s, %s of %d %v: %v", c.Name(), kind, count, d, err)
					}
				}
			}
		}
	}
	if FormatOf("int5") != nil || FormatOf("") != nil {
		t.Error("there is a format of a codec that is not documented")
	}
}

// coarse is a codec of 8 bits that is wrong: it uses only some of the 127 levels.
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

// A codec of 8 bits that uses fewer than the 127 levels of its format is refused, by its
// bits and, where it has half of them or less, by the bound alone.
func TestCoarseCodecIsRefused(t *testing.T) {
	in, w := NewInputs(Mixed, dist.F32, 2, 5), Window{0, 5000}
	e := must.Get(expect(in, w, nil, FormatOf("int8")))(t)
	for _, levels := range []float64{126, 63, 15} {
		if _, err := e.Compare(reduced(coarse{levels}, dist.F32, vectors(in, w)), w); err == nil {
			t.Errorf("%v levels have the bits of 127", levels)
		}
	}
	format := FormatOf("int8")
	if _, err := bounded(*format, coarse{127}, dist.F32, vectors(in, w)); err != nil {
		t.Errorf("127 levels: %v", err)
	}
	for _, levels := range []float64{50, 15} {
		if _, err := bounded(*format, coarse{levels}, dist.F32, vectors(in, w)); err == nil {
			t.Errorf("%v levels are within the bound of 127", levels)
		}
	}
}

// bounded holds what a codec gives against the format's bound.
func bounded(f Format, c dist.Codec, d dist.DType, inputs [][]float64) (worst float64, err error) {
	n := len(inputs[0])
	got := make([]float64, n)
	d.Decode(got, reduced(c, d, inputs))
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
				return 0, fmt.Errorf("element %d is %v, the sum is %v: off by %v, allowed are %v", from+i, got[from+i], want, diff,
					bound)
			}
			if bound > 0 {
				worst = max(worst, diff/bound)
			}
		}
	}
	return worst, nil
}

// draw gives elements as the type holds them, of one magnitude or a little less.
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

// The bound of the format holds for the codecs, and is not loose: random inputs come to
// more than a third of it.
func TestFormatBound(t *testing.T) {
	worst := 0.0
	rapid.Check(t, func(t *rapid.T) {
		c, d := rapid.SampledFrom(quant.Codecs()).Draw(t, "codec"), rapid.SampledFrom(quantisedTypes).Draw(t, "type")
		inputs := make([][]float64, rapid.IntRange(1, 8).Draw(t, "ranks"))
		n := rapid.IntRange(1, 2*Group).Draw(t, "n")
		for r := range inputs {
			inputs[r] = draw(t, d, n)
		}
		w, err := bounded(*FormatOf(c.Name()), c, d, inputs)
		if err != nil {
			t.Fatalf("%s of %v: %v", c.Name(), d, err)
		}
		worst = max(worst, w)
	})
	if worst < 1./3 {
		t.Errorf("errors reach %.2f of the bound: it is too loose to find anything", worst)
	}
	tiny := []float64{0x1p-149, -0x1p-140, 0} // become zeros
	for _, c := range quant.Codecs() {
		if _, err := bounded(*FormatOf(c.Name()), c, dist.F32, [][]float64{tiny, tiny}); err != nil {
			t.Errorf("%s: %v", c.Name(), err)
		}
	}
}
