package verdict

import (
	"bytes"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// builtRun returns the records of an invocation with certain inputs: its header and four trials.
func builtRun(id string, in journal.Inputs, at time.Time, us float64) []any {
	unit, environ := in["unit time_us"], map[string]string{}
	for name, value := range in {
		if variable, is := strings.CutPrefix(name, "variable "); is {
			environ[variable] = value
		}
	}
	records := []any{journal.Header{Schema: journal.Schema, Run: id, Bench: "b", Time: at, Trials: 4, Points: 1,
		Environ: environ, Fingerprints: map[string]journal.Inputs{in.Fingerprint(): in},
		Metrics: []journal.MetricInfo{{Name: "lat", Unit: unit, Better: "lower"}}}}
	for trial := range 4 {
		records = append(records, journal.Row{Schema: journal.Schema, Run: id, Bench: "b", Trial: trial, Status: journal.OK,
			Kind: journal.Measured, Samples: 10, Point: point.Point{{Name: "n", Value: point.IntValue(1)}},
			Metrics: map[string]float64{"lat": us * (1 + float64(trial)/1000)}, Units: map[string]string{"lat": unit},
			Time: at.Add(time.Second), Key: "k" + in.Fingerprint(), Inputs: in.Fingerprint()})
	}
	return records
}

// TestBaselineNoticesInputs edits one input at a time, for a new run and for the run of the baseline
// itself, resumed: a check lists it, and never takes rows of the new build for the baseline.
func TestBaselineNoticesInputs(t *testing.T) {
	before := journal.Inputs{"program ./p": strings.Repeat("1", 64), "file common.sh": strings.Repeat("2", 64),
		"interpreter /bin/sh": strings.Repeat("3", 64), "variable OMP_NUM_THREADS": "8", "unit time_us": "us"}
	saved := time.Date(2026, 11, 18, 10, 0, 0, 0, time.UTC)
	for input, says := range map[string]string{
		"program ./p":              "differs in inputs: program ./p 11111111 -> program ./p ffffffff",
		"file common.sh":           "differs in inputs: file common.sh 22222222 -> file common.sh ffffffff",
		"interpreter /bin/sh":      "differs in inputs: interpreter /bin/sh 33333333 -> interpreter /bin/sh ffffffff",
		"variable OMP_NUM_THREADS": "differs in OMP_NUM_THREADS: 8 -> 7",
		"unit time_us":             "differs in unit: us -> ms (converted)",
	} {
		after := maps.Clone(before)
		us := 20.0
		switch {
		case strings.HasPrefix(input, "unit"):
			after[input], us = "ms", 0.02
		case strings.HasPrefix(input, "variable"):
			after[input] = "7"
		default:
			after[input] = strings.Repeat("f", 64)
		}
		for _, id := range []string{"a", "b"} { // resumed, and a new run
			dir := t.TempDir()
			w := must.Get(journal.Open(dir))(t)
			for _, record := range append(builtRun("a", before, saved.Add(-time.Hour), 10),
				builtRun(id, after, saved.Add(time.Hour), us)...) {
				must.Do(t, w.Append(record))
			}
			must.Do(t, w.Close())
			j, last := must.Get2(journal.LoadRun(dir))(t)
			mark := Baseline{Bench: "b", Runs: []string{"a"}, Accepted: "a", Saved: saved}
			early, late, _ := mark.Select(j, j, last, 10)
			side := func(d *dataset.Dataset) dataset.Named { return dataset.Named{Dataset: d} }
			if len(early) != 1 || len(late) != 1 {
				t.Fatalf("%s, run %s: %d accepted runs and %d later", input, id, len(early), len(late))
			}
			r := must.Get(Check(lists.Map(early, side), lists.Map(late, side), Options{Metric: "lat"}))(t)
			var b bytes.Buffer
			must.Do(t, r.Write(&b, "table", "", 0))
			ratio := r.Points[0].New.Value / r.Points[0].Old.Value
			if !strings.Contains(b.String(), says) || math.Abs(ratio-2) > 0.01 {
				t.Errorf("%s, run %s: ratio %v, want 2 and %q in\n%s", input, id, ratio, says, b.String())
			}
		}
	}
}

// A run outside Git has no commit, whatever the commit of kernbench is.
func TestNoCommitOutsideGit(t *testing.T) {
	run := nights(1)[0]
	run.Header.Commit, run.Header.Host.Build.Revision = "", "0123456789abcdef"
	if name := nameOf(run); name.Commit != "" {
		t.Errorf("commit %s", name.Commit)
	}
}
