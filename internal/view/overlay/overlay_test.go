package overlay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/report"
)

// run has so many sizes of which each takes us times its number, in six trials.
func run(name, backend string, us float64, sizes int) Run {
	r := &journal.Run{Header: journal.Header{Run: name + "-id", Bench: "b", Backend: backend,
		Axes:    []journal.AxisInfo{{Name: "size", Kind: point.Int}},
		Metrics: []journal.MetricInfo{{Name: "time_us", Unit: "us", Better: "lower"}}}, End: &journal.End{Outcome: "complete"}}
	for i := range sizes {
		for trial := range 6 {
			r.Rows = append(r.Rows, journal.Row{Run: name + "-id", Bench: "b", Backend: backend, Trial: trial, Index: i,
				Key: fmt.Sprint(i), Status: journal.OK, Kind: journal.Measured, Samples: 9,
				Point:   point.Point{{Name: "size", Value: point.IntValue(int64(i + 1))}},
				Metrics: map[string]float64{"time_us": us * float64(i+1) * (1 + float64(trial)/1000)}})
		}
	}
	return Run{name, r}
}

func TestOverlay(t *testing.T) {
	hostile := `after"><script>alert(1)</script>`
	in := Input([]Run{run("before", "cpu", 10, 4), run(hostile, "cpu", 12, 4), run("other", "mpi", 10, 4)}, nil)
	if n := len(in.Run.Latest()); n != 3*4*6 {
		t.Errorf("%d rows: equal work of two runs is one", n)
	}
	page, err := report.Page(in)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, want := range []string{
		"Verdict", "4 points: 4 slower", "other against before: 4 points: 4 same", "series backend=cpu run=before, ", "backend=mpi run=other",
		`<nav aria-label="Contents">`, "Times usable",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, "<script>alert") || strings.Contains(text, "figures/plot") {
		t.Error("a name is taken for HTML, or files are named that are not there")
	}
	broken := run("broken", "cpu", 10, 4)
	broken.Rows[3].Status = journal.Failed
	broken.Header.Points, broken.Header.Trials, broken.End.Outcome = 9, 6, "interrupted"
	if page, err := report.Page(Input([]Run{run("before", "cpu", 10, 4), broken}, nil)); err != nil ||
		!strings.Contains(string(page), "Not right: 1 row failed") || !strings.Contains(string(page), "broken: 24 of 54 points in 6 trials: the run was interrupted") {
		t.Errorf("a failure or an interrupted run is not said: %v", err)
	}
}

// A report of 20,000 rows is one that can be sent.
func TestLargeReport(t *testing.T) {
	page, err := report.Page(Input([]Run{run("before", "cpu", 10, 1667), run("after", "cpu", 11, 1667)}, nil))
	if err != nil || len(page) > 10<<20 {
		t.Errorf("%d bytes, %v", len(page), err)
	}
	t.Logf("%d bytes", len(page))
}
