package judge

import (
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var reports = flag.Int("reports", 400, "number of simulated reports of each kind")

// TestEqualPrograms simulates reports on a program and three equal peers at five points. The table is in
// docs/statistics.md; "before" is the ratio to the peer with the least median, without a correction.
func TestEqualPrograms(t *testing.T) {
	const seed = 4711001 // other than the seeds that constants were chosen with
	for _, c := range []struct {
		name   string
		trials int
		luck   func(r *rand.Rand) float64 // logarithm of the time of a launch
	}{
		{"3 %", 20, func(r *rand.Rand) float64 { return 0.03 * r.NormFloat64() }},
		{"20 %", MinPairs, func(r *rand.Rand) float64 { return 0.2 * r.NormFloat64() }},
		{"5 %, heavy tails", 20, func(r *rand.Rand) float64 {
			return 0.05 * (r.NormFloat64() + 8*r.ExpFloat64()*math.Floor(r.Float64()+0.125))
		}},
		{"two modes, 20 % apart", MinPairs, func(r *rand.Rand) float64 {
			return 0.2*float64(r.IntN(2)) + 0.002*r.NormFloat64()
		}},
	} {
		r := rand.New(rand.NewPCG(seed, uint64(c.trials)))
		n := *reports
		var notMet, naiveNotMet int
		var bias, naiveBias float64
		for range n {
			points := make([]Contest, 5)
			for p := range points {
				points[p] = Contest{{}, {}, {}}
				for trial := range c.trials {
					ours := c.luck(r)
					for _, peer := range points[p] {
						peer[trial] = c.luck(r) - ours
					}
				}
			}
			ratios, mean := RankPeers(points)
			bias += math.Log(mean.Median) / float64(n)
			if slices.ContainsFunc(append(ratios, mean), func(r Ratio) bool { return r.Reaches(1) == NotMet }) {
				notMet++
			}
			naive, choices := make([]Ratio, len(points)), make([]choice, len(points))
			for p, contest := range points {
				choices[p] = newChoice(contest)
				naive[p] = newRatio(slices.Collect(maps.Values(contest[choices[p].best])), 1)
				naiveBias += math.Log(naive[p].Median) / float64(n*len(points))
			}
			naive = append(naive, newRatio(meansByTrial(choices, func(c choice, _ int) int { return c.best }), 1))
			if slices.ContainsFunc(naive, func(r Ratio) bool { return r.Reaches(1) == NotMet }) {
				naiveNotMet++
			}
		}
		share := func(k int) float64 { return 100 * float64(k) / float64(n) }
		t.Logf("| %s | %d | %.0f %% | %.0f %% | %+.1f %% | %+.1f %% |", c.name, c.trials, share(naiveNotMet), share(notMet),
			100*naiveBias, 100*bias)
		if allowed := 5 + 200*math.Sqrt(0.05*0.95/float64(n)); share(notMet) > allowed { // two standard errors
			t.Errorf("%s: %.1f %% of the reports on equal programs say not met", c.name, share(notMet))
		}
		if math.Abs(bias) > 0.01 {
			t.Errorf("%s: the mean is biased by %.2f %%", c.name, 100*bias)
		}
		if share(naiveNotMet) < 8 || naiveBias > -0.002 {
			t.Errorf("%s: the naive choice does as well, so the simulation shows nothing", c.name)
		}
	}
}
