package measure

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

// exactIndex is intervalIndex by counting all outcomes of n coins.
func exactIndex(n int) int {
	limit := new(big.Rat).Mul(big.NewRat(25, 1000), new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), uint(n))))
	sum, i := new(big.Int), -1
	for k := 0; ; k++ {
		sum.Add(sum, new(big.Int).Binomial(int64(n), int64(k)))
		if new(big.Rat).SetInt(sum).Cmp(limit) > 0 {
			return i
		}
		i = k
	}
}

func TestIntervalIndex(t *testing.T) {
	for n := minInterval; n <= 300; n++ {
		if got, want := intervalIndex(n), exactIndex(n); got != want {
			t.Errorf("n = %d: index %d, want %d", n, got, want)
		}
	}
	if got := exactIndex(minInterval - 1); got != -1 {
		t.Errorf("%d values have an interval after all", minInterval-1)
	}
	// For large n the index nears n/2 - 0.98 sqrt(n).
	for _, n := range []int{10_000, 1_000_000} {
		got, want := float64(intervalIndex(n)), float64(n)/2-0.98*math.Sqrt(float64(n))
		if math.Abs(got-want) > 3 {
			t.Errorf("n = %d: index %v, want about %v", n, got, want)
		}
	}
}

func TestSummarizeAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 60).Draw(t, "values")
		given := slices.Clone(values)
		s, warnings := Summarize(values)
		if !slices.Equal(values, given) {
			t.Fatal("the values were reordered")
		}
		slices.Sort(given)
		n := len(given)
		// The reference defines a percentile by its two neighbours in the order.
		reference := func(p float64) float64 {
			at := p * float64(n-1)
			low, high := given[int(math.Floor(at))], given[int(math.Ceil(at))]
			return low*(1-(at-math.Floor(at))) + high*(at-math.Floor(at))
		}
		mean := 0.0
		for _, v := range given {
			mean += v
		}
		mean /= float64(n)
		for name, pair := range map[string][2]float64{
			"min": {s.Min, given[0]}, "max": {s.Max, given[n-1]}, "mean": {s.Mean, mean},
			"p50": {s.P50, reference(0.5)}, "p90": {s.P90, reference(0.9)}, "p99": {s.P99, reference(0.99)},
		} {
			if !near(pair[0], pair[1]) {
				t.Errorf("%s = %v, want %v", name, pair[0], pair[1])
			}
		}
		if n < minInterval {
			if !math.IsNaN(s.CILow) || !math.IsNaN(s.CIHigh) || len(warnings) != 1 || len(s.Map()) != 6 {
				t.Errorf("%d values: interval [%v, %v], warnings %q", n, s.CILow, s.CIHigh, warnings)
			}
			return
		}
		i := exactIndex(n)
		if s.CILow != given[i] || s.CIHigh != given[n-1-i] || len(warnings) != 0 || len(s.Map()) != 8 {
			t.Errorf("interval [%v, %v], want [%v, %v]; warnings %q", s.CILow, s.CIHigh, given[i], given[n-1-i], warnings)
		}
	})
}

// TestIntervalCovers draws from a skewed distribution whose median is ln 2.
func TestIntervalCovers(t *testing.T) {
	random := newRandom(1)
	const trials = 4000
	for _, n := range []int{6, 20, 101} {
		inside := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = random.ExpFloat64()
			}
			s, _ := Summarize(values)
			if s.CILow <= math.Ln2 && math.Ln2 <= s.CIHigh {
				inside++
			}
		}
		if share := float64(inside) / trials; share < 0.94 {
			t.Errorf("n = %d: the interval holds the median in %.3f of the cases", n, share)
		}
	}
}

