package changepoint

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// nights returns a series of unchanged runs on the usual machine, followed by changed ones.
func nights(before int, slower ...[5]float64) Series {
	rng := rand.New(rand.NewPCG(5, uint64(before)))
	s := Series{Exact: make([]bool, 5)}
	for range before {
		s.Runs = append(s.Runs, usual.night(rng, unchanged))
	}
	for _, change := range slower {
		s.Runs = append(s.Runs, usual.night(rng, change))
	}
	return s
}

func all(change float64) (out [5]float64) {
	for p := range out {
		out[p] = change
	}
	return out
}

// keep reduces the launches of every point and run to n.
func keep(s Series, n int) Series {
	for _, run := range s.Runs {
		for p := range run {
			run[p] = run[p][:n]
		}
	}
	return s
}

func TestCheck(t *testing.T) {
	ten := [5]float64{2: 0.10}
	for name, c := range map[string]struct {
		series   Series
		accepted int
		want     string // verdicts on all points together and point 2, the first run of the step
		says     string // part of what is missing
	}{
		"unchanged":                  {nights(10), 9, "no slowdown, no slowdown", ""},
		"tripled after one run":      {nights(1, all(2)), 1, "slower, slower from 1", ""},
		"tripled, one launch each":   {keep(nights(1, all(2)), 1), 1, "slower, slower from 1", ""},
		"tripled for two runs":       {nights(1, all(2), all(2)), 1, "slower, slower from 1", ""},
		"tripled at one point":       {nights(2, [5]float64{2: 2}), 2, "cannot tell, slower from 2", "2; at least 4 are needed"},
		"a third of the time":        {nights(1, all(-0.7)), 1, "faster, faster from 1", ""},
		"few runs":                   {nights(3), 2, "cannot tell, cannot tell", "2; at least 4 are needed to show how much runs differ"},
		"all slower for three runs":  {nights(10, all(.05), all(.05), all(.05)), 10, "slower from 10, no slowdown", ""},
		"one point for three runs":   {nights(10, ten, ten, ten), 10, "no slowdown, slower from 10", ""},
		"inside the maintained part": {nights(10, ten, ten, ten, ten), 3, "no slowdown, slower from 10", ""},
		"inside the accepted part":   {nights(10, ten, ten, ten, ten, ten), 14, "no slowdown, no slowdown", ""},
		"repaired in the latest run": {nights(10, all(.1), all(.1), unchanged), 10, "no slowdown, no slowdown", ""},
		"faster":                     {nights(10, all(-.1), all(-.1), all(-.1)), 10, "faster from 10, faster from 10", ""},
		"another point":              {nights(10, [5]float64{0: 2}, [5]float64{0: 2}), 10, "no slowdown, no slowdown", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule.Check(c.series, c.accepted)
			describe := func(f Finding) string {
				if f.Verdict == Slower || f.Verdict == Faster {
					return fmt.Sprintf("%s from %d", f.Verdict, f.First)
				}
				return string(f.Verdict)
			}
			got := describe(r.AllPoints) + ", " + describe(r.Points[2])
			if strings.HasPrefix(c.want, "slower, ") || strings.HasPrefix(c.want, "faster, ") {
				got = string(r.AllPoints.Verdict) + ", " + describe(r.Points[2])
			}
			if got != c.want {
				t.Errorf("%s, want %s\nall points %+v\npoint %+v", got, c.want, r.AllPoints, r.Points[2])
			}
			if !strings.Contains(r.AllPoints.Missing+r.Points[2].Missing, c.says) {
				t.Errorf("missing: %q and %q, want %q", r.AllPoints.Missing, r.Points[2].Missing, c.says)
			}
		})
	}
}

// TestSuspectedRunsStayOut checks that a run at another level is not made part of the reference
// before the step is certain, and that an ordinary run is.
func TestSuspectedRunsStayOut(t *testing.T) {
	if r := rule.Check(nights(10), 5); r.Suspected {
		t.Errorf("an unchanged run is suspected: %+v", r)
	}
	r := rule.Check(nights(10, all(0.05)), 10)
	if !r.Suspected || r.Verdict() == Slower {
		t.Errorf("after one run of +5 %%: suspected %v, verdict %s", r.Suspected, r.Verdict())
	}
}

