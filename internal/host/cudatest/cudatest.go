// Package cudatest gives tests a driver where there is no GPU: a library with the
// functions of libcuda that does the kernels on the processor, and with those of
// libnccl and libcublasLt, and writes down every call. It is built from C by the compiler
// that the tests need anyway, opened as the real ones are, and never part of the
// shipped binary's work.
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

// The variables by which the library is told what to be.
const (
	LogVariable       = "FAKE_CUDA_LOG"       // a file for the calls
	DevicesVariable   = "FAKE_CUDA_DEVICES"   // how many GPUs there are
	MajorVariable     = "FAKE_CUDA_MAJOR"     // their compute capability, without the minor one
	MulticastVariable = "FAKE_CUDA_MULTICAST" // makes them have multicast memory
	// what goes wrong with it: unbound (the memory of GPU 1 is not bound, and nothing is said), create,
	// join, bind or map (a call is refused)
	BindVariable = "FAKE_MULTICAST_FAULT"
	// what copy kernels do wrong: early, slot, stale or lost; slow: nothing, but they take a while
	CopyVariable   = "FAKE_COPY_FAULT"
	RefuseVariable = "FAKE_CUDA_REFUSE" // PTX with this text is refused
	// what is measured, in GB/s: of a copy, and in the cache of reads, of reads by several, of copies
	SpeedsVariable = "FAKE_CUDA_SPEEDS"
	FaultVariable  = "FAKE_NCCL_FAULT" // what libnccl does wrong: call, async, hang or wrong
	// what products do wrong: tile, element, stale or none (no algorithm is offered); of the one kernel:
	// early, unwaited, misplaced, unclaimed (fused.c)
	ProductVariable = "FAKE_GEMM_FAULT"
	DeferVariable   = "FAKE_CUDA_DEFER" // streams do their work only when somebody waits for it
)

const builtVariable = "FAKE_CUDA_BUILT"

// Main is for TestMain of a package whose tests all use the library: set says what the environment is to be
// with the library at this path, in a folder of its own. It gives the exit status.
func Main(m *testing.M, set func(lib string) (environ map[string]string)) int {
	lib := os.Getenv(builtVariable) // by the test whose process this is: it may be killed, and would leave its own behind
	if lib == "" {
		dir, err := os.MkdirTemp("", "cudatest")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if lib, err = Build(dir); err != nil {
			panic(err)
		}
		os.Setenv(builtVariable, lib)
	}
	for name, value := range set(lib) {
		os.Setenv(name, value)
	}
	return m.Run()
}

// Library makes the library for one test, and sets these variables of the environment to its path. Beside it
// are the programs of MPS.
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

// Build makes the library, which is libcuda, libnccl and libcublasLt, in a folder and
// returns its path. The kernels of solves are compiled for the processor from their own sources,
// which tests that need them hand over.
func Build(dir string, solve ...fs.FS) (string, error) {
	src := filepath.Join(dir, "sources")
	names := []string{"fake.h", "fake.c", "streams.c", "nccl.c", "gemm.c", "cache.c", "copy.c", "fused.c", "multicast.c"}
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
	made, err := compiled(src, append(args, "-lrt", "-lm"))
	if err != nil {
		return "", fmt.Errorf("building the stand-in for libcuda and libnccl: %w", err)
	}
	to := filepath.Join(dir, "libcuda.so.1")
	return to, os.WriteFile(to, made, 0o700)
}

// compiled is what gcc makes of the sources in a folder. Dozens of tests and their processes
// have the same: it is kept in the user's cache, by what it was made of.
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
		cache = src // of a user without a home
	}
	cache = filepath.Join(cache, "kernbench-cudatest")
	kept := filepath.Join(cache, fmt.Sprintf("%x.so", sum.Sum(nil)))
	if made, err := os.ReadFile(kept); err == nil {
		return made, nil
	}
	gcc := exec.Command("gcc", append(args, "-o", src+".so")...)
	gcc.Dir = src
	if out, err := gcc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	made, err := os.ReadFile(src + ".so")
	if err == nil {
		_ = keep(kept, made) // where nothing can be kept every test compiles
	}
	return made, err
}

// keep writes a file that others, who may write the same at this time, see whole or not at all.
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

// The programs of MPS, as shell scripts. As the real ones, the daemon listens once there
// is a file, and its server is another process, which does not end with it.
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

// MPS makes stand-ins for the programs of MPS in a folder, which goes into PATH.
func MPS(dir string) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-control"), []byte(mpsControl), 0o700),
		os.WriteFile(filepath.Join(dir, "nvidia-cuda-mps-server"), []byte(mpsServer), 0o700))
}
