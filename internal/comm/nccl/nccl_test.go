package nccl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// The library is found where pip installs it for the Python on PATH, its version is read, and a
// communicator of one rank works. The stand-in checks that the id arrives by value and the
// configuration completely.
func TestOpen(t *testing.T) {
	venv := t.TempDir()
	folder := filepath.Join(venv, "lib/python3.12/site-packages/nvidia/nccl/lib")
	must.Do(t, os.MkdirAll(folder, 0o700))
	lib := must.Get(cudatest.Build(folder))(t)
	file := filepath.Join(folder, "libnccl.so.2")
	must.Do(t, os.Symlink(lib, file))
	t.Setenv("PATH", os.Getenv("PATH")+":"+venv+"/bin")
	t.Setenv(cuda.LibraryVariable, lib)
	l := must.Get(Open())(t)
	if want := "NCCL 2.28.9 (" + lib + ")"; l.String() != want { // links resolved
		t.Errorf("opened %v, want %s", l, want)
	}
	driver := must.Get(cuda.Open())(t)
	gpus := must.Get(driver.Devices())(t)
	c := must.Get(gpus[0].Context())(t)
	if err := c.Do(func() error { return alone(t, l, c) }); err != nil {
		t.Error(err)
	}
}

func alone(t *testing.T, l *Library, c *cuda.Context) error {
	id, err := l.NewID()
	if err != nil {
		return err
	}
	comm, err := l.Start(1, 0, id)
	if err != nil {
		return err
	}
	for comm.State() == ErrInProgress {
	}
	s, err := c.Stream()
	if err != nil {
		return err
	}
	p, err := c.Alloc(8)
	if err != nil {
		return err
	}
	if err := c.Write(p, []byte{1, 2, 3, 4, 5, 6, 7, 8}); err != nil {
		return err
	}
	if err := comm.AllReduce(p, p+4, 4, dtype.U8, dtype.Sum, s); err != nil {
		return err
	}
	if err := s.Synchronize(); err != nil {
		return err
	}
	got := make([]byte, 8)
	if err := c.Read(got, p); err != nil || string(got) != "\x01\x02\x03\x04\x01\x02\x03\x04" {
		t.Errorf("the sum over one rank is %v, %v", got, err)
	}
	os.Setenv(cudatest.FaultVariable, "call")
	defer os.Unsetenv(cudatest.FaultVariable)
	err = comm.AllReduce(p, p, 4, dtype.U8, dtype.Sum, s)
	if err == nil || !strings.Contains(err.Error(), "ncclAllReduce: invalid usage (5): planted: no channels") {
		t.Errorf("a refused call: %v", err)
	}
	return comm.Destroy()
}
