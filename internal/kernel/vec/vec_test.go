package vec

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Every kernel at every level gives the reference result and writes nothing else, for any number of sources at any
// addresses, whether the destination is separate or one of the sources.
func TestReduce(t *testing.T) {
	for _, level := range levels() {
		t.Run(level.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				d := rapid.SampledFrom(dtype.All()).Draw(t, "type")
				op := Op(rapid.IntRange(int(Sum), int(Max)).Draw(t, "op"))
				checkKernel(t, d, op, 1, func(dst []byte, srcs [][]byte) {
					lookup(level, d, op).reduce(dst, srcs, rapid.Bool().Draw(t, "stream"))
				})
			})
		})
	}
}

// SumFour gives the same result as the kernels.
func TestSumFour(t *testing.T) {
	if best == Portable { // no kernel is faster here
		if SumFour(dtype.F16) != nil || SumFour(dtype.BF16) != nil {
			t.Error("there is code for instructions that this machine has not")
		}
		return
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]dtype.DType{dtype.F16, dtype.BF16}).Draw(t, "type")
		srcs := make([][]byte, rapid.IntRange(1, 9).Draw(t, "sources"))
		for i := range srcs {
			srcs[i] = rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "source")
		}
		got := bytes.Repeat([]byte{0xa5}, 16)
		SumFour(d)(got, srcs)
		compare(t, d, got, wants(d, Sum, 1, srcs))
		if !bytes.Equal(got[8:], bytes.Repeat([]byte{0xa5}, 8)) {
			t.Fatalf("more than four elements were written: %x", got)
		}
	})
}

func TestScaledSum(t *testing.T) {
	for _, level := range levels() {
		t.Run(level.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				d := rapid.SampledFrom([]dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16}).Draw(t, "type")
				alpha := rapid.SampledFrom([]float64{0, 1, -1, 1. / 3, 0.1, 1e-30, 1e30, math.Inf(-1),
					math.NaN(), math.Float64frombits(0x7fffffffffffffff)}).Draw(t, "alpha")
				checkKernel(t, d, scaledSum, alpha, func(dst []byte, srcs [][]byte) {
					scaledSumAt(level, dst, srcs, d, alpha)
				})
			})
		})
	}
}

func checkKernel(t *rapid.T, d dtype.DType, op Op, scale float64, run func(dst []byte, srcs [][]byte)) {
	count := rapid.OneOf(rapid.IntRange(0, 300), rapid.SampledFrom([]int{511, 1024, 5000})).Draw(t, "count")
	n := rapid.IntRange(1, 9).Draw(t, "sources")
	place := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, cacheLine-1))
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))

	srcs, before := make([][]byte, n), make([][]byte, n)
	for i := range srcs {
		srcs[i] = aligned(count*d.Size(), place.Draw(t, fmt.Sprint("place of source ", i)))
		fill(srcs[i], d, rnd)
		before[i] = bytes.Clone(srcs[i])
	}
	const guard = 2 * cacheLine
	room := aligned(count*d.Size()+2*guard, place.Draw(t, "place"))
	untouched := bytes.Repeat([]byte{0xa5}, guard)
	copy(room, untouched)
	copy(room[len(room)-guard:], untouched)
	dst := room[guard : len(room)-guard]
	alias := rapid.IntRange(-1, n-1).Draw(t, "destination is source")
	if alias >= 0 {
		copy(dst, srcs[alias])
		srcs[alias] = dst
		if twin := rapid.IntRange(0, n-1).Draw(t, "and source"); twin != alias {
			srcs[twin], before[twin] = dst, before[alias]
		}
	}
	want := wants(d, op, scale, before)
	if n == 1 && op != scaledSum { // a copy keeps the payload of a NaN
		want = nil
		run(dst, srcs)
		if !bytes.Equal(dst, before[0]) {
			t.Fatalf("one source was not copied")
		}
	} else {
		run(dst, srcs)
	}
	compare(t, d, dst, want)
	for i, src := range srcs {
		if (len(src) == 0 || &src[0] != &dst[0]) && !bytes.Equal(src, before[i]) {
			t.Fatalf("source %d was written to", i)
		}
	}
	if !bytes.HasPrefix(room, untouched) || !bytes.HasSuffix(room, untouched) {
		t.Fatalf("bytes around the destination were written to")
	}
}

