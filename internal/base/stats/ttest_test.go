package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestWelch(t *testing.T) {
	// t = sqrt(3/2) with 4 degrees of freedom, integrated numerically.
	if p := Welch([]float64{1, 2, 3}, []float64{2, 3, 4}, 0); math.Abs(p-0.2878641347) > 1e-9 {
		t.Errorf("p = %.10f", p)
	}
	// Values that agree by chance: 1.96 standard errors of the usual spread, and no more.
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

// Of values of one distribution, as many as p says are taken for others; and one that is
// far off is found.
func TestOneMoreHoldsItsLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	wrong, rounds := 0, 4000
	for range rounds {
		x := make([]float64, 8)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		if OneMore(x, rng.NormFloat64(), 0) <= 0.05 {
			wrong++
		}
		if p := OneMore(x, 30, 0); p > 0.01 {
			t.Errorf("30 among %v: p %v", x, p)
		}
	}
	if share := float64(wrong) / float64(rounds); share < 0.04 || share > 0.06 {
		t.Errorf("%v of equal values are found different at a level of 0.05", share)
	}
	if p := OneMore([]float64{1, 1, 1, 1}, 1.01, 1); p < 0.9 {
		t.Errorf("the usual spread is not respected: p %v", p)
	}
}
