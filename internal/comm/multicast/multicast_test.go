package multicast

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

const size = 3

// The tests run on a stand-in for the driver. Ranks are goroutines, each with its own GPU.
func TestMain(m *testing.M) {
	os.Exit(cudatest.Main(m, func(lib string) map[string]string {
		return map[string]string{cuda.LibraryVariable: lib, cudatest.DevicesVariable: fmt.Sprint(size),
			cudatest.MulticastVariable: "1"}
	}))
}

// ranks runs do on every rank of a group and returns the ranks' errors.
func ranks(t *testing.T, do func(c *cuda.Context, a *shm.CallChecker) error) []error {
	t.Helper()
	driver := must.Get(cuda.Open())(t)
	devices := must.Get(driver.Devices())(t)
	errs := make([]error, size)
	var all sync.WaitGroup
	for r := range size {
		all.Go(func() {
			errs[r] = func() error {
				c, err := devices[r].Context()
				if err != nil {
					return err
				}
				a, err := shm.JoinCallChecker(t.Context(),
					shm.Identity{ID: fmt.Sprintf("%s-%d", t.Name(), os.Getpid()), Rank: r, Size: size, Timeout: time.Minute})
				if err != nil {
					return err
				}
				defer a.Close()
				return do(c, a)
			}()
		})
	}
	all.Wait()
	return errs
}

// balanced checks that everything in a log of driver calls was released.
func balanced(t *testing.T, log string) {
	t.Helper()
	text := must.Get(os.ReadFile(log))(t)
	n := func(call string) int {
		return strings.Count(string(text), call+" ") + strings.Count(string(text), call+"\n")
	}
	for _, pair := range [][2]int{
		{n("cuMemCreate") + n("cuMulticastCreate") + n("cuMemImportFromShareableHandle"), n("cuMemRelease")},
		{n("cuMemMap"), n("cuMemUnmap")}, {n("cuMemAddressReserve"), n("cuMemAddressFree")},
		{n("cuMulticastBindMem"), n("cuMulticastUnbind")},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%d taken, %d given back:\n%s", pair[0], pair[1], text)
		}
	}
}

// files lists the process's open files and its mappings of the driver's shared memory.
func files(t *testing.T) (list []string) {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	for _, e := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.Contains(to, "fake-cuda") {
			list = append(list, to)
		}
	}
	maps := must.Get(os.ReadFile("/proc/self/maps"))(t)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "fake-cuda") {
			list = append(list, line)
		}
	}
	return list
}

// All ranks reach the memory of all, and afterwards nothing is left of it.
func TestMake(t *testing.T) {
	log := filepath.Join(t.TempDir(), "calls")
	t.Setenv(cudatest.LogVariable, log)
	errs := ranks(t, func(c *cuda.Context, a *shm.CallChecker) error {
		m, err := New(c, a, 1000)
		if err != nil {
			return err
		}
		err = c.Do(func() error { return c.Fill(m.Addresses[a.Rank()], byte(1+a.Rank()), 1000) })
		if err := errors.Join(err, a.Check(shm.NewLabel("filled"))); err != nil {
			return err
		}
		have := make([]byte, 1000)
		for r, at := range m.Addresses {
			if err := c.Do(func() error {
				return c.Read(have, at)
			}); err != nil || have[0] != byte(1+r) || have[999] != byte(1+r) {
				return fmt.Errorf("rank %d reads %d of rank %d (%v)", a.Rank(), have[0], r, err)
			}
		}
		if m.Multicast == 0 || slices.Contains(m.Addresses, m.Multicast) {
			return errors.New("the multicast address equals the address of one rank's memory")
		}
		return errors.Join(a.Check(shm.NewLabel("read")), m.Close())
	})
	must.Do(t, errors.Join(errs...))
	balanced(t, log)
	if left := files(t); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// A failure of one rank is the error of all. The group continues without multicast memory, and nothing
// is left behind.
func TestRefused(t *testing.T) {
	for fault, want := range map[string]string{
		"create": "making multicast memory: rank 0: cuMulticastCreate: operation not supported (CUDA_ERROR_NOT_SUPPORTED)",
		"join":   "joining multicast memory: rank 1: cuMulticastAddDevice: operation not supported",
		"bind":   "binding multicast memory: rank 1: cuMulticastBindMem: operation not supported",
		"map":    "binding multicast memory: rank 1: memory of rank 0: cuMemSetAccess: operation not supported",
	} {
		t.Setenv(cudatest.BindVariable, fault)
		errs := ranks(t, func(c *cuda.Context, a *shm.CallChecker) error {
			_, err := New(c, a, 1000)
			return errors.Join(err, a.Check(shm.NewLabel("going on")))
		})
		for r, err := range errs {
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, rank %d: %v, want %s", fault, r, err, want)
			}
		}
		if left := files(t); len(left) > 0 {
			t.Errorf("%s: left over: %q", fault, left)
		}
	}
}

// If a rank leaves instead, the group fails, and nothing is left of what the others had created.
func TestWithoutOne(t *testing.T) {
	errs := ranks(t, func(c *cuda.Context, a *shm.CallChecker) error {
		if a.Rank() == 1 { // leaves half-way
			m := &Memory{context: c, group: a, Addresses: make([]cuda.Pointer, size), blocks: make([]*cuda.Block, size)}
			defer m.Close()
			_, err := m.exchange("the size of multicast memory", nil, 1)
			return err
		}
		_, err := New(c, a, 1000)
		return err
	})
	for _, r := range []int{0, 2} {
		var f *shm.PeerError
		if !errors.As(errs[r], &f) || f.Rank != 1 {
			t.Errorf("rank %d: %v", r, errs[r])
		}
	}
	if left := files(t); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}
