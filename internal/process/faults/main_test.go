package faults

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/run"
	"github.com/kernbench/kernbench/internal/host/proctest"
)

// The test binary is the kernbench under test, its agents and its workers.
func TestMain(m *testing.M) {
	run.ClaimName = "@kernbench-" + os.Getenv(markName)
	os.Exit(benchtest.Program(m, work()))
}

const (
	// hangGuard bounds every wait. A run that reaches it has failed.
	hangGuard = 3 * time.Minute
	// markName is the variable by which a run's processes are found.
	markName = "FAULTS_MARK"
	// ranks is the number of ranks of a run on one host.
	ranks = 2
)

// work is a bench of several short points in two environments. Faults hit it between its steps.
func work() *bench.Bench {
	quick := measure.Default()
	quick.Stop = measure.Stop{MinSamples: 1, MaxSamples: 3, MaxTime: time.Second}
	quick.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	return bench.New("work", func(ctx context.Context, s *bench.State) error {
		time.Sleep(30 * time.Millisecond)
		if err := s.Barrier(ctx); err != nil {
			return err
		}
		return s.Time(ctx, func() error { time.Sleep(10 * time.Millisecond); return nil })
	}, bench.Ranks(strconv.Itoa(ranks)), bench.Ints("i", "1,2,3"), bench.Env("SWEPT", "1", "2"),
		bench.Trials(1), bench.Measure(quick))
}

// process is a living process of a run.
type process struct{ proctest.Process }

// rank returns the process's rank in its job, or -1.
func (p process) rank() int {
	for _, name := range []string{"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"} {
		if n, err := strconv.Atoi(p.Env[name]); err == nil {
			return n
		}
	}
	return -1
}

// shared lists kernbench's files in /dev/shm.
func shared(t *testing.T) map[string]bool {
	t.Helper()
	entries := must.Get(os.ReadDir("/dev/shm"))(t)
	names := map[string]bool{}
	for _, e := range entries {
		if strings.Contains(e.Name(), "kernbench") {
			names[e.Name()] = true
		}
	}
	return names
}

// mount gives a folder its own small file system.
func mount(t *testing.T, dir string, kilobytes int) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatalf("this test mounts a file system: it needs root (uid %d); -short leaves it out", os.Getuid())
	}
	must.Do(t, os.MkdirAll(dir, 0o755))
	must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(kilobytes)+"k"))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// grow enlarges the file system.
func grow(t *testing.T, dir string) {
	t.Helper()
	must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"))
}
