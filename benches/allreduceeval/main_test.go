package allreduceeval

import (
	"os"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/allreduceeval/matrix"
	"github.com/kernbench/kernbench/benches/benchtest"
	_ "github.com/kernbench/kernbench/dist/all" // registers the backends of the program
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/worker"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// TestMain also serves as the agent, worker and helper processes that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv(registerVar) != "" {
		registerTestAlgorithms()
	}
	sizesOf = testSizes
	figure.Density = 24
	if os.Getenv(smallVar) != "" {
		contractSizes = contractSizes[:len(contractSizes)-1]
		sampling = shortSampling
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

// small is a set of sizes for tests that are not about sizes: the quick set without its large sizes,
// which take nearly all of the time. If smallVar is set, workers use it in place of the quick set,
// leave out the largest contract size and take few samples.
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

// shortSampling takes few samples, because the tests do not look at the times.
func shortSampling() measure.Config {
	c := measure.Default()
	c.Stop = measure.Stop{MinSamples: 3, MaxSamples: 5, MaxTime: 5 * time.Millisecond}
	c.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	return c
}

var assigns = benchtest.Assign

// tasks plans a part with these axes and options.
func tasks(t *testing.T, part string, axes, options []plan.Assign) (*plan.Plan, []plan.Task) {
	t.Helper()
	p := must.Get(plan.Make(Bench(),
		plan.Request{Axes: axes, Options: options, Only: []string{`part == "` + part + `"`}, Backend: hints.HostBackend,
			Trials: 1, Seed: 1}))(t)
	var list []plan.Task
	for _, g := range p.Groups {
		list = append(list, g.Tasks...)
	}
	return p, list
}

// perform runs a task with goroutines as ranks.
func perform(t *testing.T, part string, task plan.Task, options point.Point) []decl.Outcome {
	t.Helper()
	return performOn(t, hints.HostBackend, part, task, options)
}

func performOn(t *testing.T, backend, part string, task plan.Task, options point.Point) []decl.Outcome {
	t.Helper()
	p, _ := Bench().Part(part)
	return benchtest.Perform(t, p.Body, task, options, decl.Setting{Backend: backend, Measure: shortSampling()})
}
