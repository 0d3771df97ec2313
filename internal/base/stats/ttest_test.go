package stats

import (
	"math"
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
