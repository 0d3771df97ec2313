package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
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
	if os.Getenv(keepsDaemon) != "" { // as a rank that will be killed
		d, err := startDaemon()
		fmt.Println(d.dir, err)
		select {}
	}
	dir, err := os.MkdirTemp("", "cuda")
	if err != nil {
		panic(err)
	}
	lib, err := cudatest.Build(dir)
	if err != nil {
		panic(err)
	}
	if os.Getenv(lacksDriver) == "" {
		os.Setenv(cuda.LibraryVariable, lib)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// lacksDriver is set where a test is to find no driver or no GPU: to what it is to say.
const lacksDriver = "KERNBENCH_TEST_LACKS_DRIVER"

// Without a driver, or a GPU for it, no rank can say more than that, also one whose meeting with
// the others would fail, since they have gone already: so no row is called failed for it.
func TestNoDriver(t *testing.T) {
	if os.Getenv(lacksDriver) == "" {
		for want, variable := range map[string]string{
			"/nowhere/libcuda.so.1": cuda.LibraryVariable + "=/nowhere/libcuda.so.1",
			"CUDA_ERROR_NO_DEVICE":  cudatest.DevicesVariable + "=0",
		} {
			cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
			cmd.Env = append(os.Environ(), lacksDriver+"="+want, variable)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
				t.Errorf("%v\n%s", err, out)
			}
		}
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the meeting fails
	_, err := backend{}.Join(ctx, dist.Config{ID: t.Name(), Rank: 0, Size: 2, Timeout: time.Minute})
	if reason, yes := dist.Unavailable(err); !yes || !strings.Contains(reason.Error(), os.Getenv(lacksDriver)) {
		t.Errorf("nothing to run on: %v", err)
	}
}

var groups atomic.Int64

// open makes a group of goroutines of this process.
func open(size int, timeout time.Duration) ([]*dist.Group, error) {
	return openWith(size, timeout, nil)
}

func openWith(size int, timeout time.Duration, knobs map[string]string) ([]*dist.Group, error) {
	gs, errs := make([]*dist.Group, size), make([]error, size)
	id := fmt.Sprintf("cuda-test-%d-%d", time.Now().UnixNano(), groups.Add(1))
	var ranks sync.WaitGroup
	for r := range size {
		ranks.Go(func() {
			gs[r], errs[r] = dist.Init(context.Background(), dist.Config{Backend: Name, Rank: r, Size: size, ID: id, Timeout: timeout, Knobs: knobs})
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

// The limit of calls on a shared GPU is what its memory must move at least: all ranks'
// buffers but for what the cache holds, at the speed of a copy.
func TestLimits(t *testing.T) {
	gs, err := open(2, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if n := gs[0].Capabilities().Sharing; n != 2 {
		t.Errorf("%d ranks share the GPU, want 2", n)
	}
	const count = 1 << 20
	buffers := make([]dist.Buffer, 2)
	errs := make([]error, 2)
	var ranks sync.WaitGroup
	for r, g := range gs {
		ranks.Go(func() { buffers[r], errs[r] = g.Alloc(dist.F32, count) })
	}
	ranks.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	limits := func(op dist.Collective, count int, b dist.Buffer) []dist.Limit {
		list, err := backend{}.Limits(dist.Plan{Call: dist.Call{Op: op, In: b, Count: count}, DType: dist.F32}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	sum, gather := limits(dist.AllReduce, count, buffers[0]), limits(dist.AllGather, count, buffers[0])
	const cache = 1 << 20 // of the stand-in
	if len(sum) != 1 || len(gather) != 1 || sum[0].US <= 0 ||
		math.Abs(sum[0].US/gather[0].US-float64(4*4*count-cache)/(3*4*count-cache)) > 1e-9 {
		t.Errorf("limits of an all-reduce %v, of an all-gather %v", sum, gather)
	}
	if few := limits(dist.AllReduce, 1000, buffers[0]); few != nil {
		t.Errorf("what fits into the cache is limited by the memory: %v", few)
	}
	if private := limits(dist.AllReduce, count, dist.Make(dist.F32, count)); private != nil {
		t.Errorf("what goes through the host is limited by the GPU's memory: %v", private)
	}
	for _, g := range gs {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}
