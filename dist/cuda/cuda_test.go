package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/dist/instrument"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/host/dynlib"
)

// The tests run on a stand-in for the driver, which executes the kernels on the CPU. `kernbench
// selftest --backend cuda` runs the same suite on a GPU.
func TestMain(m *testing.M) {
	os.Exit(cudatest.Main(m, func(lib string) map[string]string {
		if os.Getenv(lacksDriver) != "" {
			return nil
		}
		return map[string]string{cuda.LibraryVariable: lib}
	}))
}

// lacksDriver is set for a test process that finds no driver or no GPU, to the error message that it
// expects.
const lacksDriver = "KERNBENCH_TEST_LACKS_DRIVER"

// Without a driver or a GPU, every rank reports just that, even if it could not meet the other ranks.
// So the row counts as unavailable, not as failed.
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
	_, err := dist.Init(ctx, dist.Config{Backend: Name, ID: t.Name(), Rank: 0, Size: 2, Timeout: time.Minute})
	if reason, yes := errors.AsType[*dist.UnavailableError](err); !yes ||
		!strings.Contains(reason.Error(), os.Getenv(lacksDriver)) {
		t.Errorf("nothing to run on: %v", err)
	}
}

// Ranks on several hosts are refused at once, on every rank. They would wait for each other in vain.
func TestSeveralHostsAreRefused(t *testing.T) {
	elsewhere := func(_ context.Context, mine []byte) ([][]byte, error) {
		return [][]byte{mine, append(slices.Clone(mine), '2')}, nil
	}
	_, err := dist.Init(t.Context(), dist.Config{Backend: Name, ID: t.Name(), Size: 2, Timeout: time.Minute,
		Exchange: elsewhere})
	if reason, yes := errors.AsType[*dist.UnavailableError](err); !yes ||
		!strings.Contains(reason.Error(), "ranks 0 and 1 are on different hosts: backend cuda needs all ranks on one host") {
		t.Errorf("two hosts: %v", err)
	}
}

// shares makes the test program rank 1 of the group with this name, on the GPU of rank 0.
const shares = "KERNBENCH_TEST_RANK_SHARES"

// Processes that share a GPU without MPS, and whose kernels would take turns, are refused on every
// rank, unless that is allowed.
func TestTurnsRefused(t *testing.T) {
	for _, turns := range []string{"", "1"} {
		id, rank := fmt.Sprintf("%s-%d-%s", t.Name(), os.Getpid(), turns), 0
		if given := os.Getenv(shares); given != "" {
			id, rank, turns = given, 1, os.Getenv(TurnsVariable)
		} else {
			t.Setenv(TurnsVariable, turns)
			cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
			cmd.Env = append(os.Environ(), shares+"="+id)
			var output strings.Builder
			cmd.Stdout, cmd.Stderr = &output, &output
			must.Do(t, cmd.Start())
			defer func() {
				if err := cmd.Wait(); err != nil || !strings.Contains(output.String(), "--- PASS: "+t.Name()) {
					t.Errorf("turns %q, rank 1: %v\n%s", turns, err, output.String())
				}
			}()
		}
		g, err := dist.Init(t.Context(), dist.Config{Backend: Name, Rank: rank, Size: 2, ID: id, Timeout: time.Minute})
		switch {
		case turns == "" && (err == nil ||
			!strings.Contains(err.Error(),
				"2 processes share GPU 0 (Fake GPU 0) without MPS: their kernels would take turns ("+TurnsVariable+
					"=1 allows that)")):
			t.Errorf("rank %d without MPS: %v", rank, err)
		case turns != "" && err != nil:
			t.Errorf("rank %d, and turns are allowed: %v", rank, err)
		}
		if err == nil {
			g.Close()
		}
		if rank == 1 {
			return
		}
	}
}

// The driver is configured to load kernels to the GPU before they start. It reads the C library's
// environment, not Go's.
func TestKernelsAreLoadedAtOnce(t *testing.T) {
	gs := must.Get(open(1, time.Minute))(t)
	lib := must.Get(dynlib.Open(dynlib.Spec{Name: "the C library", Sonames: []string{"libc.so.6"}}))(t)
	var get dynlib.Func
	must.Do(t, lib.Bind(map[string]*dynlib.Func{"getenv": &get}))
	key := append([]byte(loadingVariable), 0)
	at := get.Call(uintptr(unsafe.Pointer(&key[0])))
	if at == 0 {
		t.Fatal("the variable for loading kernels is not set")
	}
	if got := unsafe.String(*(**byte)(unsafe.Pointer(&at)), len("EAGER")); got != "EAGER" {
		t.Errorf("the variable for loading kernels is %q", got)
	}
	must.Do(t, gs[0].Close())
}

// open returns a group whose ranks are goroutines of this process.
func open(size int, timeout time.Duration) ([]*dist.Group, error) {
	return openWith(size, timeout, nil)
}

