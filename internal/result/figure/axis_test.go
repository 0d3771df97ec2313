package figure

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func labelsOf(ticks []Tick) string {
	var labels []string
	for _, t := range ticks {
		if t.Label != "" {
			labels = append(labels, t.Label)
		}
	}
	return strings.Join(labels, " | ")
}

func TestTickLabels(t *testing.T) {
	for _, c := range []struct {
		name   string
		axis   Axis
		lo, hi float64
		n      int
		want   string
	}{
		{"bytes by powers of two", Axis{Scale: Log2, Unit: Bytes}, 512, 8192, 8, "512 | 1Ki | 2Ki | 4Ki | 8Ki"},
		{"bytes thinned", Axis{Scale: Log2, Unit: Bytes}, 8, 1 << 28, 8, "16 | 256 | 4Ki | 64Ki | 1Mi | 16Mi | 256Mi"},
		{"bytes in full prefixes", Axis{Scale: Log2, Unit: Bytes}, 1, 1 << 40, 6, "1 | 1Ki | 1Mi | 1Gi | 1Ti"},
		{"bytes, ends between powers", Axis{Scale: Log2, Unit: Bytes}, 900, 5000, 8, "1Ki | 2Ki | 4Ki"},
		{"bytes, linear", Axis{Unit: Bytes}, 0, 100e6, 6, "0 | 16Mi | 32Mi | 48Mi | 64Mi | 80Mi"},
		{"ranks", Axis{Scale: Log2}, 1, 1024, 11, "1 | 2 | 4 | 8 | 16 | 32 | 64 | 128 | 256 | 512 | 1024"},
		{"fractions of two", Axis{Scale: Log2}, 0.25, 2, 8, "0.25 | 0.5 | 1 | 2"},
		{"huge powers of two", Axis{Scale: Log2}, 1 << 20, 1 << 22, 8, "1048576 | 2^21 | 2^22"},
		{"within one power of two", Axis{Scale: Log2}, 5, 7, 4, "5.0 | 5.5 | 6.0 | 6.5 | 7.0"},
		{"time decades", Axis{Scale: Log10, Unit: Micros}, 0.1, 2e6, 8,
			"100 ns | 1 µs | 10 µs | 100 µs | 1 ms | 10 ms | 100 ms | 1 s"},
		{"time thinned", Axis{Scale: Log10, Unit: Micros}, 0.1, 2e6, 4, "1 µs | 100 µs | 10 ms | 1 s"},
		{"time in 1 2 5", Axis{Scale: Log10, Unit: Micros}, 8, 120, 8, "10 µs | 20 µs | 50 µs | 100 µs"},
		{"time in 1 3", Axis{Scale: Log10, Unit: Micros}, 3, 500, 5, "3 µs | 10 µs | 30 µs | 100 µs | 300 µs"},
		{"less than a decade", Axis{Scale: Log10, Unit: Micros}, 11, 17, 4, "12 µs | 14 µs | 16 µs"},
		{"time, linear, one unit", Axis{Unit: Micros}, 0, 2000, 4, "0 | 0.5 ms | 1.0 ms | 1.5 ms | 2.0 ms"},
		{"plain decades", Axis{Scale: Log10}, 1, 1e7, 8, "1 | 10 | 100 | 1000 | 10k | 100k | 1M | 10M"},
		{"residuals", Axis{Scale: Log10}, 1e-12, 1, 7, "1e-12 | 1e-10 | 1e-8 | 1e-6 | 1e-4 | 1e-2 | 1"},
		{"percent", Axis{Unit: Percent}, 0, 100, 5, "0% | 20% | 40% | 60% | 80% | 100%"},
		{"negative", Axis{}, -1, 1, 4, "-1.0 | -0.5 | 0 | 0.5 | 1.0"},
		{"small steps", Axis{}, 0.1, 0.13, 3, "0.10 | 0.11 | 0.12 | 0.13"},
		{"bandwidth", Axis{Unit: GBps}, 0, 900, 3, "0 | 500"},
		{"thousands share a prefix", Axis{}, 0, 20000, 4, "0 | 5k | 10k | 15k | 20k"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := labelsOf(ruler{axis: c.axis, lo: c.lo, hi: c.hi}.marks(c.n))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("labels of [%g, %g] (-want +got):\n%s", c.lo, c.hi, d)
			}
		})
	}
}

