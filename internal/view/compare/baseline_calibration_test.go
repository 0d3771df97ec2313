package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// machine simulates how times vary: random logarithms for each launch and each run.
type machine struct {
	name        string
	launch, run launches
}

func still(*rand.Rand) float64 { return 0 }

var machines = []machine{
	{"launches 3 %", normal(0.03), still},
	{"launches 3 %, heavy tails", heavy(0.03), still},
	{"launches 3 %, runs 3 %", normal(0.03), normal(0.03)},
	{"launches 1 %, runs 6 %", normal(0.01), normal(0.06)},
}

// simulate returns one run of points and trials. The middle point takes slow times as long.
func (m machine) simulate(rng *rand.Rand, id string, points, trials int, slow float64) Run {
	run := Run{Header: &journal.Header{Run: id, Bench: "b"}}
	for p := range points {
		offset := m.run(rng)
		for trial := range trials {
			us := 10 * float64(p+1) * math.Exp(offset+m.launch(rng))
			if p == points/2 {
				us *= slow
			}
			run.Rows = append(run.Rows, journal.Row{Run: id, Bench: "b", Trial: trial, Status: journal.OK,
				Kind: journal.Measured, Samples: 100,
				Point:   point.Point{{Name: "size", Value: point.IntValue(int64(p))}},
				Metrics: map[string]float64{DefaultMetric: us}})
		}
	}
	return run
}

func (m machine) runs(rng *rand.Rand, n, points, trials int, slow float64) []Run {
	runs := make([]Run, n)
	for i := range runs {
		runs[i] = m.simulate(rng, fmt.Sprintf("r%d", i), points, trials, slow)
	}
	return runs
}

// rounds returns how often a simulation is repeated: few times in normal tests, and
// KERNBENCH_ROUNDS times for the numbers in docs/results.
func rounds(t *testing.T, few, points int) int {
	text := os.Getenv("KERNBENCH_ROUNDS")
	if text == "" {
		if testing.Short() {
			few /= 5
		}
		return max(few/points, 5)
	}
	return must.Get(strconv.Atoi(text))(t)
}

// setups are typical baselines: many runs of one launch, or fewer runs with the advised number
// of trials.
var setups = []struct{ baseline, trials, points int }{{30, 1, 1}, {10, 6, 1}, {30, 1, 12}, {10, 6, 12}}

// TestUnchangedBuildRaisesNoAlarm checks that at most 1 in 100 checks of an unchanged build
// reports a slower point, on every simulated machine.
func TestUnchangedBuildRaisesNoAlarm(t *testing.T) {
	for _, m := range machines {
		for _, s := range setups {
			t.Run(fmt.Sprintf("%s/%d runs of %d trials, %d points", m.name, s.baseline, s.trials, s.points), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(7, uint64(s.baseline)))
				alarms, checks := 0, rounds(t, 100, s.points)
				for range checks {
					r := must.Get(CheckBaseline(m.runs(rng, s.baseline, s.points, s.trials, 1), m.runs(rng, 10, s.points, s.trials, 1),
						Options{}))(t)
					if r.ExitCode() == 1 {
						alarms++
					}
				}
				t.Logf("%d alarms in %d checks", alarms, checks)
				if float64(alarms) > mostAlarms(checks) {
					t.Errorf("%d alarms in %d checks of an unchanged build", alarms, checks)
				}
			})
		}
	}
}

// mostAlarms returns one in a hundred, plus 2.5 standard deviations of that count.
func mostAlarms(checks int) float64 {
	mean := float64(checks) / 100
	return max(1, mean+2.5*math.Sqrt(mean))
}

// TestSlowDownIsFoundWithinTenRuns checks after every run and expects to find a slow-down of 5 %
// within 10 runs in 95 of 100 cases.
func TestSlowDownIsFoundWithinTenRuns(t *testing.T) {
	for _, s := range setups {
		t.Run(fmt.Sprintf("%d runs of %d trials, %d points", s.baseline, s.trials, s.points), func(t *testing.T) {
			t.Parallel()
			m := machines[0]
			rng := rand.New(rand.NewPCG(11, uint64(s.baseline)))
			found, histories, runs := 0, rounds(t, 200, s.points), 0
			for range histories {
				old := m.runs(rng, s.baseline, s.points, s.trials, 1)
				recent := m.runs(rng, 9, s.points, s.trials, 1)
				for n := 1; n <= 10; n++ {
					recent = append(recent, m.simulate(rng, fmt.Sprintf("slow%d", n), s.points, s.trials, 1.05))
					r := must.Get(CheckBaseline(old, recent[len(recent)-10:], Options{}))(t)
					if r.Pairs[s.points/2].Verdict == judge.Slower {
						found, runs = found+1, runs+n
						break
					}
				}
			}
			t.Logf("found in %d of %d histories, after %.1f runs", found, histories, float64(runs)/float64(max(found, 1)))
			if s.points == 1 && histories >= 100 && found*100 < 95*histories {
				t.Errorf("found in %d of %d histories", found, histories)
			}
		})
	}
}
