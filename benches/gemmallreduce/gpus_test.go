package gemmallreduce

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// On GPUs, every point is exact and has the same metrics as on other backends, and faults in products
// and reductions are detected. The test uses a stand-in for the driver, whose streams delay all work
// until something waits for it.
func TestOnGPUs(t *testing.T) {
	lib, err := cudatest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{cuda.LibraryVariable, cuda.ManagementVariable, gpugemm.LibraryVariable} {
		t.Setenv(name, lib)
	}
	t.Setenv(cudatest.DeferVariable, "1")
	for _, test := range []struct{ axes, fault, major, want string }{
		{"num_ranks=2 split=m,n partitions=1,3 overlap=true,false", "", "", ""},
		{"num_ranks=3 partitions=auto shape=2100x40x8", "", "", ""},
		{"num_ranks=2 partitions=auto method=kernel shape=140x150x40", "", "", ""},
		{"num_ranks=2 partitions=auto method=kernel shape=140x150x40", "", "9", ""},
		{"num_ranks=2 partitions=2 provider=cublaslt dtype=f32", "", "", ""},
		{"num_ranks=2 partitions=2 pdl=true", "", "9", ""},
		{"num_ranks=2 partitions=2 pdl=true", "", "", "dependent launches need 9.0"},
		{"num_ranks=2 partitions=2", "tile", "", "wrong"},
		{"num_ranks=2 partitions=2 provider=cublaslt", "stale", "", "wrong"},
		{"num_ranks=2 partitions=auto method=kernel shape=600x520x40", "early", "", "wrong"},
		{"num_ranks=2 partitions=auto method=kernel shape=600x520x40", "unwaited", "9", "wrong"},
	} {
		t.Setenv(cudatest.ProductVariable, test.fault)
		if test.major != "" {
			t.Setenv(cudatest.MajorVariable, test.major)
		} else {
			os.Unsetenv(cudatest.MajorVariable)
		}
		words := strings.Fields(test.axes)
		if !strings.Contains(test.axes, "shape") {
			words = append(words, "shape=33x42x70")
		}
		p := planned(t, gpugemm.Backend, words...)
		for _, g := range p.Groups {
			for _, task := range g.Tasks {
				cfg := measure.Default()
				cfg.Cadence = measure.Isolated
				cfg.Stop.MinSamples, cfg.Stop.MaxSamples, cfg.Stop.MinTime = 1, 1, 0
				cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
				for rank, o := range benchtest.Perform(t, bench.New("b", body).Parts[0].Body, task, p.Options,
					decl.Setting{Backend: gpugemm.Backend, Measure: cfg}) {
					checkRow(t, task.Point.String(), rank, o, test.want)
				}
			}
		}
	}
}

func checkRow(t *testing.T, point string, rank int, o decl.Outcome, want string) {
	t.Helper()
	switch {
	case want == "wrong":
		if o.Status != journal.Failed || o.Metrics["wrong"] == 0 && !strings.Contains(o.Reason, "failed there") {
			t.Errorf("%s, rank %d: %s: %s, %v wrong", point, rank, o.Status, o.Reason, o.Metrics["wrong"])
		}
		return
	case want != "":
		if o.Status != journal.NotExecuted || !strings.Contains(o.Reason, want) {
			t.Errorf("%s, rank %d: %s: %s, want %q", point, rank, o.Status, o.Reason, want)
		}
		return
	case o.Status != journal.OK || o.Metrics["wrong"] != 0:
		t.Errorf("%s, rank %d: %s: %s, %v wrong", point, rank, o.Status, o.Reason, o.Metrics["wrong"])
		return
	}
	m := o.Metrics
	if !(m["gemm_us"] > 0) || !(m["allreduce_us"] > 0) || !(m["sequential_us"] > 0) ||
		m["bound_us"] != max(m["gemm_us"], m["allreduce_us"]) || m["parts"] < 1 {
		t.Errorf("%s: %v", point, m)
	}
	if _, has := m["gemm_parts_us"]; has != (m["parts"] > 1) {
		t.Errorf("%s: %v partitions and %v", point, m["parts"], m)
	}
	for _, name := range []string{"engine", "algorithm", "multiprocessors", journal.SharingDetail, "gpu_before",
		"gpu_after"} {
		if o.Details[name] == "" && (rank == 0 || !strings.HasPrefix(name, "gpu_")) { // only rank 0 records GPU readings
			t.Errorf("%s: no detail %s: %v", point, name, o.Details)
		}
	}
	if major := os.Getenv(cudatest.MajorVariable); strings.Contains(point, "method=kernel") &&
		(o.Details["algorithm"] == "onekernel90a") != (major == "9") {
		t.Errorf("%s with compute capability %q: %v", point, major, o.Details)
	}
}

// Points that a method cannot run are rejected when planning.
func TestImpossibleOnGPUs(t *testing.T) {
	for axes, want := range map[string]string{
		"method=kernel partitions=4":                      "use partitions=auto",
		"method=kernel partitions=auto split=n":           "method=kernel requires split=m overlap=true",
		"method=kernel partitions=auto provider=cublaslt": "method=kernel requires split=m overlap=true",
		"provider=cublaslt dtype=e4m3":                    "cublaslt cannot multiply e4m3 here",
		"dtype=f32":                                       "builtin cannot multiply f32 here",
		"shape=0x8x8":                                     "want positive sizes",
		"method=kernels":                                  "did you mean",
		"provider=openblas":                               "unknown provider",
	} {
		if _, err := plan.Make(Bench(),
			plan.Request{Backend: gpugemm.Backend, Axes: assigned(strings.Fields(axes)...), Seed: 1}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", axes, err, want)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(benchtest.Main(m, Bench())) }

// Negative options are rejected when planning.
func TestNegativeOptions(t *testing.T) {
	for backend, option := range map[string]string{gpugemm.Backend: "aside=-3", "cpu": "threads=-2"} {
		_, err := plan.Make(Bench(), plan.Request{Backend: backend, Options: assigned(option), Seed: 1})
		if err == nil || !strings.Contains(err.Error(), "want a number of 0 or more") {
			t.Errorf("%s: %v", option, err)
		}
	}
}

// Ranks in separate processes that share a GPU get equal shares of its multiprocessors.
func TestSharesOfAGPU(t *testing.T) {
	lib, err := cudatest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := cudatest.MPS(filepath.Dir(lib)); err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(Bench(), plan.Request{Backend: gpugemm.Backend, Seed: 1, Options: assigned("seconds=0.01"),
		Axes: assigned("shape=40x40x40", "partitions=2")})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	environ := append(os.Environ(), cuda.LibraryVariable+"="+lib, "CUDA_VISIBLE_DEVICES=0",
		"PATH="+filepath.Dir(lib)+":"+os.Getenv("PATH"))
	if _, err := run.Run(t.Context(), p, run.Options{Dir: dir, Environ: environ}); err != nil {
		t.Fatal(err)
	}
	_, r, err := journal.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range dataset.Of(r).Rows {
		const want = "2 of each rank"
		if row.Status != journal.OK || row.Details["multiprocessors"] != want || row.Details[journal.SharingDetail] != "2" {
			t.Errorf("%s: %s, %v, want %q", row.Status, row.Reason, row.Details, want)
		}
	}
	if len(dataset.Of(r).Rows) != 1 {
		t.Errorf("%d rows", len(dataset.Of(r).Rows))
	}
}
