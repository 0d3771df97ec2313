package terminal

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/proctest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// A line of progress shows the row's value, whatever its metric, and whether it was disturbed.
func TestResult(t *testing.T) {
	p := &Progress{metrics: []journal.MetricInfo{{Name: "loss"}, {Name: "time_s", Unit: "s"}}}
	for want, row := range map[string]journal.Row{
		"time_s 0.25 s":  {Metrics: map[string]float64{"loss": 3, "time_s": 0.25}, Units: map[string]string{"time_s": "s"}},
		"12 µs":          {Metrics: map[string]float64{"time_us": 12, "busbw": 3}},
		"busbw 3.5 GB/s": {Metrics: map[string]float64{"wrong": 0, "busbw": 3.5}, Units: map[string]string{"busbw": "GB/s"}},
		"ok":             {Metrics: map[string]float64{"wrong": 0}},
		"12 µs, the least disturbed of 2 measurements (disturbed: steal: the hypervisor took 9.0 % of this host's cores away)": {Metrics: map[string]float64{"time_us": 12},
			Quality:      journal.QualityDisturbed,
			Conditions:   []journal.Condition{journal.NewCondition(journal.CodeSteal, journal.Named{"share": 0.09})},
			Measurements: make([]journal.Measurement, 2)},
	} {
		row.Status = journal.OK
		if got := p.result(&row); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The bar shows the task that runs while rows are recorded, also of a run that is resumed.
func TestBar(t *testing.T) {
	screen := new(proctest.Buffer)
	p := NewProgress(io.Discard, screen, "b", "cpu", true, false)
	p.Observe(run.Event{Started: &run.Started{Rows: 1000, Done: 10}})
	for i := 0; !strings.Contains(screen.String(), "size=64Ki"); i++ {
		p.Observe(run.Event{Task: &plan.Task{Point: point.Point{{Name: "size", Value: point.BytesValue(64 << 10)}}}})
		if i < 100 {
			p.Observe(run.Event{Recorded: &journal.Row{Status: journal.OK}})
		}
		time.Sleep(time.Millisecond)
	}
	p.Close()
	if !strings.Contains(screen.String(), "/1000 ") {
		t.Errorf("the screen shows %q", screen)
	}
}

// The remaining time is estimated from the rows of this run only, not from resumed ones.
func TestLeft(t *testing.T) {
	if got := left(10*time.Second, 5, 20); got != "40s" {
		t.Errorf("5 rows in 10 s, 20 to come: %s", got)
	}
	if got := left(10*time.Second, 0, 20); got != "?" {
		t.Errorf("no row yet: %s", got)
	}
}
