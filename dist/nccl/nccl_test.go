package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	library "github.com/kernbench/kernbench/internal/comm/nccl"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
)

var calls string // the stand-in's log of calls

// The tests run on a stand-in for the driver and for NCCL, with four GPUs. `kernbench selftest
// --backend nccl` runs the same suite on real GPUs.
func TestMain(m *testing.M) {
	if rank, ok := os.LookupEnv(rankVariable); ok {
		os.Exit(dieInMidCall(rank))
	}
	os.Exit(cudatest.Main(m, func(lib string) map[string]string {
		calls = lib + ".calls"
		return map[string]string{cuda.LibraryVariable: lib, library.LibraryVariable: lib, cudatest.DevicesVariable: "4"}
	}))
}

// open returns a group whose ranks are goroutines of this process.
func open(size int, timeout time.Duration) ([]*dist.Group, error) {
	return disttest.Join(size, dist.Config{Backend: Name, Timeout: timeout}, nil)
}

func TestConformance(t *testing.T) {
	sizes := []int{2, 3}
	if testing.Short() {
		sizes = []int{2}
	}
	disttest.Run(t, disttest.Suite{Open: open, Sizes: sizes, Short: true})
}

// Two ranks on one GPU are refused before NCCL is called, as something that the machine lacks.
func TestOneRankPerGPU(t *testing.T) {
	_, err := open(5, time.Minute)
	if reason, yes := errors.AsType[*dist.UnavailableError](err); !yes ||
		!strings.HasPrefix(reason.Error(),
			"NCCL takes one rank per GPU, and ranks 0 and 4 of 5 both have GPU 0000:00:00.0 (Fake GPU 0)") {
		t.Errorf("five ranks on four GPUs: %v", err)
	}
}

// Every rank gets NCCL's error, and the communicator is aborted on every rank.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault, want string
		timeout     time.Duration // long enough to open a group on a busy machine
	}{
		{"call", "ncclAllReduce: invalid usage (5): planted: no channels", time.Minute},
		{"async", "remote process exited or there was a network error (6): planted: the connection was closed by a peer",
			time.Minute},
		{"hang", "waited 5s for NCCL in allreduce of 8 f32 (sum), which all ranks have started", 5 * time.Second},
	} {
		os.Setenv(cudatest.FaultVariable, c.fault)
		os.Setenv(cudatest.LogVariable, calls)
		gs := must.Get(open(2, c.timeout))(t)
		got := disttest.Each(gs, func(g *dist.Group) error {
			b := dist.Of(make([]float32, 8))
			return g.AllReduce(b, b, dist.Sum)
		})
		for r, g := range gs {
			var misuse *dist.MisuseError
			if !errors.As(got[r], &misuse) || !strings.Contains(got[r].Error(), c.want) {
				t.Errorf("%s: rank %d got %v, want %q", c.fault, r, got[r], c.want)
			}
			if err := g.Barrier(); err == nil {
				t.Errorf("%s: the group works on", c.fault)
			}
			if err := g.Close(); err != nil {
				t.Errorf("%s: closing: %v", c.fault, err)
			}
		}
		os.Unsetenv(cudatest.FaultVariable)
		os.Unsetenv(cudatest.LogVariable)
		log, _ := os.ReadFile(calls)
		if n := strings.Count(string(log), "ncclCommAbort"); n != 2 {
			t.Errorf("%s: %d communicators were aborted, want 2:\n%s", c.fault, n, log)
		}
		os.Remove(calls)
	}
}

// Memory that cannot be filled with zeros is freed on every rank.
func TestAllocFreesWhatItCannotFill(t *testing.T) {
	gs := must.Get(open(2, time.Minute))(t)
	t.Setenv(cudatest.ProductVariable, "lost fill")
	t.Setenv(cudatest.LogVariable, calls)
	defer os.Remove(calls)
	for r, err := range disttest.Each(gs, func(g *dist.Group) error { _, err := g.Alloc(dist.F32, 12); return err }) {
		if err == nil || !strings.Contains(err.Error(), "cuMemsetD8") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	os.Unsetenv(cudatest.LogVariable)
	log := string(must.Get(os.ReadFile(calls))(t))
	if made, freed := strings.Count(log, "cuMemAlloc 48\n"), strings.Count(log, "cuMemFree"); made != 2 || freed != 2 {
		t.Errorf("%d allocations were made and %d freed, want 2 and 2:\n%s", made, freed, log)
	}
	for _, g := range gs {
		must.Do(t, g.Close())
	}
}

// Variables that make this program a rank of a group of two processes.
const (
	rankVariable  = "NCCL_TEST_RANK"
	groupVariable = "NCCL_TEST_GROUP"
)

// dieInMidCall starts a call that never ends. Rank 1 is killed in it.
func dieInMidCall(rank string) int {
	me, _ := strconv.Atoi(rank)
	g, err := dist.Init(context.Background(),
		dist.Config{Backend: Name, Rank: me, Size: 2, ID: "nccl-test-" + os.Getenv(groupVariable), Timeout: time.Minute})
	if err != nil {
		fmt.Println(err)
		return 2
	}
	b := dist.Of(make([]float32, 8))
	if me == 1 {
		time.AfterFunc(50*time.Millisecond, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	var peer *dist.PeerError
	if err := g.AllReduce(b, b, dist.Sum); !errors.As(err, &peer) || peer.Rank != 1 || !peer.Dead {
		fmt.Println("not a PeerError about rank 1:", err)
		return 1
	}
	g.Close()
	return 0
}

// If a rank dies while NCCL works, the error names it, and the others return long before the timeout.
func TestDeadRank(t *testing.T) {
	var ranks [2]*exec.Cmd
	for r := range ranks {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d", rankVariable, r), cudatest.FaultVariable+"=hang",
			fmt.Sprintf("%s=%d", groupVariable, os.Getpid()))
		c.Stdout = new(strings.Builder)
		must.Do(t, c.Start())
		ranks[r] = c
	}
	if err := ranks[0].Wait(); err != nil {
		t.Errorf("rank 0: %v: %s", err, ranks[0].Stdout)
	}
	if err := ranks[1].Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("rank 1: %v: %s", err, ranks[1].Stdout)
	}
}
