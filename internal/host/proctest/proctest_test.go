package proctest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
)

// complaints is a testing.TB that records errors.
type complaints struct {
	testing.TB
	said []string
}

func (c *complaints) Helper() {}
func (c *complaints) Errorf(format string, a ...any) {
	c.said = append(c.said, fmt.Sprintf(format, a...))
}
func (c *complaints) Error(a ...any) { c.said = append(c.said, fmt.Sprint(a...)) }

// TestMark finds a process by its mark while it runs. AssertGone reports and kills it.
func TestMark(t *testing.T) {
	mark := Mark{"PROCTEST_MARK", fmt.Sprint(t.Name(), os.Getpid())}
	mark.AssertGone(t)
	cmd := exec.Command("sleep", "1000")
	cmd.Env = []string{"OTHER=1", mark.String(), QuickExit}
	must.Do(t, cmd.Start())
	defer cmd.Process.Kill()
	found := mark.Processes()
	for limit := time.Now().Add(goneTimeout); len(found) == 0 && time.Now().Before(limit); time.Sleep(time.Millisecond) {
		found = mark.Processes() // the environment appears in /proc shortly after the start
	}
	if len(found) != 1 || found[0].PID != cmd.Process.Pid || found[0].Env["OTHER"] != "1" ||
		!strings.HasPrefix(found[0].Cmdline, "sleep 1000") {
		t.Errorf("found %+v, want process %d", found, cmd.Process.Pid)
	}
	if others := (Mark{mark.Name, mark.Value[:4]}).Processes(); len(others) != 0 {
		t.Errorf("the beginning of a mark found %+v", others)
	}
	c := &complaints{TB: t}
	mark.assertGone(c, 10*time.Millisecond)
	if len(c.said) != 1 || !strings.Contains(c.said[0], "is still running: sleep 1000") {
		t.Errorf("said %q", c.said)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it lives on")
	}
	mark.AssertGone(t)
}

// A process without an environment is found if one of its arguments is the mark.
func TestMarkAsArgument(t *testing.T) {
	mark := Mark{"PROCTEST_MARK", fmt.Sprint(t.Name(), os.Getpid())}
	start := func(argument string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "echo ready; read line", argument)
		cmd.Env = []string{}
		in := must.Get(cmd.StdinPipe())(t)
		out := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			cmd.Wait()
		})
		must.Get(out.Read(make([]byte, 9)))(t)
		return cmd
	}
	cmd := start(mark.String())
	start(mark.String() + "x")
	if found := mark.Processes(); len(found) != 1 || found[0].PID != cmd.Process.Pid {
		t.Errorf("found %+v, want process %d", found, cmd.Process.Pid)
	}
}

func TestBuffer(t *testing.T) {
	var b Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			fmt.Fprint(&b, "x")
		}
	}()
	for len(b.String()) < 100 { // reads while the process writes; the race detector would report unsafe access
	}
	<-done
	if b.String() != strings.Repeat("x", 100) {
		t.Errorf("%q", b.String())
	}
}
