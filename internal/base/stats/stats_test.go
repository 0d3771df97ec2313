package stats

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

// exactIndex computes intervalIndex by counting all outcomes of n coin tosses.
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
	for n := MinInterval; n <= 300; n++ {
		if got, want := OrderIndex(n, 0.025), exactIndex(n); got != want {
			t.Errorf("n = %d: index %d, want %d", n, got, want)
		}
	}
	if got := exactIndex(MinInterval - 1); got != -1 {
		t.Errorf("%d values have an interval after all", MinInterval-1)
	}
	// For large n the index approaches n/2 - 0.98 sqrt(n).
	for _, n := range []int{10_000, 1_000_000} {
		got, want := float64(OrderIndex(n, 0.025)), float64(n)/2-0.98*math.Sqrt(float64(n))
		if math.Abs(got-want) > 3 {
			t.Errorf("n = %d: index %v, want about %v", n, got, want)
		}
	}
}

func TestSummarizeAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 60).Draw(t, "values")
		given := slices.Clone(values)
		s := Summarize(values)
		if !slices.Equal(values, given) {
			t.Fatal("the values were reordered")
		}
		slices.Sort(given)
		n := len(given)
		// The reference interpolates between the two neighbouring order statistics.
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
		if n < MinInterval {
			if !math.IsNaN(s.CILow) || !math.IsNaN(s.CIHigh) {
				t.Errorf("%d values: interval [%v, %v]", n, s.CILow, s.CIHigh)
			}
			return
		}
		i := exactIndex(n)
		if s.CILow != given[i] || s.CIHigh != given[n-1-i] {
			t.Errorf("interval [%v, %v], want [%v, %v]", s.CILow, s.CIHigh, given[i], given[n-1-i])
		}
	})
}

// TestIntervalCovers checks the coverage for a skewed distribution, whose median is ln 2.
func TestIntervalCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	const trials = 4000
	for _, n := range []int{6, 20, 101} {
		inside := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = random.ExpFloat64()
			}
			s := Summarize(values)
			if s.CILow <= math.Ln2 && math.Ln2 <= s.CIHigh {
				inside++
			}
		}
		if share := float64(inside) / trials; share < 0.94 {
			t.Errorf("n = %d: the interval holds the median in %.3f of the cases", n, share)
		}
	}
}
