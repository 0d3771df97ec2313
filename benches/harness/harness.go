// Package harness is the bench `harness`: what kernbench itself adds to a
// sample. The body is empty, so everything that is measured is the harness.
package harness

import (
	"context"
	"time"

	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// Bench declares it.
func Bench() *decl.Bench {
	return decl.New("harness", body,
		decl.Help("what the harness itself adds to a sample: an empty body, timed"),
		decl.Doc(`Times an empty body, so that what is left is kernbench's own cost.

time_us is what an empty call is said to take: what the harness would add to
the time of a real one. harness_us is the wall time from one sample to the next,
clock readings and, in the isolated cadence, barriers included.`),
		decl.Ranks("1,2"),
		decl.Strings("cadence", string(measure.Streaming), string(measure.Isolated)),
		decl.Metric("harness_us", "us", "lower"),
		decl.Timeout(time.Minute),
	)
}

func body(ctx context.Context, s *decl.State) error {
	cadence := measure.Cadence(s.Str("cadence"))
	cost, err := measure.HarnessCost(ctx, cadence, s.Group())
	if err != nil {
		return err
	}
	s.Report("harness_us", float64(cost.Nanoseconds())/1e3, "us", "lower")
	s.Sampling().Cadence = cadence
	return s.Time(ctx, func() error { return nil })
}
