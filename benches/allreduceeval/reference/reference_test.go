package reference

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// schedules are the algorithms whose order of additions is read off their steps.
var schedules = schedule.Names(schedule.AllReduce)

// ranksOf lists the ranks in a sum, in the order of the additions.
func ranksOf(s *schedule.Sum) []int {
	if len(s.Terms) == 0 {
		return []int{s.Rank}
	}
	var out []int
	for _, t := range s.Terms {
		out = append(out, ranksOf(t)...)
	}
	return out
}

// Every order adds each rank's input exactly once and covers every element once.
func TestOrdersAreComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(schedules).Draw(t, "algorithm")
		ranks, count := rapid.IntRange(1, 9).Draw(t, "ranks"), rapid.IntRange(1, 100).Draw(t, "count")
		order := must.Get(additionOrder(name, ranks, count))(t)
		covered := 0
		for _, x := range order {
			covered += x.N
			got := ranksOf(x.Sum)
			slices.Sort(got)
			for r, g := range got {
				if g != r || len(got) != ranks {
					t.Fatalf("%s with %d ranks: the elements from %d on add up the ranks %v", name, ranks, x.Off, got)
				}
			}
		}
		if covered != count {
			t.Fatalf("%s: %d of %d elements", name, covered, count)
		}
	})
}

// Algorithms that declare rank order do add in rank order, and the ring starts each block at another
// rank.
func TestOrdersAreKnown(t *testing.T) {
	ordered := 0
	for _, info := range schedule.Algorithms(schedule.AllReduce) {
		if info.Order != schedule.RankOrder {
			continue
		}
		ordered++
		name := info.Name
		order := must.Get(additionOrder(name, 4, 10))(t)
		for _, x := range order {
			if got := ranksOf(x.Sum); !slices.Equal(got, []int{0, 1, 2, 3}) {
				t.Errorf("%s adds the ranks in the order %v", name, got)
			}
			if x.Sum.Wide != info.Wide {
				t.Errorf("%s: wide is %v", name, x.Sum.Wide)
			}
		}
	}
	if ordered < 3 {
		t.Errorf("%d algorithms add in rank order", ordered)
	}
	order, err := additionOrder("ring", 3, 3)
	if err != nil || len(order) != 3 || slices.Equal(ranksOf(order[0].Sum), ranksOf(order[1].Sum)) {
		t.Errorf("ring: %v, %v", order, err)
	}
}

// The bounds hold for random inputs, and larger errors are rejected.
func TestBounds(t *testing.T) {
	for _, d := range []dist.DType{dist.BF16, dist.F16, dist.F32, dist.F64} {
		for _, name := range schedules {
			for _, ranks := range []int{2, 3, 8} {
				order := must.Get(additionOrder(name, ranks, 5000))(t)
				e, err := expect(NewInputs(Mixed, d, ranks, 3), Window{0, 5000}, order, nil)
				if err != nil {
					t.Errorf("%s of %v with %d ranks: %v", name, d, ranks, err)
					// The exact sum of two f64 values is rounded too, so its error may be 0.
				} else if e.worst > 1 || e.worst <= 0 && (d != dist.F64 || ranks > 2) {
					t.Errorf("%s of %v with %d ranks: the error reaches %v of the bound", name, d, ranks, e.worst)
				}
			}
		}
	}
	if _, ok := inBound(1.5, 1, 0.4); ok {
		t.Error("an error beyond the bound is accepted")
	}
	if _, ok := inBound(1, math.Inf(1), 0.4); ok {
		t.Error("a finite result is accepted where infinity is exact")
	}
}

// Fewer roundings give a smaller bound: a tree beats a chain, and one rounding beats many.
func TestCoefficients(t *testing.T) {
	c := func(name string, d dist.DType) float64 {
		order := must.Get(additionOrder(name, 8, 64))(t)
		return coefficient(order[0].Sum, d)
	}
	if !(c("recursive-doubling", dist.F32) < c("ring", dist.F32)) ||
		!(c("two-stage", dist.BF16) < c("ring", dist.BF16)/3) {
		t.Errorf("recursive doubling %v, ring %v; bf16: two-stage %v, ring %v", c("recursive-doubling", dist.F32),
			c("ring", dist.F32), c("two-stage", dist.BF16), c("ring", dist.BF16))
	}
	if got, want := c("ring", dist.F32), math.Pow(1+0x1p-24, 7)-1; got < want || got > want*1.000001 {
		t.Errorf("seven roundings are %v, want %v", got, want)
	}
	if c("ring", dist.I32) != 0 {
		t.Error("integers do not round")
	}
}