func TestMissingPoints(t *testing.T) {
	s := nights(8)
	s.Runs[7][1] = nil // not measured in the latest run
	for r := range 7 {
		s.Runs[r][3] = nil // only measured in the latest run
	}
	r := rule.Check(s, 7)
	if f := r.Points[1]; f.Verdict != CannotTell || !strings.Contains(f.Missing, "the latest run has no") {
		t.Errorf("%+v", f)
	}
	if f := r.Points[3]; f.Verdict != CannotTell || !strings.Contains(f.Missing, "no earlier run") {
		t.Errorf("%+v", f)
	}
	if r.AllPoints.Verdict != NoSlowdown {
		t.Errorf("%+v", r.AllPoints)
	}
	for p := range s.Runs[7] {
		s.Runs[7][p] = nil
	}
	if r := rule.Check(s, 7); r.Verdict() != CannotTell || r.AllPoints.Verdict != CannotTell {
		t.Errorf("%+v", r)
	}
}

// TestExact checks that points without noise need no second run.
func TestExact(t *testing.T) {
	s := Series{Exact: []bool{true, true}}
	for _, us := range []float64{5, 5, 5, 5.5, 5.5} {
		s.Runs = append(s.Runs, [][]float64{{math.Log(us)}, {math.Log(7)}})
	}
	r := rule.Check(s, 1)
	if f := r.Points[0]; f.Verdict != Slower || f.First != 3 || math.Abs(math.Expm1(f.Change)-0.1) > 1e-9 {
		t.Errorf("%+v", f)
	}
	if r.Points[1].Verdict != NoSlowdown || !r.Suspected {
		t.Errorf("%+v", r)
	}
	// All points together are slower since the run in which they became slower, whatever the other points are.
	more := Series{Exact: []bool{true, true, true}}
	for _, run := range s.Runs {
		more.Runs = append(more.Runs, [][]float64{run[0], run[0], run[1]})
	}
	if f := rule.Check(more, 1).AllPoints; f.Verdict != Slower || f.First != 3 {
		t.Errorf("two of three points slower since run 3: %+v", f)
	}
	s.Runs = s.Runs[:2]
	if r := rule.Check(s, 1); r.Verdict() != NoSlowdown || r.Suspected {
		t.Errorf("%+v", r)
	}
	s.Runs = append(s.Runs, [][]float64{{math.Log(4)}, {math.Log(7)}})
	if steps := rule.Scan(s); len(steps) != 1 || steps[0].Point != 0 || steps[0].First != 2 || steps[0].High > -0.2 {
		t.Errorf("%+v", steps)
	}
}

// TestExactCreep checks that many small changes in one direction are found together.
func TestExactCreep(t *testing.T) {
	s := Series{Exact: []bool{true}}
	for i := range 6 {
		s.Runs = append(s.Runs, [][]float64{{0.015 * float64(i)}})
	}
	steps := rule.Scan(s)
	if len(steps) != 2 || steps[0].First != 2 || steps[1].First != 4 || math.Abs(steps[1].Change-0.03) > 1e-9 {
		t.Errorf("%+v", steps)
	}
}

// TestScan checks that a history of up and down is divided at the right runs.
func TestScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	s := Series{Exact: make([]bool, 5)}
	for _, level := range []struct {
		runs   int
		change [5]float64
	}{{20, unchanged}, {30, all(0.05)}, {10, [5]float64{0.05, 0.05, 0.05, 0.05, 0.30}}, {40, all(0.05)}} {
		for range level.runs {
			s.Runs = append(s.Runs, usual.night(rng, level.change))
		}
	}
	want := []struct {
		point, first int
		change       float64
	}{{AllPoints, 20, 0.05}, {4, 50, 0.238}, {4, 60, -0.192}}
	steps := rule.Scan(s)
	for i, step := range steps {
		t.Logf("%+v", step)
		if i < len(want) {
			w := want[i]
			if step.Point != w.point || max(step.First-w.first, w.first-step.First) > 1 ||
				!(step.Low < math.Log1p(w.change)+0.03 && step.High > math.Log1p(w.change)-0.03 && step.Low < step.High) {
				t.Errorf("step %d: %+v, want %+v", i, step, w)
			}
		}
	}
	if len(steps) != len(want) {
		t.Errorf("%d steps, want %d", len(steps), len(want))
	}
	if steps := rule.Scan(nights(1, all(2))); len(steps) == 0 || steps[0].First != 1 {
		t.Errorf("a tripled time after one run: %+v", steps)
	}
	if steps := rule.Scan(Series{Exact: []bool{false}}); steps != nil {
		t.Errorf("no run: %+v", steps)
	}
}
