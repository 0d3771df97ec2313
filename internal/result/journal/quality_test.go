package journal

import (
	"slices"
	"strings"
	"testing"
)

// TestDisturbance checks which conditions disturb a row, and the order of disturbances.
func TestDisturbance(t *testing.T) {
	for name, want := range map[string]struct {
		d Disturbance
		q Quality
	}{
		"nothing":           {Disturbance{}, QualitySettled},
		"little of all":     {Disturbance{Steal: 0.04, Foreign: 0.09, Drift: 0.04, Noise: 0.09}, QualitySettled},
		"stolen time":       {Disturbance{Steal: 0.23}, QualityDisturbed},
		"just enough":       {Disturbance{Steal: 0.05}, QualityDisturbed},
		"other programs":    {Disturbance{Foreign: 0.5}, QualityDisturbed},
		"drift":             {Disturbance{Drift: 0.06}, QualityDisturbed},
		"noise":             {Disturbance{Noise: 0.11}, QualityDisturbed},
		"another kernbench": {Disturbance{Crowded: true}, QualityDisturbed},
	} {
		if got := want.d.Quality(); got != want.q {
			t.Errorf("%s: %s, want %s", name, got, want.q)
		}
	}
	for name, pair := range map[string][2]Disturbance{ // in order
		"settled, though the sum is more":     {{Steal: 0.04, Foreign: 0.09, Drift: 0.04}, {Steal: 0.05}},
		"less of the same":                    {{Steal: 0.1}, {Steal: 0.2}},
		"one thing instead of two":            {{Steal: 0.1}, {Steal: 0.1, Drift: 0.06}},
		"another kernbench that does little":  {{Crowded: true}, {Crowded: true, Foreign: 0.5}},
		"little noise rather than much theft": {{Noise: 0.12}, {Steal: 0.3}},
	} {
		if pair[0].Compare(pair[1]) != -1 || pair[1].Compare(pair[0]) != 1 || pair[0].Compare(pair[0]) != 0 {
			t.Errorf("%s: the wrong one is less disturbed", name)
		}
	}
}

// TestThresholds puts each condition at a share of its threshold: all of them weigh the same there.
func TestThresholds(t *testing.T) {
	for share, want := range map[float64]Quality{0.99: QualitySettled, 1: QualityDisturbed, 3: QualityDisturbed} {
		alike := []Disturbance{{Steal: 0.05 * share}, {Foreign: 0.1 * share}, {Waiting: 0.5 * share}, {Drift: 0.05 * share},
			{Noise: 0.1 * share}}
		for _, d := range alike {
			if got := d.Quality(); got != want {
				t.Errorf("%+v: %s, want %s", d, got, want)
			}
			less := alike[0]
			less.Steal *= 0.999
			if share != 1 && less.Compare(d) >= 0 {
				t.Errorf("%+v is not less than %+v", less, d)
			}
		}
	}
}

