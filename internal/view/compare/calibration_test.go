package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// noise is how a simulated machine varies, as standard deviations of the
// logarithm: from launch to launch, and from sample to sample, where each
// sample resembles the one before it.
type noise struct {
	launch, sample, memory float64
}

// simulate makes a run of so many points and trials; slow is the factor of each point.
// With samples, every row has raw samples and the time is their median.
func simulate(rng *rand.Rand, points, trials, samples int, n noise, slow func(point int) float64) Run {
	run := Run{Header: &journal.Header{Run: "r", Bench: "b"}}
	raw := map[*journal.Row][]float64{}
	run.Rows = make([]journal.Row, 0, points*trials)
	for p := range points {
		for trial := range trials {
			level := math.Log(10*float64(p+1)*slow(p)) + n.launch*rng.NormFloat64()
			r := journal.Row{Bench: "b", Point: point.Point{{Name: "size", Value: point.BytesValue(int64(p))}}, Trial: trial,
				Status: journal.OK, Kind: journal.Measured, Samples: max(1, samples)}
			us := math.Exp(level)
			var values []float64
			state := rng.NormFloat64()
			for range samples {
				state = n.memory*state + math.Sqrt(1-n.memory*n.memory)*rng.NormFloat64()
				values = append(values, math.Exp(level+n.sample*state))
			}
			if samples > 0 {
				us = stats.Median(values)
			}
			r.Metrics = map[string]float64{DefaultMetric: us}
			run.Rows = append(run.Rows, r)
			raw[&run.Rows[len(run.Rows)-1]] = values
		}
	}
	run.Samples = func(r *journal.Row, _ string) ([]float64, error) { return raw[r], nil }
	return run
}

func unchanged(int) float64 { return 1 }

// Two runs of one build: the share of reports with any verdict of faster or
// slower stays below alpha, with three standard errors of slack.
func TestSameBuildGivesNoVerdict(t *testing.T) {
	cases := []struct {
		name                    string
		points, trials, samples int
		noise                   noise
		reports                 int
		method                  Method
	}{
		{"ranks", 20, 6, 0, noise{launch: 0.04}, 400, Ranks},
		{"ranks, many trials", 20, 10, 0, noise{launch: 0.04}, 50, Ranks},
		{"t, few trials", 20, 4, 0, noise{launch: 0.04}, 300, TTest},
		{"t, many points", 60, 6, 0, noise{launch: 0.1}, 100, TTest},
		{"one launch", 20, 1, 100, noise{launch: LaunchSpread, sample: 0.03, memory: 0.7}, 200, Blocks},
		{"one noisy launch", 20, 1, 100, noise{launch: LaunchSpread, sample: 0.3, memory: 0.7}, 200, Blocks},
		{"two launches", 20, 2, 50, noise{launch: LaunchSpread, sample: 0.03, memory: 0.5}, 200, Blocks},
		{"two unsteady launches", 20, 2, 50, noise{launch: 3 * LaunchSpread, sample: 0.03}, 200, Blocks},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, uint64(c.trials)))
			wrong := 0
			for range c.reports {
				report, err := Compare(simulate(rng, c.points, c.trials, c.samples, c.noise, unchanged),
					simulate(rng, c.points, c.trials, c.samples, c.noise, unchanged), Options{})
				if err != nil {
					t.Fatal(err)
				}
				if m := report.Pairs[0].Effect.Method; m != c.method {
					t.Fatalf("method %s, want %s", m, c.method)
				}
				if report.Counts[Slower]+report.Counts[Faster] > 0 {
					wrong++
				}
			}
			share := float64(wrong) / float64(c.reports)
			slack := 3 * math.Sqrt(DefaultAlpha*(1-DefaultAlpha)/float64(c.reports))
			t.Logf("%.1f %% of %d reports have a false verdict", 100*share, c.reports)
			if share > DefaultAlpha+slack {
				t.Errorf("%.1f %% of reports on equal builds have a verdict, at alpha %v", 100*share, DefaultAlpha)
			}
		})
	}
}

// A change of 10 % in one of twenty points is seen through 2 % of noise.
func TestPlantedChangeIsFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		factor  float64
		trials  int
		samples int
		want    Verdict
		share   float64
	}{
		{"slower", 1.10, 6, 0, Slower, 0.95},
		{"faster", 1 / 1.10, 6, 0, Faster, 0.95},
		{"slower, four trials", 1.15, 4, 0, Slower, 0.8},
		{"slower, one launch", 1.25, 1, 100, Slower, 0.95},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 3))
			found, reports := 0, 120
			n := noise{launch: 0.02, sample: 0.02, memory: 0.5}
			for range reports {
				report, err := Compare(simulate(rng, 20, c.trials, c.samples, n, unchanged),
					simulate(rng, 20, c.trials, c.samples, n, func(p int) float64 {
						if p == 7 {
							return c.factor
						}
						return 1
					}), Options{})
				if err != nil {
					t.Fatal(err)
				}
				if report.Pairs[7].Verdict == c.want {
					found++
				}
			}
			t.Logf("found in %d of %d reports", found, reports)
			if float64(found) < c.share*float64(reports) {
				t.Errorf("found in %d of %d reports", found, reports)
			}
		})
	}
}

// With little noise and enough trials, no change is called the same.
func TestNoChangeIsSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	n := noise{launch: 0.004}
	report, err := Compare(simulate(rng, 30, 8, 0, n, unchanged), simulate(rng, 30, 8, 0, n, unchanged), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Counts[Same] < 28 || report.Counts[Slower]+report.Counts[Faster] > 0 {
		t.Errorf("verdicts %v", report.Counts)
	}
}
