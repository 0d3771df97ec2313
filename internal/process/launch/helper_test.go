package launch

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/host/proc"
	"github.com/kernbench/kernbench/internal/host/proctest"
)

// The test binary plays every role: the agent, the launched programs, and a supervisor that is killed. A program is
// started as: BINARY helper MARK MODE ARGS. The mark is unique to the test and part of the command line of all its
// processes. It finds them whatever they do to their environment and session.
func TestMain(m *testing.M) {
	if code, isAgent := MaybeAgent(); isAgent {
		os.Exit(code)
	}
	if len(os.Args) > 3 && os.Args[1] == "helper" {
		os.Exit(helper(os.Args[2], os.Args[3], os.Args[4:]))
	}
	os.Setenv("GORACE", strings.TrimPrefix(proctest.QuickExit, "GORACE="))
	os.Exit(m.Run())
}

const self = "/proc/self/exe"

// hangGuard bounds every wait. A test that reaches it has failed.
const hangGuard = 3 * time.Minute

func helper(mark, mode string, args []string) int {
	switch mode {
	case "exit": // CODE
		code, _ := strconv.Atoi(args[0])
		return code
	case "say": // STDOUT STDERR
		fmt.Print(args[0])
		fmt.Fprint(os.Stderr, args[1])
	case "panic":
		panic("planted")
	case "sleep":
		fmt.Println("ready")
		time.Sleep(2 * hangGuard)
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
		fmt.Println("ready")
		time.Sleep(2 * hangGuard)
	case "polite": // exits with code 0 when asked to
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		fmt.Println("ready")
		<-asked
		fmt.Println("asked")
	case "environ": // FILE: ends once it exists, so that a living process can be inspected
		data, _ := os.ReadFile("/proc/self/environ")
		os.Stdout.Write(data)
		awaitFile(args[0])
	case "file": // copies descriptor 3 to stdout
		data := make([]byte, 100)
		n, err := syscall.Pread(3, data, 0)
		fmt.Print(string(data[:max(n, 0)]), err)
	case "fds":
		names, _ := os.ReadDir("/proc/self/fd")
		for _, name := range names {
			target, _ := os.Readlink("/proc/self/fd/" + name.Name())
			fmt.Println(name.Name(), target)
		}
	case "affinity":
		status, _ := os.ReadFile("/proc/self/status")
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
		list, _, _ := strings.Cut(rest, "\n")
		fmt.Print(strings.TrimSpace(list))
	case "flood": // BYTES
		left, _ := strconv.Atoi(args[0])
		for block := bytes.Repeat([]byte("flood...\n"), 8<<10); left > 0; left -= len(block) {
			os.Stdout.Write(block[:min(left, len(block))])
		}
	case "linger": // MODE: leaves a child without session, environment and parent
		spawn(mark, true, args[0])
	case "tagged": // starts descendants that keep their environment, inside and outside its session, then MODE
		spawn(mark, false, "deaf")
		spawn(mark, false, "away", "deaf")
		fmt.Println("family")
		return helper(mark, args[0], args[1:])
	case "away": // MODE, in its own session
		syscall.Setsid()
		return helper(mark, args[0], args[1:])
	case "daemons": // starts descendants that are hard to find, then MODE
		spawn(mark, false, "deaf")
		spawn(mark, true, "deaf")
		spawn(mark, true, "linger", "deaf")
		fmt.Println("family")
		return helper(mark, args[0], args[1:])
	case "bomb": // DEPTH: every process keeps forking and ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		depth, _ := strconv.Atoi(args[0])
		for range 2 {
			if depth > 0 {
				spawn(mark, true, "bomb", strconv.Itoa(depth-1))
			}
		}
		fmt.Println("ready")
		time.Sleep(2 * hangGuard)
	case "hold": // holds one launch and prints the agent's PID
		a, err := Start(context.Background(), "")
		if err != nil {
			panic(err)
		}
		if _, err := a.Launch(context.Background(),
			Spec{Procs: []Proc{program(mark, 0, "deaf"), program(mark, 1, "deaf")}}); err != nil {
			panic(err)
		}
		fmt.Println(a.PID())
		time.Sleep(2 * hangGuard)
	case "conduct": // DIR MODE: holds a launcher that behaves as MODE says, and prints the agent's PID
		a, err := Start(context.Background(), "")
		if err != nil {
			panic(err)
		}
		p := program(mark, 0, args[1:]...)
		p.Stdout = filepath.Join(args[0], "out")
		grace := 100 * time.Millisecond
		if args[1] == "polite" {
			grace = hangGuard // ends when the launcher obeys, however busy the machine is
		}
		l, err := a.Launch(context.Background(), Spec{Procs: []Proc{p}, RemoteLauncher: true, Grace: grace,
			RecallCommand: []string{"/bin/sh", "-c", `echo recalled >"$1"`, "recall", filepath.Join(args[0], "recalled")}})
		if err != nil {
			panic(err)
		}
		fmt.Println(a.PID())
		l.Wait()
	case "read", "doze", "spin":
		pass(mode)
	case "supervise": // runs launches until it is killed
		supervise(mark)
	default:
		panic("unknown mode " + mode)
	}
	return 0
}