func TestAnalyze(t *testing.T) {
	m := matrixOf(
		[]int64{1e6, 2e6, 4e6}, // skew 3/4
		[]int64{5e6, 5e6, 5e6}, // skew 0, the lowest rank counts
		[]int64{1e6, 1e6, 2e6}, // skew 1/2
	)
	if got := PerIterationMax(m); !slices.Equal(got, []float64{4, 5, 2}) {
		t.Errorf("per-iteration maxima %v", got)
	}
	a := Analyze(m)
	if a.Summary.P50 != 4 || a.Skew != 0.5 || a.Straggler != 2 || !near(a.StragglerShare, 2.0/3) {
		t.Errorf("got %+v", a)
	}
	if len(a.Warnings) != 1 || !strings.Contains(a.Warnings[0], "too few for an interval") {
		t.Errorf("warnings %q", a.Warnings)
	}
	if a := Analyze(matrixOf([]int64{7})); a.Warnings != nil || a.Summary.P50 != 7e-6 {
		t.Errorf("a single sample: %+v", a)
	}
	if a := Analyze(NewMatrix(2)); len(a.Warnings) != 1 || len(a.Summary.Map()) != 0 {
		t.Errorf("no samples: %+v", a)
	}
	if a := Analyze(matrixOf([]int64{0, 0})); a.Skew != 0 {
		t.Errorf("times of zero: skew %v", a.Skew)
	}
}

func TestDrift(t *testing.T) {
	random := newRandom(2)
	series := func(n int, at func(i int) float64) (m Matrix) {
		m = NewMatrix(1)
		for i := range n {
			m.Append(int64(1e9 * at(i) * (1 + 0.02*random.Float64())))
		}
		return m
	}
	warned := func(m Matrix) bool {
		return slices.ContainsFunc(Analyze(m).Warnings, func(w string) bool { return strings.HasPrefix(w, "drift") })
	}
	if m := series(100, func(int) float64 { return 1 }); warned(m) {
		t.Error("warned of a steady series")
	}
	if m := series(100, func(i int) float64 { return 1 + float64(i)/200 }); !warned(m) || Analyze(m).Drift < 0.15 {
		t.Error("missed a series that grows by half")
	}
	if m := series(100, func(i int) float64 { return 1 - float64(i)/400 }); !warned(m) {
		t.Error("missed a series that falls by a quarter")
	}
	if m := series(1000, func(i int) float64 { return 1 + float64(i)/50_000 }); warned(m) {
		t.Error("warned of a drift of one percent")
	}
	// Medians of 6.5 and 8, but each half is spread from 1 to 13.
	if m := series(24, func(i int) float64 { return float64(i%12+1) + 1.5*float64(i/12) }); warned(m) || Analyze(m).Drift < 0.1 {
		t.Error("was sure of a drift within the noise")
	}
	if m := series(8, func(i int) float64 { return 1 + float64(i) }); warned(m) {
		t.Error("was sure with four values a side")
	}
}

func TestBusFactor(t *testing.T) {
	for _, test := range []struct {
		op    string
		ranks int
		want  float64
	}{
		{"all_reduce", 8, 1.75}, {"all-reduce", 2, 1}, {"allreduce", 1, 0},
		{"reduce_scatter", 4, 0.75}, {"all_gather", 4, 0.75}, {"alltoall", 2, 0.5}, {"all_to_all", 2, 0.5},
		{"alltoallv", 4, 0.75}, {"gather", 4, 0.75}, {"scatter", 4, 0.75},
		{"broadcast", 8, 1}, {"reduce", 8, 1}, {"sendrecv", 8, 1}, {"hypercube", 8, 1},
	} {
		if got, ok := BusFactor(test.op, test.ranks); !ok || got != test.want {
			t.Errorf("%s of %d ranks: %v, %v; want %v", test.op, test.ranks, got, ok, test.want)
		}
	}
	for _, op := range []string{"barrier", "", "allreduced"} {
		if _, ok := BusFactor(op, 4); ok {
			t.Errorf("%q has a bus factor", op)
		}
	}
	if _, ok := BusFactor("reduce", 0); ok {
		t.Error("no ranks have a bus factor")
	}
	// 1 GB in a millisecond.
	if got := AlgBW(1e9, 1000); got != 1000 {
		t.Errorf("AlgBW = %v GB/s, want 1000", got)
	}
	if got, ok := BusBW("all_reduce", 8, 1e9, 1000); !ok || got != 1750 {
		t.Errorf("BusBW = %v GB/s, want 1750", got)
	}
}
