package run

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/process/connection"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestStarvedRank: a silent rank is lost if its process is stopped, has ended or is on another host. If it lives, it is
// waited for, and its row is disturbed with the delay that the scheduler counts.
func TestStarvedRank(t *testing.T) {
	t.Parallel()
	sleeper := func() *os.Process {
		cmd := exec.Command("sleep", "60")
		must.Do(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd.Process
	}
	stopped, ended := sleeper(), exec.Command("true")
	must.Do(t, stopped.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	must.Get(syscall.Wait4(stopped.Pid, &status, syscall.WUNTRACED, nil))(t)
	must.Do(t, ended.Run())
	for name, c := range map[string]struct {
		pid  int
		want string // in the reason of the failure; "" for none
	}{
		"alive": {sleeper().Pid, ""}, "stopped": {stopped.Pid, "stopped by a signal"},
		"ended": {ended.Process.Pid, "its process has ended"}, "elsewhere": {0, "starved of CPU or cut off"},
	} {
		w := &workerGroup{slot: &runSlot{runner: new(runner)}, hub: new(worker.Hub), ranks: make([]rankState, 2), procs: 2,
			stops: newStopWatch()}
		w.stops.add(0, os.Getpid())
		if c.pid > 0 {
			w.stops.add(1, c.pid)
		}
		var f *failure
		for range 12 {
			w.ranks[0].silent = 0
			if f = w.checkHeartbeats(); f != nil {
				break
			}
		}
		switch {
		case c.want != "" && (f == nil || *f.rank != 1 || !strings.Contains(f.reason, c.want)):
			t.Errorf("%s: %+v, want %q", name, f, c.want)
		case c.want == "":
			row := journal.Row{Status: journal.OK, Kind: journal.Measured, Conditions: w.starved.conditions()}
			journal.Judge(&row)
			why := row.Conditions.Strongest().Sentence()
			if f != nil || !row.Disturbed() || !strings.Contains(why, "starved: rank 1 sent nothing for 12 s") {
				t.Errorf("%s: %+v, %q", name, f, why)
			}
		}
	}
}

// A process that lives on this host, in a container with a network of its own, does not starve if its
// network is cut.
func TestSilentNetwork(t *testing.T) {
	const limit = 5 * time.Second
	for _, c := range []struct {
		seen connection.Evidence
		want string
	}{
		{connection.Evidence{}, ""}, {connection.Evidence{TCP: true, LastAck: time.Second}, ""},
		{connection.Evidence{TCP: true, Unconfirmed: 1, LastAck: limit}, "the network is cut"},
		{connection.Evidence{TCP: true, LastAck: time.Second, Resent: 9}, "the network loses packets: 9 had"},
	} {
		c.seen.Local, c.seen.State = true, "S"
		got := explainSilence(c.seen, limit)
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%+v: %q, want %q", c.seen, got, c.want)
		}
	}
}

// A failed row of a rank on another host names that host, once.
func TestFailedHostNamed(t *testing.T) {
	w := &workerGroup{ranks: []rankState{{}, {host: "b"}}}
	for _, c := range []struct {
		rank         int
		placed       bool
		reason, want string
	}{
		{0, false, "the worker ended", "the worker ended"}, {1, false, "the worker ended", "on host b: the worker ended"},
		{1, true, "the process of rank 1 (host b, pid 5) was lost", "the process of rank 1 (host b, pid 5) was lost"},
	} {
		row := journal.Row{Status: journal.Failed, Rank: &c.rank, Reason: journal.Text(c.reason)}
		if w.nameHost(&row, &failure{placed: c.placed}); string(row.Reason) != c.want {
			t.Errorf("%q became %q, want %q", c.reason, row.Reason, c.want)
		}
	}
}

// A full disk is reported once, with the first record that it cost.
func TestJoinOnce(t *testing.T) {
	full := func(what, path string) error {
		return fmt.Errorf("%s is lost: %w", what, &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC})
	}
	if err := joinOnce(full("row 1", "journal"), full("the end", "journal")); err.Error() != full("row 1",
		"journal").Error() {
		t.Errorf("%v", err)
	}
	replaced := fmt.Errorf("row 1 is lost: %w", journal.ErrReplaced)
	if err := joinOnce(replaced, fmt.Errorf("the end is lost: %w", journal.ErrReplaced)); err != replaced {
		t.Errorf("%v", err)
	}
	both := joinOnce(full("row 1", "journal"), full("samples", "other"))
	if text := both.Error(); !strings.Contains(text, "row 1") || !strings.Contains(text, "samples") {
		t.Errorf("%v", both)
	}
	if err := joinOnce(nil, full("the end", "journal")); err == nil || joinOnce(nil, nil) != nil {
		t.Errorf("%v", err)
	}
}