func anyAxis(t *rapid.T) Axis {
	return Axis{
		Scale: rapid.SampledFrom([]Scale{"", Linear, Log2, Log10}).Draw(t, "scale"),
		Unit:  rapid.SampledFrom([]Unit{"", Plain, Bytes, Micros, Percent, GBps}).Draw(t, "unit"),
	}
}

// For any values, ticks rise and lie on the axis, labels do not touch, and at least two
// ticks have labels if there is room.
func TestTicksNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAxis(t)
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1e6)), 0, 5).Draw(t, "values")
		r := newRuler(a, values, rapid.Bool().Draw(t, "from zero"))
		if !(r.lo < r.hi) {
			t.Fatalf("empty range [%g, %g]", r.lo, r.hi)
		}
		r.place(0, rapid.Float64Range(60, 700).Draw(t, "length"), tickFace.Width, 9, 44)
		end, last, labelled := math.Inf(-1), math.Inf(-1), 0
		for _, tk := range r.ticks {
			at := r.at(tk.Value)
			if f := r.fraction(tk.Value); at <= last || f < -1e-6 || f > 1+1e-6 {
				t.Fatalf("tick %v of [%g, %g] at %g after %g", tk, r.lo, r.hi, at, last)
			}
			last = at
			if tk.Label == "" {
				continue
			}
			labelled++
			half := tickFace.Width(tk.Label) / 2
			if at-half < end+8.9 {
				t.Fatalf("label %q touches its neighbour in %v", tk.Label, r.ticks)
			}
			end = at + half
		}
		if labelled < 2 && r.to > 250 {
			t.Fatalf("%d labels on %g points for [%g, %g]: %v", labelled, r.to, r.lo, r.hi, r.ticks)
		}
	})
}

// Also on a broken axis, larger values have larger positions.
func TestRulerIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyAxis(t)
		if !a.Scale.log() && rapid.Bool().Draw(t, "broken") {
			a.Break = &[2]float64{300, 2000}
		}
		r := newRuler(a, []float64{1, 5000}, false)
		v := rapid.Float64Range(1, 5000).Draw(t, "v")
		w := rapid.Float64Range(1, 5000).Draw(t, "w")
		if v < w && r.fraction(v) > r.fraction(w) {
			t.Fatalf("%g at %g, %g at %g", v, r.fraction(v), w, r.fraction(w))
		}
		if f := r.fraction(v); f < 0 || f > 1 {
			t.Fatalf("%g at %g", v, f)
		}
		if hidden := a.Break != nil && v > 300 && v < 2000; hidden == r.covers(v) {
			t.Fatalf("covers(%g) = %v", v, r.covers(v))
		}
	})
}

func TestBreakWithoutDataOnBothSidesIsIgnored(t *testing.T) {
	a := Axis{Break: &[2]float64{10, 100}}
	if newRuler(a, []float64{1, 8}, true).broken {
		t.Error("axis is broken though nothing lies above the break")
	}
	if !newRuler(a, []float64{1, 120}, true).broken {
		t.Error("axis is not broken though data lies on both sides")
	}
}

func TestFixedEndsWin(t *testing.T) {
	for _, c := range []struct {
		axis           Axis
		values         []float64
		wantLo, wantHi float64
	}{
		{Axis{Min: ref(0), Max: ref(10)}, []float64{3, 99}, 0, 10},
		{Axis{Min: ref(500)}, []float64{3, 99}, 500, 1000},
		{Axis{Max: ref(-5)}, []float64{3, 99}, -10, -5},
		{Axis{Scale: Log10, Min: ref(1000)}, []float64{3, 99}, 1000, 10000},
		{Axis{Scale: Log10, Max: ref(1)}, []float64{3, 99}, 0.1, 1},
	} {
		r := newRuler(c.axis, c.values, false)
		if r.lo != c.wantLo || r.hi != c.wantHi {
			t.Errorf("range of %+v over %v is [%g, %g], want [%g, %g]", c.axis, c.values, r.lo, r.hi, c.wantLo, c.wantHi)
		}
	}
}
