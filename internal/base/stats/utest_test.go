package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/perf/benchmath"
	"pgregory.net/rapid"
)

// eachSplit calls f with each choice of n values, and the other values.
func eachSplit(v []float64, n int, f func(chosen, rest []float64)) {
	for mask := range 1 << len(v) {
		var chosen, rest []float64
		for i, x := range v {
			if mask>>i&1 == 1 {
				chosen = append(chosen, x)
			} else {
				rest = append(rest, x)
			}
		}
		if len(chosen) == n {
			f(chosen, rest)
		}
	}
}

// u counts the pairs in which x is larger. A tie counts as one half.
func u(x, y []float64) float64 {
	n := 0.0
	for _, a := range x {
		for _, b := range y {
			switch {
			case a > b:
				n++
			case a == b:
				n += 0.5
			}
		}
	}
	return n
}

// uByEnumeration computes the p value by its definition.
func uByEnumeration(x, y []float64) float64 {
	mean := float64(len(x)*len(y)) / 2
	far := math.Abs(u(x, y) - mean)
	extreme, all := 0, 0
	eachSplit(slices.Concat(x, y), len(x), func(a, b []float64) {
		all++
		if math.Abs(u(a, b)-mean) >= far {
			extreme++
		}
	})
	return float64(extreme) / float64(all)
}

func TestUTestAgainstEnumeration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few distinct values, so that ties are common.
		value := rapid.Map(rapid.IntRange(0, 9), func(n int) float64 { return float64(n) })
		x := rapid.SliceOfN(value, 1, 5).Draw(t, "x")
		y := rapid.SliceOfN(value, 1, 5).Draw(t, "y")
		if got, want := UTest(x, y), uByEnumeration(x, y); math.Abs(got-want) > 1e-12 {
			t.Fatalf("UTest = %v, by enumeration %v", got, want)
		}
	})
}

// TestUTestApproximation compares both ways of computation at the size where the test switches.
func TestUTestApproximation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		x, y := make([]float64, 20), make([]float64, 20)
		for i := range x {
			x[i], y[i] = math.Round(rng.NormFloat64()*8), math.Round(rng.NormFloat64()*8+rng.Float64()*6)
		}
		ranks := doubledRanks(slices.Concat(x, y))
		sum := 0
		for _, r := range ranks[:20] {
			sum += r
		}
		exact, approx := UTest(x, y), normalU(ranks, 20, math.Abs(float64(sum-20*41)))
		if math.Abs(exact-approx) > 0.005 {
			t.Errorf("exact %v, approximation %v", exact, approx)
		}
	}
	for name, many := range map[string][]float64{"equal values": make([]float64, 60), "equal sides": evenly(30, 0, 1)} {
		if p := UTest(many, many); p != 1 {
			t.Errorf("%s give p %v", name, p)
		}
	}
	// Without ties, U has the variance n*m*(n+m+1)/12. All 25*20 pairs have the larger value in y.
	z := (25*20/2.0 - 0.5) / math.Sqrt(25*20*46/12.0)
	if p, want := UTest(evenly(25, 0, 1), evenly(20, 100, 1)), math.Erfc(z/math.Sqrt2); math.Abs(p/want-1) > 1e-6 {
		t.Errorf("separate sides give p %v, want %v", p, want)
	}
}

func TestLeastP(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for m := 1; m <= 6; m++ {
			var x, y []float64
			for i := range n {
				x = append(x, float64(i))
			}
			for i := range m {
				y = append(y, float64(100+i))
			}
			if got, want := min(1, LeastP(n, m)), UTest(x, y); math.Abs(got-want) > 1e-12 {
				t.Errorf("LeastP(%d, %d) = %v, a complete separation gives %v", n, m, got, want)
			}
		}
	}
}

// TestUTestCountsUpToLimit separates two samples completely. Only counting gives the exact p value.
func TestUTestCountsUpToLimit(t *testing.T) {
	for n, exact := range map[int]bool{maxExact - 1: true, maxExact: true, maxExact + 1: false} {
		x, y := evenly(n/2, 0, 1), evenly(n-n/2, 100, 1)
		if p := UTest(x, y); near(p, LeastP(len(x), len(y))) != exact {
			t.Errorf("%d values: p %v, the least is %v", n, p, LeastP(len(x), len(y)))
		}
	}
}

// exactUQuantile is uQuantile from the number of partitions of U, which are the coefficients of a
// Gaussian binomial.
func exactUQuantile(n, m int, tail float64) int {
	counts := make([]float64, n*m+1)
	counts[0] = 1
	all := 1.0
	for i := 1; i <= n; i++ {
		for k := n * m; k >= m+i; k-- {
			counts[k] -= counts[k-m-i]
		}
		for k := i; k <= n*m; k++ {
			counts[k] += counts[k-i]
		}
		all *= float64(m+i) / float64(i)
	}
	below := 0.0
	for k, c := range counts {
		if below += c; below/all > tail {
			return k
		}
	}
	return n*m + 1
}

// TestUQuantileApproximation checks that the quantile of many values is at most one too small: a larger
// one would make the interval too narrow.
func TestUQuantileApproximation(t *testing.T) {
	if got, want := exactUQuantile(5, 4, 0.025), uQuantile(5, 4, 0.025); got != want {
		t.Fatalf("the reference gives %d, want %d", got, want)
	}
	for _, c := range [][2]int{{21, 21}, {20, 21}, {25, 30}, {40, 40}, {60, 60}, {10, 60}, {30, 15}} {
		exact, got := exactUQuantile(c[0], c[1], 0.025), uQuantile(c[0], c[1], 0.025)
		if got > exact || got < exact-1 {
			t.Errorf("%d and %d values: %d, exactly %d", c[0], c[1], got, exact)
		}
	}
}