func openWith(size int, timeout time.Duration, knobs map[string]string) ([]*dist.Group, error) {
	return openAs(size, dist.Config{Timeout: timeout, Knobs: knobs})
}

func openAs(size int, c dist.Config) ([]*dist.Group, error) {
	c.Backend = Name
	return disttest.Join(size, c, nil)
}

func TestConformance(t *testing.T) {
	sizes := []int{2, 3}
	if testing.Short() {
		sizes = []int{2}
	}
	for _, c := range (disttest.Suite{Open: open, Sizes: sizes, Short: true}).Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Check(); err != nil && !errors.Is(err, disttest.ErrNotDeclared) {
				t.Error(err)
			}
		})
	}
}

// Calls with an epilogue in host memory leave no copies of it on the GPU. Prepared ones keep theirs until they, or the
// group, are closed.
func TestEpilogueCopiesAreFreed(t *testing.T) {
	log := filepath.Join(t.TempDir(), "calls")
	held := func() int {
		text := string(must.Get(os.ReadFile(log))(t))
		return strings.Count(text, "cuMemAlloc 48\n") - strings.Count(text, "cuMemFree")
	}
	gs := must.Get(open(1, time.Minute))(t)
	t.Setenv(cudatest.LogVariable, log)
	b, bias := dist.Make(dist.F32, 12), dist.Make(dist.F32, 12)
	call := dist.Call{Op: dist.AllReduce, In: b, Out: b, Epilogue: &dist.Epilogue{Bias: bias, Residual: bias}}
	for range 20 {
		must.Do(t, gs[0].Do(call))
	}
	if n := held(); n != 0 {
		t.Errorf("%d copies are left after 20 calls", n)
	}
	op, other := must.Get(gs[0].Prepare(call))(t), must.Get(gs[0].Prepare(call))(t)
	must.Do(t, errors.Join(op.Run(), op.Run()))
	if n := held(); n != 4 {
		t.Errorf("two prepared calls have %d copies, want 4", n)
	}
	must.Do(t, errors.Join(op.Close(), op.Close()))
	if n := held(); n != 2 {
		t.Errorf("a prepared call has %d copies, want 2", n)
	}
	if err := op.Run(); !errors.Is(err, dist.ErrClosed) {
		t.Errorf("a closed call ran: %v", err)
	}
	os.Unsetenv(cudatest.LogVariable)
	must.Do(t, errors.Join(other.Run(), gs[0].Close()))
}

// plant makes the stand-in's measurements return these speeds in GB/s: of copies, of cache reads, of
// reads of the same data by several ranks, and of copies in the cache.
func plant(t *testing.T, speeds string) {
	forget := func() {
		for _, d := range thisProcess.devices {
			d.copyProbe, d.cacheProbes = probe{}, [len(d.cacheProbes)]probe{}
		}
	}
	t.Setenv(cudatest.SpeedsVariable, speeds)
	forget()
	t.Cleanup(forget)
}

