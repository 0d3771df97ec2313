package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

// The tests run on a stand-in for the driver, which does the kernels on the
// processor. `kernbench selftest --backend cuda` runs the same suite on a GPU.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cuda")
	if err != nil {
		panic(err)
	}
	lib, err := cudatest.Build(dir)
	if err != nil {
		panic(err)
	}
	os.Setenv(cuda.LibraryVariable, lib)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var groups atomic.Int64

// open makes a group of goroutines of this process.
func open(size int, timeout time.Duration) ([]*dist.Group, error) {
	gs, errs := make([]*dist.Group, size), make([]error, size)
	id := fmt.Sprintf("cuda-test-%d-%d", time.Now().UnixNano(), groups.Add(1))
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			gs[r], errs[r] = dist.Init(context.Background(), dist.Config{Backend: Name, Rank: r, Size: size, ID: id, Timeout: timeout})
		})
	}
	ranks.Wait()
	return gs, errors.Join(errs...)
}

func TestConformance(t *testing.T) {
	sizes := []int{2, 3}
	if testing.Short() {
		sizes = []int{2}
	}
	disttest.Run(t, disttest.Suite{Open: open, Sizes: sizes, Short: true})
}
