package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// Helper mode "daemons" starts three descendants: one that ignores SIGTERM, one with its own session and no
// environment, and one whose parent has already ended. With the rank itself that makes 4 processes.
const familySize = 4

func TestStopKillsTheWholeTree(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Grace: 50 * time.Millisecond, Procs: []Proc{
		s.program(0, "daemons", "deaf"), s.program(1, "daemons", "sleep"),
	}})
	s.awaitOutput(0, "family")
	s.awaitOutput(1, "family")
	s.awaitFamilies(2)
	l.Stop(StopRequest{Reason: "enough"})
	o := s.wait(l)
	if left := s.mark.Processes(); len(left) != 0 {
		t.Errorf("after the end of the launch %v are left", left)
	}
	if e := o.Exits[0]; e.Signal != syscall.SIGKILL || !e.Stopped || e.OOM {
		t.Errorf("the deaf rank: %+v", e)
	}
	if o.Leftovers != 0 {
		t.Errorf("%d leftovers of a launch that was stopped", o.Leftovers)
	}
	// The agent accepts the next launch.
	if o := s.run(s.program(2, "exit", "0")); o.Exits[0].Failed() {
		t.Error(o.Exits[0])
	}
}

func TestLeftoversOfANormalEnd(t *testing.T) {
	s := newScene(t)
	o := s.wait(s.launch(Spec{Grace: 50 * time.Millisecond, Procs: []Proc{s.program(0, "daemons", "exit", "0")}}))
	if left := s.mark.Processes(); len(left) != 0 {
		t.Errorf("after the end of the launch %v are left", left)
	}
	// On a slow machine the intermediate process, whose end orphans its child, may still be visible.
	if o.Leftovers < familySize-1 || o.Leftovers > familySize || o.Exits[0].Failed() || o.Exits[0].Stopped ||
		o.Reason != "" {
		t.Errorf("outcome %+v", o)
	}
}

// A leftover that obeys SIGTERM is counted too.
func TestPoliteLeftover(t *testing.T) {
	s := newScene(t)
	o := s.wait(s.launch(Spec{Grace: hangGuard, Procs: []Proc{s.program(0, "linger", "sleep")}}))
	if o.Leftovers != 1 || o.Exits[0].Failed() {
		t.Errorf("outcome %+v", o)
	}
}

// Nothing is killed before everything is stopped, because fast forks would escape.
func TestKillAllStopsFirst(t *testing.T) {
	cmd := exec.Command(self, "helper", "stopped-first", "sleep")
	must.Do(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, _ := proc.Read(hostinfo.Root(), cmd.Process.Pid)
	rounds := 0
	killAll(func() []proc.Process {
		if rounds++; rounds == 2 {
			eventually(t, "the process to stand still", func() bool {
				stat, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/stat")
				return strings.Contains(string(stat), ") T ")
			})
		}
		return []proc.Process{p}
	})
	if rounds != 2 {
		t.Errorf("looked %d times, want once more than there was something new", rounds)
	}
}

// A process that ends a moment after the last rank is not a leftover and gets no signal.
func TestPipelinesSettle(t *testing.T) {
	s := newScene(t)
	p := s.program(0)
	p.Argv = []string{"/bin/sh", "-c", "(sleep 0.02; echo late) & exit 0"}
	p.Env = overrides("PATH=" + os.Getenv("PATH"))
	if o := s.wait(s.launch(Spec{Procs: []Proc{p}, settle: hangGuard})); o.Leftovers != 0 || s.read(0, "out") != "late\n" {
		t.Errorf("%d leftovers, log %q", o.Leftovers, s.read(0, "out"))
	}
}

func TestKilledGrandchild(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Grace: hangGuard, Procs: []Proc{s.program(0, "daemons", "polite")}})
	s.awaitOutput(0, "ready")
	var rank int
	for e := range l.Events() {
		if st, ok := e.(Started); ok {
			rank = st.PID
			break
		}
	}
	for _, p := range s.awaitFamilies(1) {
		if p.PID != rank {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	// The rank's own dead children are its zombies. The orphan belongs to the agent, which must reap it.
	eventually(t, "the orphan to be reaped", func() bool {
		others := func(p proc.Process) bool { return p.Parent == s.PID() && p.PID != rank }
		return len(proc.Family(proc.All(hostinfo.Root()), others)) == 0
	})
	eventually(t, "the rank to be alone", func() bool {
		left := s.mark.Processes() // a killed process remains visible for a moment
		return len(left) == 1 && left[0].PID == rank
	})
	l.Stop(StopRequest{Reason: ""})
	if o := s.wait(l); o.Exits[0].Code != 0 {
		t.Error(o.Exits[0])
	}
}

func TestForkBomb(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Grace: time.Millisecond, Procs: []Proc{s.program(0, "bomb", "6")}})
	eventually(t, "the bomb to go off", func() bool { return len(s.mark.Processes()) > 5 })
	l.Stop(StopRequest{Reason: "bomb"})
	if o := s.wait(l); o.Survivors != nil || len(s.mark.Processes()) != 0 {
		t.Errorf("survivors %v, marked %v", o.Survivors, s.mark.Processes())
	}
}

