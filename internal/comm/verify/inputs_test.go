package verify

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
)

// Every partial reduction must be exact, in any order: sums computed in the element type in a random
// order must equal the value that check expects.
func TestInputsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom(dtype.All()).Draw(t, "dtype")
		red := rapid.SampledFrom([]dtype.Reduction{dtype.Sum, dtype.Prod, dtype.Min, dtype.Max}).Draw(t, "reduction")
		ranks := rapid.IntRange(1, 64).Draw(t, "ranks")
		in := NewInputs(rapid.Uint64().Draw(t, "seed"), d, red, ranks)
		position := rapid.IntRange(0, 1<<26).Draw(t, "position")
		order := rapid.Permutation(indices(ranks)).Draw(t, "order")
		got := rounded(d, in.Value(order[0], position))
		for _, rank := range order[1:] {
			v := rounded(d, in.Value(rank, position))
			switch red {
			case dtype.Sum:
				got += v
			case dtype.Prod:
				got *= v
			case dtype.Min:
				got = min(got, v)
			case dtype.Max:
				got = max(got, v)
			}
			got = roundedFloat(d, got)
		}
		if want := float64(in.Reduced(position)); got != want {
			t.Fatalf("%v of %v over %d ranks: %v, want %v", red, d, ranks, got, want)
		}
	})
}

