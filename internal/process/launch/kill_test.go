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
	"github.com/kernbench/kernbench/internal/host/proctest"
)

// The family that helper mode "daemons" starts: a child that ignores SIGTERM, one in its own session and without
// environment, and one whose parent has already gone. With the rank itself that is 4.
const familySize = 4

func TestStopKillsTheWholeTree(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Grace: 50 * time.Millisecond, Procs: []Proc{
		s.program(0, "daemons", "deaf"), s.program(1, "daemons", "sleep"),
	}})
	s.awaitOutput(0, "family")
	s.awaitOutput(1, "family")
	s.awaitFamilies(2)
	l.Stop("enough", false)
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
	// The agent goes on.
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
	// The one in between, whose end makes an orphan of its child, may still be seen on a slow machine.
	if o.Leftovers < familySize-1 || o.Leftovers > familySize || o.Exits[0].Failed() || o.Exits[0].Stopped ||
		o.Reason != "" {
		t.Errorf("outcome %+v", o)
	}
}

// One that obeys SIGTERM is counted too.
func TestPoliteLeftover(t *testing.T) {
	s := newScene(t)
	o := s.wait(s.launch(Spec{Grace: hangGuard, Procs: []Proc{s.program(0, "linger", "sleep")}}))
	if o.Leftovers != 1 || o.Exits[0].Failed() {
		t.Errorf("outcome %+v", o)
	}
}

// Nothing is killed before everything stands still, or what forks fast enough would get away.
func TestKillAllStopsFirst(t *testing.T) {
	cmd := exec.Command(self, "helper", "stopped-first", "sleep")
	must.Do(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	p, _ := readProcess(cmd.Process.Pid)
	rounds := 0
	killAll(func() []process {
		if rounds++; rounds == 2 {
			eventually(t, "the process to stand still", func() bool {
				stat, _ := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/stat")
				return strings.Contains(string(stat), ") T ")
			})
		}
		return []process{p}
	})
	if rounds != 2 {
		t.Errorf("looked %d times, want once more than there was something new", rounds)
	}
}

// Somebody who ends a moment after the last rank is not a leftover and is not disturbed.
func TestPipelinesSettle(t *testing.T) {
	s := newScene(t)
	p := s.program(0)
	p.Argv = []string{"/bin/sh", "-c", "(sleep 0.02; echo late) & exit 0"}
	p.Env = []string{"PATH=" + os.Getenv("PATH")}
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
	// The rank's own dead children are its zombies; the orphan is the agent's and must be reaped.
	eventually(t, "the orphan to be reaped", func() bool {
		return len(family(processes(), func(p process) bool { return p.parent == s.PID() && p.pid != rank })) == 0
	})
	eventually(t, "the rank to be alone", func() bool {
		left := s.mark.Processes() // a killed process lives on for a moment
		return len(left) == 1 && left[0].PID == rank
	})
	l.Stop("", false)
	if o := s.wait(l); o.Exits[0].Code != 0 {
		t.Error(o.Exits[0])
	}
}

func TestForkBomb(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Grace: time.Millisecond, Procs: []Proc{s.program(0, "bomb", "6")}})
	eventually(t, "the bomb to go off", func() bool { return len(s.mark.Processes()) > 5 })
	l.Stop("bomb", false)
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

// A daemon that has left its session, its family and its environment goes with a killed agent by its control group.
func TestKilledAgentsDaemon(t *testing.T) {
	group := newGroup("of-a-test")
	if group == nil { // a host of today has them mounted
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

// An agent is killed at any moment; everything of it goes, and nothing else.
func TestKilledAgent(t *testing.T) {
	// A child of the supervisor that is not the agent's, in its own session too.
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
		// Sometimes before the family is complete, sometimes after. Without a control group an orphan with neither session
		// nor environment cannot be told from an unrelated process, so here they keep their environment.
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
	if p, ok := readProcess(bystander.Process.Pid); !ok || p.zombie {
		t.Error("a child that is not the agent's was killed")
	}
}

// An agent that is stopped cannot answer; Close does its work.
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

// Asked to end by somebody else, the agent takes its tree with it.
func TestTerminatedAgent(t *testing.T) {
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "daemons", "deaf")}, Grace: hangGuard})
	s.awaitFamilies(1)
	syscall.Kill(s.PID(), syscall.SIGTERM)
	if o := s.wait(l); o.Reason == "" || !o.Exits[0].Stopped {
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
	mark := newMark() // no scene: this process shall not adopt anything
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

// With agent and supervisor killed together there is nobody to clean up; the kernel ends the ranks.
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
	cmd.Process.Signal(syscall.SIGSTOP) // it shall not notice
	syscall.Kill(agent, syscall.SIGKILL)
}

// A stopped agent tells nothing of its ranks and obeys nobody: the supervisor notices by itself, and nothing is left.
func TestStoppedAgent(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	l := s.launch(Spec{Procs: []Proc{s.program(0, "deaf"), s.program(1, "deaf")}})
	s.awaitOutput(0, "ready")
	syscall.Kill(s.PID(), syscall.SIGSTOP)
	l.Stop("a time-out", false)
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

// Processes that a launcher has on other hosts end only if it is asked to end them, or by its own tools: whoever is
// killed, the other of supervisor and agent sees to it.
func TestLaunchersAreAsked(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		agent      syscall.Signal // what it is sent
		supervisor bool           // is killed then
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
