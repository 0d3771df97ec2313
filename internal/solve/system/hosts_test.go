package system

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/netns"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// asRank is the environment variable that makes the test binary one rank of a solve over several
// hosts. Its value is the partitioner.
const asRank = "SOLVE_TEST_RANK"

func TestMain(m *testing.M) {
	if part := os.Getenv(asRank); part != "" {
		if err := rankOfHosts(part); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// rankOfHosts solves as a rank that a launcher started, and prints the number of iterations.
func rankOfHosts(part string) error {
	c, err := dist.FromEnv()
	if err != nil {
		return err
	}
	c.Backend, c.Timeout = "cpu", hangGuard
	g, err := dist.Init(context.Background(), c)
	if err != nil {
		return err
	}
	defer g.Close()
	p, err := sparse.New("poisson", sparse.Params{Rows: 40000})
	if err != nil {
		return err
	}
	sys, err := New(g, Spec{Problem: p, Partitioner: part, Method: "cg", RHS: noise, RTol: 1e-8})
	if err != nil {
		return err
	}
	out, err := solved(sys)
	if err != nil {
		return err
	}
	fmt.Printf("%d iterations\n", out.Iterations)
	return out.Gate(1e-8)
}

// Six ranks on three hosts, which are network namespaces, need the same number of iterations as one rank. simple
// partitions on every rank, multilevel on rank 0.
func TestThreeHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("network namespaces take a while")
	}
	alone := solveOn(t, 1, Spec{Problem: generated(t, "poisson", sparse.Params{Rows: 40000}), Partitioner: "simple",
		Method: "cg", RHS: noise, RTol: 1e-8}, nil)
	net := netns.New(t, 3)
	for _, part := range []string{"simple", "multilevel"} {
		const perHost = 2
		size := perHost * len(net.Hosts)
		outputs, errs := make([]string, size), make([]error, size)
		var wait sync.WaitGroup
		for r := range size {
			cmd := net.Hosts[r/perHost].Command(os.Args[0])
			cmd.Env = append(os.Environ(), asRank+"="+part, "RANK="+strconv.Itoa(r), "WORLD_SIZE="+strconv.Itoa(size),
				"LOCAL_RANK="+strconv.Itoa(r%perHost), "LOCAL_WORLD_SIZE="+strconv.Itoa(perHost), "TORCHELASTIC_RUN_ID="+part,
				"MASTER_ADDR="+net.Hosts[0].Four, "MASTER_PORT=29466", "KERNBENCH_DIST_SECRET=a secret of this test alone",
				"GORACE=atexit_sleep_ms=0")
			wait.Go(func() {
				text, err := cmd.CombinedOutput()
				outputs[r], errs[r] = string(text), err
			})
		}
		wait.Wait()
		for r, text := range outputs {
			if errs[r] != nil || strings.TrimSpace(text) != fmt.Sprintf("%d iterations", alone.Iterations) {
				t.Errorf("%s, rank %d: %v: %s, want %d iterations", part, r, errs[r], text, alone.Iterations)
			}
		}
	}
}