// Every family has its special values, in every type.
func TestFamilies(t *testing.T) {
	for _, d := range Types {
		in := NewInputs(Adversarial, d, 4, 1)
		for f, family := range families {
			v, sums := make([]float64, familyBlock), make([]float64, familyBlock)
			special := 0
			for rank := range in.ranks {
				in.fill(v, rank, f*familyBlock)
				for i, x := range v {
					sums[i] += x
					switch n := limitsOf(d); {
					case family == signedZeros && x == 0 && math.Signbit(x), family == nans && math.IsNaN(x),
						family == infinities && math.IsInf(x, 0),
						d.Float() && family == denormals && x != 0 && math.Abs(x) < 64*n.smallest,
						family == largest && math.Abs(x) >= n.largest-2:
						special++
					}
				}
			}
			if family == cancellation && d.Float() && slices.ContainsFunc(sums, func(s float64) bool {
				return math.Abs(s) > 2048
			}) {
				t.Errorf("%v: sums that should cancel: %v", d, sums)
			}
			want := family != mixedMagnitudes && family != cancellation && (d.Float() || family == largest)
			if special > 0 != want {
				t.Errorf("%s of %v: %d special values", family, d, special)
			}
		}
	}
}

// A single wrong bit is found in every element, type and family, except in the payload of a NaN.
func TestCompareFindsOneBit(t *testing.T) {
	for _, d := range Types {
		in := NewInputs(Adversarial, d, 2, 1)
		order := must.Get(additionOrder("ring", 2, 500))(t)
		e := must.Get(expect(in, Window{0, 500}, order, nil))(t)
		got, v := slices.Clone(e.bits), make([]float64, 500)
		d.Decode(v, got)
		for i := range v {
			if math.IsNaN(v[i]) {
				continue
			}
			got[i*d.Size()] ^= 1
			if _, err := e.Compare(got, Window{0, 500}); err == nil || !strings.Contains(err.Error(), "1 wrong elements") {
				t.Fatalf("%v: element %d (%v) with another last bit: %v", d, i, v[i], err)
			}
			got[i*d.Size()] ^= 1
		}
		if _, err := e.Compare(got, Window{0, 500}); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
}

// The expectation of a norm accepts the formula evaluated in float32. It rejects a wrong row length, a
// shifted weight, a missing norm and a large epsilon.
func TestNormIsExpected(t *testing.T) {
	for _, d := range []dist.DType{dist.F32, dist.F16, dist.BF16} {
		const count, row = 4097, 241
		if NormRow(d, count) != row || NormRow(d, 0) != 0 || NormRow(dist.F64, count) != 0 || NormRow(d, 524287) != 0 {
			t.Fatalf("rows of %d, want %d", NormRow(d, count), row)
		}
		s, w := NewStore(d, 1), Window{RunStride, count}
		e := must.Get(s.Expected(NewInputs(Exact, d, 3, 7), w, Call{Epilogue: true}))(t)
		normed := func(row, shift int, epsilon float64) []byte {
			h := make([]float64, count)
			d.Decode(h, e.bits)
			out := make([]float64, count)
			for i := range h {
				first := i / row * row
				squares := float32(0)
				for _, x := range h[first:min(first+row, count)] {
					squares += float32(x) * float32(x)
				}
				factor := 1 / float32(math.Sqrt(float64(squares)/float64(row)+epsilon))
				out[i] = float64(float32(h[i]) * factor * float32(weightAt((i+shift)%row)))
			}
			b := make([]byte, count*d.Size())
			d.Encode(b, out)
			return b
		}
		want := e.WithNorm(row)
		if _, err := want.Compare(normed(row, 0, NormEpsilon), w); err != nil {
			t.Errorf("%v: %v", d, err)
		}
		for name, wrong := range map[string][]byte{"another row": normed(row-1, 0, NormEpsilon),
			"a shifted weight": normed(row, 1, NormEpsilon),
			"no norm":          e.bits, "a large epsilon": normed(row, 0, 1e14)} {
			if _, err := want.Compare(wrong, w); err == nil {
				t.Errorf("%v: %s passes", d, name)
			}
		}
	}
}