// TestUQuantile compares with the definition: the largest k with P(U < k) <= tail.
func TestUQuantile(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for m := 2; m <= 5; m++ {
			values := make([]float64, n+m)
			for i := range values {
				values[i] = float64(i)
			}
			for _, tail := range []float64{0.005, 0.025, 0.1} {
				want := 0
				for k := 1; k <= n*m; k++ {
					below, all := 0.0, 0.0
					eachSplit(values, n, func(a, b []float64) {
						all++
						if u(a, b) < float64(k) {
							below++
						}
					})
					if below/all <= tail {
						want = k
					}
				}
				if got := uQuantile(n, m, tail); got != want {
					t.Errorf("uQuantile(%d, %d, %v) = %d, want %d", n, m, tail, got, want)
				}
			}
		}
	}
	if a, b := uQuantile(20, 20, 0.025), uQuantile(20, 21, 0.025); a != 128 || b < a || b > a+10 {
		t.Errorf("quantiles either side of the approximation: %d (tables say 128) and %d", a, b)
	}
}

// TestShiftInvertsTheTest checks that the interval excludes a shift exactly when the test rejects it.
func TestShiftInvertsTheTest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Whole numbers that are moved by a half never tie.
		value := rapid.Map(rapid.IntRange(0, 60), func(n int) float64 { return float64(n) })
		x := rapid.SliceOfNDistinct(value, 4, 7, rapid.ID[float64]).Draw(t, "x")
		y := rapid.SliceOfNDistinct(value, 4, 7, rapid.ID[float64]).Draw(t, "y")
		mid, low, high := Shift(x, y)
		if !(low <= mid && mid <= high) {
			t.Fatalf("%v is outside [%v, %v]", mid, low, high)
		}
		s := float64(rapid.IntRange(-60, 60).Draw(t, "shift")) + 0.5
		moved := make([]float64, len(y))
		for i, v := range y {
			moved[i] = v - s
		}
		if inside, p := low < s && s < high, UTest(x, moved); inside != (p > 0.05) {
			t.Fatalf("shift %v: interval [%v, %v], p %v", s, low, high, p)
		}
	})
}

// TestShiftOfOneValue compares one value with enough others for an interval, which is then the whole range.
func TestShiftOfOneValue(t *testing.T) {
	for _, m := range []int{maxExact, 2 * maxExact} {
		one, others := []float64{0}, evenly(m, 1, 1)
		if mid, low, high := Shift(one, others); mid != float64(m+1)/2 || low != 1 || high != float64(m) {
			t.Errorf("1 and %d values: %v in %v to %v", m, mid, low, high)
		}
		if mid, low, high := Shift(others, one); mid != -float64(m+1)/2 || low != -float64(m) || high != -1 {
			t.Errorf("%d and 1 values: %v in %v to %v", m, mid, low, high)
		}
	}
}

// TestHolmAgainstProcedure checks that a corrected p value is at most alpha exactly when the
// stepwise procedure rejects.
func TestHolmAgainstProcedure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 0.3), 1, 12).Draw(t, "p")
		alpha := rapid.Float64Range(0.001, 0.5).Draw(t, "alpha")
		sorted := slices.Clone(p)
		slices.Sort(sorted)
		limit := -1.0 // the largest p value that is rejected
		for i, v := range sorted {
			if v*float64(len(p)-i) > alpha {
				break
			}
			limit = v
		}
		for i, c := range Holm(p) {
			if (c <= alpha) != (p[i] <= limit) {
				t.Fatalf("p %v of %v is corrected to %v at alpha %v", p[i], p, c, alpha)
			}
		}
	})
}

// TestUTestAgainstBenchmath compares with golang.org/x/perf for values without ties.
func TestUTestAgainstBenchmath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfNDistinct(rapid.Float64Range(0, 1e6), 2, 30, rapid.ID[float64]).Draw(t, "values")
		n := rapid.IntRange(1, len(all)-1).Draw(t, "of the first")
		x, y := all[:n], all[n:]
		other := benchmath.AssumeNothing.Compare(
			benchmath.NewSample(slices.Clone(x), &benchmath.DefaultThresholds),
			benchmath.NewSample(slices.Clone(y), &benchmath.DefaultThresholds))
		if got := UTest(x, y); math.Abs(got-other.P) > 1e-9 {
			t.Fatalf("UTest = %v, benchmath says %v", got, other.P)
		}
	})
}

// The values are from scipy.stats.kruskal.
func TestKruskalWallis(t *testing.T) {
	for _, c := range []struct {
		groups [][]float64
		want   float64
	}{
		{[][]float64{{1, 2, 3, 4}, {5, 6, 7, 8}}, 0.020921335337794052},
		{[][]float64{{2.9, 3, 2.5, 2.6, 3.2}, {3.8, 2.7, 4, 2.4}, {2.8, 3.4, 3.7, 2.2, 2}}, 0.6799647735788936},
		{[][]float64{{1, 1, 2, 3}, {1, 2, 2, 3}, {5, 5, 5, 4}}, 0.01997125002318572},
		{[][]float64{{-1, -2}, {-1.5, -2.5}}, 0.43857802608099994},
		{[][]float64{{7, 7}, {7, 7, 7}}, 1},
	} {
		if got := KruskalWallis(c.groups); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: p %v, want %v", c.groups, got, c.want)
		}
	}
}