func TestCloseDuringLaunch(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "daemons", "deaf")}, Grace: hangGuard})
	s.awaitFamilies(1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if o := s.wait(l); o.Reason == "" || !o.Exits[0].Stopped || o.Exits[0].Stdout.Bytes == 0 {
		t.Errorf("outcome %+v", o)
	}
	if left := s.mark.Processes(); len(left) != 0 {
		t.Errorf("after Close %v are left", left)
	}
}

// A daemon without session, parent and environment is found by its control group when the agent is killed.
func TestKilledAgentsDaemon(t *testing.T) {
	group := newGroup("of-a-test")
	if group == nil { // modern hosts have cgroup v2 mounted
		dir := t.TempDir()
		if err := syscall.Mount("none", dir, "cgroup2", 0, ""); err != nil {
			t.Fatalf("this test needs control groups of version 2, mounted and writable, or root to mount them: %v", err)
		}
		t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
		if group = newGroup("of-a-test"); group == nil {
			t.Fatal("no group was made where root may")
		}
	}
	group.remove()
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "daemons", "deaf")}})
	s.awaitFamilies(1)
	syscall.Kill(s.PID(), syscall.SIGKILL)
	if _, err := l.Wait(); !errors.Is(err, ErrAgentLost) {
		t.Errorf("the launch ended with %v", err)
	}
	s.mark.AssertGone(t)
	if _, err := os.Stat(s.group.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its group is left: %v", err)
	}
}

// An agent may be killed at any moment: all its processes end, and no others.
func TestKilledAgent(t *testing.T) {
	// A child of the supervisor, not of the agent, in its own session.
	bystander := exec.Command(self, "helper", "bystander", "sleep")
	bystander.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must.Do(t, bystander.Start())
	defer bystander.Wait()
	defer bystander.Process.Kill()
	random := proctest.Random(t)
	for range 4 {
		s := newScene(t)
		l := must.Get(s.Agent.Launch(t.Context(), Spec{Procs: []Proc{
			s.program(0, "tagged", "deaf"), s.program(1, "exit", "4"), s.program(2, "sleep"),
		}}))(t)
		for e := range l.Events() {
			if _, ok := e.(Exit); ok {
				break
			}
		}
		// The kill comes before or after all descendants exist. Without a control group, an orphan with neither session nor
		// environment looks like an unrelated process, so here they keep their environment.
		time.Sleep(time.Duration(random.Int64N(int64(30 * time.Millisecond))))
		syscall.Kill(s.PID(), syscall.SIGKILL)
		o, err := l.Wait()
		if !errors.Is(err, ErrAgentLost) {
			t.Errorf("the launch ended with %v", err)
		}
		if len(o.Exits) != 1 || o.Exits[0].Code != 4 {
			t.Errorf("known exits: %v", o.Exits)
		}
		if _, err := s.Agent.Launch(t.Context(), Spec{Procs: []Proc{s.program(0, "sleep")}}); !errors.Is(err, ErrAgentLost) {
			t.Errorf("launching with a lost agent: %v", err)
		}
		s.mark.AssertGone(t)
	}
	if p, ok := proc.Read(hostinfo.Root(), bystander.Process.Pid); !ok || p.Ended() {
		t.Error("a child that is not the agent's was killed")
	}
}

// A stopped agent cannot answer. Close cleans up in its place.
func TestStuckAgent(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "deaf")}})
	s.awaitOutput(0, "ready")
	syscall.Kill(s.PID(), syscall.SIGSTOP)
	if err := s.close(100 * time.Millisecond); err != nil {
		t.Error(err)
	}
	if _, err := l.Wait(); !errors.Is(err, ErrAgentClosed) {
		t.Errorf("the launch ended with %v", err)
	}
	if left := s.mark.Processes(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

// If someone else asks the agent to end, it ends its processes too.
func TestTerminatedAgent(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "daemons", "deaf")}, Grace: hangGuard})
	s.awaitFamilies(1)
	syscall.Kill(s.PID(), syscall.SIGTERM)
	if o := s.wait(l); !strings.HasSuffix(o.Reason, "was told to end by signal 15 (terminated)") || !o.Exits[0].Stopped {
		t.Errorf("outcome %+v", o)
	}
	select {
	case <-s.Done():
	default:
		t.Error("the launch had ended before the agent, which would have been taken for one that takes another")
	}
	if !l.Ending() {
		t.Error("nobody could know that the agent was to blame")
	}
	<-s.Done()
	if left := s.mark.Processes(); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if _, err := s.Agent.Launch(t.Context(), Spec{Procs: []Proc{s.program(0, "sleep")}}); !errors.Is(err, ErrAgentLost) {
		t.Errorf("launching with an agent that has gone: %v", err)
	}
}

