package journal

import (
	"strings"
	"testing"
)

// seen returns a measured row with conditions of the given strengths.
func seen(conditions ...Condition) *Row {
	return &Row{Status: OK, Kind: Measured, Conditions: conditions}
}

func valued(code Code, name string) func(v float64) Condition {
	return func(v float64) Condition { return NewCondition(code, Named{name: v}) }
}

var (
	stolen  = valued(CodeSteal, "share")
	foreign = valued(CodeForeign, "share")
	waited  = valued(CodeWaiting, "share")
	drifted = valued(CodeDrift, "change")
	noised  = valued(CodeNoise, "noise")
)

// TestDisturbance checks the order of disturbances.
func TestDisturbance(t *testing.T) {
	crowd := Condition{Code: CodeCrowd}
	for name, pair := range map[string][2]*Row{ // in order
		"settled, though the sum is more":     {seen(stolen(0.04), foreign(0.09), drifted(-0.04)), seen(stolen(0.05))},
		"less of the same":                    {seen(stolen(0.1)), seen(stolen(0.2))},
		"one thing instead of two":            {seen(stolen(0.1)), seen(stolen(0.1), drifted(0.06))},
		"another kernbench that does little":  {seen(crowd), seen(crowd, foreign(0.5))},
		"little noise rather than much theft": {seen(noised(0.12)), seen(stolen(0.3))},
		"any load rather than doubt":          {seen(stolen(1), foreign(1), crowd), seen(Condition{Code: CodeSuspended})},
		"weak load is compared too": {&Row{Load: &Load{Steal: 0.01}},
			&Row{Load: &Load{Steal: 0.01}, Sampling: &Sampling{Noise: new(float64)}, Conditions: []Condition{noised(0.01)}}},
	} {
		one, other := DisturbanceOf(pair[0]), DisturbanceOf(pair[1])
		if one.Compare(other) != -1 || other.Compare(one) != 1 || one.Compare(one) != 0 {
			t.Errorf("%s: the wrong one is less disturbed", name)
		}
	}
}

// TestThresholds puts each condition at a share of its threshold: all of them weigh the same there.
func TestThresholds(t *testing.T) {
	for share, want := range map[float64]Quality{0.99: QualitySettled, 1: QualityDisturbed, 3: QualityDisturbed} {
		for _, c := range []Condition{stolen(0.05 * share), foreign(0.1 * share), waited(0.5 * share), drifted(-0.05 * share),
			noised(0.1 * share)} {
			r := seen(c)
			if Judge(r); r.Quality != want || len(r.Conditions) != 1 {
				t.Errorf("%+v: %s, want %s", r.Conditions, r.Quality, want)
			}
			less := seen(stolen(0.05 * share * 0.999))
			if share != 1 && DisturbanceOf(less).Compare(DisturbanceOf(r)) >= 0 {
				t.Errorf("%+v is not less than %+v", less.Conditions, r.Conditions)
			}
		}
	}
}

