// Package cudatest gives tests a driver where there is no GPU: a library with the
// functions of libcuda that does the all-reduce kernels on the processor and
// writes down every call. It is built from C by the compiler that the tests need
// anyway, opened as the real one is, and never part of the shipped binary's work.
package cudatest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed testdata/fake.c
var source []byte

// The variables by which the library is told what to be.
const (
	LogVariable     = "FAKE_CUDA_LOG"     // a file for the calls
	DevicesVariable = "FAKE_CUDA_DEVICES" // how many GPUs there are
	RefuseVariable  = "FAKE_CUDA_REFUSE"  // PTX with this text is refused
)

// Build makes the library in a folder and returns its path.
func Build(dir string) (string, error) {
	from, to := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libcuda.so.1")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", to, from, "-lrt").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the stand-in for libcuda: %w\n%s", err, out)
	}
	return to, nil
}
