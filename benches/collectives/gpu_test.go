package collectives

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/benches/benchtest"
	_ "github.com/kernbench/kernbench/dist/cuda"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// run times points one after the other on a fake CUDA driver.
func runGPU(t *testing.T, axes ...string) (rows []journal.Row) {
	t.Helper()
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	b := GPUAllReduce()
	p := must.Get(plan.Make(b, plan.Request{Backend: b.Backends[0], Seed: 1, Axes: benchtest.Assign(axes...),
		Options: benchtest.Assign("seconds=0.001")}))(t)
	cfg := measure.Default()
	cfg.Stop = measure.Stop{MinSamples: 1, MaxSamples: 3, MaxTime: time.Second}
	cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			o := benchtest.Perform(t, b.Parts[0].Body, task, p.Options, decl.Setting{Backend: b.Backends[0], Measure: cfg})[0]
			rows = append(rows, journal.Row{Point: task.Point, NumRanks: &task.Ranks, Status: o.Status,
				Reason: journal.Text(o.Reason), Metrics: o.Metrics, Key: task.Key})
		}
	}
	return rows
}

// Both kinds of ranks are timed in all four ways, and the report shows them side by side.
func TestFourWays(t *testing.T) {
	rows := runGPU(t, "num_ranks=2", "size=1K,4K", "algorithm=two-stage-push", "ranks_as=processes,blocks", "blocks=2")
	for _, r := range rows {
		if r.Status != journal.OK || r.Metrics[kernel] <= 0 || r.Metrics[cold] <= 0 || r.Metrics[graph] <= 0 ||
			r.Metrics[share] <= 0 {
			t.Fatalf("%s: %s %s, %v", r.Point, r.Status, r.Reason, r.Metrics)
		}
	}
	f := benchtest.Figures(t, GPUAllReduce(), dataset.All(rows))
	if len(f) != 2 || len(f[0].Panels) != 1 || len(f[0].Panels[0].Series) != 2 ||
		len(f[1].Panels) != 2 || len(f[1].Panels[0].Series) != 4 {
		t.Errorf("figures: %+v", f)
	}
	s := benchtest.Sections(t, GPUAllReduce(), dataset.All(rows))
	if len(s) != 1 || len(s[0].Table) != 5 || s[0].Table[1][3] != "processes" || s[0].Table[2][3] != "blocks" {
		t.Errorf("sections: %+v", s)
	}
}

// The ways to copy are timed for algorithms that copy. A way that the GPU lacks is not executed, and the row says why.
func TestCopies(t *testing.T) {
	rows := runGPU(t, "num_ranks=2", "size=4K", "algorithm=naive,one-stage", "copy=engine,loads,bulk")
	// The plan has left out one-stage; see TestGPULeftOut.
	reasons := map[string]string{
		"naive engine": "", "naive loads": "",
		"naive bulk": "copy=bulk: GPU 0 (Fake GPU 0) has compute capability 8, and bulk copies need 9.0",
	}
	for _, r := range rows {
		name := dataset.Text(&r, "algorithm") + " " + dataset.Text(&r, "copy")
		want, known := reasons[name]
		status := journal.OK
		if want != "" {
			status = journal.NotExecuted
		}
		if !known || r.Status != status || !strings.Contains(string(r.Reason), want) ||
			status == journal.OK && r.Metrics["time_us"] <= 0 {
			t.Errorf("%s: %s %q, want %q", name, r.Status, r.Reason, want)
		}
		delete(reasons, name)
	}
	if len(reasons) > 0 {
		t.Errorf("no rows of %v", reasons)
	}
	s := benchtest.Sections(t, GPUAllReduce(), dataset.All(rows))
	if len(s) != 1 || len(s[0].Table) != 2 || strings.Join(s[0].Table[0], " ") != "ranks algorithm size engine loads" ||
		len(s[0].Table[1]) != 5 {
		t.Errorf("sections: %+v", s)
	}
}

// An invalid value of a knob is rejected before anything runs.
func TestKnobsRefused(t *testing.T) {
	b := GPUAllReduce()
	for _, c := range [][2]string{{"ranks_as=threads", "ranks_as=threads"}, {"blocks=many", "want auto or a number"}} {
		_, err := plan.Make(b, plan.Request{Backend: b.Backends[0], Axes: benchtest.Assign(c[0])})
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %q", c[0], err, c[1])
		}
	}
}

// Points that the backend or the GPU cannot run are left out of the plan, each with one sentence. The fake GPU has
// 1 GiB.
func TestGPULeftOut(t *testing.T) {
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	b := GPUAllReduce()
	p := must.Get(plan.Make(b, plan.Request{Backend: b.Backends[0],
		Axes: benchtest.Assign("num_ranks=2,4,64", "size=4K,200Mi", "algorithm=one-stage")}))(t)
	reasons := map[string]int{}
	for _, task := range p.Dropped {
		reasons[task.Reason]++
	}
	want := map[string]int{"backend cuda supports at most 16 ranks": 1,
		"the buffers of 4 ranks on one GPU need 1.6 GiB, and a GPU (Fake GPU 0) has 1.0 GiB":   1,
		"the buffers of 64 ranks on one GPU need 25.0 GiB, and a GPU (Fake GPU 0) has 1.0 GiB": 1}
	if !maps.Equal(reasons, want) || p.Points != 3 {
		t.Errorf("%d points are left, left out: %v, want %v", p.Points, reasons, want)
	}
	for axes, want := range map[string]string{
		"num_ranks=64": "backend cuda supports at most 16 ranks",
		"dtype=i8":     "backend cuda has no element type i8, only f16, bf16, f32, f64",
		"algorithm=ring": "backend cuda has no allreduce algorithm ring, only one-stage, two-stage, two-stage-push, lamport, " +
			"naive, multimem, auto",
		"algorithm=two-stage@64K": "backend cuda does not divide calls into pieces of a chosen size (two-stage@64K)",
		"algorithm=naive ranks_as=blocks": "backend cuda has no naive: ranks that are blocks of one kernel make no copies " +
			"(ranks_as=blocks)",
		"algorithm=one-stage copy=loads": "backend cuda has no one-stage: its kernel adds while it loads, and copies " +
			"nothing (copy=loads)",
		"algorithm=naive copy=loads ranks_as=blocks": "backend cuda has no naive: ranks that are blocks of one kernel make " +
			"no copies (copy=loads)",
	} {
		_, err := plan.Make(b, plan.Request{Backend: b.Backends[0],
			Axes: benchtest.Assign(append([]string{"size=1M", "num_ranks=2"}, strings.Fields(axes)...)...)})
		if err == nil || !strings.HasSuffix(err.Error(), "dropped: "+want) {
			t.Errorf("%s: %v, want %q", axes, err, want)
		}
	}
}
