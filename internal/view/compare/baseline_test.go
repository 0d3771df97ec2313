package compare

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// history returns a baseline of 8 runs and 8 runs since then, of 2 points with 6 trials that
// differ by 1 %.
func history() (base, recent []Run) {
	rng := rand.New(rand.NewPCG(3, 1))
	m := machine{launch: normal(0.01), run: still}
	base, recent = m.runs(rng, 8, 2, 6, 1), m.runs(rng, 8, 2, 6, 1)
	for i := range recent {
		recent[i].Header.Run = fmt.Sprintf("n%d", i)
	}
	return base, recent
}

// scale multiplies the times of the runs at point 1.
func scale(runs []Run, by float64) {
	for _, r := range runs {
		for i := range r.Rows {
			if r.Rows[i].Point.String() == "size=1" {
				r.Rows[i].Metrics[DefaultMetric] *= by
			}
		}
	}
}

// rowsAt calls f for every row at point 1.
func rowsAt(run *Run, f func(*journal.Row)) {
	for i := range run.Rows {
		if run.Rows[i].Point.String() == "size=1" {
			f(&run.Rows[i])
		}
	}
}

func TestCheckBaseline(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(base, recent []Run)
		want  string // verdict at point 1, Over, exit code
		says  string // expected in notes or warnings
	}{
		"nothing": {func(_, _ []Run) {}, "same latest run 0", ""},
		"large, in the latest run only": {func(_, recent []Run) { scale(recent[7:], 1.2) },
			"slower latest run 1", ""},
		"small, in all, of few launches": {func(_, recent []Run) {
			scale(recent, 1.03)
			for i := range recent {
				recent[i].Rows = slices.DeleteFunc(recent[i].Rows, func(r journal.Row) bool { return r.Trial > 2 })
			}
		}, "slower last 8 runs 1", ""},
		"faster": {func(_, recent []Run) { scale(recent[7:], 0.8) }, "faster latest run 0", ""},
		"mended in the latest run": {func(_, recent []Run) { scale(recent[:7], 1.2) },
			"same latest run 0", "slower over the last 8 runs, but not the latest"},
		"runs that differ": {func(base, recent []Run) {
			for i := range base {
				scale(base[i:i+1], 1+float64(i%4)*0.1)
			}
			scale(recent[7:], 1.2)
		}, "ambiguous last 8 runs 3", ""},
		"failed in the latest run": {func(_, recent []Run) {
			rowsAt(&recent[7], func(r *journal.Row) { r.Status, r.Reason = journal.Failed, "killed" })
		}, "lost  1", "latest run: failed (killed)"},
		"absent from the latest run": {func(_, recent []Run) {
			recent[7].Rows = slices.DeleteFunc(recent[7].Rows, func(r journal.Row) bool { return r.Point.String() == "size=1" })
			recent[7].Incomplete = "6 of 12 points: the run was interrupted"
		}, "lost  1", "latest run: 6 of 12 points: the run was interrupted"},
		"failed in the baseline": {func(base, _ []Run) {
			for i := range base {
				rowsAt(&base[i], func(r *journal.Row) { r.Status = journal.Failed })
			}
		}, "fixed  0", "baseline: failed"},
		"one trial failed": {func(_, recent []Run) { recent[7].Rows[6].Status = journal.Failed },
			"same latest run 0", "latest run: 1 of 6 trials not ok"},
		"the latest run was disturbed": {func(_, recent []Run) {
			scale(recent[7:], 2)
			rowsAt(&recent[7], func(r *journal.Row) { r.Quality = journal.QualityDisturbed })
		}, "same last 7 runs 0", "latest run: 6 of 6 trials disturbed and left out"},
		"all runs since were disturbed": {func(_, recent []Run) {
			scale(recent, 2)
			for i := range recent {
				rowsAt(&recent[i], func(r *journal.Row) { r.Quality = journal.QualityDisturbed })
			}
		}, "ambiguous latest run 3", "0 runs since the baseline that count, but at least 4 are needed"},
		"the latest run is from another host": {func(_, recent []Run) {
			scale(recent[7:], 2)
			recent[7].Header.Host.CPU.Model = "another"
		}, "ambiguous  3", "the latest run is from another kind of host"},
		"earlier runs are from another host": {func(base, recent []Run) {
			scale(base[:4], 2)
			scale(recent[:1], 2)
			for _, r := range []Run{base[0], base[1], base[2], base[3], recent[0]} {
				r.Header.Host.CPU.Model = "another"
			}
		}, "same latest run 0", "baseline: 4 runs on other kinds of host left out"},
	} {
		t.Run(name, func(t *testing.T) {
			base, recent := history()
			c.plant(base, recent)
			r := must.Get(CheckBaseline(base, recent, Options{}))(t)
			i := slices.IndexFunc(r.Pairs, func(p Pair) bool { return p.Point.String() == "size=1" })
			p := r.Pairs[i]
			if got := fmt.Sprintf("%s %s %d", p.Verdict, p.Over, r.ExitCode()); got != c.want {
				t.Errorf("%s, want %s; effect %+v, notes %q", got, c.want, p.Effect, p.Notes)
			}
			if text := strings.Join(append(p.Notes, r.Warnings...), "; "); !strings.Contains(text, c.says) {
				t.Errorf("it says %q, want %q in it", text, c.says)
			}
		})
	}
}

