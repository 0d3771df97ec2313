package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// overlayRun returns a run of six trials in which size i takes us*i.
func overlayRun(name, backend string, us float64, sizes int) dataset.Named {
	r := &journal.Run{Header: journal.Header{Run: name + "-id", Bench: "b", Backend: backend,
		Axes:    []journal.AxisInfo{{Name: "size", Kind: point.Int}},
		Metrics: []journal.MetricInfo{{Name: "time_us", Unit: "us", Better: "lower"}}},
		End: &journal.End{Outcome: "complete"}}
	for i := range sizes {
		for trial := range 6 {
			r.Rows = append(r.Rows, journal.Row{Run: name + "-id", Bench: "b", Backend: backend, Trial: trial, Index: i,
				Key: fmt.Sprint(i), Status: journal.OK, Kind: journal.Measured, Samples: 9,
				Point:   point.Point{{Name: "size", Value: point.IntValue(int64(i + 1))}},
				Metrics: map[string]float64{"time_us": us * float64(i+1) * (1 + float64(trial)/1000)}})
		}
	}
	return dataset.Named{Name: name, Dataset: dataset.Of(r)}
}

func TestOverlay(t *testing.T) {
	hostile := `after"><script>alert(1)</script>`
	in := Overlay([]dataset.Named{overlayRun("before", "cpu", 10, 4), overlayRun(hostile, "cpu", 12, 4),
		overlayRun("other", "mpi", 10, 4)}, nil)
	if n := len(in.Data.Rows); n != 3*4*6 {
		t.Errorf("%d rows: equal work of two runs was merged", n)
	}
	page := must.Get(Page(in))(t)
	text := string(page)
	for _, want := range []string{
		"Verdict", "4 points: 4 slower", "other against before: 4 points: 4 same", "series backend=cpu run=before, ",
		"backend=mpi run=other",
		`<nav aria-label="Contents">`, "Times usable",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, wrong := range []string{"<script>alert", "figures/plot", "in the folder of this page",
		"The folder also holds"} {
		if strings.Contains(text, wrong) {
			t.Errorf("a name was not escaped, or the page refers to files that are not there: %s", wrong)
		}
	}
	broken := overlayRun("broken", "cpu", 10, 4)
	broken.Rows[3].Status = journal.Failed
	run := broken.Run()
	run.Header.Points, run.Header.Trials, run.End.Outcome = 9, 6, "interrupted"
	if page, err := Page(Overlay([]dataset.Named{overlayRun("before", "cpu", 10, 4), broken}, nil)); err != nil ||
		!strings.Contains(string(page), "Failures: 1 row of") ||
		!strings.Contains(string(page), "broken: 24 of 54 points in 6 trials: the run was interrupted") {
		t.Errorf("a failure or an interrupted run is not mentioned: %v", err)
	}
}

// The summary of an overlay does not put the launches of two runs together.
func TestOverlaySummary(t *testing.T) {
	in := Overlay([]dataset.Named{overlayRun("before", "cpu", 10, 2), overlayRun("after", "cpu", 20, 2)}, nil)
	const want = "The fastest took 10 µs (6 launches from 10 µs to 10 µs) at size=1 run=before. " +
		"The slowest took 40.1 µs (6 launches from 40 µs to 40.2 µs) at size=2 run=after"
	if got := Summary(in.Data, in.Data.Rows); !strings.Contains(got, want) {
		t.Errorf("the summary is\n%s\nwant\n%s", got, want)
	}
	empty := dataset.Named{Name: "empty", Dataset: dataset.Of(&journal.Run{Header: journal.Header{Bench: "b"}})}
	if _, err := Page(Overlay([]dataset.Named{empty, empty}, nil)); err != nil {
		t.Error(err)
	}
}

// TestLargeReport checks that a report of 20,000 rows is small enough to send.
func TestLargeReport(t *testing.T) {
	before, after := overlayRun("before", "cpu", 10, 1667), overlayRun("after", "cpu", 11, 1667)
	page, err := Page(Overlay([]dataset.Named{before, after}, nil))
	if err != nil || len(page) > 10<<20 {
		t.Errorf("%d bytes, %v", len(page), err)
	}
	t.Logf("%d bytes", len(page))
}

// TestSimulatedBesideMeasured checks that simulated and measured curves in one figure are
// labeled as such, with their machines.
func TestSimulatedBesideMeasured(t *testing.T) {
	simulated := overlayRun("sim", "ahbm", 1, 4)
	cpu, gpu := overlayRun("cpu", "cpu", 10, 4), overlayRun("gpu", "cuda", 5, 4)
	for i := range simulated.Rows {
		simulated.Rows[i].Kind, simulated.Rows[i].Host = journal.Simulated, "node0"
		simulated.Rows[i].Details = map[string]string{journal.TopologyDetail: "my.yaml"}
	}
	cpu.Header.Host.CPU.Model, cpu.Header.Host.CPU.Usable = "Some Processor", 16
	for i := range gpu.Rows {
		gpu.Rows[i].Details = map[string]string{journal.DeviceDetail: "Some GPU", journal.SharingDetail: "2"}
	}
	in := Overlay([]dataset.Named{simulated, cpu, gpu}, nil)
	page, err := Page(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"backend=ahbm kind=simulated", "backend=cpu kind=measured", "backend=cuda kind=measured",
		"ahbm: simulated on topology my.yaml; cpu: measured on Some Processor, 16 cores; cuda: measured on Some GPU, " +
			"shared by 2 ranks."} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for ending, begin := range map[string]string{".png": "\x89PNG", ".svg": "<?xml"} {
		if file, err := Picture(in, ending); err != nil || !strings.HasPrefix(string(file), begin) {
			t.Errorf("the figure as %s begins with %.8q: %v", ending, file, err)
		}
	}
	// A figure of measured rows only needs no such labels.
	page, err = Page(Overlay([]dataset.Named{cpu, gpu}, nil))
	if err != nil || strings.Contains(string(page), "backend=cpu kind=measured") {
		t.Errorf("the only kind is in the labels: %v", err)
	}
}

func TestBackendsDiffer(t *testing.T) {
	rows := func(backends ...string) (out []journal.Row) {
		for _, b := range backends {
			out = append(out, journal.Row{Backend: b})
		}
		return out
	}
	for _, c := range []struct {
		a, b []journal.Row
		want bool
	}{{rows("cpu"), rows("cpu"), false}, {rows("cpu"), rows("ahbm"), true}, {rows("cpu", "mpi"), rows("ahbm"), false}} {
		if got := BackendsDiffer(dataset.All(c.a), dataset.All(c.b)); got != c.want {
			t.Errorf("BackendsDiffer(%v, %v) = %v", c.a, c.b, got)
		}
	}
}

// TestOverlayKeepsRunsApart checks that two builds of a program are not taken for two modes of its launches: every row
// names its run, and the verdict has the geometric mean.
func TestOverlayKeepsRunsApart(t *testing.T) {
	page := string(must.Get(Page(Overlay([]dataset.Named{overlayRun("before", "cpu", 29, 2),
		overlayRun("after", "cpu", 4, 2)},
		nil)))(t))
	for _, want := range []string{">run<", "geometric mean over 2 points: -86.2"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, wrong := range []string{"of the launches", "two modes"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page pools two runs: it has %q", wrong)
		}
	}
}
