package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// launches simulates how times vary from launch to launch. It returns a random logarithm.
type launches func(rng *rand.Rand) float64

// normal returns normally distributed launches with a standard deviation.
func normal(sd float64) launches {
	return func(rng *rand.Rand) float64 { return sd * rng.NormFloat64() }
}

// heavy is like normal, but one launch in eight is far slower.
func heavy(sd float64) launches {
	return func(rng *rand.Rand) float64 {
		v := sd * rng.NormFloat64()
		if rng.IntN(8) == 0 {
			v += 8 * sd * rng.ExpFloat64()
		}
		return v
	}
}

// twoModes returns launches that are either fast or slow, with little noise in each mode.
func twoModes(apart float64) launches {
	return func(rng *rand.Rand) float64 { return apart*float64(rng.IntN(2)) + 0.002*rng.NormFloat64() }
}

// simulate returns a run of points and trials. slow returns the factor of a point. The samples
// within each launch have little noise, so the stored intervals are narrow.
func simulate(rng *rand.Rand, points, trials int, draw launches, slow func(point int) float64) dataset.Named {
	run := sideOf("", &journal.Header{Run: "r", Bench: "b"}, nil)
	for p := range points {
		for trial := range trials {
			us := 10 * float64(p+1) * slow(p) * math.Exp(draw(rng))
			r := journal.Row{Bench: "b", Point: point.Point{{Name: "size", Value: point.BytesValue(int64(p))}}, Trial: trial,
				Status: journal.OK, Kind: journal.Measured, Samples: 100, Metrics: map[string]float64{dataset.TimeMetric: us}}
			run.Rows = append(run.Rows, ptr(withInterval(r, 0.002)))
		}
	}
	return run
}

func unchanged(int) float64 { return 1 }

// TestSameBuildGivesNoVerdict compares two runs of one build. At most 5 % of the reports may have a
// faster or slower point, up to three standard errors, for every distribution of launches, and none
// with fewer than four trials a side.
func TestSameBuildGivesNoVerdict(t *testing.T) {
	machines := map[string]launches{"modes 10 % apart": twoModes(0.1)}
	for _, sd := range []float64{0.01, 0.03, 0.06, 0.15} {
		machines[fmt.Sprintf("%.0f %%", 100*sd)] = normal(sd)
		machines[fmt.Sprintf("%.0f %%, heavy tails", 100*sd)] = heavy(sd)
	}
	for name, machine := range machines {
		for _, points := range []int{1, 2, 20} {
			for trials, pairs := range map[int]int{1: 10, 3: 10, 4: 200, 6: 200} { // fewer than four are never judged
				t.Run(fmt.Sprintf("%s/%d points/%d trials", name, points, trials), func(t *testing.T) {
					t.Parallel()
					if points > 2 {
						pairs /= 2 // such reports take long
					}
					rng := rand.New(rand.NewPCG(7, uint64(100*points+trials)))
					wrong, judged := 0, 0
					for range pairs {
						r := compare(t, simulate(rng, points, trials, machine, unchanged),
							simulate(rng, points, trials, machine, unchanged), Options{})
						if r.Counts[judge.Slower]+r.Counts[judge.Faster] > 0 {
							wrong++
						}
						judged += points - r.Counts[judge.Ambiguous]
					}
					if most := int(0.05*float64(pairs) + 3*math.Sqrt(0.05*0.95*float64(pairs))); wrong > most {
						t.Errorf("%d of %d reports on equal builds have a verdict, want at most %d", wrong, pairs, most)
					}
					if trials < judge.MinLaunches && judged > 0 {
						t.Errorf("%d points are judged from %d trials a side", judged, trials)
					}
				})
			}
		}
	}
}

// TestPlantedChangeIsFound checks that a change of one point is found despite the noise.
func TestPlantedChangeIsFound(t *testing.T) {
	for _, c := range []struct {
		name    string
		factor  float64
		points  int
		trials  int
		machine launches
		want    judge.Verdict
		share   float64
	}{
		{"slower", 1.10, 1, judge.AdvisedLaunches, normal(0.03), judge.Slower, 0.95},
		{"faster", 1 / 1.10, 1, judge.AdvisedLaunches, normal(0.03), judge.Faster, 0.95},
		{"slower, heavy tails", 1.10, 1, judge.AdvisedLaunches, heavy(0.01), judge.Slower, 0.8},
		{"slower, one of twenty", 1.10, 20, 6, normal(0.02), judge.Slower, 0.95},
		{"faster, one of twenty", 1 / 1.10, 20, 6, normal(0.02), judge.Faster, 0.95},
		{"slower, one of twenty, four trials", 1.15, 20, 4, normal(0.02), judge.Slower, 0.8},
		{"slower, one of twenty, 3 %", 1.10, 20, 6, normal(0.03), judge.Slower, 0.8},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 3))
			found, reports := 0, 200
			for range reports {
				r := compare(t, simulate(rng, c.points, c.trials, c.machine, unchanged),
					simulate(rng, c.points, c.trials, c.machine, func(p int) float64 {
						if p == c.points/2 {
							return c.factor
						}
						return 1
					}), Options{})
				if r.Points[c.points/2].Verdict == c.want {
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

// TestNoChangeIsSame checks that unchanged points are Same with little noise and enough trials.
func TestNoChangeIsSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	quiet := normal(0.004)
	report := compare(t, simulate(rng, 30, 8, quiet, unchanged), simulate(rng, 30, 8, quiet, unchanged), Options{})
	if report.Counts[judge.Same] < 28 || report.Counts[judge.Slower]+report.Counts[judge.Faster] > 0 {
		t.Errorf("verdicts %v", report.Counts)
	}
}