func TestKilledSupervisor(t *testing.T) {
	mark := newMark() // no scene: this process must not adopt anything
	random := proctest.Random(t)
	var moments []time.Duration
	for range 12 {
		moments = append(moments, time.Duration(random.Int64N(int64(250*time.Millisecond))))
	}
	for _, moment := range moments {
		cmd := exec.Command(self, "helper", mark.String(), "supervise")
		cmd.Env = append(os.Environ(), mark.String()) // the agent inherits it
		var said strings.Builder
		cmd.Stderr = &said
		must.Do(t, cmd.Start())
		time.Sleep(moment)
		cmd.Process.Kill()
		cmd.Wait()
		mark.AssertGone(t)
		if t.Failed() || said.Len() > 0 {
			t.Fatalf("killed after %v: %s", moment, said.String())
		}
	}
}

// If agent and supervisor are killed together, no one can clean up, but the kernel ends the ranks.
func TestKilledAgentAndSupervisor(t *testing.T) {
	mark := newMark()
	cmd := exec.Command(self, "helper", mark.String(), "hold")
	cmd.Env = append(os.Environ(), mark.String())
	said := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer mark.AssertGone(t)
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var agent int
	must.Get(fmt.Fscan(said, &agent))(t)
	cmd.Process.Signal(syscall.SIGSTOP) // so that it notices nothing
	syscall.Kill(agent, syscall.SIGKILL)
}

// A stopped agent reports nothing and obeys no one. The supervisor continues it, and kills it if it is stopped again.
// Nothing is left.
func TestStoppedAgent(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "deaf"), s.program(1, "deaf")}})
	s.awaitOutput(0, "ready")
	syscall.Kill(s.PID(), syscall.SIGSTOP)
	eventually(t, "the agent's stop", func() bool { return IsStopped(s.PID()) })
	eventually(t, "the agent's continuation", func() bool { return !IsStopped(s.PID()) })
	syscall.Kill(s.PID(), syscall.SIGSTOP)
	l.Stop(StopRequest{Reason: "a time-out"})
	ended := make(chan error, 1)
	go func() { _, err := l.Wait(); ended <- err }()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrAgentLost) || !strings.Contains(err.Error(), "it had been stopped for 5s") {
			t.Errorf("the launch ended with %v", err)
		}
	case <-time.After(hangGuard):
		t.Fatal("nobody noticed")
	}
	s.mark.AssertGone(t)
}

// The death of an agent is described in one line, and its stacks are in a file.
func TestCrashedAgent(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]string{
		syscall.SIGABRT: "the launch agent died: signal 6 (aborted) (crash report: ",
		syscall.SIGKILL: "the launch agent died: signal 9 (killed)",
	} {
		s := newScene(t)
		l := s.launch(Spec{Procs: []Proc{s.program(0, "sleep")}})
		syscall.Kill(s.PID(), sig)
		_, err := l.Wait()
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("%v: %v, want %q", sig, err, want)
		}
		_, path, stored := strings.Cut(strings.TrimSuffix(err.Error(), ")"), "(crash report: ")
		if report, err := os.ReadFile(path); stored && (err != nil || !strings.Contains(string(report), "goroutine ")) {
			t.Errorf("%s: %q, %v", path, report, err)
		}
	}
}

// A launcher's processes on other hosts end only if the launcher or its own tools end them. If supervisor or agent is
// killed, the other one sees to it.
func TestLaunchersAreAsked(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		agent      syscall.Signal // signal sent to the agent
		supervisor bool           // killed afterwards
		want       string
	}{
		{"polite", "polite", 0, true, "ready\nasked\n"},
		{"deaf", "deaf", 0, true, "recalled\n"},
		{"agent", "deaf", syscall.SIGKILL, false, "recalled\n"},
		{"stopped agent, polite", "polite", syscall.SIGSTOP, true, "ready\nasked\n"},
		{"stopped agent, deaf", "deaf", syscall.SIGSTOP, true, "recalled\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark, dir := newMark(), t.TempDir()
			cmd := exec.Command(self, "helper", mark.String(), "conduct", dir, c.mode)
			cmd.Env = append(os.Environ(), mark.String())
			said := must.Get(cmd.StdoutPipe())(t)
			must.Do(t, cmd.Start())
			defer cmd.Wait()
			defer cmd.Process.Kill()
			var agent int
			must.Get(fmt.Fscan(said, &agent))(t)
			out := filepath.Join(dir, "out")
			eventually(t, "the launcher", func() bool { text, _ := os.ReadFile(out); return string(text) == "ready\n" })
			if c.agent != 0 {
				syscall.Kill(agent, c.agent)
			}
			if c.supervisor {
				cmd.Process.Kill()
			}
			cmd.Wait()
			mark.AssertGone(t)
			if c.mode == "deaf" {
				out = filepath.Join(dir, "recalled")
			}
			if text, err := os.ReadFile(out); string(text) != c.want {
				t.Errorf("got %q, %v", text, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "recalled")); c.mode == "polite" && err == nil {
				t.Error("one that obeyed was recalled")
			}
		})
	}
}
