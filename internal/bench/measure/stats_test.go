package measure

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Without samples, no rank is the slowest.
func TestImbalanceOfNothing(t *testing.T) {
	if skew, straggler, share := imbalance(NewMatrix(2)); skew != 0 || straggler != 0 || share != 0 {
		t.Errorf("skew %v, rank %d in %v of the iterations", skew, straggler, share)
	}
}

func TestAnalyze(t *testing.T) {
	m := matrixOf(
		[]int64{1e6, 2e6, 4e6}, // skew 3/4
		[]int64{5e6, 5e6, 5e6}, // skew 0; the lowest rank counts
		[]int64{1e6, 1e6, 2e6}, // skew 1/2
	)
	if got := PerIterationMax(m); !slices.Equal(got, []float64{4, 5, 2}) {
		t.Errorf("per-iteration maxima %v", got)
	}
	a := Analyze(m)
	if a.Summary.P50 != 4 || a.Skew != 0.5 || a.Straggler != 2 || !near(a.StragglerShare, 2.0/3) {
		t.Errorf("got %+v", a)
	}
	if len(a.Conditions) != 1 || !strings.Contains(a.Conditions[0].Sentence(), "too few for an interval") {
		t.Errorf("warnings %q", a.Conditions.Sentences())
	}
	if a := Analyze(matrixOf([]int64{7})); a.Conditions != nil || a.Summary.P50 != 7e-6 {
		t.Errorf("a single sample: %+v", a)
	}
	if a := Analyze(NewMatrix(2)); len(a.Conditions) != 1 || !math.IsNaN(a.Summary.P50) || !math.IsNaN(a.Summary.CILow) {
		t.Errorf("no samples: %+v", a)
	}
	if a := Analyze(matrixOf([]int64{0, 0})); a.Skew != 0 {
		t.Errorf("times of zero: skew %v", a.Skew)
	}
}

func TestDrift(t *testing.T) {
	random := newRandom(2)
	series := func(n int, at func(i int) float64) (m Matrix) {
		m = NewMatrix(1)
		for i := range n {
			m.Append(int64(1e9 * at(i) * (1 + 0.02*random.Float64())))
		}
		return m
	}
	warned := func(m Matrix) bool {
		return Analyze(m).Conditions.Has(journal.CodeDrift)
	}
	if m := series(100, func(int) float64 { return 1 }); warned(m) {
		t.Error("warned of a steady series")
	}
	if m := series(100, func(i int) float64 { return 1 + float64(i)/200 }); !warned(m) || Analyze(m).Drift < 0.15 {
		t.Error("missed a series that grows by half")
	}
	if m := series(100, func(i int) float64 { return 1 - float64(i)/400 }); !warned(m) {
		t.Error("missed a series that falls by a quarter")
	}
	if m := series(1000, func(i int) float64 { return 1 + float64(i)/50_000 }); warned(m) {
		t.Error("warned of a drift of one percent")
	}
	// The medians are 6.5 and 8, but each half spreads from 1 to 13.
	if m := series(24, func(i int) float64 {
		return float64(i%12+1) + 1.5*float64(i/12)
	}); warned(m) || Analyze(m).Drift < 0.1 {
		t.Error("was sure of a drift within the noise")
	}
	if m := series(8, func(i int) float64 { return 1 + float64(i) }); warned(m) {
		t.Error("was sure with four values a side")
	}
	if change, drifts := Drift([]float64{5}); change != 0 || drifts {
		t.Errorf("one value drifts by %v", change)
	}
	rising := slices.Concat(make([]float64, 10), slices.Repeat([]float64{1}, 10))
	if change, drifts := Drift(rising); change != 0 || drifts {
		t.Errorf("a median of zero has the relative change %v", change)
	}
}

func TestTwoModes(t *testing.T) {
	m := NewMatrix(1)
	for i := range 50 {
		m.Append(int64(1e6 * (2 + 2*(i*i%5/3)))) // 4 in two of five samples
	}
	want := "two modes: 2 µs (60 % of the samples) and 4 µs (40 %)"
	if a := Analyze(m); !slices.Contains(a.Conditions.Sentences(), want) {
		t.Errorf("warnings %q, want %q", a.Conditions.Sentences(), want)
	}
}

// TestDependenceWarning draws series of n samples, each near the mean of the last span ones. Only few effective samples
// out of many are worth a warning.
func TestDependenceWarning(t *testing.T) {
	random := newRandom(7)
	for _, c := range []struct {
		n, span int
		want    bool
	}{{15, 1, false}, {200, 1, false}, {200, 40, true}, {6000, 40, false}} {
		m, last := NewMatrix(1), make([]float64, c.span)
		for i := range c.n + c.span {
			last[i%c.span] = random.Float64()
			if i >= c.span {
				m.Append(int64(1e9 * (1 + 0.01*lists.Sum(last)/float64(c.span))))
			}
		}
		a := Analyze(m)
		warned := a.Conditions.Has(journal.CodeDependence)
		if warned != c.want {
			t.Errorf("%d samples, span %d: %v effective ones, %q", c.n, c.span, a.Summary.Effective,
				a.Conditions.Sentences())
		}
	}
}

func TestDependence(t *testing.T) {
	for want, c := range map[string]struct {
		n         int
		effective float64
	}{
		"": {100, 60}, " ": {5, 0}, "  ": {30, 19},
		"dependence: successive samples are correlated, so 100 of them count as 19 independent ones": {100, 19.9},
		"dependence: successive samples are correlated, so 7 of them count as 5 independent ones: too few for an " +
			"interval of the median, which takes 6": {7, 5.9},
	} {
		if got := strings.Join(Dependence(c.n, c.effective).Sentences(), "; "); got != strings.TrimSpace(want) {
			t.Errorf("%d samples, %v effective: %q", c.n, c.effective, got)
		}
	}
}

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}
