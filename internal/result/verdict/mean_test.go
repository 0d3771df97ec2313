package verdict

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// TestMean checks the geometric mean over points: 20 % slower and 25 % faster cancel, a change of
// all points does not, and trials that are not good at every point do not count.
func TestMean(t *testing.T) {
	failed := trialsOf(2, 12)[:5]
	for i := range 2 {
		failed[i] = bad(failed[i], journal.Failed, "crashed")
	}
	disturbed := trialsOf(2, 12)
	for i := range disturbed {
		disturbed[i].Quality = journal.QualityDisturbed
	}
	for _, c := range []struct {
		name     string
		old, new dataset.Named
		want     string // "" if there is no mean
		exit     int
	}{
		{"all slower", runOf("a", trialsOf(1, 10), trialsOf(2, 20)), runOf("b", trialsOf(1, 11), trialsOf(2, 22)),
			"geometric mean over 2 points: +10.00% (95% interval +9.", 1},
		{"balanced", runOf("a", trialsOf(1, 10), trialsOf(2, 20)), runOf("b", trialsOf(1, 12.5), trialsOf(2, 16)),
			"geometric mean over 2 points: 0% (95% interval -0.", 1},
		{"other benches are paired", runOf("a", trialsOf(1, 10), trialsOf(2, 20)),
			renamed(runOf("b", trialsOf(1, 9), trialsOf(2, 18)), "other"),
			"geometric mean over 2 points: -10.00% (95% interval -10.", 0},
		{"one point", runOf("a", trialsOf(1, 10)), runOf("b", trialsOf(1, 11)), "", 1},
		{"few good trials", runOf("a", trialsOf(1, 10), trialsOf(2, 10)), runOf("b", trialsOf(1, 10), failed),
			"geometric mean over 2 points: not resolved: only 6 and 3 trials are ok and undisturbed at every point", 3},
		{"too few for the mean", runOf("a", trialsOf(1, 10)[:4], trialsOf(2, 20)[:4]),
			runOf("b", trialsOf(1, 11)[:4], trialsOf(2, 22)[:4]),
			"): ambiguous (only 4 and 4 trials are ok and undisturbed at every point, and at least 5 a side are needed)", 1},
		{"no good trials", runOf("a", trialsOf(1, 10), trialsOf(2, 10)), runOf("b", trialsOf(1, 10), disturbed),
			"geometric mean over 2 points: not resolved: no trial is ok and undisturbed at every point", 3},
		{"exact", runOf("a", one(simulated(rowOf(1, 0, 10))), one(simulated(rowOf(2, 0, 10)))),
			runOf("b", one(simulated(rowOf(1, 0, 10))), one(simulated(rowOf(2, 0, 10)))), "", 0},
	} {
		r := compare(t, c.old, c.new, Options{Mean: true})
		var b bytes.Buffer
		must.Do(t, r.Write(&b, "table", "", 0))
		if (r.Whole != nil) != (c.want != "") || !strings.Contains(b.String(), c.want) || r.ExitCode() != c.exit {
			t.Errorf("%s: exit %d, want %d and %q in\n%s", c.name, r.ExitCode(), c.exit, c.want, b.String())
		}
		if r := compare(t, c.old, c.new, Options{}); r.Whole != nil {
			t.Errorf("%s: there is a mean that nobody asked for", c.name)
		}
	}
}

// TestMeanSharesAlpha checks that the mean and the points together give a false verdict with probability Alpha at most.
func TestMeanSharesAlpha(t *testing.T) {
	two := make([]dataset.Matched, 2)
	for i := range two {
		rows := trialsOf(int64(i), 10)
		two[i] = dataset.Matched{dataset.All(rows), dataset.All(rows)}
	}
	for n, want := range []float64{0.05, 0.05, 0.04} { // one point has no mean
		got := (&Report{}).judgeMean(two[:n], Options{Metric: dataset.TimeMetric}, judge.Rule{Alpha: 0.05, Floor: 0.01})
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%d points: %g is left for the points, want %g", n, got, want)
		}
	}
}

func renamed(run dataset.Named, bench string) dataset.Named {
	run.Header.Bench = bench
	for i := range run.Rows {
		run.Rows[i].Bench = bench
	}
	return run
}

// Runs of two benches without a common point are refused; sweeps of two names with common points are paired.
func TestOtherBench(t *testing.T) {
	a, other := runOf("a", trialsOf(1, 10)), runOf("b", trialsOf(2, 10))
	if _, err := Compare(a, renamed(other, "gemm"), Options{}); err == nil ||
		!strings.Contains(err.Error(), "b is a run of gemm, and they have no point in common") {
		t.Errorf("another bench: %v", err)
	}
	if r := compare(t, a, renamed(runOf("b", trialsOf(1, 10)), "second"), Options{}); len(r.Points) != 1 {
		t.Errorf("%d pairs of two sweeps, want 1", len(r.Points))
	}
	mixed := runOf("b", trialsOf(1, 10))
	mixed.Rows[0].Bench = "second"
	if r := compare(t, a, mixed, Options{}); len(r.Points) != 2 {
		t.Errorf("%d pairs with a run of two benches, want 2", len(r.Points))
	}
}

// TestMeanOfSameBuild checks that the mean does not raise the rate of false verdicts of a report,
// and that it finds a change of all points that no single point shows.
func TestMeanOfSameBuild(t *testing.T) {
	const reports = 200
	for _, points := range []int{2, 20} {
		t.Run(fmt.Sprint(points, " points"), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(23, uint64(points)))
			wrong, found := 0, 0
			for range reports {
				old := simulate(rng, points, judge.AdvisedLaunches, normal(0.06), unchanged)
				new := simulate(rng, points, judge.AdvisedLaunches, normal(0.06), unchanged)
				r := compare(t, old, new, Options{Mean: true})
				if r.Counts[judge.Slower]+r.Counts[judge.Faster] > 0 || r.Whole.Verdict != judge.Ambiguous &&
					r.Whole.Verdict != judge.Same {
					wrong++
				}
				slow := simulate(rng, points, judge.AdvisedLaunches, normal(0.06), func(int) float64 { return 1.07 })
				if compare(t, old, slow, Options{Mean: true}).Whole.Verdict == judge.Slower {
					found++
				}
			}
			// 5 % of 200 are 10; more than 18 have a probability of 1 in 100.
			if wrong > 18 || points == 20 && found < 190 {
				t.Errorf("%d of %d reports on equal builds have a verdict; 7 %% slower is found in %d", wrong, reports, found)
			}
		})
	}
}

// A small probability is not zero.
func TestSmallProbability(t *testing.T) {
	for p, want := range map[float64]string{0.00049: "<0.001", 0.0006: "0.001", 0.03: "0.030"} {
		if _, _, text := effectTexts(&judge.Effect{Ratio: 1.2, P: &p}); text != want {
			t.Errorf("%v is shown as %q, want %q", p, text, want)
		}
	}
}
