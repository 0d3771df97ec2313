package allreduceeval

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/benchtest"
	_ "github.com/kernbench/kernbench/dist/all" // as the program has them
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/process/launch"
)

// The test binary is also the agent, the workers and the helpers.
func TestMain(m *testing.M) {
	if os.Getenv(registerVar) != "" {
		registerMore()
	}
	sizesOf = testSizes
	if os.Getenv(smallVar) != "" {
		contractSizes = contractSizes[:len(contractSizes)-1]
	}
	if code, is := launch.MaybeAgent(); is {
		os.Exit(code)
	}
	if code, is := worker.Maybe([]*bench.Bench{Bench()}); is {
		os.Exit(code)
	}
	sampling = shortSampling
	os.Exit(m.Run())
}

// small is a set of sizes for tests of something else than sizes: the quick one's, but
// for its largest, on which nearly all of the time is spent. smallVar has the workers
// of a test take it for the quick one, and leave out the largest of the contracts.
const (
	small    = "small"
	smallVar = "ALLREDUCEEVAL_TEST_SMALL"
)

func testSizes(set string) ([]matrix.Size, error) {
	if set == small || set == matrix.Quick && os.Getenv(smallVar) != "" {
		sizes, err := matrix.Sizes(matrix.Quick)
		for i := range sizes {
			sizes[i].Bytes = min(sizes[i].Bytes, 64<<10)
		}
		return sizes, err
	}
	return matrix.Sizes(set)
}

// shortSampling is enough for tests, which ask whether rows are right and not
// what they say.
func shortSampling() measure.Config {
	c := measure.Default()
	c.Stop = measure.Stop{MinSamples: 3, MaxSamples: 5, MaxTime: 5 * time.Millisecond}
	c.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	return c
}

func assigns(pairs ...string) (list []plan.Assign) {
	for _, p := range pairs {
		name, text, _ := strings.Cut(p, "=")
		list = append(list, plan.Assign{Name: name, Text: text})
	}
	return list
}

// tasks are the points of a part with these axes and options.
func tasks(t *testing.T, part string, axes, options []plan.Assign) (*plan.Plan, []plan.Task) {
	t.Helper()
	p := must.Get(plan.Make(Bench(),
		plan.Request{Axes: axes, Options: options, Only: []string{`part == "` + part + `"`}, Backend: hints.HostBackend,
			Seed: 1}))(t)
	var list []plan.Task
	for _, g := range p.Groups {
		list = append(list, g.Tasks...)
	}
	return p, list
}

// perform runs a task with goroutines for ranks.
func perform(t *testing.T, part string, task plan.Task, options point.Point) []bench.Outcome {
	t.Helper()
	return performOn(t, hints.HostBackend, part, task, options)
}

func performOn(t *testing.T, backend, part string, task plan.Task, options point.Point) []bench.Outcome {
	t.Helper()
	p, _ := Bench().Part(part)
	return benchtest.Perform(t, p.Body, task, options, bench.Setting{Backend: backend, Measure: shortSampling()})
}
