package node_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/decl"
	"github.com/kernbench/kernbench/internal/launch"
	"github.com/kernbench/kernbench/internal/worker"
)

// The test binary is also the command under test and its agents.
func TestMain(m *testing.M) {
	if code, is := launch.MaybeAgent(); is {
		os.Exit(code)
	}
	if code, is := worker.Maybe(benches()); is {
		os.Exit(code)
	}
	if len(os.Args) > 1 && (os.Args[1] == "launch" || os.Args[1] == "run") {
		os.Exit(cli.Main(benches()))
	}
	os.Exit(m.Run())
}

// benches has one bench, whose call takes as long as US says. It demands that
// the ranks agree on their hosts' names, by which it also shows that they are on
// several.
func benches() []*decl.Bench {
	return []*decl.Bench{decl.New("still", func(ctx context.Context, s *decl.State) error {
		if mode := s.Str("mode"); mode == "kill" && s.Rank() == s.Size()-1 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if s.Str("mode") == "linger" {
			time.Sleep(hangGuard)
		}
		all, err := s.Group().Exchange(ctx, []int64{int64(s.Rank())})
		if err != nil || len(all) != s.Size() {
			return fmt.Errorf("%d ranks: %v", len(all), err)
		}
		host, _ := os.Hostname()
		fmt.Printf("rank %d on %s, local rank %s, at %s\n", s.Rank(), host, os.Getenv("LOCAL_RANK"), os.Getenv("MASTER_ADDR"))
		return s.Time(ctx, func() error { return nil })
	}, decl.Ranks("1"), decl.Strings("mode", "ok"), decl.Env("SWEPT", "a", "b"))}
}

const (
	// hangGuard bounds every wait; a test that needs it all has failed.
	hangGuard = 60 * time.Second
	// mark is the variable by which a test finds its processes.
	mark = "TEST_MARK"
)

// launcher is one running `kernbench launch`.
type launcher struct {
	*testing.T
	cmd            *exec.Cmd
	stdout, stderr *buffer
	ended          chan struct{}
	mark           string
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

// start runs the command, in a network namespace if one is given. At the end of
// the test it must be gone, with everything it started.
func start(t *testing.T, space *host, args ...string) *launcher {
	t.Helper()
	argv := append([]string{"/proc/self/exe", "launch"}, args...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv[0] = self
	if space != nil {
		argv = append(space.enter(), argv...)
	}
	l := &launcher{T: t, stdout: new(buffer), stderr: new(buffer), ended: make(chan struct{}), mark: rand.Text()}
	l.cmd = exec.Command(argv[0], argv[1:]...)
	l.cmd.Env = append(os.Environ(), mark+"="+l.mark, "GORACE=atexit_sleep_ms=0")
	l.cmd.Stdout, l.cmd.Stderr = l.stdout, l.stderr
	if space != nil {
		l.cmd.Env = append(l.cmd.Env, "KERNBENCH_RDZV_SECRET="+space.secret)
		l.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS}
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { l.cmd.Wait(); close(l.ended) }()
	t.Cleanup(l.assertGone)
	return l
}

// wait returns the exit code.
func (l *launcher) wait() int {
	l.Helper()
	select {
	case <-l.ended:
	case <-time.After(hangGuard):
		l.Fatalf("it does not end; stdout:\n%s\nstderr:\n%s", l.stdout, l.stderr)
	}
	return l.cmd.ProcessState.ExitCode()
}

// expect waits for the end and checks exit code and the messages, which must
// hold each of the texts.
func (l *launcher) expect(code int, texts ...string) {
	l.Helper()
	if got := l.wait(); got != code {
		l.Errorf("exit code %d, want %d; stderr:\n%s", got, code, l.stderr)
	}
	for _, text := range texts {
		if !strings.Contains(l.stderr.String(), text) {
			l.Errorf("stderr lacks %q:\n%s", text, l.stderr)
		}
	}
	if n := len(l.messages()); code != 0 && n != 1 {
		l.Errorf("%d messages, want one:\n%s", n, l.stderr)
	}
}

// messages are the launcher's own lines, restarts excepted.
func (l *launcher) messages() (lines []string) {
	for line := range strings.Lines(l.stderr.String()) {
		if !strings.HasPrefix(line, "[rank") && !strings.HasPrefix(line, "    ") && !strings.Contains(line, ": restart ") && !strings.HasPrefix(line, "See '") {
			lines = append(lines, line)
		}
	}
	return lines
}

// await waits for a line on stdout and returns the pattern's groups.
func (l *launcher) await(pattern string) []string {
	l.Helper()
	re := regexp.MustCompile("(?m)^" + pattern + "$")
	for limit := time.Now().Add(hangGuard); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if found := re.FindStringSubmatch(l.stdout.String()); found != nil {
			return found
		}
		select {
		case <-l.ended:
			if !re.MatchString(l.stdout.String()) {
				l.Fatalf("it has ended without %s; stdout:\n%s\nstderr:\n%s", pattern, l.stdout, l.stderr)
			}
		default:
		}
	}
	l.Fatalf("waited in vain for %s; stdout:\n%s\nstderr:\n%s", pattern, l.stdout, l.stderr)
	return nil
}

// pids waits until n ranks have told their process numbers, as the program
// `waits` does, and returns them by rank.
func (l *launcher) pids(n int) map[int]int {
	l.Helper()
	line := `\[rank(\d+)\]: pid (\d+)`
	l.await(line + strings.Repeat(`(?s:.*)^`+line, n-1))
	pids := map[int]int{}
	for _, found := range regexp.MustCompile("(?m)^"+line+"$").FindAllStringSubmatch(l.stdout.String(), -1) {
		rank, _ := strconv.Atoi(found[1]) // digits, by the pattern
		pids[rank], _ = strconv.Atoi(found[2])
	}
	return pids
}

func (l *launcher) kill(pid int, sig syscall.Signal) {
	l.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		l.Fatalf("sending %v to %d: %v", sig, pid, err)
	}
}

// waits is a program that tells its number and stays.
var waits = []string{"sh", "-c", "echo pid $$; exec sleep 1000"}

// marked returns the living processes that this launcher has started.
func (l *launcher) marked() (pids []int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		data, _ := os.ReadFile(path)
		if bytes.Contains(data, []byte(mark+"="+l.mark)) {
			pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

func (l *launcher) assertGone() {
	if l.Failed() || l.Context().Err() != nil {
		select {
		case <-l.ended:
		case <-time.After(100 * time.Millisecond):
		}
	}
	var left []int
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
		if left = l.marked(); len(left) == 0 {
			return
		}
	}
	l.Errorf("left behind: %v", left)
	for _, pid := range left {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			l.Error(err)
		}
	}
}
