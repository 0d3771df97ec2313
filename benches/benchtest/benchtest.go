// Package benchtest runs benches in tests: bodies with a goroutine for every
// rank, and real processes, which the test binary itself plays. It judges nothing:
// the outcomes are the caller's to look at.
package benchtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// Main is for TestMain of a package whose tests start real workers: the test
// binary is then also their agent and the workers themselves. It gives the exit
// status.
func Main(m *testing.M, benches ...*bench.Bench) int {
	if code, is := launch.MaybeAgent(); is {
		return code
	}
	if code, is := worker.Maybe(benches); is {
		return code
	}
	return m.Run()
}

// Program is Main for tests that start kernbench itself: `run`, `launch` and `probe` of the
// test binary are those of a kernbench with these benches.
func Program(m *testing.M, benches ...*bench.Bench) int {
	if len(os.Args) > 1 && slices.Contains([]string{"launch", "run", "probe"}, os.Args[1]) {
		request.Remeasure = 0 // hosts that run tests are busy
		return cli.Main(benches)
	}
	return Main(m, benches...)
}

// Assign reads words such as "size=4,8".
func Assign(words ...string) (list []plan.Assign) {
	for _, w := range words {
		name, text, _ := strings.Cut(w, "=")
		list = append(list, plan.Assign{Name: name, Text: text})
	}
	return list
}

// Perform runs a body on all ranks of a task. Of the setting, the backend and
// how to measure are the caller's; the rest is filled in. A rank that fails ends
// the others, as a worker does.
func Perform(t testing.TB, body bench.Body, task plan.Task, options point.Point, set bench.Setting) []bench.Outcome {
	t.Helper()
	groups := syncgroup.Local(task.Ranks)
	outcomes := make([]bench.Outcome, task.Ranks)
	set.Point = append(append(point.Point{}, task.Point...), options...)
	set.Seed, set.Session = 7, fmt.Sprint(t.Name(), "/", os.Getpid())
	var ranks sync.WaitGroup
	for rank := range groups {
		ranks.Go(func() {
			own := set
			own.Group, own.LocalRank = groups[rank], rank
			s := bench.NewState(own)
			err := body(t.Context(), s)
			if outcomes[rank] = s.Finish(err); outcomes[rank].Status.Bad() {
				groups[rank].Abort(outcomes[rank].Reason)
			}
		})
	}
	ranks.Wait()
	return outcomes
}