// TestJudge plants every disturbance in a row and checks its quality and the reason.
func TestJudge(t *testing.T) {
	share := func(v float64) *float64 { return &v }
	for name, want := range map[string]struct {
		row     Row
		quality Quality
		why     string
	}{
		"quiet":     {Row{Load: &Load{Steal: 0.01, Foreign: share(0.02)}}, QualitySettled, ""},
		"unwatched": {Row{}, QualitySettled, ""},
		"steal":     {Row{Load: &Load{Steal: 0.23}}, QualityDisturbed, "steal: the hypervisor took 23.0 %"},
		"foreign":   {Row{Load: &Load{Foreign: share(0.5)}}, QualityDisturbed, "load: other programs used 50.0 %"},
		"crowd": {Row{Load: &Load{Crowd: "another kernbench (process 7)"}}, QualityDisturbed,
			"another kernbench (process 7)"},
		"another program on the GPU": {Row{Load: &Load{GPU: "python3 (process 7) used 35 % of the GPU"}}, QualityDisturbed,
			"gpu: python3 (process 7)"},
		"a hot GPU": {Row{Load: &Load{GPUSlowed: "its temperature"}}, QualityDisturbed,
			"gpu: the GPU lowered its clock because of its temperature"},
		"drift": {Row{Sampling: &Sampling{Drift: share(-0.2)}, Warnings: []string{"drift: -20 %"}}, QualityDisturbed,
			"drift: -20 %"},
		"noise": {Row{Sampling: &Sampling{Noise: share(0.3)}, Warnings: []string{"noise: 30 %"}}, QualityDisturbed,
			"noise: 30 %"},
		"some noise": {Row{Sampling: &Sampling{Noise: share(0.03)}, Warnings: []string{"noise: 3 %"}},
			QualitySettled, ""},
		"just enough steal": {Row{Load: &Load{Steal: 0.05}}, QualityDisturbed, "steal: the hypervisor took 5.0 %"},
		"just enough load":  {Row{Load: &Load{Foreign: share(0.1)}}, QualityDisturbed, "load: other programs used 10.0 %"},
		"just enough waiting": {Row{Load: &Load{Waiting: share(0.5)}}, QualityDisturbed,
			"load: processes waited for a core in 50 % of the time"},
		"waiting on an idle machine": {Row{Load: &Load{Waiting: share(0.9), Foreign: share(0)}}, QualitySettled, ""},
		"more ranks than cores": {Row{Load: &Load{Waiting: share(0.9)}, Warnings: []string{"8 ranks share 4 cores"}},
			QualitySettled, ""},
		"impossible": {Row{Warnings: []string{"claim: 600 s in 1 ms"}}, QualityDisturbed, "claim: 600 s"},
		"stopped, and steal": {Row{Load: &Load{Steal: 0.23}, Warnings: []string{"stopped: for 3 s"}}, QualityDisturbed,
			"stopped: for 3 s"},
		"starved":   {Row{Warnings: []string{"starved: rank 1"}}, QualityDisturbed, "starved: rank 1"},
		"no reason": {Row{Sampling: &Sampling{Noise: share(0.3)}}, QualityDisturbed, "disturbed"},
		"failed":    {Row{Status: Failed, Load: &Load{Steal: 0.23}}, "", ""},
		"simulated": {Row{Kind: Simulated, Load: &Load{Steal: 0.23}}, "", ""},
	} {
		r := want.row
		if r.Status == "" {
			r.Status = OK
		}
		if r.Kind == "" {
			r.Kind = Measured
		}
		r.Judge()
		if want.quality != QualityDisturbed && len(r.Warnings) > len(want.row.Warnings) {
			t.Errorf("%s: nothing disturbed it, and it says %q", name, r.Warnings)
		}
		if r.Quality != want.quality || !strings.HasPrefix(r.Disturbed(), want.why) ||
			(r.Disturbed() == "") != (want.why == "") {
			t.Errorf("%s: quality %q, disturbed by %q, want %q by %q", name, r.Quality, r.Disturbed(), want.quality, want.why)
		}
	}
}

func TestPowerLimitIsNoDisturbance(t *testing.T) {
	r := Row{Status: OK, Kind: Measured, Load: &Load{GPUPowerCap: true}}
	r.Judge()
	if r.Quality != QualitySettled || len(r.Warnings) != 1 ||
		!strings.HasPrefix(r.Warnings[0], "power: the GPU reached its power limit") {
		t.Errorf("at the power limit: quality %q, warnings %q", r.Quality, r.Warnings)
	}
}

// Rows without a quality come from old journals; their warnings decide.
func TestDisturbedByWarnings(t *testing.T) {
	for _, w := range []string{"steal: 9 %", "drift: 9 %", "another kernbench (process 7)", "noise: 30 %",
		"only 3 samples"} {
		r := Row{Warnings: []string{w}}
		if old := slices.ContainsFunc([]string{"steal: ", "drift: ", "another "}, func(p string) bool {
			return strings.HasPrefix(w, p)
		}); (r.Disturbed() != "") != old {
			t.Errorf("a row of an older journal with %q: disturbed by %q", w, r.Disturbed())
		}
	}
}

// Load cannot disturb a row that does not depend on time, so such a row is never measured again.
func TestUntimedRowsAreNotDisturbed(t *testing.T) {
	for untimed, want := range map[string]Quality{"": QualityDisturbed, "yes": ""} {
		busy := 0.9
		r := Row{Status: OK, Kind: Measured, Load: &Load{Steal: 0.5, Foreign: &busy},
			Details: map[string]string{UntimedDetail: untimed}}
		r.Judge()
		if r.Quality != want || (len(r.Warnings) > 0) != (want != "") {
			t.Errorf("untimed %q: quality %q, %q", untimed, r.Quality, r.Warnings)
		}
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

func TestClaimsImpossible(t *testing.T) {
	cases := map[string]bool{"": false, "noise: of the host": false, ClaimWarning + "600 s in 1 ms": true}
	for warning, want := range cases {
		if got := ClaimsImpossible(&Row{Warnings: []string{warning}}); got != want {
			t.Errorf("%q: %v", warning, got)
		}
	}
}
