package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TimeOption modifies a call of [State.Time] or [State.TimeAs].
type TimeOption func(*timeOptions)

type timeOptions struct {
	preamble     func() error
	inPlace      bool
	take         func(batch int, samples []int64) error // nil: this process takes the samples
	cold         bool                                   // take flushes the caches
	afterSamples func() error
}

func collect(options []TimeOption) (o timeOptions) {
	for _, set := range options {
		set(&o)
	}
	return o
}

// Preamble sets a function that runs before each call and is not timed, to undo the effect of
// the previous call.
func Preamble(f func() error) TimeOption { return func(o *timeOptions) { o.preamble = f } }

// InPlace declares that a call overwrites its inputs. The expected result after many calls is then
// unknown, so only the separate verification calls are checked. InPlace(false) has no effect.
func InPlace(overwrites bool) TimeOption { return func(o *timeOptions) { o.inPlace = overwrites } }

// AfterSamples sets a function that [State.TimeAs] runs after its samples and before the
// verification. If the result is not in the verified output, the function copies it there.
func AfterSamples(f func() error) TimeOption { return func(o *timeOptions) { o.afterSamples = f } }

// SampledBy lets another program take the samples. take fills in the duration of each sample in
// picoseconds; a sample is batch calls. The other program also runs the preambles. The clock set by
// [State.UseClock] must have the resolution of the program's clock.
func SampledBy(take func(batch int, samples []int64) error) TimeOption {
	return func(o *timeOptions) { o.take = take }
}

// SampledCold declares that the program of [SampledBy] flushes the caches before each call, so that
// the row records a cold cache. SampledCold(false) has no effect.
func SampledCold(cold bool) TimeOption { return func(o *timeOptions) { o.cold = cold } }

// Time measures call on all ranks together: it verifies one call, warms up, samples until the
// median is known well enough, and verifies again. The time of an iteration is the time of its
// slowest rank. Time records their median as the metric time_us, and the rates derived from it.
// All ranks must call it with the same options.
//
// With [State.Refresh], each verification makes four calls on new inputs, and there are more
// verifications between the samples.
func (s *State) Time(ctx context.Context, call func() error, options ...TimeOption) error {
	opts := collect(options)
	body := measure.Body{Call: call, Preamble: opts.preamble, Sample: opts.take, Cold: opts.cold}
	if err := s.verifyCalls(ctx, body, "verify before timing"); err != nil {
		return err
	}
	// recheck verifies the output of the timed calls, then makes and verifies calls of its own.
	recheck := func(phase string) error {
		s.set.Phase(phase)
		if !opts.inPlace {
			if err := s.check(ctx, measure.Body{}); err != nil {
				return err
			}
		}
		if s.refresh == nil {
			return nil
		}
		return s.verifyCalls(ctx, body, phase)
	}
	cfg := s.set.Measure
	if opts.cold {
		cfg.Cache = measure.Cold
	}
	cfg.Progress = func(phase string, _ int) { s.set.Phase(phase) }
	if s.set.Clock.Deterministic() { // simulated time needs no warm-up
		s.set.Phase("timed")
	} else {
		s.set.Phase("warmup")
	}
	timed := body
	if s.refresh != nil {
		timed.Between = func() error {
			defer s.set.Phase("timed")
			return recheck("verify between samples")
		}
	}
	res, err := measure.Run(ctx, cfg, s.set.Clock, s.set.Group, timed)
	if err != nil {
		return err
	}
	if len(s.verify) > 0 {
		if err := recheck("verify after timing"); err != nil {
			return err
		}
	}
	s.record(res)
	return nil
}

// deviceSamples is the number of samples that [State.TimeAs] takes. Each is already a mean.
const deviceSamples = 20

// TimeAs measures calls with a timer of the body's own, for example the timer of a device. On each
// rank, sample makes calls and returns the time of one call in µs. The time of a sample is the time
// of its slowest rank. TimeAs records the median over the samples as the metric; the row keeps the
// samples and their spread. With [State.Refresh], the calls get new inputs and a garbage output, and
// their output is verified unless [InPlace] is set.
func (s *State) TimeAs(ctx context.Context, metric string, sample func() (us float64, err error),
	options ...TimeOption) error {
	opts := collect(options)
	s.set.Phase("timed as " + metric)
	if s.refresh != nil {
		if err := s.refresh(); err != nil {
			return fmt.Errorf("new inputs: %w", err)
		}
	}
	m, err := measure.Collect(ctx, s.set.Group, deviceSamples, s.set.Measure.Stop.MaxTime, func() (int64, error) {
		us, err := sample()
		return int64(math.Round(us * 1e6)), err // ps
	})
	if err != nil {
		return err
	}
	if opts.afterSamples != nil {
		if err := opts.afterSamples(); err != nil {
			return fmt.Errorf("after %s: %w", metric, err)
		}
	}
	if s.refresh != nil && !opts.inPlace {
		if err := s.check(ctx, measure.Body{}); err != nil {
			return fmt.Errorf("after %s: %w", metric, err)
		}
	}
	a := measure.Analyze(m)
	s.Report(metric, a.Summary.P50, "us", "lower")
	s.out.Stats[metric] = journal.NewStat(a.Summary)
	if raw := s.raw(m); raw != nil {
		s.out.Raws[metric] = raw
	}
	return nil
}

// raw encodes a matrix of samples for the row. All ranks have the same matrix, so only rank 0 records it.
func (s *State) raw(m measure.Matrix) []byte {
	if s.Rank() != 0 {
		return nil
	}
	raw, err := m.MarshalBinary()
	if err != nil {
		s.Warn("%v", err)
		return nil
	}
	return raw
}