// TestFewRuns checks that a baseline of too few runs gives no verdict on measured times but a
// note, and that values without noise are judged from one run.
func TestFewRuns(t *testing.T) {
	base, recent := history()
	scale(recent, 2)
	r, err := CheckBaseline(base[:3], recent, Options{})
	if err != nil || r.Counts[judge.Slower] > 0 ||
		!strings.Contains(strings.Join(r.Pairs[1].Notes, " "),
			"the baseline has 3 runs that count, but at least 4 are needed") {
		t.Errorf("%+v %v", r, err)
	}
	base, recent = history()
	for _, runs := range [][]Run{base, recent} {
		for _, run := range runs {
			for i := range run.Rows {
				run.Rows[i].Kind, run.Rows[i].Samples, run.Rows[i].Metrics = journal.Simulated, 1,
					map[string]float64{DefaultMetric: 5}
			}
		}
	}
	recent[7].Rows = recent[7].Rows[:7]
	scale(recent[7:], 1.1)
	recent[7].Header.Host.CPU.Model = "another"
	r, err = CheckBaseline(base[:1], recent, Options{})
	if err != nil || r.Pairs[0].Verdict != judge.Same || r.Pairs[1].Verdict != judge.Slower {
		t.Errorf("%+v %v", r, err)
	}
}

func TestCheckBaselineWrite(t *testing.T) {
	base, recent := history()
	scale(recent, 1.1)
	rowsAt(&recent[7], func(r *journal.Row) { r.Env = nil; r.Warnings = nil })
	r := must.Get(CheckBaseline(base, recent, Options{}))(t)
	for format, want := range map[string][]string{
		"table": {"8 runs, latest n7, against a baseline of 8 runs:", "baseline time_us", "latest run",
			"2 points: 1 slower, 1 same"},
		"markdown": {"### 8 runs, latest n7", "| b size=1 | slower | ", "<details><summary>1 without a finding</summary>",
			"| --- | --- | --: |"},
		"junit": {`failures="1"`, `<failure message="slower: time_us`},
		"json":  {`"baseline_runs": [`, `"over": "latest run"`, `"verdict": "slower"`},
	} {
		var b bytes.Buffer
		must.Do(t, r.Write(&b, format, 0))
		for _, text := range want {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%s lacks %q:\n%s", format, text, b.String())
			}
		}
		if format == "junit" {
			if err := xml.Unmarshal(b.Bytes(), new(struct{})); err != nil {
				t.Error(err)
			}
		}
	}
	for _, alpha := range []float64{-1, 0.3} {
		if _, err := CheckBaseline(base, recent, Options{Alpha: alpha}); err == nil {
			t.Errorf("an alpha of %v is accepted", alpha)
		}
	}
}
