package bench

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/bandwidth"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Timing adjusts one [State.Time].
type Timing func(*timing)

type timing struct {
	preamble func() error
	inPlace  bool
	sampled  func(batch int, samples []int64) error
	settle   func() error
}

// Preamble has a function run before each call, outside the timed part: to undo
// what the call did.
func Preamble(f func() error) Timing { return func(t *timing) { t.preamble = f } }

// InPlace says that the call overwrites its inputs when it is true: there is no telling
// what many calls must leave, and the verified ones stand for them.
func InPlace(is bool) Timing { return func(t *timing) { t.inPlace = is } }

// Settle has a function of [State.TimeAs] run after its samples and before what they left
// is verified: where that is not in the outputs, it checks it and leaves a result there.
func Settle(f func() error) Timing { return func(t *timing) { t.settle = f } }

// SampledBy has the samples taken by another program, which calls and times itself:
// take fills in the picoseconds of each sample of so many calls. Preambles are its
// matter too, and [State.UseClock] tells the error of its clock.
func SampledBy(take func(batch int, samples []int64) error) Timing {
	return func(t *timing) { t.sampled = take }
}

// Time measures call on all ranks together: verified, warmed up, sampled until the
// median is known well enough, and verified again. The time of an iteration is that
// of the slowest rank. It records the metric time_us, the median, and what follows
// from it. All ranks must call it alike.
//
// Where there are new inputs for every verified call ([State.Refresh]), a verification
// makes four, and there are more of them between the samples.
func (s *State) Time(ctx context.Context, call func() error, timings ...Timing) error {
	var adjusted timing
	for _, t := range timings {
		t(&adjusted)
	}
	body := measure.Body{Call: call, Preamble: adjusted.preamble, Sample: adjusted.sampled}
	if err := s.prove(ctx, body, "verify before timing"); err != nil {
		return err
	}
	// looked checks what the timed calls left, and then calls of its own.
	looked := func(phase string) error {
		s.set.Phase(phase)
		if !adjusted.inPlace {
			if err := s.check(ctx, measure.Body{}); err != nil {
				return err
			}
		}
		if s.refresh == nil {
			return nil
		}
		return s.prove(ctx, body, phase)
	}
	cfg := s.set.Measure
	cfg.Progress = func(phase string, _ int) { s.set.Phase(phase) }
	first := "warmup"
	if s.set.Clock.Deterministic() { // which needs none
		first = "timed"
	}
	s.set.Phase(first)
	timed := body
	if s.refresh != nil {
		timed.Between = func() error {
			defer s.set.Phase("timed")
			return looked("verify between samples")
		}
	}
	res, err := measure.Run(ctx, cfg, s.set.Clock, s.set.Group, timed)
	if err != nil {
		return err
	}
	if len(s.verify) > 0 {
		if err := looked("verify after timing"); err != nil {
			return err
		}
	}
	s.record(res)
	return nil
}

// otherSamples is how many samples [State.TimeAs] takes, each itself a mean.
const otherSamples = 20

