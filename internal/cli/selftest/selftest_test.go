package selftest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// plantVar makes this program and its workers register faulty implementations.
const plantVar = "SELFTEST_PLANT"

func TestMain(m *testing.M) {
	if os.Getenv(plantVar) != "" {
		plant()
	}
	if code, is := launch.MaybeAgent(); is {
		os.Exit(code)
	}
	if code, is := worker.Maybe([]*bench.Bench{Bench()}); is {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// plant registers a backend whose all-reduce has a wrong last element on rank 1.
func plant() {
	cpu, _ := dist.As[dist.Backend](hints.HostBackend)
	d := dist.Describe(hints.HostBackend)
	for name, most := range mostRanks {
		d.Name = name
		dist.Register(d, toy{cpu, most})
	}
}

// mostRanks is the largest number of ranks for which each planted backend is available.
var mostRanks = map[string]int{"toy": 4, "alone": 1, "absent": 0}

type toy struct {
	dist.Backend
	most int
}

func (t toy) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	if c.Size > t.most {
		return nil, &dist.UnavailableError{Err: fmt.Errorf("there is room for %d", t.most)}
	}
	e, err := t.Backend.Join(ctx, c)
	return toyEngine{e}, err
}

type toyEngine struct{ dist.Engine }

func (e toyEngine) Prepare(p dist.Plan) (run, release func() error, err error) {
	call, release, err := e.Engine.Prepare(p)
	return func() error {
		err := call()
		if b := p.Out.Bytes(); p.Op == dist.AllReduce && e.Rank() == 1 && len(b) > 0 {
			b[len(b)-p.DType.Size()] ^= 1
		}
		return err
	}, release, err
}

// check runs a self-test and returns its results by status.
func check(t *testing.T, o Options) map[Status][]Result {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	byStatus := map[Status][]Result{}
	o.Environ = os.Environ()
	o.Report = func(r Result) { byStatus[r.Status] = append(byStatus[r.Status], r) }
	must.Do(t, Run(t.Context(), o))
	if left, _ := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	return byStatus
}

// The self-test finds and names planted faults. The script of the command tests a good installation.
func TestPlantedErrorsAreFound(t *testing.T) {
	t.Setenv(plantVar, "yes")
	plant()
	got := check(t, Options{Backend: "toy"})
	if len(got[Failed]) != 3 || len(got[Passed]) != 1 {
		t.Fatalf("want toy to fail with 2, 3 and 4 ranks: %+v", got)
	}
	if r := got[Failed][0]; r.Name != "toy, 2 ranks" || !strings.Contains(r.Detail, "rank 1") ||
		!strings.Contains(r.Detail, "allreduce/2: ") {
		t.Errorf("the wrong sum is reported as %+v", r)
	}
	// A requested backend fails if it is not available. It does not fail if it is only unavailable
	// for so many ranks, such as NCCL with a single GPU.
	if got := check(t, Options{Backend: "alone"}); len(got[Failed]) != 0 || len(got[Passed]) != 1 ||
		len(got[Skipped]) != 3 || got[Skipped][2].Detail != "there is room for 1" {
		t.Errorf("a backend for one rank: %+v", got)
	}
	if got := check(t, Options{Backend: "absent"}); len(got[Failed]) != 4 {
		t.Errorf("a backend that is not here: %+v", got)
	}
}

// An interrupt ends the self-test immediately, without a result for the interrupted check.
func TestInterrupted(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var got []Result
	err := Run(ctx, Options{Environ: os.Environ(), Report: func(r Result) {
		got = append(got, r)
		if r.Name == "worker processes" {
			cancel()
		}
	}})
	if last := got[len(got)-1]; err != nil || last.Area == "backends" || slices.ContainsFunc(got, func(r Result) bool {
		return r.Status == Failed
	}) {
		t.Errorf("%v, %+v", err, got)
	}
}
