package judge

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOrderInterval compares with the table of the sign test.
func TestOrderInterval(t *testing.T) {
	for _, c := range []struct {
		n         int
		level     float64
		low, high int
	}{{10, 0.05, 1, 8}, {12, 0.05, 2, 9}, {12, 0.005, 0, 11}, {20, 0.05, 5, 14}, {20, 0.01, 3, 16}, {4, 0.05, 0, 3}} {
		if low, high := orderInterval(c.n, c.level); low != c.low || high != c.high {
			t.Errorf("%d values, level %v: %d to %d, want %d to %d", c.n, c.level, low, high, c.low, c.high)
		}
	}
}

// contest returns trials of peers whose logarithms of ratios have these means.
func contest(rng *rand.Rand, trials int, sd float64, means ...float64) Contest {
	c := make(Contest, len(means))
	for k := range c {
		c[k] = Trials{}
	}
	for t := range trials {
		ours := sd * rng.NormFloat64()
		for k, mean := range means {
			c[k][t] = mean + sd*rng.NormFloat64() - ours
		}
	}
	return c
}

// TestRankPeersAgainstKnownRatios checks with little noise that the best peer of each point
// counts, and how peers that have too few trials change the interval.
func TestRankPeersAgainstKnownRatios(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	near := func(got, want float64) bool { return math.Abs(got/want-1) < 0.01 }
	points := []Contest{contest(rng, 12, 0.001, math.Log(4), math.Log(2)), contest(rng, 12, 0.001, math.Log(3))}
	ratios, mean := RankPeers(points)
	if !near(ratios[0].Median, 2) || !near(ratios[1].Median, 3) || !near(mean.Median, math.Sqrt(6)) || mean.Pairs != 12 {
		t.Errorf("ratios %+v, mean %+v", ratios, mean)
	}
	for _, r := range append(ratios, mean) {
		if !(r.Low < r.Median && r.Median < r.High) || r.High/r.Low > 1.02 {
			t.Errorf("interval %+v", r)
		}
	}
	few := Contest{points[0][0], {0: 0, 1: 0}}
	ratios, mean = RankPeers([]Contest{few})
	if r := ratios[0]; !math.IsNaN(r.Low) || !near(r.High, 4) || r.Reaches(1) != NotResolved || r.Reaches(5) != NotMet {
		t.Errorf("a peer with two trials: %+v", r)
	}
	if mean.Reaches(1) == Met {
		t.Errorf("the mean of a point with a peer of two trials: %+v", mean)
	}
	for name, empty := range map[string]Contest{"no trial": {{}, {}}, "one trial": {{3: 1}}} {
		ratios, mean = RankPeers([]Contest{empty})
		if ratios[0].Reaches(0.1) != NotResolved || mean.Reaches(0.1) != NotResolved {
			t.Errorf("%s: %+v, %+v", name, ratios, mean)
		}
	}
}

// TestManyPeers checks that ten trials can decide although the order statistics of so few
// cannot be corrected for so many peers.
func TestManyPeers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var points []Contest
	for range 8 {
		points = append(points, contest(rng, MinPairs, 0.02, make([]float64, 12)...))
	}
	ratios, _ := RankPeers(points)
	for _, r := range ratios {
		if r.Reaches(0.8) != Met || r.Reaches(1.25) != NotMet || r.Reaches(1) != NotResolved {
			t.Errorf("equal programs: %+v", r)
		}
	}
}
