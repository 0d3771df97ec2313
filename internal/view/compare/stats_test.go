package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kernbench/kernbench/internal/base/stats"
)

func TestWelch(t *testing.T) {
	// t = sqrt(3/2) with 4 degrees of freedom, integrated numerically.
	if p := welch([]float64{1, 2, 3}, []float64{2, 3, 4}); math.Abs(p-0.2878641347) > 1e-9 {
		t.Errorf("p = %.10f", p)
	}
	if p := welch([]float64{1, 1}, []float64{1, 1}); p != 1 {
		t.Errorf("equal values give p %v", p)
	}
	if p := welch([]float64{1, 1}, []float64{2, 2}); p != 0 {
		t.Errorf("different values without noise give p %v", p)
	}
}

// Values that hang together have a wider interval than independent ones of
// the same spread, and it covers the truth about as often as it says.
func TestBlockSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	covered, runs := 0, 400
	for range runs {
		v := make([]float64, 400)
		state := 0.0
		for i := range v {
			state = 0.6*state + rng.NormFloat64()
			v[i] = state
		}
		s, ok := blockSpread(v)
		if !ok {
			t.Fatal("400 samples are not enough")
		}
		if math.Abs(stats.Median(v)) <= s.halfWidth() {
			covered++
		}
	}
	if share := float64(covered) / float64(runs); share < 0.88 {
		t.Errorf("the interval of correlated samples covers the median in %.0f %% of runs", 100*share)
	}
	if _, ok := blockSpread(make([]float64, minBlocks*minBlocks-1)); ok {
		t.Error("an interval from too few samples")
	}
}
