package plan

import (
	"testing"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// TestSampling: what is asked for is what the group's ranks sample by, and what is not
// stays as declared, but for a bound that the other one has moved.
func TestSampling(t *testing.T) {
	half := 0.005
	own := bench.DefaultMeasure()
	own.Stop.MaxTime = 3 * time.Second
	b := make4x4(bench.Measure(own))
	plan := func(s Sampling) *Plan {
		t.Helper()
		req := request(nil, nil)
		req.Sampling = s
		p, err := Make(b, req)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	declared := plan(Sampling{})
	for what, c := range map[string]struct {
		ask   Sampling
		want  func(c *bench.Config)
		other bool // the time is another quantity
	}{
		"nothing":         {Sampling{}, func(*bench.Config) {}, false},
		"noise":           {Sampling{Noise: &half}, func(c *bench.Config) { c.Stop.RelNoise = 0.005 }, false},
		"no noise":        {Sampling{Noise: new(float64)}, func(c *bench.Config) { c.Stop.RelNoise = 0 }, false},
		"few samples":     {Sampling{MaxSamples: 5}, func(c *bench.Config) { c.Stop.MinSamples, c.Stop.MaxSamples = 5, 5 }, false},
		"many samples":    {Sampling{MinSamples: 20_000}, func(c *bench.Config) { c.Stop.MinSamples, c.Stop.MaxSamples = 20_000, 20_000 }, false},
		"both bounds":     {Sampling{MinSamples: 7, MaxSamples: 9}, func(c *bench.Config) { c.Stop.MinSamples, c.Stop.MaxSamples = 7, 9 }, false},
		"little time":     {Sampling{MaxTime: time.Millisecond}, func(c *bench.Config) { c.Stop.MinTime, c.Stop.MaxTime = time.Millisecond, time.Millisecond }, false},
		"long time":       {Sampling{MinTime: time.Minute}, func(c *bench.Config) { c.Stop.MinTime, c.Stop.MaxTime = time.Minute, time.Minute }, false},
		"cold":            {Sampling{Cache: measure.Cold}, func(c *bench.Config) { c.Cache = measure.Cold }, true},
		"isolated":        {Sampling{Cadence: measure.Isolated}, func(c *bench.Config) { c.Cadence = measure.Isolated }, true},
		"warm as it is":   {Sampling{Cache: measure.Warm}, func(*bench.Config) {}, false},
		"the same stream": {Sampling{Cadence: measure.Streaming}, func(*bench.Config) {}, false},
	} {
		want := own
		c.want(&want)
		g := plan(c.ask).Groups[0]
		if got := g.Part.Measure; got.Cadence != want.Cadence || got.Cache != want.Cache || got.Stop != want.Stop {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		// --resume takes a row for another by its key.
		if other := g.Tasks[0].Key != declared.Groups[0].Tasks[0].Key; other != c.other {
			t.Errorf("%s: another key: %v, want %v", what, other, c.other)
		}
	}
	req := request(nil, nil)
	req.Sampling = Sampling{MaxTime: 48 * time.Hour}
	if _, err := Make(b, req); err == nil {
		t.Error("two days a point are taken")
	}
	program := &bench.Bench{Name: "p", Parts: []*bench.DeclaredPart{{Command: &bench.Command{}}}}
	if err := (Sampling{MaxSamples: 1}).sample("p", program.Parts); err == nil {
		t.Error("the sampling of a program is set")
	}
}