// The limits of a call on a shared GPU follow from the bytes that its memory must move (the buffers of
// all ranks minus the size of the cache) and from the ranks' cache accesses, at the fastest matching
// measurement.
func TestLimits(t *testing.T) {
	gs := must.Get(open(2, time.Minute))(t)
	if n := gs[0].Facts().RanksPerDevice; n != 2 {
		t.Errorf("%d ranks share the GPU, want 2", n)
	}
	const count, cache = 1 << 20, 1 << 20 // count: elements of f32; cache: bytes of the stand-in
	limits := func(p dist.Plan) ([]instrument.Limit, error) { return instrument.Limits(gs[0], p) }
	var buffers [2]dist.Buffer
	together(t, gs, func(r int, g *dist.Group) (err error) { buffers[r], err = g.Alloc(dist.F32, count); return err })
	const unique, few = 4 * 4 * count, 1000
	for _, c := range []struct {
		speeds, algorithm string
		op                dist.Collective
		count             int
		memory, cache     float64 // bytes, and GB/s
		copied, loaded    float64
	}{
		{"100,400,800,500", oneStage, dist.AllReduce, count, unique - cache, 6 * 4 * count, 100, 800},
		{"100,400,300,200", oneStage, dist.AllReduce, count, unique - cache, 6 * 4 * count, 100, 400},
		{"100,400,800,500", twoStagePush, dist.AllReduce, count, unique - cache, unique, 100, 500},
		{"100,400,800,500", twoStage, dist.AllReduce, count, unique - cache, 7 * 4 * count, 100, 800},
		{"100,400,800,500", lamport, dist.AllReduce, count, unique - cache, 12 * 4 * count, 100, 500},
		{"100,400,800,500", naive, dist.AllReduce, count, unique - cache, 14 * 4 * count, 100, 800},
		{"200,400,800,500", twoStagePush, dist.AllReduce, few, 0, 4 * 4 * few, 200, 500}, // fits into the cache
		{"200,400,300,200", "", dist.AllGather, count, 3*4*count - cache, unique, 200, 400},
		{"200,400,300,200", "", dist.Reduce, count, 3*4*count - cache, 3 * 4 * count, 200, 400},
		{"200,400,300,200", "", dist.Gather, count, 2*4*count - cache, 2 * 4 * count, 200, 400},
		{"200,400,300,200", "", dist.AllToAll, count, unique - cache, unique, 200, 400},
	} {
		plant(t, c.speeds)
		list, err := limits(dist.Plan{Call: dist.Call{Op: c.op, In: buffers[0], Count: c.count,
			Algorithm: c.algorithm}, DType: dist.F32})
		if err != nil || len(list) != 2 || list[0].Name != "memory" || list[1].Name != "cache" {
			t.Fatalf("%+v: %v, %v", c, list, err)
		}
		for i, want := range []float64{c.memory / c.copied / 1e3, c.cache / c.loaded / 1e3} {
			if got := list[i].US; math.Abs(got-want) > 1e-4*want {
				t.Errorf("%+v: %s allows %v us, want %v", c, list[i].Name, got, want)
			}
		}
	}
	// With Counts, the count of an all-to-all is the sum over all ranks.
	allToAll := dist.Plan{Call: dist.Call{Op: dist.AllToAll, In: buffers[0], Count: count}, DType: dist.F32}
	counted := allToAll
	counted.Count, counted.Counts = 2*count, slices.Repeat([]int{count / 2}, 4)
	one, two := must.Get(limits(allToAll))(t), must.Get(limits(counted))(t)
	if !slices.Equal(one, two) {
		t.Errorf("an all-to-all is limited to %v, with counts that say the same to %v", one, two)
	}
	if private, err := limits(dist.Plan{Call: dist.Call{Op: dist.AllReduce, In: dist.Make(dist.F32, count)},
		DType: dist.F32}); private != nil || err != nil {
		t.Errorf("what goes through the host is limited by the GPU's memory: %v, %v", private, err)
	}
	// A kernel whose loads the compiler has removed is too fast to be a limit: 4 multiprocessors at 2
	// GHz can receive 1024 GB/s.
	plant(t, "100,1025,300,200")
	if list, err := limits(dist.Plan{Call: dist.Call{Op: dist.AllReduce, In: buffers[0], Count: count,
		Algorithm: twoStagePush}, DType: dist.F32}); err == nil ||
		!strings.Contains(err.Error(), "more than the 1024 GB/s that 4 multiprocessors at 2000 MHz can receive") {
		t.Errorf("a cache faster than the multiprocessors: %v, %v", list, err)
	}
	together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
}

// The built-in table selects what was measured on each GPU (docs/results), and all its entries have a
// variant.
func TestAuto(t *testing.T) {
	for _, c := range []struct {
		ranks, bytes int
		want         string
	}{
		{2, 8 << 10, lamport}, {2, 512 << 10, lamport}, {2, 1 << 20, twoStagePush},
		{4, 256 << 10, lamport}, {4, 512 << 10, twoStagePush},
		{8, 64 << 10, lamport}, {8, 128 << 10, oneStage}, {8, 256 << 10, twoStagePush},
	} {
		if got := tuning.Default().Choose(Name, schedule.AllReduce, c.ranks, dist.BF16, c.bytes,
			true).Algorithm; got != c.want {
			t.Errorf("%d ranks, %d bytes: %s, want %s", c.ranks, c.bytes, got, c.want)
		}
	}
	for _, e := range tuning.Default().Entries() {
		if _, known := variants[e.Algorithm]; e.Backend == Name && !known {
			t.Errorf("the table has %s, which is no algorithm here", e.Algorithm)
		}
	}
}

// The limit of a call on rotating buffers is the slower of both limits, and its text names both.
func TestColdLimit(t *testing.T) {
	gs := must.Get(open(2, time.Minute))(t)
	together(t, gs, func(_ int, g *dist.Group) error { return g.Barrier() })
	e := &engine{size: 2, device: thisProcess.devices[0]}
	plan := dist.Plan{Call: dist.Call{Op: dist.AllReduce, Count: 1e6, Algorithm: oneStage}, DType: dist.F32}
	for speeds, want := range map[string]float64{"100,50,100,40": 240, "100,500,800,400": 160} {
		plant(t, speeds)
		us, what, err := e.coldLimit(plan)
		if err != nil || math.Abs(us-want) > 0.01 ||
			!strings.Contains(what, "memory: 16 MB of all ranks' buffers at 100 GB/s of a copy: 160 µs; cache: 24 MB of "+
				"accesses at ") {
			t.Errorf("%s: %v us, %q, %v; want %v", speeds, us, what, err, want)
		}
	}
	together(t, gs, func(_ int, g *dist.Group) error { return g.Close() })
}