// TestJudge plants every disturbance in a row and checks its quality and the strongest condition. No text decides.
func TestJudge(t *testing.T) {
	share := func(v float64) *float64 { return &v }
	suspended := NewCondition(CodeSuspended, Named{"seconds": 3})
	for name, want := range map[string]struct {
		row  Row
		seen []Condition
		why  Code // "" if the row is settled
	}{
		"quiet":     {Row{Load: &Load{Steal: 0.01, Foreign: share(0.02)}}, nil, ""},
		"unwatched": {Row{}, nil, ""},
		"steal":     {Row{Load: &Load{Steal: 0.23}}, nil, CodeSteal},
		"foreign":   {Row{Load: &Load{Foreign: share(0.5)}}, nil, CodeForeign},
		"crowd":     {Row{}, []Condition{{Code: CodeCrowd}}, CodeCrowd},
		"another program on the GPU": {Row{}, []Condition{NewCondition(CodeGPUUser, Named{"share": 0.01})},
			CodeGPUUser},
		"a hot GPU":                  {Row{}, []Condition{{Code: CodeGPUSlowed}}, CodeGPUSlowed},
		"drift":                      {Row{Sampling: &Sampling{Drift: share(-0.2)}}, nil, CodeDrift},
		"noise":                      {Row{Sampling: &Sampling{Noise: share(0.3)}}, nil, CodeNoise},
		"noise of samples":           {Row{Conditions: []Condition{noised(0.3)}}, nil, CodeNoise},
		"some noise":                 {Row{Sampling: &Sampling{Noise: share(0.03)}, Conditions: []Condition{noised(0.03)}}, nil, ""},
		"just enough steal":          {Row{Load: &Load{Steal: 0.05}}, nil, CodeSteal},
		"just enough load":           {Row{Load: &Load{Foreign: share(0.1)}}, nil, CodeForeign},
		"just enough waiting":        {Row{Load: &Load{Waiting: share(0.5)}}, nil, CodeWaiting},
		"waiting on an idle machine": {Row{Load: &Load{Waiting: share(0.9), Foreign: share(0)}}, nil, ""},
		"more ranks than cores":      {Row{Load: &Load{Waiting: share(0.9)}}, []Condition{{Code: CodeCrowded}}, ""},
		"a remark that sounds like more ranks than cores": {Row{Load: &Load{Waiting: share(0.9)},
			Conditions: []Condition{Remarkf("8 ranks share 4 cores")}}, nil, CodeWaiting},
		"a remark that sounds like a disturbance": {Row{Conditions: []Condition{
			Remarkf("stopped: early, the solver had converged"), Remarkf("steal: 99 %%")}}, nil, ""},
		"impossible":               {Row{Conditions: []Condition{{Code: CodeClaim}}}, nil, CodeClaim},
		"stopped, and steal":       {Row{Load: &Load{Steal: 0.9}, Conditions: []Condition{suspended}}, nil, CodeSuspended},
		"starved":                  {Row{Conditions: []Condition{{Code: CodeStarved}}}, nil, CodeStarved},
		"the strongest":            {Row{Load: &Load{Steal: 0.06, Foreign: share(0.9)}}, nil, CodeForeign},
		"a GPU at its power limit": {Row{}, []Condition{{Code: CodeGPUPowerCap}}, ""},
	} {
		r := want.row
		r.Status, r.Kind = OK, Measured
		Judge(&r, want.seen...)
		if r.Disturbed() != (want.why != "") || r.Disturbed() && r.Conditions.Strongest().Code != want.why ||
			r.Quality == "" {
			t.Errorf("%s: quality %q, disturbed by %q, want %q", name, r.Quality, r.Conditions.Strongest().Sentence(), want.why)
		}
		if known := len(want.row.Conditions) + len(want.seen); !r.Disturbed() && len(r.Conditions) > known {
			t.Errorf("%s: nothing disturbed it, and it says %q", name, r.Conditions.Sentences())
		}
		again := r
		if Judge(&again, want.seen...); len(again.Conditions) != len(r.Conditions) {
			t.Errorf("%s: judged twice, it says %q", name, again.Conditions.Sentences())
		}
	}
}

// Load cannot disturb a row without a measured time, so such a row is never measured again.
func TestUntimedRowsAreNotDisturbed(t *testing.T) {
	busy := 0.9
	for name, r := range map[string]Row{
		"untimed":   {Status: OK, Kind: Measured, Details: map[string]string{UntimedDetail: "yes"}},
		"failed":    {Status: Failed, Kind: Measured},
		"simulated": {Status: OK, Kind: Simulated},
	} {
		r.Load = &Load{Steal: 0.5, Foreign: &busy}
		if Judge(&r, Condition{Code: CodeCrowd}); r.Quality != "" || len(r.Conditions) > 0 {
			t.Errorf("%s: quality %q, %q", name, r.Quality, r.Conditions.Sentences())
		}
	}
}

// Conditions of a row that others share are not changed.
func TestWithClips(t *testing.T) {
	r := Row{Conditions: make([]Condition, 1, 4)}
	other := r
	r.Conditions.Add(Remarkf("mine"))
	other.Conditions.Add(Remarkf("theirs"))
	if got := strings.Join(r.Conditions[1:].Sentences(), ""); got != "mine" {
		t.Error(got)
	}
}

func TestNarrow(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      bool
	}{{90, 110, true}, {90, 110.1, false}, {100, 100, true}, {80, 110, false}} {
		if got := Narrow(c.low, c.high, 100); got != c.want {
			t.Errorf("100 in [%g, %g]: %v", c.low, c.high, got)
		}
	}
}

func TestBadStatus(t *testing.T) {
	for s, want := range map[Status]bool{OK: false, Failed: true, Timeout: true, Skipped: false, NotExecuted: false} {
		if s.Bad() != want {
			t.Errorf("%s is bad: %v", s, !want)
		}
	}
}
