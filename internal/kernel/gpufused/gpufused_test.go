package gpufused

import (
	"bytes"
	"os"
	"testing"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// Every PTX comes from the sources beside it, has the kernels that are asked for, and wants
// no newer driver than documented.
func TestPTXIsCurrent(t *testing.T) {
	begins := map[string]string{"parts80": "\n.version 8.0\n.target sm_80\n", "parts90": "\n.version 8.2\n.target sm_90\n", "onekernel80": "\n.version 8.0\n.target sm_80\n"}
	for name, begin := range begins {
		if err := cudatest.StalePTX(os.DirFS("."), name); err != nil {
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
	kernels := []Kernel{Where()}
	for ranks := 1; ranks <= MaxRanks; ranks++ {
		kernels = append(kernels, Gate(false), Gate(true), Sum(ranks, false), Sum(ranks, true), OneKernel(ranks))
	}
	for _, k := range kernels {
		if ptx, err := files.ReadFile("ptx/" + k.File + ".ptx"); err != nil || !bytes.Contains(ptx, []byte(".entry "+k.Name+"(")) {
			t.Errorf("%s has no kernel %s: %v", k.File, k.Name, err)
		}
	}
}

// Kernels that may start early wait for the one in front of them, and let the next one start.
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

func TestParamsLayout(t *testing.T) {
	var p Params
	if unsafe.Sizeof(p) != 360 || unsafe.Offsetof(p.Failure) != 256 || unsafe.Offsetof(p.Where) != 304 || unsafe.Offsetof(p.M) != 328 || unsafe.Offsetof(p.Arrived) != 356 {
		t.Errorf("size %d, Failure at %d, Where at %d, M at %d, Arrived at %d", unsafe.Sizeof(p), unsafe.Offsetof(p.Failure), unsafe.Offsetof(p.Where), unsafe.Offsetof(p.M), unsafe.Offsetof(p.Arrived))
	}
}