// Every f16 and bf16 value is combined with every special value and a sample of the others.
func TestHalvesExhaustively(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
		a, b, got, want := aligned(2<<16, 0), aligned(2<<16, 0), aligned(2<<16, 0), aligned(2<<16, 0)
		for i, values := 0, dtype.View[dtype.Float16](a); i < len(values); i++ {
			values[i] = dtype.Float16(i)
		}
		partners := specials(d)
		for range 2 {
			partners = append(partners, rnd.Uint64())
		}
		for i, partner := range partners {
			setElement(b, d, 0, partner)
			for done := d.Size(); done < len(b); done *= 2 {
				copy(b[done:], b[:done])
			}
			for op := Sum; op <= Max; op++ {
				lookup(Portable, d, op).Reduce(want, [][]byte{a, b})
				if i == 0 { // the definition itself, once
					compare(t, d, want, wants(d, op, 1, [][]byte{a, b}))
				}
				for _, level := range levels()[1:] {
					lookup(level, d, op).Reduce(got, [][]byte{a, b})
					if !bytes.Equal(got, want) {
						compareHalves(t, d, got, want)
					}
				}
			}
		}
	}
}

// compareHalves is compare, but fast enough for very many elements.
func compareHalves(t *testing.T, d dtype.DType, got, want []byte) {
	t.Helper()
	wanted := dtype.View[dtype.Float16](want)
	for i, g := range dtype.View[dtype.Float16](got) {
		if w := wanted[i]; g != w && !(isNaN(d, uint64(g)) && isNaN(d, uint64(w))) {
			t.Fatalf("element %d is %#x, want %#x", i, g, w)
		}
	}
}

// The documented rules for single values.
func TestValues(t *testing.T) {
	inf, nan, negZero := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	type test struct {
		d       dtype.DType
		op      Op
		sources []float64
		want    float64
	}
	tests := []test{
		{dtype.F16, Sum, []float64{2048, 1, 1}, 2050}, // rounding after each step would stay at 2048
		{dtype.F16, Sum, []float64{2048, 1}, 2048},    // ties go to even
		{dtype.F16, Sum, []float64{2050, 1}, 2052},
		{dtype.F16, Sum, []float64{65504, 65504, -65504}, 65504}, // no overflow in between
		{dtype.F16, Sum, []float64{65504, 16}, inf},
		{dtype.F16, Prod, []float64{0x1p-24, 0.5}, 0},
		{dtype.F16, Prod, []float64{0x1p-24, 0.75}, 0x1p-24},
		{dtype.BF16, Sum, []float64{256, 1, 1}, 258},
		{dtype.BF16, Sum, []float64{256, 1}, 256},
		{dtype.BF16, Sum, []float64{258, 1}, 260},
		{dtype.BF16, Sum, []float64{0x1.fep127, 0x1p119}, inf},
		{dtype.BF16, Sum, []float64{0x1p-133, 0x1p-133}, 0x1p-132}, // subnormals
		{dtype.F32, Sum, []float64{1 << 24, 1, 1}, 1 << 24},        // one after the other, not 1+1 first
		{dtype.F32, Sum, []float64{0x1p-149, 0x1p-149}, 0x1p-148},
		{dtype.F64, Sum, []float64{1 << 53, 1, 1}, 1 << 53},
		{dtype.I32, Sum, []float64{math.MaxInt32, 1}, math.MinInt32},
		{dtype.I64, Sum, []float64{math.MinInt64, math.MinInt64}, 0},
		{dtype.I64, Prod, []float64{1 << 32, 1 << 31}, math.MinInt64},
		{dtype.I32, Max, []float64{-1, 0}, 0},
		{dtype.I64, Min, []float64{-1, 0}, -1},
		{dtype.U8, Sum, []float64{200, 100}, 44},
		{dtype.U8, Prod, []float64{16, 17}, 16},
		{dtype.U8, Max, []float64{200, 100}, 200},
	}
	for _, d := range []dtype.DType{dtype.F64, dtype.F32, dtype.F16, dtype.BF16} {
		tests = append(tests,
			test{d, Sum, []float64{inf, -inf}, nan}, test{d, Sum, []float64{1, nan}, nan},
			test{d, Min, []float64{0, negZero}, negZero}, test{d, Min, []float64{negZero, 0}, negZero},
			test{d, Max, []float64{0, negZero}, 0}, test{d, Max, []float64{negZero, 0}, 0},
			test{d, Min, []float64{nan, -inf}, nan}, test{d, Min, []float64{-inf, nan}, nan},
			test{d, Max, []float64{nan, inf}, nan}, test{d, Max, []float64{inf, nan}, nan},
			test{d, Max, []float64{1, nan, 2}, nan}, test{d, Min, []float64{1, nan, 2}, nan})
	}
	for _, level := range levels() {
		for _, test := range tests {
			const count = 37 // whole vectors and a tail at every level
			srcs := make([][]byte, len(test.sources))
			for i, f := range test.sources {
				srcs[i] = make([]byte, count*test.d.Size())
				for j := range count {
					setElement(srcs[i], test.d, j, fromFloat(test.d, f))
				}
			}
			dst := make([]byte, len(srcs[0]))
			lookup(level, test.d, test.op).Reduce(dst, srcs)
			want := fromFloat(test.d, test.want)
			for j := range count {
				if got := element(dst, test.d, j); got != want && !(isNaN(test.d, got) && isNaN(test.d, want)) {
					t.Fatalf("%v: %v %v of %v gives %#x at %d, want %v", level, test.d, test.op, test.sources, got, j, test.want)
				}
			}
		}
	}
}

