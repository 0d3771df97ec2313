package judge

import (
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// launches returns values of us that differ by up to 0.2 %.
func launches(us float64) []float64 {
	return []float64{us * 0.998, us * 1.002, us * 0.999, us * 1.001, us, us * 1.0005}
}

// TestDecide covers what the tests of package compare cannot show from rows: the notes,
// and that a rule for a bandwidth swaps faster and slower.
func TestDecide(t *testing.T) {
	cases := []Case{
		{Old: launches(10), New: launches(11)},
		{Old: launches(10)[:3], New: launches(11)},
		{Old: []float64{0}, New: launches(11)},
		{Old: []float64{10}, New: []float64{10.1}, Exact: true},
	}
	want := []struct {
		lower, higher Verdict
		method        Method
		note          string
	}{
		{Slower, Faster, Ranks, ""},
		{Ambiguous, Ambiguous, None, TooFewLaunches},
		{Ambiguous, Ambiguous, None, notPositive},
		{Same, Same, Exact, "differs by 1 %, below the floor"},
	}
	rule := Rule{Floor: 0.02, Alpha: 0.05}
	lower := rule.Decide(cases)
	rule.HigherIsBetter = true
	higher := rule.Decide(cases)
	for i, w := range want {
		r := lower[i]
		if r.Verdict != w.lower || higher[i].Verdict != w.higher || r.Effect.Method != w.method || r.Note != w.note {
			t.Errorf("case %d: %+v, and %s if higher is better; want %+v", i, r, higher[i].Verdict, w)
		}
	}
}

func TestReaches(t *testing.T) {
	logs := lists.Map([]float64{1.9, 2, 2.1, 2, 2, 1.95, 2.05, 2, 2, 2}, math.Log)
	for goal, want := range map[float64]Outcome{1.5: Met, 2.5: NotMet, 2: NotResolved} {
		if got := newRatio(logs, 1).Reaches(goal); got != want {
			t.Errorf("a ratio of 2 for the goal %v: %s, want %s", goal, got, want)
		}
	}
	if got := newRatio(logs[:MinPairs-1], 1).Reaches(1); got != NotResolved {
		t.Errorf("%d pairs: %s", MinPairs-1, got)
	}
	if Met.Worse(NotResolved) != NotResolved || NotResolved.Worse(NotMet) != NotMet || Met.Worse(Met) != Met {
		t.Error("the worse of two outcomes is wrong")
	}
}

func TestMeanDifference(t *testing.T) {
	d := []float64{0.1, 0.12, 0.08, 0.1}
	i := MeanDifference(d, 0.05, false)
	if !i.Known || math.Abs(i.Mid-0.1) > 1e-12 || !(i.Low > 0.05 && i.High < 0.15) || i.Within(0.05) || !i.Within(0.2) {
		t.Errorf("interval %+v", i)
	}
	if i := MeanDifference(d[:3], 0.05, false); i.Known || i.Within(0.2) {
		t.Errorf("three launches: %+v", i)
	}
	if i := MeanDifference(d[:2], 0.05, true); i != (Interval{0.11, 0.1, 0.12, true, 2}) {
		t.Errorf("without noise: %+v", i)
	}
}
