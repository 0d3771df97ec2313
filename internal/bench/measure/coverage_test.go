package measure

import (
	"flag"
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/base/stats"
)

var simulatedRows = flag.Int("rows", 100, "number of simulated rows of each kind")

// TestStoppingCoverage simulates measurements with autoregressive noise up to the end that the stopping rule
// gives them. The true median is known, so the share of rows whose interval contains it is the
// coverage. The table is in docs/statistics.md.
func TestStoppingCoverage(t *testing.T) {
	const seed = 4711001 // constants were chosen by simulations with other seeds
	for _, test := range []struct {
		call  int64   // picoseconds
		noise float64 // relative standard deviation
		rho   float64
		least float64 // coverage
	}{
		{50_000 * microsecond, 0.005, 0, 0.93}, {50_000 * microsecond, 0.005, 0.9, 0.90},
		{50_000 * microsecond, 0.005, 0.99, 0.85},
		{1000 * microsecond, 0.03, 0, 0.93}, {1000 * microsecond, 0.03, 0.9, 0.90},
		{1000 * microsecond, 0.03, 0.99, 0.85},
	} {
		rows := *simulatedRows
		random := newRandom(seed)
		covered, known, old, precise, wrong, samples := 0, 0, 0, 0, 0, 0
		for range rows {
			x, rho := random.NormFloat64(), test.rho
			s := samplingRule{stop: Default().Stop, block: blockTime}
			var reason StopReason
			next := func(maxima []int64, elapsed int64) (n int) {
				n, reason = s.next(maxima, elapsed)
				return n
			}
			samples += drive(next, s.first(float64(test.call)), func(int) int64 {
				x = rho*x + math.Sqrt(1-rho*rho)*random.NormFloat64()
				return int64(float64(test.call) * math.Exp(test.noise*x))
			})
			low, high, ok := stats.DependentInterval(s.sorted, stats.Span(s.series))
			in := contains(low, high, test.call)
			if ok {
				known++
			}
			covered += in
			low, high, _ = stats.MedianInterval(s.sorted)
			old += contains(low, high, test.call)
			if reason == Precise {
				precise++
				wrong += 1 - in
			}
		}
		t.Logf("| %d ms | %.1f %% | %.2f | %d | %d %% | %.1f %% | %d %% | %.1f %% |", test.call/1e9, 100*test.noise, test.rho,
			samples/rows, 100*precise/rows, 100*float64(old)/float64(rows), 100*known/rows,
			100*float64(covered)/float64(known))
		if test.rho == 0.99 && wrong > 3*rows/100 {
			t.Errorf("rho %v: %d of %d rows are precise and wrong, want at most 3 %%", test.rho, wrong, rows)
		}
		// Where the samples cannot tell, few rows have an interval, and these by luck.
		if share := float64(covered) / float64(known); share < test.least && 4*known >= rows {
			t.Errorf("calls of %d ms, noise %v, rho %v: %.1f %% of the intervals contain the median, want %.0f %%",
				test.call/1e9, test.noise, test.rho, 100*share, 100*test.least)
		}
		if test.rho > 0 && float64(old)/float64(rows) > 0.8 {
			t.Errorf("rho %v: intervals for independent samples do as well, so the simulation shows nothing", test.rho)
		}
	}
}

func contains(low, high float64, value int64) int {
	if low <= float64(value) && float64(value) <= high {
		return 1
	}
	return 0
}
