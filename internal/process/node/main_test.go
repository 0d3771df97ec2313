package node_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/benches/collectives"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/proctest"
)

// The test binary is also the command under test, its agents and its workers.
func TestMain(m *testing.M) { os.Exit(benchtest.Program(m, still(), collectives.Bench())) }

// still is a bench whose call takes US microseconds. It requires that the ranks agree on their host
// names, which also shows that they run on several hosts.
func still() *bench.Bench {
	return bench.New("still", func(ctx context.Context, s *bench.State) error {
		if mode := s.Str("mode"); mode == "kill" && s.Rank() == s.Size()-1 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if s.Str("mode") == "linger" || s.Str("mode") == "alone" && s.Size() == 1 {
			time.Sleep(hangGuard)
		}
		all, err := bench.Gather(ctx, s, []int64{int64(s.Rank())})
		if err != nil || len(all) != s.Size() {
			return fmt.Errorf("%d ranks: %v", len(all), err)
		}
		host, _ := os.Hostname()
		fmt.Printf("rank %d on %s, local rank %s, at %s\n", s.Rank(), host, os.Getenv("LOCAL_RANK"), os.Getenv("MASTER_ADDR"))
		return s.Time(ctx, func() error { return nil })
	}, bench.Ranks("1"), bench.Strings("mode", "ok"), bench.Env("SWEPT", "a", "b"), bench.Trials(1))
}

// hangGuard bounds every wait. A test that reaches it has failed.
const hangGuard = 3 * time.Minute

// launcher is one running `kernbench launch`.
type launcher struct {
	*testing.T
	cmd            *exec.Cmd
	stdout, stderr *proctest.Buffer
	ended          chan struct{}
	mark           proctest.Mark
}

// start runs the command, on a host if one is given. At the end of the test, the command and everything
// it started must be gone.
func start(t *testing.T, on *host, args ...string) *launcher {
	t.Helper()
	argv := []string{proctest.Self(t), "launch"}
	if text := strings.Join(args, " "); !strings.Contains(text, "--tee") && !strings.Contains(text, "--redirects") {
		argv = append(argv, "--tee", "3") // the tests tell ranks apart by the beginnings of lines
	}
	argv = append(argv, args...)
	if on != nil {
		return begin(t, on.Command(argv...), append(os.Environ(), "KERNBENCH_RDZV_SECRET="+on.secret))
	}
	return begin(t, exec.Command(argv[0], argv[1:]...), os.Environ())
}

// begin starts a launcher with an environment.
func begin(t *testing.T, cmd *exec.Cmd, env []string) *launcher {
	t.Helper()
	l := &launcher{T: t, cmd: cmd, stdout: new(proctest.Buffer), stderr: new(proctest.Buffer),
		ended: make(chan struct{}), mark: proctest.Mark{Name: "TEST_MARK", Value: rand.Text()}}
	l.cmd.Env, l.cmd.Stdout, l.cmd.Stderr = append(env, l.mark.String(), proctest.QuickExit), l.stdout, l.stderr
	must.Do(t, l.cmd.Start())
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

// expect waits for the end and checks the exit code and the messages, which must contain each of the texts.
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

// messages returns the launcher's own lines, except those about restarts.
func (l *launcher) messages() (lines []string) {
	for line := range strings.Lines(l.stderr.String()) {
		if !strings.HasPrefix(line, "[rank") && !strings.HasPrefix(line, "    ") && !strings.Contains(line, ": restart ") &&
			!strings.HasPrefix(line, "See '") {
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

// pids waits until n ranks have printed their PIDs, like the program `waits`, and returns them by rank.
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

// waits is a program that prints its PID and then sleeps.
var waits = []string{"sh", "-c", "echo pid $$; exec sleep 1000"}

func (l *launcher) assertGone() {
	if l.Failed() || l.Context().Err() != nil {
		select {
		case <-l.ended:
		case <-time.After(100 * time.Millisecond):
		}
	}
	l.mark.AssertGone(l)
}
