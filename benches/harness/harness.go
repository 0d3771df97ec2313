// Package harness is the bench `harness`: what kernbench itself adds to a
// sample. The body is empty, so everything that is measured is the harness.
package harness

import (
	"context"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// Bench declares it.
func Bench() *bench.Bench {
	return bench.New("harness", body,
		bench.Help("what the harness itself adds to a sample: an empty body, timed"),
		bench.Doc(`Times an empty body, so that what is left is kernbench's own cost.

time_us is what an empty call is said to take: what the harness would add to
the time of a real one. harness_us is the wall time from one sample to the next,
clock readings and, in the isolated cadence, barriers included.`),
		bench.Ranks("1,2"),
		bench.Strings("cadence", string(bench.Streaming), string(bench.Isolated)),
		bench.Metric("harness_us", "us", "lower"),
		bench.Timeout(time.Minute),
	)
}

func body(ctx context.Context, s *bench.State) error {
	cadence := bench.Cadence(s.Str("cadence"))
	cost, err := measure.HarnessCost(ctx, cadence, s.Group())
	if err != nil {
		return err
	}
	s.Record("harness_us", float64(cost.Nanoseconds())/1e3)
	s.Sampling().Cadence = cadence
	return s.Time(ctx, func() error { return nil })
}
