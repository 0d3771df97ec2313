package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestWelch(t *testing.T) {
	// t = sqrt(3/2) with 4 degrees of freedom; the p value was integrated numerically.
	if p := Welch([]float64{1, 2, 3}, []float64{2, 3, 4}, 0); !(math.Abs(p-0.2878641347) < 1e-9) {
		t.Errorf("p = %.10f", p)
	}
	// Another number of values on each side; the p value is from scipy.stats.ttest_ind.
	if p := Welch([]float64{1, 2, 3}, []float64{2, 4, 6, 8}, 0); !(math.Abs(p-0.0999128643118) < 1e-9) {
		t.Errorf("3 and 4 values: p = %.10f", p)
	}
	// The values agree by chance; the difference is 1.96 standard errors of the usual spread.
	usual := 1 / 1.959964 / math.Sqrt(2./3)
	if p := Welch([]float64{2, 2, 2}, []float64{3, 3, 3}, usual); math.Abs(p-0.05) > 1e-6 {
		t.Errorf("with the usual spread p = %.10f", p)
	}
	if p := Welch([]float64{1, 1}, []float64{1, 1}, 0); p != 1 {
		t.Errorf("equal values give p %v", p)
	}
	if p := Welch([]float64{1, 1}, []float64{2, 2}, 0); p != 0 {
		t.Errorf("different values without noise give p %v", p)
	}
}

func TestPairedShift(t *testing.T) {
	// Tables give W = 8 for ten pairs at 2.5 %, so the ends are the ninth pairwise mean from
	// either side: 0, 0.5, 1, 1, 1.5, 1.5, 2, 2, 2, ...
	mid, low, high, ok := PairedShift([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	if mid != 4.5 || low != 2 || high != 7 || !ok {
		t.Errorf("%v in %v to %v, %v", mid, low, high, ok)
	}
	// All six have the same sign with probability 2/64, so the interval is their whole range.
	if _, low, high, ok := PairedShift([]float64{3, 1, 2, 6, 5, 4}); low != 1 || high != 6 || !ok {
		t.Errorf("six: %v to %v, %v", low, high, ok)
	}
	if _, _, _, ok := PairedShift([]float64{1, 2, 3, 4, 5}); ok {
		t.Error("five differences have an interval")
	}
	if mid, _, _, ok := PairedShift(nil); !math.IsNaN(mid) || ok {
		t.Errorf("no differences: %v, %v", mid, ok)
	}
}

// TestSignedRankQuantileApproximation counts the subsets of the ranks 1 to n by their sum. A quantile that is too large
// would make the interval too narrow.
func TestSignedRankQuantileApproximation(t *testing.T) {
	for _, n := range []int{maxExact, maxExact + 1, 60, 100} {
		share := make([]float64, n*(n+1)/2+1)
		share[0] = 1
		for rank := 1; rank <= n; rank++ {
			for s := len(share) - 1; s >= 0; s-- {
				share[s] /= 2
				if s >= rank {
					share[s] += share[s-rank] / 2
				}
			}
		}
		want, below := 0, share[0]
		for below <= 0.025 {
			want++
			below += share[want]
		}
		if got := signedRankQuantile(n, 0.025); got > want || got < want-2 || n <= maxExact && got != want {
			t.Errorf("%d differences: quantile %d, want %d", n, got, want)
		}
	}
}

// TestPairedShiftCovers checks that the interval contains the true value in 95 % of the cases, also
// if one launch in eight is far slower, and beyond maxExact.
func TestPairedShiftCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	launch := func() float64 {
		v := rng.NormFloat64()
		if rng.IntN(8) == 0 {
			v += 8 * rng.ExpFloat64()
		}
		return v
	}
	for _, n := range []int{6, 12, 20, 60} {
		const reps = 1000
		held := 0
		for range reps {
			d := make([]float64, n)
			for i := range d {
				d[i] = 3 + launch() - launch()
			}
			if _, low, high, _ := PairedShift(d); low <= 3 && 3 <= high {
				held++
			}
		}
		if held < 935 {
			t.Errorf("%d pairs: in the interval %d of %d times", n, held, reps)
		}
	}
}

func TestPairedP(t *testing.T) {
	few := []float64{0.1, 0.1, 0.1, 0.1}
	if p := PairedP(few, 0.1, 1000); p < 0.04 || p > 0.06 {
		t.Errorf("equal by chance, p = %v: want the p value under the usual spread", p)
	}
	if many, few := PairedP(few, 0.04, 1000), PairedP(few, 0.04, 5); few < 10*many {
		t.Errorf("a spread that is hardly known gives p = %v, a known one %v", few, many)
	}
	if p := PairedP(few, 0, 1000); p != 0 {
		t.Errorf("without noise p = %v", p)
	}
	if p := PairedP([]float64{-1, 1, -1, 1}, 0.1, 1000); math.Abs(p-1) > 1e-9 {
		t.Errorf("no difference, p = %v", p)
	}
	// The table gives t = 2.228139 for p = 0.05 and 10 degrees of freedom. The median distance from the centre is 1.
	centre := 2.228138852 * 1.4826 * math.Sqrt(math.Pi/3/3)
	if p := PairedP([]float64{centre - 1, centre, centre + 1}, 0.1, 10); math.Abs(p-0.05) > 1e-6 {
		t.Errorf("with the spread of the differences p = %v, want 0.05", p)
	}
}
