package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// byRun returns six trials of two sizes and three algorithms. Algorithm slow takes twice as
// long, and the variable E is set for ring only.
func byRun() dataset.Named {
	run := sideOf("", &journal.Header{Run: "r"}, nil)
	for _, algorithm := range []string{"ring", "tree", "slow"} {
		for _, size := range []int64{1, 2} {
			for trial := range 6 {
				us := 10 * float64(size) * (1 + float64(trial*7%5)/1000)
				if algorithm == "slow" {
					us *= 2
				}
				run.Rows = append(run.Rows, &journal.Row{
					Bench: "b", Status: journal.OK, Kind: journal.Measured, Samples: 20, Trial: trial,
					Metrics: map[string]float64{"time_us": us},
					Point: point.Point{{Name: "algorithm", Value: point.StringValue(algorithm)},
						{Name: "size", Value: point.IntValue(size)}},
					Env: point.Env{{Name: "E", Value: "1", Set: algorithm == "ring"}},
				})
			}
		}
	}
	return run
}

func TestBy(t *testing.T) {
	for spec, want := range map[string]string{
		"algorithm":           "algorithm=ring -> algorithm=tree map[same:2]; algorithm=ring -> algorithm=slow map[slower:2]",
		"algorithm=slow,tree": "algorithm=slow -> algorithm=tree map[faster:2]",
	} {
		run := byRun()
		for i := range run.Rows { // points that also differ in E would not match
			run.Rows[i].Env = nil
		}
		cutShort(run)
		reports, err := By(run, spec, Options{})
		var got []string
		for _, r := range reports {
			got = append(got, fmt.Sprintf("%s -> %s %v", r.OldRun, r.NewRun, r.Counts))
			if !slices.Contains(r.Warnings, "the run: "+isCutShort) {
				t.Errorf("%s: that the run was cut short is not said: %q", spec, r.Warnings)
			}
			if r.Alpha != DefaultAlpha/float64(len(reports)) {
				t.Errorf("%s: alpha %v in each of %d comparisons", spec, r.Alpha, len(reports))
			}
		}
		if text := strings.Join(got, "; "); err != nil || text != want {
			t.Errorf("%s: %s (%v), want %s", spec, text, err, want)
		}
	}
	if reports, err := By(byRun(), "E=1,(unset)", Options{Ignore: []string{"algorithm"}}); err == nil {
		t.Errorf("two algorithms under one value pass for trials: %+v", reports)
	}
	for spec, want := range map[string]string{
		"algoritm":            `did you mean "algorithm"?`,
		"algorithm=ring,tre":  `did you mean "tree"?`,
		"backend":             "want at least two values",
		"algorithm=ring":      "want at least two values",
		"algorithm=tree,tree": "names a value twice",
	} {
		if _, err := By(byRun(), spec, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

// --by accepts the notation of the flags that made the run. A text that could mean two values means none.
func TestByNotation(t *testing.T) {
	values := []string{"(unset)", "64Ki", "a.yaml#0f3a", "b.yaml#11", "b.yaml#22"}
	for text, want := range map[string]string{"-": "(unset)", "64K": "64Ki", "a.yaml": "a.yaml#0f3a", "64Ki": "64Ki",
		"b.yaml": "b.yaml", "b.yaml#22": "b.yaml#22", "64": "64", "": ""} {
		if got := valueOf(text, values); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := valueOf("-", []string{"1", "2"}); got != "-" {
		t.Errorf("-: %q without an unset variable", got)
	}
	run := byRun()
	for i := range run.Rows {
		run.Rows[i].Point = run.Rows[i].Point[1:]
	}
	if reports, err := By(run, "E=1,-", Options{}); err != nil || reports[0].NewRun != "E=(unset)" {
		t.Errorf("%+v, %v", reports, err)
	}
}
