package collectives

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist/cuda"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	driver "github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// The bench runs on GPUs without changes, in real processes that share device memory. A fake driver
// stands in, whose GPU is the processor. A kernel that the driver refuses disables only its own
// algorithm, and the row gives the reason.
func TestCUDA(t *testing.T) {
	lib := cudatest.Library(t, driver.LibraryVariable, driver.ManagementVariable)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	environ := append(os.Environ(), driver.LibraryVariable+"="+lib, driver.ManagementVariable+"="+lib,
		cudatest.RefuseVariable+"=.entry lamport_",
		"CUDA_VISIBLE_DEVICES=0", "PATH="+filepath.Dir(lib)+":"+os.Getenv("PATH"))
	nothingLeft := func(after string) {
		t.Helper()
		if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
			t.Errorf("%s leaves %v (%v)", after, left, err)
		}
	}
	p, err := plan.Make(Bench(), plan.Request{Backend: cuda.Name, Seed: 1,
		Axes: axes("num_ranks=2,3", "op=allreduce,allgather,sendrecv",
			"algorithm=auto,lamport", "size=4,40000", "dtype=bf16", "buffers=symmetric,private", "inplace=false,true"),
		// Each refused kernel costs a launch.
		Only:    []string{`algorithm == "auto" || size == 4 && inplace == false && buffers == "private"`},
		Options: axes("seconds=0.001")})
	if err != nil {
		t.Fatal(err)
	}
	sampleLittle(p)
	dir := filepath.Join(t.TempDir(), "run")
	must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: environ}))(t)
	nothingLeft("a run")
	ctx, cancel := context.WithCancel(t.Context())
	res, err := run.Run(ctx, p, run.Options{Dir: filepath.Join(t.TempDir(), "cut"), Environ: environ,
		Observe: func(e run.Event) {
			if e.Recorded != nil && e.Recorded.Status == journal.OK {
				if found, _ := filepath.Glob(filepath.Join(temp, "kernbench-mps-*")); len(found) != 1 {
					t.Errorf("ranks at work have the MPS folders %q, want one", found)
				}
				cancel()
			}
		}})
	if err != nil || !res.Interrupted {
		t.Fatalf("a run that is interrupted: %+v, %v", res, err)
	}
	nothingLeft("an interrupted run")
	_, r := must.Get2(journal.LoadRun(dir))(t)
	outcomes := map[string]int{}
	for _, row := range dataset.Of(r).Rows {
		algorithm := row.Point.At("algorithm")
		switch {
		case row.Status == journal.Skipped:
			outcomes["skipped"]++ // an all-gather has no such algorithm
		case algorithm.String() == "lamport":
			outcomes["refused"]++
			if row.Status != journal.Failed ||
				!strings.Contains(row.Why(), "loading the kernels of lamport: cuModuleLoadData: a PTX JIT compilation failed") {
				t.Errorf("%s: %s %s", row.Point, row.Status, row.Reason)
			}
		default:
			outcomes["ok"]++
			if row.Status != journal.OK || row.Metrics["wrong"] != 0 ||
				!strings.HasSuffix(row.Details["library"], "Fake GPU 0") ||
				row.Details[journal.SharingDetail] != fmt.Sprint(*row.NumRanks) || row.Sharing() != *row.NumRanks ||
				!strings.HasPrefix(row.Details["gpu_before"], "1980 MHz, memory 3201 MHz, 120 W, ") ||
				!strings.HasSuffix(row.Details["gpu_after"], " °C") {
				t.Errorf("%s: %s %s, %v wrong, details %v", row.Point, row.Status, row.Reason, row.Metrics["wrong"], row.Details)
			}
			if dataset.Text(row, "op") == allReduce && row.Details["algorithm"] != "one-stage" { // the first choice is refused
				t.Errorf("%s: auto took %s", row.Point, row.Details["algorithm"])
			}
			if dataset.Text(row, "op") == allReduce && dataset.Text(row, "buffers") == symmetric &&
				dataset.Text(row, "inplace") == "false" {
				checkTimedInside(t, row)
			}
		}
	}
	if outcomes["ok"] < 32 || outcomes["refused"] < 2 {
		t.Errorf("outcomes: %v", outcomes)
	}
}

// A time below the limit of the GPU's memory or cache causes a warning. Here the fake driver reports
// rates that are far too low.
func TestCUDALimitsExceeded(t *testing.T) {
	lib := cudatest.Library(t, driver.LibraryVariable, driver.ManagementVariable)
	p := must.Get(plan.Make(Bench(),
		plan.Request{Backend: cuda.Name, Seed: 1, Axes: axes("num_ranks=1", "op=allreduce", "algorithm=one-stage",
			"size=640K", "dtype=bf16", "buffers=symmetric"), Options: axes("seconds=0.001")}))(t)
	sampleLittle(p)
	for _, c := range []struct{ speeds, slower, faster string }{{"0.001,1000,1000,1000", "memory", "cache"},
		{"1e9,0.001,0.001,0.001", "cache", "memory"}} {
		dir := filepath.Join(t.TempDir(), "run")
		environ := append(os.Environ(), driver.LibraryVariable+"="+lib, driver.ManagementVariable+"="+lib,
			cudatest.SpeedsVariable+"="+c.speeds)
		must.Get(run.Run(t.Context(), p, run.Options{Dir: dir, Environ: environ}))(t)
		_, r := must.Get2(journal.LoadRun(dir))(t)
		for _, row := range dataset.Of(r).Rows {
			warnings := strings.Join(row.Conditions.Sentences(), "\n")
			if row.Status != journal.OK || row.Limits[c.slower] <= row.Limits[c.faster] || row.Limits[c.faster] <= 0 ||
				strings.Count(warnings, "faster than its limit allows") != 2 ||
				!strings.Contains(warnings, "kernel_cold_us: faster") {
				t.Errorf("%s: %s %s, limits %v, warnings %s", c.speeds, row.Status, row.Reason, row.Limits, warnings)
			}
		}
	}
}

// checkTimedInside checks that a row has the device's own times of the call, with their spread and their
// limit.
func checkTimedInside(t *testing.T, r *journal.Row) {
	for _, name := range []string{"kernel_us", "kernel_cold_us", "graph_us"} {
		st, has := r.Stats.Find(name)
		if !has || r.Metrics[name] <= 0 || st.Min > r.Metrics[name] || st.Max < r.Metrics[name] || r.Units[name] != "us" {
			t.Errorf("%s: %s is %v %s, spread %+v", r.Point, name, r.Metrics[name], r.Units[name], st)
		}
		if r.Raws[name] == "" || r.Raws[name] == r.Raw {
			t.Errorf("%s: the samples of %s are in %q", r.Point, name, r.Raws[name])
		}
	}
	if r.Metrics["kernel_cold_pct_of_limit"] <= 0 || !strings.Contains(r.Details["kernel_cold_limit"], "GB/s of a copy") {
		t.Errorf("%s: %v %% of the limit %q, limits %v", r.Point, r.Metrics["kernel_cold_pct_of_limit"],
			r.Details["kernel_cold_limit"], r.Limits)
	}
}
