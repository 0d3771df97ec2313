package device_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/devicetest"
)

// The conformance suite that `kernbench selftest` runs on GPUs also passes with the kernels compiled
// for the CPU.
func TestSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("makes the same calls as the other tests")
	}
	const ranks = 2
	backend := dist.Backends(func(d dist.Description) bool { return device.SupportsBackend(d.Name) })[0]
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			g, err := dist.Init(t.Context(),
				dist.Config{Backend: backend, Rank: r, Size: ranks, ID: fmt.Sprintf("suite-%d", os.Getpid()), Timeout: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			defer g.Close()
			if cases, faults := devicetest.Faults(g, true); len(faults) > 0 || cases != 139 {
				t.Errorf("rank %d: %d cases, %v", r, cases, faults)
			}
		})
	}
	all.Wait()
}
