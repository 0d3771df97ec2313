package measure

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
)

// Result is what was measured, the same on every rank except ClockOverhead,
// ClockResolution and Warnings.
type Result struct {
	// Samples holds for each iteration and rank the time of one call, with the
	// clock's overhead subtracted.
	Samples Matrix
	// Batch is the number of calls in one sample; its time is divided by it.
	Batch         int
	Cadence       Cadence
	Cache         Cache
	ColdBytes     int // swept before each sample; 0 with a warm cache
	Clock         string
	Deterministic bool
	// ClockOverhead and ClockResolution are in picoseconds.
	ClockOverhead, ClockResolution int64
	// GCOff: the garbage collector of the process did not run in timed parts.
	GCOff       bool
	WarmupCalls int
	Stopped     StopReason
	// Noise is half the width of the median's 95 % interval over the median; NaN
	// if there are too few samples.
	Noise float64
	// Elapsed is the time the samples took, untimed parts included.
	Elapsed  time.Duration
	Warnings []string
}

// Run samples body on all ranks of the group; every rank calls it at the same
// point of its program. On an error the group is aborted, so that the other
// ranks return with an error that names this one, unless they hang in the body
// itself. A call or preamble that fails or panics gives a [CallError].
//
// A deterministic clock gives one sample and no warm-up.
func Run(ctx context.Context, cfg Config, clock Clock, g syncgroup.Group, body Body) (_ *Result, err error) {
	defer func() {
		if err != nil {
			g.Abort(err.Error())
		}
	}()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if body.Call == nil {
		return nil, errors.New("measuring: the body has no call")
	}
	if body.Sample != nil && cfg.Cache == Cold {
		return nil, errors.New("measuring: the caches of another program cannot be swept")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &sampler{watch: newStopwatch(clock), group: g, body: body, isolated: cfg.Cadence == Isolated, batch: 1}
	clockError, err := s.compareTerms(ctx, cfg, clock)
	if err != nil {
		return nil, err
	}
	r := &Result{
		Samples: NewMatrix(g.Size()),
		Cadence: cfg.Cadence, Cache: cfg.Cache, Clock: clock.Name(), Deterministic: clock.Deterministic(),
		ClockOverhead: s.watch.calibration.Overhead, ClockResolution: s.watch.calibration.Resolution,
		GCOff: !clock.Deterministic(),
	}
	if cfg.Cache == Cold {
		var warning string
		r.ColdBytes, warning = coldBytes(cfg.ColdBytes, lastLevelCache())
		r.warnIf(warning != "", "%s", warning)
		s.cold = make([]uint64, r.ColdBytes/8)
	}
	percent := gcOften
	if r.GCOff {
		percent = gcOff
	}
	defer setGC(percent)()

	var call float64
	if !r.Deterministic {
		if r.WarmupCalls, call, err = s.warmUp(ctx, cfg); err != nil {
			return nil, err
		}
		// Preamble and cold cache are for one call: a second call in the sample would
		// go without.
		if body.Preamble == nil && cfg.Cache == Warm {
			s.batch = batchFor(call, clockError)
		}
	}
	r.Batch = s.batch
	r.warnIf(s.isolated && s.batch > 1,
		"isolated: a call is too short for the clock, so each barrier is followed by %d calls",
		s.batch)
	if err := s.sample(ctx, cfg, r, call); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Result) warnIf(when bool, format string, args ...any) {
	if when {
		r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
	}
}

// compareTerms makes sure that all ranks measure alike; otherwise they would wait
// for each other forever. It returns the worst clock error of all ranks.
func (s *sampler) compareTerms(ctx context.Context, cfg Config, clock Clock) (clockError int64, err error) {
	name := fnv.New64a()
	name.Write([]byte(clock.Name()))
	flag := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	terms := []string{"configuration", "clock", "kind of clock", "preamble"}
	c := s.watch.calibration
	mine := []int64{
		cfg.fingerprint(), int64(name.Sum64()), flag(clock.Deterministic()), flag(s.body.Preamble != nil),
		max(c.Overhead, c.Resolution),
	}
	all, err := s.group.Exchange(ctx, mine)
	if err != nil {
		return 0, err
	}
	for r, theirs := range all {
		if len(theirs) != len(mine) {
			return 0, fmt.Errorf("measuring: ranks out of step: rank %d is not at the start of a measurement", r)
		}
		for i, term := range terms {
			if theirs[i] != all[0][i] {
				return 0, fmt.Errorf("measuring: rank %d and rank 0 differ in %s: all ranks must measure alike", r, term)
			}
		}
		clockError = max(clockError, theirs[len(terms)])
	}
	return clockError, nil
}

// warmUp returns the number of calls made and the time of the last ones.
func (s *sampler) warmUp(ctx context.Context, cfg Config) (calls int, call float64, err error) {
	decide := warming{limits: cfg.Warmup}
	s.start(phaseWarmup)
	for n := 1; n > 0; {
		block, elapsed, err := s.block(ctx, n)
		if err != nil {
			return 0, 0, err
		}
		n = decide.next(block.maxima(), elapsed)
		cfg.progress(phaseWarmup, s.done)
	}
	return decide.calls, decide.last, nil
}

// sample fills the result with samples until a rule of cfg.Stop ends it.
func (s *sampler) sample(ctx context.Context, cfg Config, r *Result, call float64) error {
	decide := sampling{stop: cfg.Stop, exact: r.Deterministic}
	heap := heapBytes()
	s.start(phaseTimed)
	blocks, pauseAfter := 0, 1
	for n := decide.first(call * float64(s.batch)); n > 0; {
		block, elapsed, err := s.block(ctx, n)
		if err != nil {
			return err
		}
		r.Samples.data = append(r.Samples.data, block.data...)
		r.Elapsed = time.Duration(elapsed / 1000)
		n, r.Stopped = decide.next(block.maxima(), elapsed)
		cfg.progress(phaseTimed, s.done)
		if blocks++; s.body.Between != nil && n > 0 && blocks == pauseAfter {
			pauseAfter *= 2
			if err := s.pause(ctx); err != nil {
				return err
			}
		}
		heap = collectMuch(heap)
	}
	r.Noise = Noise(decide.sorted)
	if samples := r.Samples.Iterations(); !decide.exact {
		r.warnIf(samples < cfg.Stop.MinSamples, "only %d samples of at least %d in %v",
			samples, cfg.Stop.MinSamples, cfg.Stop.MaxTime)
	}
	r.warnIf(cfg.Stop.RelNoise > 0 && r.Noise > cfg.Stop.RelNoise,
		"noise: the median is known to %.1f %%, not %.1f %% (stopped: %s)", 100*r.Noise, 100*cfg.Stop.RelNoise, r.Stopped)
	return nil
}

func (c Config) progress(phase string, iter int) {
	if c.Progress != nil {
		c.Progress(phase, iter)
	}
}
