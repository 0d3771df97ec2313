// Package cudatest gives tests a driver where there is no GPU: a library with the
// functions of libcuda that does the all-reduce kernels on the processor, and with
// those of libnccl, and writes down every call. It is built from C by the compiler
// that the tests need anyway, opened as the real ones are, and never part of the
// shipped binary's work.
package cudatest

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed testdata
var sources embed.FS

// The variables by which the library is told what to be.
const (
	LogVariable     = "FAKE_CUDA_LOG"     // a file for the calls
	DevicesVariable = "FAKE_CUDA_DEVICES" // how many GPUs there are
	RefuseVariable  = "FAKE_CUDA_REFUSE"  // PTX with this text is refused
	FaultVariable   = "FAKE_NCCL_FAULT"   // what libnccl does wrong: call, async, hang or wrong
)

// Build makes the library, which is both libcuda and libnccl, in a folder and returns
// its path.
func Build(dir string) (string, error) {
	to := filepath.Join(dir, "libcuda.so.1")
	args := []string{"-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread", "-o", to}
	for _, name := range []string{"fake.h", "fake.c", "nccl.c"} {
		text, err := sources.ReadFile("testdata/" + name)
		path := filepath.Join(dir, name)
		if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
			return "", err
		}
		if filepath.Ext(name) == ".c" {
			args = append(args, path)
		}
	}
	if out, err := exec.Command("gcc", append(args, "-lrt")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the stand-in for libcuda and libnccl: %w\n%s", err, out)
	}
	return to, nil
}