// TimeAs measures the same call by other means than [State.Time], such as a device that
// times itself: sample makes calls and gives the microseconds of one, on all ranks
// together. The metric is the median, over the samples, of the slowest rank; the row keeps
// them and their spread. With [State.Refresh] the call has new inputs and a spoilt output before,
// and what it left is verified, unless it is in place.
func (s *State) TimeAs(ctx context.Context, metric string, sample func() (us float64, err error),
	timings ...Timing) error {
	var adjusted timing
	for _, t := range timings {
		t(&adjusted)
	}
	s.set.Phase("timed as " + metric)
	if s.refresh != nil {
		if err := s.refresh(); err != nil {
			return fmt.Errorf("new inputs: %w", err)
		}
	}
	m, err := measure.Collect(ctx, s.set.Group, otherSamples, s.set.Measure.Stop.MaxTime, func() (int64, error) {
		us, err := sample()
		return int64(math.Round(us * 1e6)), err
	})
	if err != nil {
		return err
	}
	if adjusted.settle != nil {
		if err := adjusted.settle(); err != nil {
			return fmt.Errorf("after %s: %w", metric, err)
		}
	}
	if s.refresh != nil && !adjusted.inPlace {
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

// raw is a matrix for the row. All ranks have the same one; rank 0 records it.
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

// verifiedCalls is how many calls a verification makes where each has new inputs and
// outputs that hold nothing: what goes wrong in every second run of a prepared call, or
// leaves the output of the run before, cannot pass.
const verifiedCalls = 4

// prove makes calls and has each verified. It leaves inputs that no call has seen.
func (s *State) prove(ctx context.Context, body measure.Body, phase string) error {
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
	return s.Barrier(ctx) // nobody calls while another still writes its inputs
}

// check makes one call, if there is one, and all verifications. Every rank
// arrives before any checks, since a check may look at data others still write.
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
	// A rank that found nothing must not go on to time what another found wrong,
	// so the ranks exchange their verdicts.
	mine := []int64{wrong}
	if first != nil {
		mine[0] = max(wrong, 1)
	}
	all, err := s.set.Group.Exchange(ctx, mine)
	if first != nil { // whatever another rank has made of it meanwhile
		return first // the row says in which phase
	}
	if err != nil {
		return err
	}
	for rank, w := range all {
		if w[0] != 0 {
			return fmt.Errorf("rank %d: %w", rank, ErrElsewhere)
		}
	}
	return nil
}

// ErrElsewhere marks a failure that another rank explains better: the row names
// that rank.
var ErrElsewhere = errors.New("the verification failed there")

// record turns samples into the row's metrics.
func (s *State) record(res *measure.Result) {
	o := &s.out
	o.Clock, o.Cadence, o.Cache = res.Clock, string(res.Cadence), string(res.Cache)
	o.Batch, o.Samples = res.Batch, res.Samples.Iterations()
	o.Warnings = append(o.Warnings, res.Warnings...)
	a := measure.Analyze(res.Samples)
	o.Warnings = append(o.Warnings, a.Warnings...)
	o.Sampling = sampling(s.set.Measure.Stop, res, a)
	us := a.Summary.P50
	s.Record("time_us", us)
	o.Stats["time_us"] = journal.NewStat(a.Summary)
	if s.set.Group.Size() > 1 {
		o.Skew, o.Slowest = &a.Skew, &a.Straggler
	}
	if us > 0 {
		if s.bytes > 0 {
			s.Record("gbps", s.bytes/us/1e3)
		}
		if s.flops > 0 {
			s.Record("tflops", s.flops/us/1e6)
		}
		if v := s.volume; v != nil {
			s.Record("algbw", bandwidth.Alg(v.bytes, us))
			if bus, ok := bandwidth.Bus(v.op, s.Size(), v.bytes, us); ok {
				s.Record("busbw", bus)
			}
		}
	}
	if most := largest(o.Limits); us > 0 && most > 0 {
		s.Report(LimitMetric, 100*most/us, "%", "higher")
		if most > WrongLimit*us {
			s.Warn("faster than its limit allows (%.0f %% of it): the limit is wrong, or not all of the work was done or timed",
				100*most/us)
		}
	}
	if o.Samples > 1 {
		o.Raw = s.raw(res.Samples)
	}
	if in, looks := s.set.Clock.(insider); looks && s.Rank() == 0 {
		seen, err := in.Inside()
		if err != nil {
			s.Warn("%v", err)
		}
		o.Inside = seen
	}
}

// WrongLimit is how far above its limit a row may be before it has a warning: those that are probed are off by
// a fifth at most, where nothing disturbs them.
const WrongLimit = 1.25

// sampling is how the samples came about, for the row.
func sampling(stop measure.Stop, res *measure.Result, a measure.Analysis) *journal.Sampling {
	out := &journal.Sampling{
		Stopped: string(res.Stopped), Target: stop.RelNoise, MinSamples: stop.MinSamples, MaxSamples: stop.MaxSamples,
		MinTime: stop.MinTime.Seconds(), MaxTime: stop.MaxTime.Seconds(),
	}
	if !math.IsNaN(res.Noise) && !math.IsInf(res.Noise, 0) {
		out.Noise = &res.Noise
	}
	if a.Drifts {
		out.Drift = &a.Drift
	}
	return out
}

// largest is the greatest value of the map, 0 when there is none.
func largest(m map[string]float64) (most float64) {
	for _, v := range m {
		most = max(most, v)
	}
	return most
}
