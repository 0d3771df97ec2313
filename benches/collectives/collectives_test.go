package collectives

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/benches/benchtest"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/bench/probe"
	"github.com/kernbench/kernbench/internal/comm/tuning"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// scripted returns the stored probe result of a host with one bandwidth and one hop.
func scripted() probe.Result {
	h := hostinfo.Local()
	cells := []probe.Cell{{Cores: 1, Bytes: 1024, GBps: 10}, {Cores: 2, Bytes: 1024, GBps: 20}}
	return probe.Result{Schema: probe.Schema, Class: probe.Class(h), Version: probe.Version(h.Build), Profile: "scripted",
		Cores: 2,
		Copy:  cells, Read: cells, Hops: []probe.Hop{{From: 0, To: 1, US: 0.5}}}
}

func scriptedFile(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "probe.json")
	must.Do(t, probe.Save(path, scripted()))
	return path
}

// planned returns the plan of a sweep over the bench.
func planned(t *testing.T, req plan.Request) *plan.Plan {
	t.Helper()
	b := Bench()
	must.Do(t, b.Validate())
	req.Backend, req.Seed = "cpu", 1
	return must.Get(plan.Make(b, req))(t)
}

// perform runs the body of one task with goroutines as ranks.
func perform(t *testing.T, task plan.Task, options point.Point, backend string) []decl.Outcome {
	t.Helper()
	return benchtest.Perform(t, bench.New("b", body).Parts[0].Body, task, options,
		decl.Setting{Backend: backend, Measure: fewSamples()})
}

// fewSamples returns a configuration for tests that check whether rows are correct and not their
// times. Verification does not depend on the number of samples.
func fewSamples() measure.Config {
	cfg := measure.Default()
	cfg.Stop = measure.Stop{MinSamples: 1, MaxSamples: 3, MaxTime: time.Second}
	cfg.Warmup = measure.Warmup{MinCalls: 1, MaxCalls: 1, MaxTime: time.Second}
	return cfg
}

// sampleLittle makes the workers of a plan use fewSamples.
func sampleLittle(p *plan.Plan) {
	for _, g := range p.Groups {
		g.Part.Measure = fewSamples()
	}
}

var axes = benchtest.Assign

// Every operation is correct with 1, 2 and 3 ranks, for counts that the ranks divide and others, in
// and out of place, on both kinds of buffers.
func TestAllOperations(t *testing.T) {
	ranks := "num_ranks=1,2,3"
	if testing.Short() {
		ranks = "num_ranks=3" // covers the code paths of two ranks
	}
	p := planned(t, plan.Request{Axes: axes("op="+strings.Join(ops(), ","), ranks, "size=4,20,4K", "inplace=false,true",
		"buffers=symmetric,private"),
		Options: axes("probe=" + scriptedFile(t))})
	ran := map[string]int{}
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			ran[task.Point[0].Value.String()]++
			for rank, o := range perform(t, task, p.Options, "cpu") {
				if o.Status != journal.OK {
					t.Errorf("%s ranks=%d: rank %d: %s: %s", task.Point, task.Ranks, rank, o.Status, o.Reason)
				}
				if o.Metrics["wrong"] != 0 {
					t.Errorf("%s: %v wrong elements", task.Point, o.Metrics["wrong"])
				}
			}
		}
	}
	for _, op := range ops() {
		if ran[op] == 0 {
			t.Errorf("no point of %s ran", op)
		}
	}
}

// Every element type and reduction is correct, with an algorithm that reduces in one pass and with one
// that passes sums on.
func TestAllTypes(t *testing.T) {
	p := planned(t, plan.Request{Axes: axes("dtype="+strings.Join(lists.Map(dtype.All(), dtype.DType.String), ","),
		"reduction=sum,prod,min,max,avg", "num_ranks=3", "size=1K",
		"algorithm=auto,ring"), Options: axes("probe=" + scriptedFile(t))})
	for _, g := range p.Groups {
		for _, task := range g.Tasks {
			if o := perform(t, task, p.Options, "cpu")[0]; o.Status != journal.OK {
				t.Errorf("%s: %s: %s", task.Point, o.Status, o.Reason)
			}
		}
	}
}

// The details, limits and metrics of a row besides its time.
func TestRow(t *testing.T) {
	p := planned(t, plan.Request{Axes: axes("size=64K"), Options: axes("probe=" + scriptedFile(t))})
	o := perform(t, p.Groups[0].Tasks[0], p.Options, "cpu")[0]
	if o.Details["algorithm"] == "" || o.Details["algorithm"] == auto ||
		o.Details["tuning"] != tuning.Default().Hash() || !strings.HasPrefix(o.Details["probe"], "scripted") {
		t.Errorf("details are %v", o.Details)
	}
	if !(o.Limits["bandwidth"] > 0) || !(o.Limits["hops"] > 0) || !(o.Metrics["busbw"] > 0) {
		t.Errorf("limits are %v, metrics %v", o.Limits, o.Metrics)
	}
	most := max(o.Limits["bandwidth"], o.Limits["hops"])
	if got, want := o.Metrics["pct_of_limit"], 100*most/o.Metrics["time_us"]; got != want {
		t.Errorf("pct_of_limit is %v, want %v", got, want)
	}
}