// verifiedCalls is the number of calls of a verification with [State.Refresh]. A single call would
// miss errors that occur only in every second call of a prepared operation (double buffering), and
// calls that leave the previous output in place.
const verifiedCalls = 4

// verifyCalls makes calls and verifies each. With [State.Refresh], it ends by writing new inputs and
// garbage outputs, so that the next verification detects timed calls that did nothing.
func (s *State) verifyCalls(ctx context.Context, body measure.Body, phase string) error {
	if len(s.verify) == 0 {
		return nil
	}
	s.set.Phase(phase)
	if s.refresh == nil {
		return s.check(ctx, body)
	}
	for range verifiedCalls {
		if err := s.refresh(); err != nil {
			return fmt.Errorf("new inputs: %w", err)
		}
		if err := s.check(ctx, body); err != nil {
			return err
		}
	}
	if err := s.refresh(); err != nil {
		return fmt.Errorf("new inputs: %w", err)
	}
	return s.Barrier(ctx) // no rank may call while another still writes its inputs
}

// check makes one call, unless one.Call is nil, and runs all verifications. The barriers are needed
// because calls and verifications may read data that other ranks write.
func (s *State) check(ctx context.Context, one measure.Body) error {
	if one.Preamble != nil {
		if err := one.Preamble(); err != nil {
			return fmt.Errorf("preamble: %w", err)
		}
	}
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	if one.Call != nil {
		if err := one.Call(); err != nil {
			return err
		}
	}
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	var wrong int64
	var first error
	for _, v := range s.verify {
		err := v()
		if w, is := errors.AsType[*Wrong](err); is {
			wrong += w.Count
		}
		if first == nil {
			first = err
		}
	}
	s.Report("wrong", float64(wrong), "", "lower")
	// The ranks exchange their verdicts, so that no rank goes on to time a call whose result
	// is wrong on another rank.
	mine := []byte{0}
	if wrong != 0 || first != nil {
		mine[0] = 1
	}
	all, err := s.set.Group.Exchange(ctx, mine)
	if first != nil { // the wrong result explains more than an error of the exchange
		return first
	}
	if err != nil {
		return err
	}
	for rank, w := range all {
		if w[0] != 0 {
			return fmt.Errorf("rank %d: %w", rank, decl.ErrElsewhere)
		}
	}
	return nil
}

// record converts samples into the row's metrics.
func (s *State) record(res *measure.Result) {
	o := &s.out
	o.Clock, o.Cadence, o.Cache = res.Clock, string(res.Cadence), string(res.Cache)
	o.Batch, o.Samples = res.Batch, res.Samples.Iterations()
	a := measure.Analyze(res.Samples)
	o.Conditions = slices.Concat(o.Conditions, res.Conditions, a.Conditions)
	if res.ClockResolution > 0 {
		o.Resolution = map[string]float64{"time_us": float64(res.ClockResolution) / 1e6 / float64(max(res.Batch, 1))}
	}
	o.Sampling = sampling(s.set.Measure.Stop, res, a)
	us := a.Summary.P50
	s.Record("time_us", us)
	o.Stats["time_us"] = journal.NewStat(a.Summary)
	if s.set.Group.Size() > 1 {
		o.Skew, o.Slowest = &a.Skew, &a.Straggler
	}
	if us > 0 {
		if s.bytes > 0 {
			s.Record("gbps", s.bytes/us/1e3) // 1 byte/µs = 1e-3 GB/s
		}
		if s.flops > 0 {
			s.Record("tflops", s.flops/us/1e6) // 1 FLOP/µs = 1e-6 TFLOP/s
		}
		if s.collective != "" {
			s.Record("algbw", bandwidth.Alg(s.volume, us))
			if bus, ok := bandwidth.Bus(s.collective, s.Size(), s.volume, us); ok {
				s.Record("busbw", bus)
			}
		}
	}
	if limit := largestLimit(o.Limits); us > 0 && limit > 0 {
		s.Report(decl.LimitMetric, 100*limit/us, "%", "higher")
		if limit > decl.WrongLimit*us {
			s.note(journal.NewCondition(journal.CodeFast, journal.Named{"share": limit / us}))
		}
	}
	if o.Samples > 1 {
		o.Raw = s.raw(res.Samples)
	}
	if p, ok := s.set.Clock.(profiler); ok && s.Rank() == 0 {
		var err error
		if o.Inside, err = p.Profile(); err != nil {
			s.Warn("%v", err)
		}
	}
}

// sampling returns the row's record of how its samples were taken.
func sampling(stop measure.Stop, res *measure.Result, a measure.Analysis) *journal.Sampling {
	out := &journal.Sampling{
		Stopped: string(res.Stopped), Target: stop.RelNoise, MinSamples: stop.MinSamples, MaxSamples: stop.MaxSamples,
		MinTime: stop.MinTime.Seconds(), MaxTime: stop.MaxTime.Seconds(),
	}
	if !math.IsNaN(res.Noise) && !math.IsInf(res.Noise, 0) { // JSON has neither
		out.Noise = &res.Noise
	}
	if a.Drifts {
		out.Drift = &a.Drift
	}
	return out
}

// largestLimit returns the limit that binds. Each limit is a lower bound on the time, in µs, so the largest counts.
func largestLimit(limits map[string]float64) (largest float64) {
	for _, us := range limits {
		largest = max(largest, us)
	}
	return largest
}
