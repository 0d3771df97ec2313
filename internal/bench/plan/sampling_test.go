package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// Sampling flags override the declaration. Everything else stays as declared, except a bound that
// the opposite bound has moved.
func TestSampling(t *testing.T) {
	half := 0.005
	own := bench.DefaultMeasure()
	own.Stop.MaxTime = 3 * time.Second
	b := make4x4(bench.Measure(own))
	plan := func(s Sampling) *Plan {
		t.Helper()
		req := request(nil, nil)
		req.Sampling = s
		return must.Get(Make(b, req))(t)
	}
	declared := plan(Sampling{})
	for what, c := range map[string]struct {
		ask   Sampling
		want  func(c *bench.Config)
		other bool // the time is another quantity
	}{
		"nothing":  {Sampling{}, func(*bench.Config) {}, false},
		"noise":    {Sampling{Noise: &half}, func(c *bench.Config) { c.Stop.RelNoise = 0.005 }, false},
		"no noise": {Sampling{Noise: new(float64)}, func(c *bench.Config) { c.Stop.RelNoise = 0 }, false},
		"few samples": {Sampling{MaxSamples: 5}, func(c *bench.Config) {
			c.Stop.MinSamples, c.Stop.MaxSamples = 5, 5
		}, false},
		"many samples": {Sampling{MinSamples: 20_000}, func(c *bench.Config) {
			c.Stop.MinSamples, c.Stop.MaxSamples = 20_000, 20_000
		}, false},
		"both bounds": {Sampling{MinSamples: 7, MaxSamples: 9}, func(c *bench.Config) {
			c.Stop.MinSamples, c.Stop.MaxSamples = 7, 9
		}, false},
		"little time": {Sampling{MaxTime: time.Millisecond}, func(c *bench.Config) {
			c.Stop.MinTime, c.Stop.MaxTime = time.Millisecond, time.Millisecond
		}, false},
		"long time": {Sampling{MinTime: time.Minute}, func(c *bench.Config) {
			c.Stop.MinTime, c.Stop.MaxTime = time.Minute, time.Minute
		}, false},
		"cold": {Sampling{Cache: measure.Cold}, func(c *bench.Config) { c.Cache = measure.Cold }, true},
		"isolated": {Sampling{Cadence: measure.Isolated}, func(c *bench.Config) {
			c.Cadence = measure.Isolated
		}, true},
		"warm as it is":   {Sampling{Cache: measure.Warm}, func(*bench.Config) {}, false},
		"the same stream": {Sampling{Cadence: measure.Streaming}, func(*bench.Config) {}, false},
	} {
		want := own
		c.want(&want)
		g := plan(c.ask).Groups[0]
		if got := g.Part.Measure; got.Cadence != want.Cadence || got.Cache != want.Cache || got.Stop != want.Stop {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		// --resume identifies rows by their keys, so rows that measure another quantity must have
		// other keys.
		if other := g.Tasks[0].Key != declared.Groups[0].Tasks[0].Key; other != c.other {
			t.Errorf("%s: another key: %v, want %v", what, other, c.other)
		}
	}
	req := request(nil, nil)
	req.Sampling = Sampling{MaxTime: 48 * time.Hour}
	if _, err := Make(b, req); err == nil {
		t.Error("two days a point are taken")
	}
}

// A sample of a program is a launch. Flags that cannot apply to a program are errors.
func TestSamplingOfPrograms(t *testing.T) {
	one, five := 0.01, 0.05
	const day = measure.NoTimeLimit
	for what, c := range map[string]struct {
		declared measure.Stop
		ask      Sampling
		want     measure.Stop
		err      string
	}{
		"noise": {ask: Sampling{Noise: &one},
			want: measure.Stop{RelNoise: 0.01, MinSamples: 6, MaxSamples: 50, MaxTime: day}},
		"noise of another": {declared: RepeatUntil(one), ask: Sampling{Noise: &five},
			want: measure.Stop{RelNoise: 0.05, MinSamples: 6, MaxSamples: 50, MaxTime: day}},
		"no noise":        {ask: Sampling{Noise: new(float64)}, want: measure.Stop{MinSamples: 1, MaxSamples: 1, MaxTime: day}},
		"so many":         {ask: Sampling{MinSamples: 4}, want: measure.Stop{MinSamples: 4, MaxSamples: 4, MaxTime: day}},
		"at most so many": {ask: Sampling{MaxSamples: 9}, want: measure.Stop{MinSamples: 1, MaxSamples: 9, MaxTime: day}},
		"for so long": {declared: RepeatUntil(one), ask: Sampling{MaxTime: time.Minute},
			want: measure.Stop{RelNoise: 0.01, MinSamples: 6, MaxSamples: 50, MaxTime: time.Minute}},
		"one, for so long":    {ask: Sampling{MaxTime: time.Minute}, err: "add --noise or --max-samples"},
		"its caches":          {ask: Sampling{Cache: measure.Cold}, err: "cannot set their cadence or caches"},
		"its cadence":         {ask: Sampling{Cadence: measure.Isolated}, err: "cannot set their cadence or caches"},
		"longer than a day":   {declared: RepeatUntil(one), ask: Sampling{MaxTime: 2 * day}, err: "max time"},
		"nothing of it asked": {declared: RepeatUntil(one), want: RepeatUntil(one)},
	} {
		command := &decl.Command{Until: c.declared}
		parts := []*decl.Part{{Command: command}}
		err := c.ask.applyTo("p", parts)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", what, err, c.err)
		} else if got := parts[0].Command.Until; err == nil && got != c.want {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
		if command.Until != c.declared {
			t.Errorf("%s: the declaration is changed", what)
		}
	}
}

// Launches with different environments are repeated, unless they are simulated or somebody has decided
// how often.
func TestDefaultTrials(t *testing.T) {
	swept := request(nil, []string{"A=1,2"})
	for _, c := range []struct {
		what   string
		bench  *bench.Bench
		envs   []string
		change func(*Request)
		want   int
	}{
		{"no variable", make4x4(), nil, nil, 1},
		{"one value", make4x4(), []string{"A=1"}, nil, 1},
		{"two values", make4x4(), []string{"A=1,2"}, nil, EnvTrials},
		{"one value of two is left", make4x4(), []string{"A=1,2"}, func(r *Request) { r.Only = []string{"A==1"} }, 1},
		{"asked for", make4x4(), []string{"A=1,2"}, func(r *Request) { r.Trials = 1 }, 1},
		{"declared", make4x4(bench.Trials(2)), []string{"A=1,2"}, nil, 2},
		{"simulated", make4x4(bench.Backends("flat")), []string{"A=1,2"}, func(r *Request) { r.Backend = "flat" }, 1},
		{"declared and simulated", make4x4(bench.Backends("flat"), bench.Trials(2)), []string{"A=1,2"},
			func(r *Request) { r.Backend = "flat" }, 1},
	} {
		req := swept
		req.Envs, req.Trials = lists.Map(c.envs, assign), 0
		if c.change != nil {
			c.change(&req)
		}
		p := must.Get(Outline(c.bench, req))(t)
		noted := slices.ContainsFunc(p.Notes, func(n string) bool { return strings.HasPrefix(n, "4 trials, because") })
		if p.Trials != c.want || p.DefaultTrials != (req.Trials == 0) || noted != (c.want == EnvTrials) {
			t.Errorf("%s: %d trials, want %d; notes %q", c.what, p.Trials, c.want, p.Notes)
		}
		// The estimate of --plan counts every trial.
		once := req
		once.Trials = 1
		least, _ := p.Estimate()
		if one, _ := must.Get(Outline(c.bench, once))(t).Estimate(); least != one*time.Duration(c.want) {
			t.Errorf("%s: takes at least %v, and one trial %v", c.what, least, one)
		}
	}
}

// Each part of a suite has its own number of trials. Parts with one trial run first, in declared order.
func TestTrialsOfParts(t *testing.T) {
	suite := bench.Suite("s", bench.Part("times", nop, bench.Trials(4), bench.Ranks("2,4")),
		bench.Part("checks", nop, bench.Ranks("2,3"), bench.Drop(func(q point.Point) error {
			if q.At(bench.RanksAxis).Int() == 3 {
				return errors.New("odd")
			}
			return nil
		})))
	p := must.Get(Make(suite, Request{Backend: "cpu", Seed: 1}))(t)
	var order []string
	times := map[int]int{} // launches by trial
	for i, g := range p.Groups {
		order = append(order, g.Part.Name)
		if g.Part.Name == "times" {
			times[g.Trial]++
		} else if i != 0 || g.Trial != 0 {
			t.Errorf("launch %d is trial %d of %s", i, g.Trial, g.Part.Name)
		}
	}
	if len(times) != 4 || times[0] != 2 || times[3] != 2 || len(order) != 9 {
		t.Errorf("launches %v", order)
	}
	if p.Trials != 4 || p.TrialsOf("times") != 4 || p.TrialsOf("checks") != 1 || p.Tasks() != 9 || p.Rows() != 10 {
		t.Errorf("%d trials, %d of checks, %d tasks, %d rows", p.Trials, p.TrialsOf("checks"), p.Tasks(), p.Rows())
	}
	want := "4 trials of times, because one launch does not show how much launches differ (--trials 1 runs only one)"
	if !slices.Contains(p.Notes, want) {
		t.Errorf("notes %q", p.Notes)
	}
	single := bench.Suite("s", bench.Part("times", nop, bench.Trials(1)), bench.Part("checks", nop))
	if p := must.Get(Make(single, Request{Backend: "cpu", Seed: 1}))(t); len(p.Notes) > 0 {
		t.Errorf("one trial has the notes %q", p.Notes)
	}
	twice := bench.Suite("s", bench.Part("times", nop, bench.Trials(4)), bench.Part("checks", nop, bench.Trials(2)))
	if p := must.Get(Make(twice, Request{Backend: "cpu", Seed: 1}))(t); len(p.Groups) != 6 || p.Tasks() != 6 {
		t.Errorf("four and two trials of one launch are %d launches of %d points", len(p.Groups), p.Tasks())
	}
	repeated := bench.Suite("s", bench.Part("times", nop, bench.Trials(4)), bench.Part("checks", nop))
	if p := must.Get(Make(repeated, Request{Backend: "cpu", Seed: 1}))(t); len(p.Notes) != 1 {
		t.Errorf("four trials of one launch have the notes %q", p.Notes)
	}
	checks := must.Get(Make(suite, Request{Backend: "cpu", Seed: 1, Only: []string{`part == "checks"`}}))(t)
	asked := must.Get(Make(suite, Request{Backend: "cpu", Seed: 1, Trials: 2}))(t)
	if checks.Trials != 1 || len(checks.Notes) > 0 || asked.TrialsOf("checks") != 2 || asked.TrialsOf("times") != 2 {
		t.Errorf("checks alone: %d trials, notes %q; two asked for: %d", checks.Trials, checks.Notes, asked.Trials)
	}
}

// TestNoiseReplacesFixedCount checks that a target for the noise replaces a declared number of samples.
func TestNoiseReplacesFixedCount(t *testing.T) {
	fixed, byNoise := measure.Default(), measure.Default()
	fixed.Stop = measure.Stop{MinSamples: 5, MaxSamples: 5, MaxTime: measure.NoTimeLimit}
	byNoise.Stop.RelNoise = 0.02
	for noise, want := range map[float64]measure.Config{0: fixed, 0.02: byNoise} {
		if got := must.Get(Sampling{Noise: &noise}.apply(fixed))(t); got.Stop != want.Stop {
			t.Errorf("noise %v: %+v, want %+v", noise, got.Stop, want.Stop)
		}
	}
}
