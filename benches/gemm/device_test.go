package gemm

import (
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	_ "github.com/kernbench/kernbench/dist/cuda"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gpugemm"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// On a GPU, every provider's rows name the algorithm and the library, and a wrong product fails the row. The test uses
// a stand-in for the driver and for cuBLASLt.
func TestOnDevice(t *testing.T) {
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable, gpugemm.LibraryVariable)
	for _, test := range []struct{ axes, data, fault, want string }{
		{"provider=builtin,cublaslt,cublaslt-exhaustive dtype=bf16", "random", "", ""},
		{"provider=cublaslt dtype=f32,tf32,f16,e4m3", "random", "", ""},
		{"provider=cublaslt dtype=bf16", "zeros", "", ""},
		{"provider=builtin,cublaslt dtype=bf16", "random", "tile", "wrong elements"},
		{"provider=cublaslt dtype=f16", "random", "none",
			"cublasLtMatmulAlgoGetHeuristic: the requested functionality is not supported"},
	} {
		os.Setenv(cudatest.ProductVariable, test.fault)
		words := append([]string{"shape=40x50x60", "threads=1"}, strings.Fields(test.axes)...)
		p := must.Get(plan.Make(Bench(),
			plan.Request{Backend: gpugemm.Backend, Seed: 1, Axes: benchtest.Assign(words...),
				Options: benchtest.Assign("data=" + test.data)}))(t)
		for _, g := range p.Groups {
			for _, task := range g.Tasks {
				cfg := bench.DefaultMeasure()
				cfg.Stop.MinSamples, cfg.Stop.MaxSamples, cfg.Stop.MinTime = 1, 1, 0
				setting := decl.Setting{Backend: gpugemm.Backend, Measure: cfg}
				o := benchtest.Perform(t, bench.New("b", body).Parts[0].Body, task, p.Options, setting)[0]
				checkDevice(t, test.want, test.data, o)
			}
		}
	}
	os.Setenv(cudatest.ProductVariable, "")
}

// The plan refuses types that a provider cannot multiply on the backend, providers of another one, threads, and
// operands that do not fit into the stand-in's 1 GiB.
func TestRefusedInPlan(t *testing.T) {
	cudatest.Library(t, cuda.LibraryVariable, cuda.ManagementVariable)
	for axes, want := range map[string]string{
		"provider=builtin dtype=f32":                          "on cuda builtin cannot multiply f32, only [bf16 e4m3]",
		"provider=openblas dtype=f32":                         `unknown provider "openblas"`,
		"provider=builtin dtype=bf16 threads=2":               "--threads 2: a GPU has its own threads",
		"dtype=bf16 provider=builtin shape=10000x10000x20000": "the buffers need 1.1 GiB, and a GPU (Fake GPU 0) has 1.0 GiB",
	} {
		_, err := plan.Make(Bench(), plan.Request{Backend: gpugemm.Backend, Seed: 1,
			Axes: benchtest.Assign(append([]string{"shape=40x50x60", "threads=1"}, strings.Fields(axes)...)...)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", axes, err, want)
		}
	}
}

func checkDevice(t *testing.T, want, data string, o decl.Outcome) {
	t.Helper()
	if want != "" {
		if o.Status == journal.OK || !strings.Contains(o.Reason, want) {
			t.Errorf("%s %q, want %q", o.Status, o.Reason, want)
		}
		return
	}
	if o.Status != journal.OK && o.Status != "" {
		t.Errorf("%s %q", o.Status, o.Reason)
	}
	for _, name := range []string{"algorithm", "library", "gpu", "gpu_before", "gpu_after", "operands"} {
		if o.Details[name] == "" {
			t.Errorf("no detail %s: %v", name, o.Details)
		}
	}
	warned := strings.Contains(strings.Join(o.Conditions.Sentences(), "\n"), "has the same value everywhere")
	if warned != (data != randomData) {
		t.Errorf("data %s: warnings %q", data, o.Conditions.Sentences())
	}
}
