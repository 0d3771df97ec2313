package gpuallreduce

import (
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	_ "github.com/kernbench/kernbench/dist/cuda"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Both kinds of ranks are timed in all ways on a stand-in for the driver, and the report
// compares them.
func TestRun(t *testing.T) {
	lib, err := cudatest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(cuda.LibraryVariable, lib)
	b := Bench()
	p, err := plan.Make(b, plan.Request{Backend: b.Backends[0], Seed: 1, Axes: benchtest.Assign("num_ranks=2", "size=1K,4K",
		"algorithm=two-stage-push", "ranks_as=processes,blocks", "blocks=2"), Options: benchtest.Assign("seconds=0.001")})
	if err != nil {
		t.Fatal(err)
	}
	cfg := measure.Default()
	cfg.Stop = measure.Stop{MinSamples: 1, MaxSamples: 3, MaxTime: time.Second}
	cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	var rows []journal.Row
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			outcomes := benchtest.Perform(t, b.Parts[0].Body, task, p.Options, bench.Setting{Backend: b.Backends[0], Measure: cfg})
			o := outcomes[0]
			if o.Status != journal.OK || o.Metrics[kernel] <= 0 || o.Metrics[cold] <= 0 || o.Metrics[graph] <= 0 || o.Metrics[share] <= 0 {
				t.Fatalf("%s: %s %s, %v", task.Point, o.Status, o.Reason, o.Metrics)
			}
			rows = append(rows, journal.Row{Point: task.Point, NumRanks: &task.Ranks, Status: o.Status, Metrics: o.Metrics})
		}
	}
	if f := figures(rows); len(f) != 2 || len(f[0].Panels) != 1 || len(f[0].Panels[0].Series) != 2 || len(f[1].Panels) != 2 || len(f[1].Panels[0].Series) != 4 {
		t.Errorf("figures: %+v", f)
	}
	if s := sections(rows); len(s) != 2 || len(s[0].Table) != 5 || len(s[1].Table) != 3 || !strings.HasSuffix(s[1].Table[1][5], " %") {
		t.Errorf("sections: %+v", s)
	}
}

// A knob that is none is refused before anything runs.
func TestRefused(t *testing.T) {
	b := Bench()
	for _, c := range [][2]string{{"ranks_as=threads", "ranks_as=threads"}, {"blocks=many", "want auto or a number"}} {
		_, err := plan.Make(b, plan.Request{Backend: b.Backends[0], Axes: benchtest.Assign(c[0])})
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
}
