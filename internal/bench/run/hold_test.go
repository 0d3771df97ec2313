package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TestResumeWhileAlive: an active run cannot be resumed, and the error names the active process. Another run
// may use the folder meanwhile. When the process dies, the run can be resumed.
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
	if !errors.As(err, &held) || held.Run != live || held.PID != cmd.Process.Pid || held.Host == "" ||
		time.Since(held.Since) > hangGuard {
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
	must.Do(t, os.WriteFile(gate, nil, 0o644))
	if hold, err := journal.HoldRun(s.dir, live); err != nil {
		t.Errorf("the dead process's run: %v", err)
	} else {
		hold.Release()
	}
}

// TestLaunchFolderIsNew: a launch never reads existing files of a folder, such as the output of a
// kernbench on another host whose locks are not visible here.
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
		if r.Status != journal.OK || r.Metrics["time_us"] != 1.5 || strings.HasSuffix(r.Launch, "0001") ||
			strings.HasSuffix(r.Launch, "0003") {
			t.Errorf("%s: %s %s, %v us from %s", at(r), r.Status, r.Reason, r.Metrics["time_us"], r.Launch)
		}
	}
}

// TestFollow: a run of another process is followed to its end, and the follower returns the same result
// without writing or launching anything.
func TestFollow(t *testing.T) {
	t.Parallel()
	p := must.Get(makePlan("still", plan.Request{}))(t)
	task := p.Groups[0].Tasks
	row := func(i int, status journal.Status) journal.Row {
		return journal.Row{Run: "live", Bench: "still", Point: task[i].Point, Backend: p.Backend, Status: status,
			Key: task[i].Key, Time: time.Now()}
	}
	for name, c := range map[string]struct {
		end    *journal.End
		cancel bool
		want   Result
		err    string
	}{
		"complete": {end: &journal.End{Outcome: "complete",
			Counts: map[journal.Status]int{journal.OK: 2, journal.NotExecuted: 1}, Missing: 1},
			want: Result{Counts: map[journal.Status]int{journal.OK: 2, journal.NotExecuted: 1}, Missing: 1}},
		"interrupted": {end: &journal.End{Outcome: "interrupted"}, want: Result{Interrupted: true}},
		"given up":    {end: &journal.End{Outcome: "failed"}, want: Result{Broken: "a note"}},
		"killed":      {err: "run live is incomplete: process"},
		"left alone":  {cancel: true, err: "stopped following run live, which continues"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := must.Get(journal.Open(dir))(t)
			defer w.Close()
			write := func(records ...any) {
				for _, rec := range records {
					if err := w.Append(rec); err != nil {
						t.Error(err)
					}
				}
			}
			hold := must.Get(journal.HoldRun(dir, "live"))(t)
			// The run was resumed, but has no new header yet: the end record belongs to the part before.
			write(journal.Header{Run: "live", Bench: "still", Points: 3}, row(0, journal.OK),
				journal.End{Run: "live", Outcome: "complete"})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var events []string
			res, err := Follow(ctx, dir, "live", func(e Event) {
				switch {
				case e.Started != nil:
					events = append(events, fmt.Sprintf("%d of %d in %s by %d", e.Started.Done, e.Started.Rows, e.Started.Run,
						e.Started.Follows.PID))
					write(journal.Header{Run: "live", Bench: "still", Points: 3, Resumed: true}, row(1, journal.OK),
						journal.Note{Run: "live", Text: "a note"})
				case e.Recorded != nil:
					events = append(events, e.Recorded.Point.String())
				case e.Note == "a note":
					if c.cancel {
						cancel()
						return
					}
					if c.end != nil {
						end := *c.end
						end.Run = "live"
						write(end)
					}
					hold.Release()
				default:
					events = append(events, e.Note)
				}
			})
			if fmt.Sprint(err) != "<nil>" != (c.err != "") || c.err != "" && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			want := []string{fmt.Sprintf("1 of 3 in live by %d", os.Getpid()), task[1].Point.String()}
			if !slices.Equal(events, want) {
				t.Errorf("events %q, want %q", events, want)
			}
			if res.Run = ""; c.err == "" && c.want.Counts == nil {
				c.want.Counts = map[journal.Status]int{}
			}
			if !reflect.DeepEqual(res, c.want) {
				t.Errorf("result %+v, want %+v", res, c.want)
			}
			if _, run, err := journal.LoadRun(dir); err != nil || len(run.Headers) != 2 || len(run.Rows) != 2 ||
				len(run.Begun) != 0 {
				t.Errorf("the follower has written: %v", err)
			}
		})
	}
}
