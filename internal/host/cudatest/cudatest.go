// Package cudatest provides a stand-in for the NVIDIA driver on machines without a GPU. It is a
// library with the functions of libcuda, libnccl and libcublasLt that runs the kernels on the CPU and
// logs every call. Tests build it from C with gcc, which they need anyway, and open it like the real
// libraries. The shipped binary never uses it.
package cudatest

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

//go:embed testdata
var sources embed.FS

// Environment variables that configure the library.
const (
	LogVariable       = "FAKE_CUDA_LOG"       // file for the log of calls
	DevicesVariable   = "FAKE_CUDA_DEVICES"   // number of GPUs
	MajorVariable     = "FAKE_CUDA_MAJOR"     // their major compute capability
	MulticastVariable = "FAKE_CUDA_MULTICAST" // gives them multicast memory
	// Fault of multicast memory: unbound (the memory of GPU 1 is silently not bound), or create, join,
	// bind or map (that call is refused).
	BindVariable = "FAKE_MULTICAST_FAULT"
	// Fault of copy kernels: early, slot, stale or lost. With slow they are correct but take a while.
	CopyVariable   = "FAKE_COPY_FAULT"
	RefuseVariable = "FAKE_CUDA_REFUSE" // PTX that contains this text is refused
	// Measured bandwidths in GB/s: of a copy, and in the L2 cache of reads, of reads by several
	// blocks, and of copies.
	SpeedsVariable = "FAKE_CUDA_SPEEDS"
	FaultVariable  = "FAKE_NCCL_FAULT" // fault of libnccl: call, async, hang or wrong
	// Fault of products: tile, element, stale or none (no algorithm is offered). Faults of the fused
	// kernel: early, unwaited, misplaced or unclaimed (fused.c). Faults of copies and of the loops of
	// STREAM: lost upload, lost download or lost pack.
	ProductVariable = "FAKE_GEMM_FAULT"
	DeferVariable   = "FAKE_CUDA_DEFER" // streams work only while somebody waits for them
	// Processes that NVML reports on every GPU: PID:USE:NAME,... with their use of the multiprocessors in
	// per cent, empty if it is not known.
	ProcessesVariable = "FAKE_NVML_PROCESSES"
	ReasonsVariable   = "FAKE_NVML_REASONS" // NVML's bits that say why the clock is held down
)

const builtVariable = "FAKE_CUDA_BUILT"

// Main runs the tests of a package that all use the library, and returns the exit status. set receives
// the library's path, in its own folder, and returns the environment to set. solve is as for Build.
func Main(m *testing.M, set func(lib string) (environ map[string]string), solve ...fs.FS) int {
	lib := os.Getenv(builtVariable) // built by the parent test; a killed process would leave its own copy behind
	if lib == "" {
		dir, err := os.MkdirTemp("", "cudatest")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if lib, err = Build(dir, solve...); err != nil {
			panic(err)
		}
		os.Setenv(builtVariable, lib)
	}
	for name, value := range set(lib) {
		os.Setenv(name, value)
	}
	return m.Run()
}

// RealVariable is set to run tests of kernels on a real GPU instead of the stand-in, as scripts/gpu-sanitizer.sh does.
const RealVariable = "KERNBENCH_TEST_REAL_GPU"

// Library builds the library for one test and sets the given environment variables to its path. The
// programs of MPS lie beside it.
func Library(t testing.TB, variables ...string) (path string) {
	t.Helper()
	lib, err := Build(t.TempDir())
	if err = errors.Join(err, MPS(filepath.Dir(lib))); err != nil {
		t.Fatal(err)
	}
	for _, name := range variables {
		t.Setenv(name, lib)
	}
	return lib
}

// Build builds the library, which is libcuda, libnccl and libcublasLt in one, in a folder and returns
// its path. solve holds the sources of the solve kernels, which are compiled for the CPU.
func Build(dir string, solve ...fs.FS) (string, error) {
	src := filepath.Join(dir, "sources")
	names := []string{"fake.h", "fake.c", "streams.c", "nccl.c", "gemm.c", "cache.c", "copy.c", "fused.c", "multicast.c",
		"stream.c"}
	for _, kernels := range solve {
		names = append(names, "lanes.h", "solve.c")
		if err := os.CopyFS(src, kernels); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(src, 0o700); err != nil {
		return "", err
	}
	args := []string{"-std=gnu11", "-O1", "-shared", "-fPIC", "-pthread"}
	for _, name := range names {
		text, err := sources.ReadFile("testdata/" + name)
		path := filepath.Join(src, name)
		if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
			return "", err
		}
		if filepath.Ext(name) == ".c" {
			args = append(args, name)
		}
	}
	library, err := compiled(src, append(args, "-lrt", "-lm"))
	if err != nil {
		return "", fmt.Errorf("building the stand-in for libcuda and libnccl: %w", err)
	}
	to := filepath.Join(dir, "libcuda.so.1")
	return to, os.WriteFile(to, library, 0o700)
}

// compiled returns the shared library that gcc builds from the sources in a folder. Many tests and
// processes need the same library, so it is cached in the user's cache folder under a hash of sources
// and flags.
func compiled(src string, args []string) ([]byte, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.GOARCH, args)
	err := filepath.WalkDir(src, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", f.Name(), len(text), text)
		return err
	})
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = src // the user has no home directory
	}
	cache = filepath.Join(cache, "kernbench-cudatest")
	cached := filepath.Join(cache, fmt.Sprintf("%x.so", sum.Sum(nil)))
	if library, err := os.ReadFile(cached); err == nil {
		return library, nil
	}
	gcc := exec.Command("gcc", append(args, "-o", src+".so")...)
	gcc.Dir = src
	if out, err := gcc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	library, err := os.ReadFile(src + ".so")
	if err == nil {
		_ = keep(cached, library) // without a cache every test compiles
	}
	return library, err
}

// keep writes a file atomically: other processes, which may write the same file, see it completely or
// not at all.
func keep(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// The programs of MPS as shell scripts. Like the real ones, the daemon is ready once a file exists,
// and its server is a separate process that does not end with it.
const (
	mpsControl = `#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" != -f ]; then
	read -r command rest
	[ "$command" = quit ] && kill $(cat control server.pid)
	exit
fi
mkfifo wait
setsid "${0%control}server" &
echo $! >server.pid
echo $$ >starting && mv starting control
read -r never <wait
`
	mpsServer = `#!/bin/sh
read -r never <wait
`
)

// MPS writes stand-ins for the programs of MPS to a folder, which must be in PATH.
func MPS(dir string) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-control"), []byte(mpsControl), 0o700),
		os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-server"), []byte(mpsServer), 0o700))
}