// The convenience functions call the kernels that they name.
func TestConveniences(t *testing.T) {
	a, b, c := []byte{1, 9, 250}, []byte{2, 8, 10}, []byte{3, 7, 0}
	dst := make([]byte, 3)
	Reduce2(dst, a, b, dtype.U8, Max)
	if want := []byte{2, 9, 250}; !bytes.Equal(dst, want) {
		t.Errorf("Reduce2: %v, want %v", dst, want)
	}
	ReduceN(dst, [][]byte{a, b, c}, dtype.U8, Sum)
	if want := []byte{6, 24, 4}; !bytes.Equal(dst, want) {
		t.Errorf("ReduceN: %v, want %v", dst, want)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	for _, level := range levels() {
		for _, d := range dtype.All() {
			dst, a, b := aligned(4000, 0), aligned(4000, 8), aligned(4000, 16)
			tests := map[string]func(){
				"Reduce": func() {
					srcs := [...][]byte{a, b}
					lookup(level, d, Sum).Reduce(dst, srcs[:])
				},
				"Reduce2": func() { Reduce2(dst, a, b, d, Sum) },
				"CopyNT":  func() { CopyNT(dst, a) },
			}
			if d.Float() {
				tests["ScaledSum"] = func() {
					srcs := [...][]byte{a}
					ScaledSum(dst, srcs[:], d, 0.5)
				}
			}
			for name, call := range tests {
				if n := testing.AllocsPerRun(10, call); n != 0 {
					t.Errorf("%v: %s of %v allocates %v times", level, name, d, n)
				}
			}
		}
	}
}

// Misuse panics with a message instead of touching memory.
func TestMisuse(t *testing.T) {
	tests := map[string]func(){
		"no sources":              func() { ReduceN(make([]byte, 4), nil, dtype.F32, Sum) },
		"source 1 has 4 bytes":    func() { Reduce2(make([]byte, 8), make([]byte, 8), make([]byte, 4), dtype.F32, Sum) },
		"source 0 has 9 bytes":    func() { CopyNT(make([]byte, 8), make([]byte, 9)) },
		"not a multiple":          func() { Reduce2(make([]byte, 6), make([]byte, 6), make([]byte, 6), dtype.F32, Sum) },
		"scaled sum of i32":       func() { ScaledSum(make([]byte, 4), [][]byte{make([]byte, 4)}, dtype.I32, 2) },
		"Op(9): not an operation": func() { Lookup(dtype.F32, 9) },
		"sum: not an operation":   func() { Lookup(dtype.F32, scaledSum) },
		"DType(0)":                func() { Lookup(0, Sum) },
	}
	for want, call := range tests {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panic %q does not say %q", got, want)
				}
			}()
			call()
		}()
	}
}
