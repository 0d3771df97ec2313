package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// asProgram is the environment variable that makes the test binary run main.
const asProgram = "OWNBACKEND_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// open returns a group whose ranks are goroutines of this process.
func open(size int, timeout time.Duration) ([]*dist.Group, error) {
	return disttest.Join(size, dist.Config{Backend: "threads", Timeout: timeout}, nil)
}

// TestConformance runs the suite. Cases that need more than the backend declares are skipped.
func TestConformance(t *testing.T) {
	disttest.Run(t, disttest.Suite{Open: open, Sizes: []int{1, 2, 3}, Short: testing.Short()})
}

// TestDifferentCalls checks that ranks whose calls differ get an error that names both calls. The suite
// cannot check it on a backend without reduce and f64.
func TestDifferentCalls(t *testing.T) {
	for rank, err := range disttest.Ranks(2, dist.Config{Backend: "threads", Timeout: time.Minute},
		func(g *dist.Group) error {
			if g.Rank() == 0 {
				return g.Barrier()
			}
			b := dist.Of(make([]float32, 8))
			return g.AllReduce(b, b, dist.Sum)
		}) {
		var misuse *dist.MisuseError
		if !errors.As(err, &misuse) || !strings.Contains(misuse.Text, "rank 0 calls barrier") ||
			!strings.Contains(misuse.Text, "rank 1 calls allreduce of 8 f32") {
			t.Errorf("rank %d got %v, want a MisuseError that names both calls", rank, err)
		}
	}
}

// TestPlanned plans the bench for this backend without setting axes. The plan has only points that the
// backend supports.
func TestPlanned(t *testing.T) {
	b := collectives.Bench()
	if !slices.Contains(b.Backends, "threads") {
		t.Errorf("the bench runs on %v, without threads", b.Backends)
	}
	p, err := plan.Make(b, plan.Request{Backend: "threads"})
	if err != nil {
		t.Fatal(err)
	}
	first := p.Groups[0].Tasks[0].Point.String()
	if !p.InProcess || p.Processes(p.Groups[0]) != 1 || !strings.Contains(first, "buffers=private") {
		t.Errorf("planned with InProcess %v and %d processes, first %s", p.InProcess, p.Processes(p.Groups[0]), first)
	}
}

// TestRuns runs the bench. Points that the backend does not support are skipped with the reason.
func TestRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(os.Args[0], "run", "--bench", "collectives", "--backend", "threads", "--ranks", "2,3",
		"--size", "4K", "--op", "allreduce,broadcast", "--dtype", "f32,f64", "--inplace", "false,true",
		"--seconds", "0.1", "--out", dir)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, r, err := journal.LoadRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	for _, row := range r.Rows {
		if row.Backend != "threads" || row.Metrics["wrong"] != 0 {
			t.Errorf("%v on %s: %v wrong", row.Point, row.Backend, row.Metrics["wrong"])
		}
		outcomes[string(row.Status)+": "+string(row.Reason)]++
	}
	for _, want := range []string{"ok: ", "skipped: backend threads has no broadcast",
		"skipped: backend threads has no element type f64, only f32"} {
		if outcomes[want] == 0 {
			t.Errorf("no row is %q: %v", want, outcomes)
		}
	}
	cmd = exec.Command(os.Args[0], "run", "--bench", "collectives", "--backend", "thread", "--plan")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), `did you mean "threads"?`) {
		t.Errorf("an unknown backend: %s", out)
	}
}