func awaitFile(path string) {
	for limit := time.Now().Add(hangGuard); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
	}
}

// spawn starts a helper without waiting for it. away means its own session, no environment, no inherited output.
func spawn(mark string, away bool, args ...string) {
	cmd := exec.Command(self, append([]string{"helper", mark}, args...)...)
	if away {
		cmd.Env = []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	} else {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

func supervise(mark string) {
	for {
		a, err := Start(context.Background(), "")
		if err != nil {
			panic(err)
		}
		for range 3 {
			l, err := a.Launch(context.Background(), Spec{Procs: []Proc{
				program(mark, 0, "daemons", "deaf"), program(mark, 1, "sleep"),
			}, Grace: time.Millisecond})
			if err != nil {
				panic(err)
			}
			time.Sleep(50 * time.Millisecond)
			l.Stop(StopRequest{Reason: "next"})
			l.Wait()
		}
		a.Close()
	}
}

func program(mark string, rank int, args ...string) Proc {
	return Proc{Rank: rank, Argv: append([]string{self, "helper", mark}, args...),
		Env: overrides("GOMAXPROCS=1", proctest.QuickExit)}
}

func overrides(entries ...string) EnvOverrides {
	set := EnvOverrides{}
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		set[name] = &value
	}
	return set
}

// scene is the environment of a test. At the end of the test no process may be left.
type scene struct {
	*testing.T
	*Agent
	mark proctest.Mark
	logs string
}

func newMark() proctest.Mark { return proctest.Mark{Name: "MARK", Value: rand.Text()} }

// assertReaped fails the test if zombies of this process are left. A child of a test that runs at the same time is one
// until that test has waited for it, so only zombies that stay count.
func assertReaped(t *testing.T) {
	t.Helper()
	var left []string
	for limit := time.Now().Add(hangGuard); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		left = nil
		for _, p := range proc.All(hostinfo.Root()) {
			if p.Parent == os.Getpid() && p.Ended() {
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
				left = append(left, fmt.Sprintf("zombie %d of session %d was not reaped: %s", p.PID, p.Session, stat))
			}
		}
		if len(left) == 0 {
			return
		}
	}
	t.Error(strings.Join(left, "\n"))
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, mark: newMark(), logs: t.TempDir()}
	var err error
	if s.Agent, err = Start(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.mark.AssertGone(t)
		assertReaped(t)
	})
	return s
}

func (s *scene) program(rank int, args ...string) Proc {
	p := program(s.mark.String(), rank, args...)
	p.Stdout, p.Stderr = s.log(rank, "out"), s.log(rank, "err")
	return p
}

func (s *scene) log(rank int, stream string) string {
	return filepath.Join(s.logs, fmt.Sprintf("%d.%s", rank, stream))
}

func (s *scene) launch(spec Spec) *Launch {
	s.Helper()
	return must.Get(s.Agent.Launch(s.Context(), spec))(s)
}

// run launches the processes and expects a good end.
func (s *scene) run(procs ...Proc) Outcome {
	s.Helper()
	return s.wait(s.launch(Spec{Procs: procs}))
}

func (s *scene) wait(l *Launch) Outcome {
	s.Helper()
	guard := time.AfterFunc(hangGuard, func() { panic("the launch hangs") })
	defer guard.Stop()
	return must.Get(l.Wait())(s)
}

// awaitOutput waits until the log of the rank holds text.
func (s *scene) awaitOutput(rank int, text string) {
	s.Helper()
	eventually(s.T, "output "+text, func() bool { return strings.Contains(s.read(rank, "out"), text) })
}

func (s *scene) read(rank int, stream string) string {
	data, _ := os.ReadFile(s.log(rank, stream))
	return string(data)
}

// awaitFamilies waits until n ranks of mode "daemons" have all their descendants. One of these is the agent's child by
// then, because its parent has ended.
func (s *scene) awaitFamilies(n int) []proctest.Process {
	s.Helper()
	eventually(s.T, "the families", func() bool {
		children := 0
		for _, p := range descendants(s.PID()) {
			if p.Parent == s.PID() {
				children++
			}
		}
		return children == 2*n && len(s.mark.Processes()) == n*familySize
	})
	return s.mark.Processes()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(hangGuard); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
