package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// simulated is a backend with all ranks in one process and simulated time. It moves no data.
const simulated = "simulated"

type simulatedBackend struct{ dist.Backend }

func init() {
	dist.Register(dist.Description{Name: simulated, InProcess: true, Simulated: true},
		simulatedBackend{})
}

// together does what its point says on rank 1, and works normally on the other ranks.
func together(ctx context.Context, s *bench.State) error {
	s.Detail("pid", strconv.Itoa(os.Getpid()))
	if s.LocalRank() != s.Rank() {
		return fmt.Errorf("rank %d has local rank %d", s.Rank(), s.LocalRank())
	}
	if s.Str("what") == "skips" {
		return bench.Skip("nothing to do")
	}
	if s.Rank() == 1 {
		switch s.Str("what") {
		case "fails":
			return errors.New("rank 1 does not want to")
		case "panics":
			panic("rank 1 is beside itself")
		case "hangs":
			s.Phase("hanging")
			time.Sleep(hangGuard)
		case "dies":
			fmt.Fprintln(os.Stderr, "giving up")
			os.Exit(7)
		}
	}
	clock := &scriptedClock{}
	s.UseClock(clock)
	return s.Time(ctx, func() error { clock.now += 100e6; return nil })
}

// All ranks of such a backend share one process, but a row still names the rank.
func TestInProcess(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.request.Backend = simulated
	_, rows := s.run("together")
	if len(rows) != 7 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, want := range []struct {
		status journal.Status
		rank   int
		reason string
	}{
		{journal.OK, -1, ""}, {journal.Failed, 1, "rank 1 does not want to"},
		{journal.Failed, 1, "panic: rank 1 is beside itself"},
		{journal.Timeout, 1, "not finished"}, {journal.Failed, -1, "the process of all 3 ranks ended with exit code 7"},
		{journal.OK, -1, ""}, {journal.Skipped, -1, "nothing to do"},
	} {
		r := rows[i]
		rank := -1
		if r.Rank != nil {
			rank = *r.Rank
		}
		if r.Status != want.status || rank != want.rank || !strings.Contains(string(r.Reason), want.reason) {
			t.Errorf("%v: %s, rank %d: %s", r.Point, r.Status, rank, r.Reason)
		}
		if r.NumRanks == nil || *r.NumRanks != 3 || r.Backend != simulated {
			t.Errorf("%v: ranks %v, backend %s", r.Point, r.NumRanks, r.Backend)
		}
		if r.Kind != journal.Simulated || r.Status == journal.OK && r.Metrics["time_us"] != 100 {
			t.Errorf("%v: %s time, %v us", r.Point, r.Kind, r.Metrics["time_us"])
		}
		if logs, err := filepath.Glob(filepath.Join(s.dir, "logs", r.Launch, "*.out")); err != nil || len(logs) != 1 {
			t.Errorf("%v: logs of %v (%v), want one process", r.Point, logs, err)
		}
	}
	if rows[3].Phase != "hanging" || !strings.Contains(rows[4].Output, "giving up") {
		t.Errorf("hanging in phase %q; the dead one printed %q", rows[3].Phase, rows[4].Output)
	}
}

// The same bench with one process per rank.
func TestSameBenchInProcesses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.request.Only = []string{`what=="fine"`}
	_, rows := s.run("together")
	logs, _ := filepath.Glob(filepath.Join(s.dir, "logs", rows[0].Launch, "*.out"))
	if len(rows) != 1 || rows[0].Status != journal.OK || len(logs) != 3 {
		t.Errorf("%+v; logs %v", rows, logs)
	}
}

// overlap: the first point ends after the fourth has started, which requires points to run side by side.
func overlap(ctx context.Context, s *bench.State) error {
	flag := filepath.Join(os.Getenv("TEST_FLAGS"), fmt.Sprint(s.Int("i")))
	if err := os.WriteFile(flag, nil, 0o644); err != nil {
		return err
	}
	if s.Int("i") == 0 && os.Getenv("TEST_ALONE") == "" {
		for limit := time.Now().Add(hangGuard); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(os.Getenv("TEST_FLAGS"), "3")); err == nil {
				break
			}
			if time.Now().After(limit) {
				return errors.New("no other point runs beside the first")
			}
		}
	}
	clock := &scriptedClock{}
	s.UseClock(clock)
	return s.Time(ctx, func() error { clock.now += int64(s.Int("i")) * 1e6; return nil })
}

// Points with simulated time run side by side, but the journal has them in the declared order.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.request.Backend = simulated
	s.environ = append(s.environ, "TEST_FLAGS="+t.TempDir())
	if hostinfo.Local().CPU.Usable < 2 {
		s.environ = append(s.environ, "TEST_ALONE=1") // one core: one after another
	}
	s.run("overlap")
	for i, r := range s.journal().Rows { // in the order of the journal
		if v := r.Point.At("i"); int(v.Int()) != i || r.Status != journal.OK || r.Metrics["time_us"] != float64(i) {
			t.Errorf("row %d is %v: %s (%s)", i, r.Point, r.Status, r.Reason)
		}
	}
}

// Under --fail-fast, a failure in one run slot ends the others. Their finished rows are kept, in order.
func TestSideBySideFailFast(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.request.Backend = simulated
	s.request.Skips = append(s.request.Skips, struct{ Name, Text string }{"what", "hangs,dies,panics,skips"})
	s.options.FailFast = true
	res, _ := s.run("together")
	rows := s.journal().Rows
	inOrder := slices.IsSortedFunc(rows, func(a, b journal.Row) int { return a.Index - b.Index })
	if res.Counts[journal.Failed] != 1 || !inOrder || len(rows) > 3 {
		t.Errorf("%v: %+v", res.Counts, rows)
	}
}
