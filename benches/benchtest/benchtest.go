// Package benchtest runs benches in tests: bodies with a goroutine per rank, or real processes, for
// which the test binary starts itself. It returns outcomes and leaves their judgement to the test.
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
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/cli"
	"github.com/kernbench/kernbench/internal/cli/request"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Main is the body of TestMain for packages whose tests start real workers. If the test binary was
// started as an agent or worker, Main runs as one; otherwise it runs the tests. It returns the exit
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

// Program is like Main, for tests that start kernbench itself: with the argument run, launch or
// probe the test binary acts as a kernbench with these benches.
func Program(m *testing.M, benches ...*bench.Bench) int {
	if len(os.Args) > 1 && slices.Contains([]string{"launch", "run", "probe"}, os.Args[1]) {
		request.Remeasure = 0 // test machines are busy, so points would often be measured again
		return cli.Main(benches)
	}
	return Main(m, benches...)
}

// Assign parses assignments such as "size=4,8".
func Assign(words ...string) (list []plan.Assign) {
	for _, w := range words {
		name, text, _ := strings.Cut(w, "=")
		list = append(list, plan.Assign{Name: name, Text: text})
	}
	return list
}

// Rows runs a sweep of a bench that needs one rank and returns its rows. Words such as "size=4,8"
// set axes, "--name=value" sets options. An error means that planning failed.
func Rows(t testing.TB, b *bench.Bench, backend string, words ...string) (dataset.Set, error) {
	t.Helper()
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	req := plan.Request{Backend: backend, Seed: 1}
	for _, a := range Assign(words...) {
		if option, is := strings.CutPrefix(a.Name, "--"); is {
			req.Options = append(req.Options, plan.Assign{Name: option, Text: a.Text})
		} else {
			req.Axes = append(req.Axes, a)
		}
	}
	p, err := plan.Make(b, req)
	if err != nil {
		return nil, err
	}
	var rows dataset.Set
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			o := Perform(t, g.Part.Body, task, p.Options, decl.Setting{Backend: backend})[0]
			rows = append(rows, &journal.Row{Key: fmt.Sprint(len(rows)), Part: g.Part.Name, Point: task.Point,
				Options: p.Options, Status: o.Status, Reason: journal.Text(o.Reason),
				Optional: o.Optional, Kind: o.Kind, Metrics: o.Metrics, Details: o.Details, Conditions: o.Conditions})
		}
	}
	return rows, nil
}

// Perform runs a body on all ranks of a task. The caller sets Backend and Measure of the setting;
// Perform fills in the rest. A rank that fails aborts the others, as in a worker.
func Perform(t testing.TB, body decl.Body, task plan.Task, options point.Point, set decl.Setting) []decl.Outcome {
	t.Helper()
	groups := syncgroup.Local(task.Ranks)
	outcomes := make([]decl.Outcome, task.Ranks)
	set.Point = append(append(point.Point{}, task.Point...), options...)
	set.Seed, set.Session = 7, fmt.Sprint(t.Name(), "/", os.Getpid())
	var ranks sync.WaitGroup
	for rank := range groups {
		ranks.Go(func() {
			own := set
			own.Group, own.LocalRank = groups[rank], rank
			if outcomes[rank], _ = body(t.Context(), own); outcomes[rank].Status.Bad() {
				groups[rank].Abort(outcomes[rank].Reason)
			}
		})
	}
	ranks.Wait()
	return outcomes
}
