package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestResumeWhileAlive: a run that is under way cannot be resumed, and the refusal
// says who is at it; another run may use the folder meanwhile. Death frees it.
func TestResumeWhileAlive(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	gate := filepath.Join(t.TempDir(), "gate")
	environ := s.environ
	s.environ = append(s.environ, "TEST_GATE="+gate)
	cmd := s.supervisor("slow")
	s.eventually("a row of the live run", func() bool {
		_, r, err := journal.LoadRun(s.dir)
		return err == nil && len(r.Rows) > 0
	})
	live := s.journal().ID()
	p, err := makePlan("slow", plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(context.Background(), p, Options{Dir: s.dir, Environ: environ, Resume: true})
	var held *journal.HeldError
	if !errors.As(err, &held) || held.Run != live || held.PID != cmd.Process.Pid || held.Host == "" || time.Since(held.Since) > hangGuard {
		t.Errorf("resuming a live run: %v", err)
	}
	if r := s.journal(); len(r.Headers) != 1 {
		t.Errorf("the refused one has written: %d headers", len(r.Headers))
	}
	s.environ = environ
	if res, _ := s.run("still"); res.Run == live {
		t.Error("a run beside it has the same id")
	}
	cmd.Process.Kill()
	cmd.Wait()
	s.mark.AssertGone(t)
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if hold, err := journal.HoldRun(s.dir, live); err != nil {
		t.Errorf("the dead process's run: %v", err)
	} else {
		hold.Release()
	}
}

// TestLaunchFolderIsNew: a launch never reads what lies in a folder already, such
// as the output of a kernbench on a host with locks of its own.
func TestLaunchFolderIsNew(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	planted := false
	s.options.Observe = func(e Event) {
		if e.Started == nil {
			return
		}
		for _, launch := range []string{"0001", "0003"} {
			dir := filepath.Join(s.dir, "logs", e.Started.Run, launch)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Error(err)
			}
			for _, rank := range []string{"rank0.out", "rank1.out"} {
				if err := os.WriteFile(filepath.Join(dir, rank), []byte("777\n"), 0o444); err != nil {
					t.Error(err)
				}
			}
		}
		planted = true
	}
	_, rows := s.run("listen")
	if !planted {
		t.Fatal("nothing was planted")
	}
	for _, r := range rows {
		if r.Status != journal.OK || r.Metrics["time_us"] != 1.5 || strings.HasSuffix(r.Launch, "0001") || strings.HasSuffix(r.Launch, "0003") {
			t.Errorf("%s: %s %s, %v us from %s", at(r), r.Status, r.Reason, r.Metrics["time_us"], r.Launch)
		}
	}
}
