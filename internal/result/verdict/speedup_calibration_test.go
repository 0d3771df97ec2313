package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// program simulates a program: one row for each of the points in each of the trials.
func program(rng *rand.Rand, name string, points, trials int, draw launches) dataset.Named {
	run := sideOf(name, nil, nil)
	for p := range points {
		for trial := range trials {
			run.Rows = append(run.Rows, &journal.Row{Status: journal.OK, Trial: trial, Kind: journal.Measured,
				Point:   point.Point{{Name: "size", Value: point.BytesValue(int64(p))}},
				Metrics: map[string]float64{dataset.TimeMetric: 10 * math.Exp(draw(rng))}})
		}
	}
	return run
}

// TestEqualProgramsAreNotSlower compares the rows of a program with the rows of equal peers. A report of 5 points and 3
// peers says "not met" in at most 5 % of the cases. Package judge simulates more reports, without rows.
func TestEqualProgramsAreNotSlower(t *testing.T) {
	const points, peers, reports = 5, 3, 60
	for _, c := range []struct {
		name    string
		machine launches
		trials  int
	}{{"3 %", normal(0.03), 20}, {"20 %", normal(0.2), judge.MinPairs}, {"heavy tails", heavy(0.05), 20},
		{"modes", twoModes(0.2), judge.MinPairs}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(13, uint64(c.trials)))
			notMet, met := 0, 0
			for range reports {
				ours := program(rng, "ours", points, c.trials, c.machine)
				var others []dataset.Named
				for k := range peers {
					others = append(others, program(rng, fmt.Sprint("peer", k), points, c.trials, c.machine))
				}
				tab := must.Get(Speedups(ours, others, Goals{Mean: 1}))(t)[0]
				if tab.Least == judge.NotMet || tab.Mean == judge.NotMet {
					notMet++
				}
				if tab.Least == judge.Met {
					met++
				}
			}
			// 5 % of 60 are 3; more than 8 have a probability of 1 in 300.
			if notMet > 8 || met > 8 {
				t.Errorf("of %d reports on equal programs %d say not met and %d met", reports, notMet, met)
			}
		})
	}
}

// TestFasterProgramIsFound checks that the correction leaves enough power: 10 % through a noise
// of 3 % between launches.
func TestFasterProgramIsFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	met, notMet, reports := 0, 0, 100
	for range reports {
		ours := program(rng, "ours", 5, 20, normal(0.03))
		var others, fast []dataset.Named
		for k := range 3 {
			one := program(rng, fmt.Sprint("peer", k), 5, 20, normal(0.03))
			others = append(others, scaled(one, 1.1))
			fast = append(fast, scaled(one, 1/1.1))
		}
		if tab := must.Get(Speedups(ours, others, Goals{Mean: 1}))(t)[0]; tab.Least == judge.Met && tab.Mean == judge.Met {
			met++
		}
		if tab := must.Get(Speedups(ours, fast, Goals{Mean: 1}))(t)[0]; tab.Least == judge.NotMet &&
			tab.Mean == judge.NotMet {
			notMet++
		}
	}
	if met < 95 || notMet < 95 {
		t.Errorf("10 %% faster is met in %d and 10 %% slower not met in %d of %d reports", met, notMet, reports)
	}
}

// scaled returns the run with all times multiplied.
func scaled(run dataset.Named, factor float64) dataset.Named {
	out := sideOf(run.Name, nil, nil)
	for _, row := range run.Rows {
		r := *row
		r.Metrics = map[string]float64{dataset.TimeMetric: r.Metrics[dataset.TimeMetric] * factor}
		out.Rows = append(out.Rows, &r)
	}
	return out
}

// steady returns launches without noise.
func steady(log float64) launches { return func(*rand.Rand) float64 { return log } }
