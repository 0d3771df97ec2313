package run

import (
	"context"
	"syscall"
	"testing"

	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/process/launch"
)

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
