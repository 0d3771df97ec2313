package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// heed works until its context ends, returns the cause, and takes a moment to clean up. At the point
// "peer", rank 1 fails instead.
func heed(ctx context.Context, s *bench.State) error {
	if s.Str("until") == "peer" && s.Rank() == 1 {
		return errors.New("rank 1 has had enough")
	}
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline); !ok || left < 0 || left > heedLimit {
		return fmt.Errorf("a deadline in %v", left)
	}
	fmt.Println("working")
	<-ctx.Done()
	time.Sleep(20 * time.Millisecond)
	fmt.Println("cancelled:", context.Cause(ctx))
	return context.Cause(ctx)
}

// heedLimit is longer than it takes to abort the ranks that another rank has left.
const heedLimit = 5 * time.Second

// TestBodiesAreCancelled: the context of a body ends at the time limit, after the failure of another rank,
// and at an interrupt. The body may then return by itself.
func TestBodiesAreCancelled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		until  string
		status journal.Status
		rank   int
		reason string // of the row
		cause  string // of rank 0's context
	}{
		{"time-out", journal.Timeout, 0, "not finished within 5s", "cancelled: not finished within 5s"},
		{"peer", journal.Failed, 1, "rank 1 has had enough", "cancelled: rank 1 left the task: rank 1 has had enough"},
	} {
		t.Run(c.until, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.request.Axes = []plan.Assign{{Name: "until", Text: c.until}}
			_, rows := s.run("heed")
			if len(rows) != 1 || rows[0].Status != c.status || rows[0].Rank == nil || *rows[0].Rank != c.rank ||
				string(rows[0].Reason) != c.reason {
				t.Fatalf("rows %+v", rows)
			}
			if output := s.log(rows[0], 0); !strings.Contains(output, c.cause) {
				t.Errorf("rank 0 printed %q", output)
			}
			if strings.Contains(rows[0].Output, "goroutine") {
				t.Errorf("the stacks of bodies that had ended: %s", rows[0].Output)
			}
		})
	}
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		s := newScene(t)
		s.request.Axes = []plan.Assign{{Name: "until", Text: "interrupt"}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for s.printed("working") < 2 && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
		}()
		if res, rows := s.runContext(ctx, "heed"); !res.Interrupted || len(rows) != 0 {
			t.Errorf("interrupted: %t, rows %+v", res.Interrupted, rows)
		}
		if n := s.printed("cancelled: interrupted"); n != 2 {
			t.Errorf("%d ranks saw the cause", n)
		}
	})
}

// printed counts the ranks that have printed a text.
func (s *scene) printed(text string) (n int) {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "logs", "*", "*", "rank*.out"))
	for _, log := range logs {
		if output, err := os.ReadFile(log); err == nil && strings.Contains(string(output), text) {
			n++
		}
	}
	return n
}
