package gpufused

import (
	"bytes"
	"os"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// Every PTX file was compiled from the sources beside it, contains the expected kernels, and needs no
// newer driver than documented.
func TestPTXIsCurrent(t *testing.T) {
	begins := map[string]string{"parts80": "\n.version 8.0\n.target sm_80\n",
		"parts90": "\n.version 8.2\n.target sm_90\n", "onekernel80": "\n.version 8.0\n.target sm_80\n",
		"onekernel90a": "\n.version 8.0\n.target sm_90a\n"}
	for name, begin := range begins {
		if err := cudatest.StalePTX(os.DirFS("."), name, os.DirFS("../gpugemm")); err != nil {
			t.Error(err)
		}
		ptx, err := files.ReadFile("ptx/" + name + ".ptx")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(ptx, []byte(begin)) {
			t.Errorf("%s.ptx is of another version or for another target", name)
		}
	}
	var kernels []Kernel
	for ranks := 1; ranks <= MaxRanks; ranks++ {
		kernels = append(kernels, Gate(false), Gate(true), Sum(ranks, false), Sum(ranks, true))
	}
	for _, k := range OneKernels {
		kernels = append(kernels, k.Kernel)
	}
	for _, k := range kernels {
		if ptx, err := files.ReadFile("ptx/" + k.File + ".ptx"); err != nil ||
			!bytes.Contains(ptx, []byte(".entry "+k.Name+"(")) {
			t.Errorf("%s has no kernel %s: %v", k.File, k.Name, err)
		}
	}
}

// Kernels that may start early wait for their predecessor and let their successor start.
func TestDependentKernelsWait(t *testing.T) {
	for file, want := range map[string]int{"parts80": 0, "parts90": 5} {
		ptx, err := files.ReadFile("ptx/" + file + ".ptx")
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range []string{"griddepcontrol.wait;", "griddepcontrol.launch_dependents;"} {
			if n := bytes.Count(ptx, []byte(what)); n != want {
				t.Errorf("%s has %d times %s, want %d", file, n, what, want)
			}
		}
	}
}

// The fused kernel for older GPUs contains the same product as package gpugemm, instruction for
// instruction. On Hopper they differ: there a product alone stores one tile while it multiplies another.
// No fence delays a product: that would cost a quarter of the speed.
func TestProductsOfOneKernels(t *testing.T) {
	for one, alone := range map[string]string{"onekernel80": "gemm80", "onekernel90a": ""} {
		fused, err := files.ReadFile("ptx/" + one + ".ptx")
		if err != nil {
			t.Fatal(err)
		}
		product := fused
		if alone != "" {
			product = must.Get(os.ReadFile("../gpugemm/ptx/" + alone + ".ptx"))(t)
		}
		for _, what := range []string{"mma.sync", "ldmatrix", "cp.async.cg", "wgmma.mma_async", "wgmma.wait_group",
			"cp.async.bulk", "shared::cluster.b64", "setmaxnreg"} {
			if a, b := bytes.Count(fused, []byte(what)), bytes.Count(product, []byte(what)); a != b {
				t.Errorf("%s has %d times %s, %s %d times", one, a, what, alone, b)
			}
		}
		if bytes.Contains(fused, []byte("release.cluster.shared")) ||
			!bytes.Contains(fused, []byte("st.release.sys.global")) {
			t.Errorf("%s arrives with a release, or signals without", one)
		}
	}
}

// Blocks returns whole clusters.
func TestBlocksOfOneKernels(t *testing.T) {
	hopper, other := OneKernels[0], OneKernels[1]
	for _, c := range []struct {
		k                          OneKernel
		multiprocessors, fit, want int
	}{
		{hopper, 66, 1, 66},
		{hopper, 33, 1, 32},
		{hopper, 1, 1, 0},
		{other, 66, 2, 132},
		{other, 1, 1, 1},
	} {
		if n := c.k.Blocks(c.multiprocessors, c.fit); n != c.want {
			t.Errorf("%s on %d multiprocessors, %d each: %d blocks, want %d", c.k.Name, c.multiprocessors, c.fit, n, c.want)
		}
	}
}

func TestParamsLayout(t *testing.T) {
	var p Params
	if unsafe.Sizeof(p) != 640 || unsafe.Offsetof(p.MapA) != 384 || unsafe.Offsetof(p.Failure) != 256 ||
		unsafe.Offsetof(p.Rank) != 304 || unsafe.Offsetof(p.M) != 320 || unsafe.Offsetof(p.Arrived) != 344 {
		t.Errorf("size %d, MapA at %d, Failure at %d, Rank at %d, M at %d, Arrived at %d", unsafe.Sizeof(p),
			unsafe.Offsetof(p.MapA), unsafe.Offsetof(p.Failure), unsafe.Offsetof(p.Rank), unsafe.Offsetof(p.M),
			unsafe.Offsetof(p.Arrived))
	}
}
