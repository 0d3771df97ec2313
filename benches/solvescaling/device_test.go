package solvescaling

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/device"
)

// gpus is the backend of GPUs.
var gpus = dist.Backends(func(d dist.Description) bool { return device.SupportsBackend(d.Name) })[0]

// On GPUs the bench runs in real processes that share device memory. A stand-in for the driver runs the kernels on the
// CPU. The rows pass the same gate, with the same iterations and metrics as rows of CPUs, and a problem that does not
// fit is not executed.
func TestCUDA(t *testing.T) {
	lib, err := cudatest.Build(t.TempDir(), gpusolve.Sources())
	if err != nil {
		t.Fatal(err)
	}
	if err := cudatest.MPS(filepath.Dir(lib)); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), cuda.LibraryVariable+"="+lib, "CUDA_VISIBLE_DEVICES=0",
		"PATH="+filepath.Dir(lib)+":"+os.Getenv("PATH"))
	const axes = "num_ranks=1,2 mode=strong method=cg,cg-single,cg-pipelined precond=none,jacobi " +
		"storage=plain,compressed total-dof=2100"
	const few = `num_ranks == 1 || method == "cg" && precond == "jacobi"` // each number of ranks is a launch
	request := plan.Request{Axes: assigns(axes), Options: assigns("repeat=2 rtol=1e-8"), Backend: gpus, Seed: 1,
		Only: []string{few}}
	p, err := plan.Make(Bench(), request)
	if err != nil {
		t.Fatal(err)
	}
	_, rows := runPlan(t, filepath.Join(t.TempDir(), "gpu"), p, run.Options{Environ: environ})
	_, host := runInto(t, filepath.Join(t.TempDir(), "cpu"),
		"num_ranks=1 mode=strong method=cg,cg-single,cg-pipelined precond=none,jacobi total-dof=2100", "repeat=1",
		run.Options{})
	want := map[string]float64{}
	for _, r := range host {
		want[dataset.Text(&r, methodAxis)+dataset.Text(&r, precondAxis)] = r.Metrics["iterations"]
	}
	if len(rows) != 14 || len(want) != 6 {
		t.Fatalf("%d rows and %v", len(rows), want)
	}
	for _, r := range derive(dataset.All(rows)) {
		m := r.Metrics
		if r.Status != journal.OK || r.Backend != gpus {
			t.Fatalf("%s on %s: %v %s", dataset.Text(r, methodAxis), r.Backend, r.Status, r.Reason)
		}
		if d := m["iterations"] - want[dataset.Text(r, methodAxis)+dataset.Text(r, precondAxis)]; d < -1 || d > 1 {
			t.Errorf("%s: %g iterations more than the processors", dataset.Text(r, methodAxis), d)
		}
		for _, name := range []string{"time_us", "solve_time_s", "bytes_model", "gbps", "triad_gbps", "spmv_us",
			"memory_bytes_per_dof", "matrix_bytes_per_dof", "setup_s"} {
			if !(m[name] > 0) {
				t.Errorf("no %s in a row of %v", name, r.Point)
			}
		}
		if _, has := m["halo_wait_us"]; has {
			t.Error("the time of messages, which are part of the kernels, is in a row")
		}
		shared := dataset.Ranks(r) > 1
		if c := causeOf(r); shared && m["triad_fraction"] < boundByMemory &&
			!strings.Contains(c.sentence, "cannot be timed separately") {
			t.Errorf("2 ranks are bound by %+v", c)
		}
		if _, known := m["efficiency"]; known == shared || (r.Sharing() == 2) != shared ||
			r.Details[gpuDetail] != "Fake GPU 0" {
			t.Errorf("%d ranks: efficiency %v, %d share %q", dataset.Ranks(r), m["efficiency"], r.Sharing(),
				r.Details[gpuDetail])
		}
	}
	p = plannedOn(t, gpus, "num_ranks=2 mode=strong problem=variable method=cg-pipelined precond=jacobi total-dof=900",
		"repeat=1")
	_, rows = runPlan(t, filepath.Join(t.TempDir(), "variable"), p, run.Options{Environ: environ})
	if len(rows) != 1 || rows[0].Status != journal.OK || rows[0].Metrics["matrix_bytes_per_dof"] < 16 {
		t.Errorf("variable coefficients: %v", rows)
	}
	p = plannedOn(t, gpus, "num_ranks=1,2 mode=strong precond=gmg total-dof=2100", "repeat=1")
	_, rows = runPlan(t, filepath.Join(t.TempDir(), "cycle"), p, run.Options{Environ: environ})
	_, host = runInto(t, filepath.Join(t.TempDir(), "cycle-cpu"), "num_ranks=1 mode=strong precond=gmg total-dof=2100",
		"repeat=1", run.Options{})
	for _, r := range rows {
		m, want := r.Metrics, host[0].Metrics
		if r.Status != journal.OK || m["iterations"] != want["iterations"] || m["levels"] != want["levels"] ||
			m["operator_complexity"] != want["operator_complexity"] ||
			!(m["precond_us"] > 0) || !(m["precond_setup_s"] > 0) || m["precond_setup_s"] >= m["setup_s"] ||
			!(m["bytes_model"] > 0) || !(m["finest_level_gbps"] > 0) ||
			len(factsOf[[]level](&r, levelsDetail)) != int(m["levels"]) || len(factsOf[[]step](&r, finestDetail)) != 6 ||
			factsOf[[]step](&r, finestDetail)[0].Name != "smooth" {
			t.Errorf("multigrid: %v %s %v %v, on processors %v", r.Status, r.Reason, m, r.Details, want)
		}
		if _, has := m["flops_model"]; has {
			t.Error("operations of a cycle are in a row")
		}
	}
	if len(rows) != 2 {
		t.Errorf("multigrid: %d rows", len(rows))
	}
	p = plannedOn(t, gpus, "num_ranks=2 mode=strong total-dof=100M", "repeat=1")
	_, rows = runPlan(t, filepath.Join(t.TempDir(), "large"), p, run.Options{Environ: environ})
	if len(rows) != 1 || rows[0].Status != journal.NotExecuted ||
		!strings.Contains(string(rows[0].Reason), "unknowns need 3.8 GiB") {
		t.Errorf("a problem that does not fit: %v", rows)
	}
}

// Settings that a GPU does not support are usage errors before anything runs.
func TestDeviceRefuses(t *testing.T) {
	for axes, want := range map[string]string{
		"method=minres":                      "method minres does not run on GPUs, only cg, cg-single, cg-pipelined",
		"precond=none,amg":                   "preconditioner amg does not run on GPUs, only none, jacobi, gmg",
		"precond=gmg":                        "",
		"precond=gmg method=cg,cg-pipelined": "preconditioner gmg requires method cg on GPUs, not cg-pipelined",
		"partitioner=block":                  "partitioner block does not run on GPUs, only simple",
		"problem=variable":                   "",
		"problem=neumann":                    "with the same entries in every row",
		"problem=poisson dim=3":              "",
		"problem=anisotropic":                "",
		"rhs=file:b.mtx":                     "makes the right-hand side itself",
		"precond=gmg smoother=jacobi":        "multigrid on GPUs has no smoother",
	} {
		_, err := plan.Make(Bench(), plan.Request{Axes: assigns(axes), Backend: gpus, Seed: 1})
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", axes, err, want)
		}
	}
}
