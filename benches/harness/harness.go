// Package harness is the bench `harness`: the overhead that kernbench adds to a sample. It times an
// empty call, so the measured time is the overhead.
package harness

import (
	"context"
	"time"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/bench/measure"
)

// Bench declares the bench.
func Bench() *bench.Bench {
	return bench.New("harness", body,
		bench.Help("overhead of the harness: the time of an empty call"),
		bench.Doc(`Times an empty call, so that only the overhead of kernbench is measured.

time_us is the reported time of an empty call, which is the error that the harness
adds to the time of a real call. harness_us is the wall time from one sample to the
next, including clock readings and, in the isolated cadence, barriers.`),
		bench.Ranks("1,2"),
		bench.Strings("cadence", string(bench.Streaming), string(bench.Isolated)),
		bench.Metric("harness_us", "us", "lower", "overhead of the harness in a sample"),
		bench.Headline("time_us", "harness_us"),
		bench.Timeout(time.Minute),
	)
}

func body(ctx context.Context, s *bench.State) error {
	cadence := bench.Cadence(s.Str("cadence"))
	cost, err := measure.HarnessCost(ctx, cadence, group{s})
	if err != nil {
		return err
	}
	s.Record("harness_us", float64(cost.Nanoseconds())/1e3)
	s.Sampling().Cadence = cadence
	return s.Time(ctx, func() error { return nil })
}

// group is the connection of the ranks, as the sampling loop uses it.
type group struct{ *bench.State }

func (group) Abort(string) {} // the harness aborts the group of a body that fails
func (group) Close() error { return nil }
