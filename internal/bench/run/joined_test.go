package run

import (
	"context"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// If all failures are consequences, the row names the rank they follow from. Its connection is gone, so it
// cannot report itself.
func TestCulpritOfFollowers(t *testing.T) {
	lost := 1
	res := &results{byRank: make([]*worker.Event, 2)}
	for rank := range 2 {
		res.add(worker.Event{Rank: rank, Secondary: true, Culprit: &lost,
			Done: &bench.Outcome{Status: journal.Failed, Reason: "group aborted by rank 1: connection lost"}})
	}
	row := journal.Row{Metrics: map[string]float64{}, Units: map[string]string{}}
	res.fill(&row)
	if row.Status != journal.Failed || row.Rank == nil || *row.Rank != 1 {
		t.Errorf("%s at %v: %s", row.Status, row.Rank, row.Reason)
	}
}

// When a batch system ends a whole job, workers may end before rank 0 gets the signal. That is no failure of
// theirs. A crash is a failure, whatever follows.
func TestInterruptFollows(t *testing.T) {
	g := &plan.Group{Ranks: 2, Part: &decl.Part{}}
	joined := &runner{plan: &plan.Plan{}, opts: Options{Joined: &Joined{Size: 2}}}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		r    *runner
		ctx  context.Context
		e    launch.Event
		want bool
	}{
		"asked to end":            {joined, ended, launch.Exit{Code: -1, Signal: syscall.SIGTERM}, true},
		"its agent was asked":     {joined, ended, launch.Exit{Code: -1, Signal: syscall.SIGKILL, Stopped: true}, true},
		"its agent has gone":      {joined, ended, nil, true},
		"a crash":                 {joined, ended, launch.Exit{Code: -1, Signal: syscall.SIGSEGV}, false},
		"an exit":                 {joined, ended, launch.Exit{Code: 3}, false},
		"nothing was interrupted": {joined, t.Context(), launch.Exit{Code: -1, Signal: syscall.SIGTERM}, false},
		"not joined": {&runner{plan: &plan.Plan{}}, ended, launch.Exit{Code: -1, Signal: syscall.SIGTERM},
			false},
	} {
		if got := c.r.partOfInterrupt(c.ctx, g, c.e); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