// A probe of another host gives no limits, and the row says why.
func TestForeignProbe(t *testing.T) {
	r := scripted()
	r.Class = "other"
	path := filepath.Join(t.TempDir(), "probe.json")
	must.Do(t, probe.Save(path, r))
	p := planned(t, plan.Request{Axes: axes("size=4"), Options: axes("probe=" + path)})
	o := perform(t, p.Groups[0].Tasks[0], p.Options, "cpu")[0]
	if o.Status != journal.OK || len(o.Limits) != 0 || len(o.Conditions) == 0 ||
		!strings.Contains(o.Conditions[0].Sentence(), "class other") {
		t.Errorf("%s, limits %v, warnings %q", o.Status, o.Limits, o.Conditions.Sentences())
	}
}

// faulty is the cpu backend with a defect: after a number of good runs of a prepared call, every run or
// every second run leaves an element of rank 1's output unwritten.
type faulty struct{ good, every int }

// faultyEngine turns a group of the cpu backend into an engine.
type faultyEngine struct {
	*dist.Group
	rest
	faulty
}

// rest provides the methods of dist.Engine that a group lacks. The bench calls none of them. It is
// embedded one level down, so that the group's methods take precedence.
type rest struct{ dist.Engine }

func (b faulty) Join(ctx context.Context, c dist.Config) (dist.Engine, error) {
	c.Backend = "cpu"
	g, err := dist.Init(ctx, c)
	return faultyEngine{Group: g, faulty: b}, err
}

func (e faultyEngine) Prepare(p dist.Plan) (run, release func() error, err error) {
	op, err := e.Group.Prepare(p.Call)
	runs := 0
	return func() error {
		runs++
		if runs <= e.good || runs%e.every != 0 || e.Rank() != 1 || p.Out.Count() == 0 {
			return op.Run()
		}
		element := p.Out.Bytes()[p.Out.Count()/2*p.DType.Size():][:p.DType.Size()]
		was := bytes.Clone(element)
		err := op.Run()
		copy(element, was)
		return err
	}, op.Close, err
}

func (e faultyEngine) Split(int, int) (dist.Engine, error) { return nil, errors.New("not needed") }

var backends atomic.Int32

// A planted wrong element is found: at the first call, if it appears only while timing, and if it
// appears in every second run, out of place and in place. The row fails and counts it.
func TestPlantedErrorIsCaught(t *testing.T) {
	for _, f := range []faulty{{0, 1}, {5, 1}, {0, 2}, {5, 2}} {
		for _, inPlace := range []string{"false", "true"} {
			t.Run(fmt.Sprintf("%d good, every %d, in place %s", f.good, f.every, inPlace), func(t *testing.T) {
				name := fmt.Sprintf("faulty%d", backends.Add(1)) // a name can be registered only once
				dist.Register(dist.Description{Name: name}, f)
				p := planned(t, plan.Request{Axes: axes("size=4K", "inplace="+inPlace, "dtype=i32"),
					Options: axes("probe=" + scriptedFile(t))})
				o := perform(t, p.Groups[0].Tasks[0], p.Options, name)
				if o[1].Status != journal.Failed || o[1].Metrics["wrong"] != 1 ||
					!strings.Contains(o[1].Reason, "1 wrong elements, first: rank 1, element 512") {
					t.Errorf("rank 1: %s, wrong %v: %s", o[1].Status, o[1].Metrics["wrong"], o[1].Reason)
				}
				if o[0].Status != journal.Failed {
					t.Errorf("rank 0 did not hear of it: %s", o[0].Status)
				}
			})
		}
	}
}

// Meaningless points are dropped when planning, with a reason.
func TestDropped(t *testing.T) {
	for _, c := range []struct{ axes, reason string }{
		{"op=allredus", "did you mean"},
		{"op=barrier size=64", "moves no data"},
		{"op=alltoall inplace=true", "no alltoall in place"},
		{"op=sendrecv num_ranks=1", "needs two ranks"},
		{"dtype=f64 size=4", "no element of f64"},
		{"op=allgather reduction=max", "reduces nothing"},
		{"algorithm=rng", "did you mean"},
		{"algorithm=rng@64K size=1M", "did you mean"},
		{"algorithm=ring@64X", "not a size of pieces"},
		{"algorithm=ring@64K size=4K", "longer than the vector"},
		{"algorithm=ring@2 size=4K", "hold no element"},
		{"op=broadcast algorithm=two-stage", "broadcast algorithm"},
		{"buffers=shared", "kind of buffers"},
		{"reduction=add", "reduction"},
	} {
		err := checkPoint(pointOf(t, c.axes))
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want the reason %q", c.axes, err, c.reason)
		}
	}
	for _, good := range []string{"", "op=barrier size=4", "op=allgather inplace=true size=8",
		"op=allgather inplace=true num_ranks=3 size=8", "algorithm=steps:ring", "algorithm=ring@4K size=4K", "size=0"} {
		if err := checkPoint(pointOf(t, good)); err != nil {
			t.Errorf("%s is dropped: %v", good, err)
		}
	}
}

// pointOf returns a default point of the bench with some axes changed.
func pointOf(t *testing.T, changes string) point.Point {
	t.Helper()
	var p point.Point
	for _, a := range Bench().Parts[0].Axes {
		v := a.Values[0]
		for _, as := range axes(strings.Fields(changes)...) {
			if as.Name == a.Name {
				var err error
				if v, err = point.Parse(a.Kind, as.Text); err != nil {
					t.Fatal(err)
				}
			}
		}
		p = append(p, point.Coord{Name: a.Name, Value: v})
	}
	return p
}