// AddTo must add the same values as Value returns one by one.
func TestAddTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := NewInputs(rapid.Uint64().Draw(t, "seed"), rapid.SampledFrom(dtype.All()).Draw(t, "dtype"), dtype.Sum,
			rapid.IntRange(1, 64).Draw(t, "ranks"))
		rank, first := rapid.IntRange(0, 63).Draw(t, "rank"), rapid.IntRange(0, 1<<26).Draw(t, "first")
		sums := make([]int64, rapid.IntRange(0, 70).Draw(t, "n"))
		for i := range sums {
			sums[i] = int64(i)
		}
		in.AddTo(sums, rank, first)
		for i, s := range sums {
			if want := int64(i) + in.Value(rank, first+i); s != want {
				t.Fatalf("element %d: %d, want %d", i, s, want)
			}
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func rounded(d dtype.DType, v int64) float64 { return roundedFloat(d, float64(v)) }

// roundedFloat rounds v to the nearest value of type d.
func roundedFloat(d dtype.DType, v float64) float64 {
	switch d {
	case dtype.F32:
		return float64(float32(v))
	case dtype.F16:
		return float64(dtype.Float16From(float32(v)).Float32())
	case dtype.BF16:
		return float64(dtype.BFloat16From(float32(v)).Float32())
	case dtype.U8:
		return float64(uint8(v))
	case dtype.I32:
		return float64(int32(v))
	}
	return v
}

// Inputs must differ between ranks and positions. Otherwise swapped ranks or shifted chunks would not
// be noticed.
func TestInputsDiffer(t *testing.T) {
	for _, d := range dtype.All() {
		in := NewInputs(1, d, dtype.Sum, 2)
		sameRank, samePosition := 0, 0
		const n = 1000
		for i := range n {
			if in.Value(0, i) == in.Value(1, i) {
				sameRank++
			}
			if in.Value(0, i) == in.Value(0, i+1) {
				samePosition++
			}
		}
		if sameRank > n/10 || samePosition > n/10 {
			t.Errorf("%v: of %d elements %d equal the other rank's, %d the next", d, n, sameRank, samePosition)
		}
	}
}

// A sum in a narrower type must differ from the exact one, or an algorithm that adds in the wrong type would pass.
func TestNarrowerSumsDiffer(t *testing.T) {
	for _, c := range []struct{ d, narrower dtype.DType }{
		{dtype.F64, dtype.F32}, {dtype.I64, dtype.I32}, {dtype.I64, dtype.F32}, {dtype.I32, dtype.F32},
		{dtype.F32, dtype.TF32}, {dtype.F32, dtype.F16}, {dtype.F32, dtype.BF16}, {dtype.F16, dtype.BF16},
	} {
		for _, ranks := range []int{2, 3, 8} {
			in := NewInputs(1, c.d, dtype.Sum, ranks)
			differ := 0
			const n = 1000
			for i := range n {
				sum := make([]float64, 1)
				for rank := range ranks {
					term := []float64{float64(in.Value(rank, i))}
					c.narrower.Round(term)
					sum[0] += term[0]
					c.narrower.Round(sum)
				}
				if sum[0] != float64(in.Reduced(i)) {
					differ++
				}
			}
			if differ < n/10 {
				t.Errorf("%d of %d sums of %v over %d ranks differ if they are added in %v", differ, n, c.d, ranks, c.narrower)
			}
		}
	}
}

// So must a product.
func TestNarrowerProductsDiffer(t *testing.T) {
	for _, c := range []struct{ d, narrower dtype.DType }{
		{dtype.F64, dtype.F32}, {dtype.I64, dtype.I32}, {dtype.I64, dtype.F32}, {dtype.I32, dtype.F32},
		{dtype.F32, dtype.TF32}, {dtype.F32, dtype.F16}, {dtype.F32, dtype.BF16}, {dtype.U8, dtype.I8},
	} {
		for _, ranks := range []int{2, 3, 8, 64} {
			in := NewInputs(1, c.d, dtype.Prod, ranks)
			differ := 0
			const n = 1000
			for i := range n {
				product := []float64{1}
				for rank := range ranks {
					factor := []float64{float64(in.Value(rank, i))}
					c.narrower.Round(factor)
					product[0] *= factor[0]
					c.narrower.Round(product)
				}
				if product[0] != float64(in.Reduced(i)) {
					differ++
				}
			}
			if differ < n/50 {
				t.Errorf("%d of %d products of %v over %d ranks differ if they are computed in %v", differ, n, c.d, ranks,
					c.narrower)
			}
		}
	}
}

// A product must differ often enough if one rank is left out, whichever it is.
func TestIncompleteProductsDiffer(t *testing.T) {
	const n = 10000
	for _, d := range dtype.All() {
		for _, ranks := range []int{2, 8, 64} {
			in := NewInputs(1, d, dtype.Prod, ranks)
			without := make([]int, ranks)
			for i := range n {
				for rank := range ranks {
					if in.Value(rank, i) != 1 {
						without[rank]++
					}
				}
			}
			if least := slices.Min(without); least < n/ranks/2 {
				t.Errorf("%v over %d ranks: %d of %d products differ without one of them", d, ranks, least, n)
			}
		}
	}
}

// A minimum or maximum must differ if unsigned bytes are compared as signed ones, and often enough if one rank is left
// out, also of a large group.
func TestWrongExtremesDiffer(t *testing.T) {
	extreme := func(r dtype.Reduction, values []int64) int64 {
		if r == dtype.Min {
			return slices.Min(values)
		}
		return slices.Max(values)
	}
	const n = 10000
	for _, r := range []dtype.Reduction{dtype.Min, dtype.Max} {
		for _, d := range dtype.All() {
			for _, ranks := range []int{2, 8, 64} {
				in := NewInputs(1, d, r, ranks)
				signed, without := 0, 0
				for i := range n {
					values := make([]int64, ranks)
					bytes := make([]int64, ranks)
					for rank := range values {
						values[rank] = in.Value(rank, i)
						bytes[rank] = int64(int8(values[rank]))
					}
					if d == dtype.U8 && uint8(extreme(r, bytes)) != uint8(in.Reduced(i)) {
						signed++
					}
					if extreme(r, values[1:]) != in.Reduced(i) {
						without++
					}
				}
				if d == dtype.U8 && signed < n/10 {
					t.Errorf("%v of %v over %d ranks: %d of %d differ if the bytes are compared as signed", r, d, ranks, signed, n)
				}
				if without < n/ranks/3 {
					t.Errorf("%v of %v over %d ranks: %d of %d differ without rank 0", r, d, ranks, without, n)
				}
			}
		}
	}
}

// A reduction of 64-bit integers by way of float64 must differ. AllReduce of the encoded inputs, on integers, is the
// encoded result.
func TestIntegersAreWide(t *testing.T) {
	const n, ranks = 1000, 3
	for _, r := range []dtype.Reduction{dtype.Sum, dtype.Avg, dtype.Min, dtype.Max, dtype.Prod} {
		in := NewInputs(1, dtype.I64, r, ranks)
		var all [ranks][]int64
		for rank := range all {
			all[rank] = make([]int64, n)
			in.Encode(dtype.Bytes(all[rank]), rank, 7)
		}
		want, differ := make([]int64, n), 0
		in.EncodeReduced(dtype.Bytes(want), 7)
		for i, w := range want {
			a, b, c := all[0][i], all[1][i], all[2][i]
			x, y, z := float64(a), float64(b), float64(c)
			got := map[dtype.Reduction]int64{dtype.Sum: a + b + c, dtype.Avg: (a + b + c) / ranks, dtype.Min: min(a, b, c),
				dtype.Max: max(a, b, c), dtype.Prod: a * b * c}[r]
			float := map[dtype.Reduction]float64{dtype.Sum: x + y + z, dtype.Avg: (x + y + z) / ranks, dtype.Min: min(x, y, z),
				dtype.Max: max(x, y, z), dtype.Prod: x * y * z}[r]
			if got != w {
				t.Fatalf("%v: element %d is %d, and should be %d", r, i, w, got)
			}
			if int64(float) != w {
				differ++
			}
		}
		if differ < n/2 {
			t.Errorf("%v: %d of %d differ if they are computed in float64", r, differ, n)
		}
	}
}

// Encode must write the values of other types, in batches of any length.
func TestEncode(t *testing.T) {
	in := NewInputs(1, dtype.F16, dtype.Avg, 3)
	for _, n := range []int{0, 1, 256, 1000} {
		input, result := make([]byte, 2*n), make([]byte, 2*n)
		in.Encode(input, 1, 5)
		in.EncodeReduced(result, 5)
		for i := range n {
			if got := dtype.F16.Get(input, i); got != float64(in.Value(1, 5+i)) {
				t.Fatalf("element %d is %v, want %v", i, got, in.Value(1, 5+i))
			}
			want := []float64{in.Stored(5 + i)}
			if dtype.F16.Round(want); dtype.F16.Get(result, i) != want[0] {
				t.Fatalf("result %d is %v, want %v", i, dtype.F16.Get(result, i), want[0])
			}
		}
	}
}
