package faults

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/launch"
	"github.com/kernbench/kernbench/internal/measure"
	"github.com/kernbench/kernbench/internal/run"
	"github.com/kernbench/kernbench/internal/worker"
)

// The test binary is the kernbench under test, its agents and its workers.
func TestMain(m *testing.M) {
	if code, is := launch.MaybeAgent(); is {
		os.Exit(code)
	}
	if code, is := worker.Maybe(benches()); is {
		os.Exit(code)
	}
	if len(os.Args) > 1 && (os.Args[1] == "launch" || os.Args[1] == "run") {
		run.ClaimName = "@kernbench-" + os.Getenv(mark)
		os.Exit(cli.Main(benches()))
	}
	os.Exit(m.Run())
}

const (
	// hangGuard bounds every wait; a run that needs it all has failed.
	hangGuard = 90 * time.Second
	// mark is the variable by which a run's processes are found.
	mark = "FAULTS_MARK"
	// ranks is how many a run has, unless it is spread over hosts.
	ranks = 2
)

// benches has one bench of several short points in two environments: the time
// between its steps is where faults fall.
func benches() []*decl.Bench {
	quick := measure.Default()
	quick.Stop = measure.Stop{MinSamples: 1, MaxSamples: 3, MaxTime: time.Second}
	quick.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	return []*decl.Bench{decl.New("work", func(ctx context.Context, s *decl.State) error {
		time.Sleep(30 * time.Millisecond)
		if err := s.Barrier(ctx); err != nil {
			return err
		}
		return s.Time(ctx, func() error { time.Sleep(10 * time.Millisecond); return nil })
	}, decl.Ranks(strconv.Itoa(ranks)), decl.Ints("i", "1,2,3"), decl.Env("SWEPT", "1", "2"), decl.Measure(quick))}
}

// buffer may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// process is a living process that carries a run's mark.
type process struct {
	pid     int
	cmdline string
	env     map[string]string
}

// rank is the process's place in its job, -1 if it has none.
func (p process) rank() int {
	for _, name := range []string{"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"} {
		if n, err := strconv.Atoi(p.env[name]); err == nil {
			return n
		}
	}
	return -1
}

// marked lists the living processes with the mark.
func marked(value string) (found []process) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		data, _ := os.ReadFile(path) // empty for a zombie
		if !bytes.Contains(data, []byte(mark+"="+value)) {
			continue
		}
		p := process{env: map[string]string{}}
		p.pid, _ = strconv.Atoi(strings.Split(path, "/")[2])
		for _, entry := range strings.Split(string(data), "\x00") {
			if k, v, ok := strings.Cut(entry, "="); ok && p.env[k] == "" {
				p.env[k] = v
			}
		}
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		p.cmdline = strings.ReplaceAll(string(cmdline), "\x00", " ")
		found = append(found, p)
	}
	return found
}

// shared lists what kernbench has in /dev/shm.
func shared(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		if strings.Contains(e.Name(), "kernbench") {
			names[e.Name()] = true
		}
	}
	return names
}

// mount gives a folder a small file system of its own.
func mount(t *testing.T, dir string, kilobytes int) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatalf("this test mounts a file system: it needs root (uid %d); -short leaves it out", os.Getuid())
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(kilobytes)+"k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// grow gives it more room.
func grow(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
}

// self is the path of the program under test.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
