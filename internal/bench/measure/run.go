package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"runtime"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Result is the result of a measurement. It is the same on every rank, except for ClockOverhead,
// ClockResolution and Conditions.
type Result struct {
	// Samples holds the time of one call for each iteration and rank, without the clock's overhead.
	Samples Matrix
	// Batch is the number of calls in one sample. Samples are already divided by it.
	Batch         int
	Cadence       Cadence
	Cache         Cache
	ColdBytes     int // size of the swept buffer; 0 with a warm cache
	Clock         string
	Deterministic bool
	// ClockOverhead and ClockResolution are in picoseconds.
	ClockOverhead, ClockResolution int64
	// GCOff means that the garbage collector of the process did not run in timed parts.
	GCOff       bool
	WarmupCalls int
	Stopped     StopReason
	// Noise is half the width of the median's 95 % confidence interval, relative to the median. It is
	// NaN if there are too few samples.
	Noise float64
	// Elapsed is the duration of the sampling, including untimed parts.
	Elapsed    time.Duration
	Conditions journal.Conditions
}

// Run samples body on all ranks of the group. Every rank must call it. After an error, Run aborts the
// group, so that the other ranks return with an error that names this rank, unless they hang in the body
// itself. If a call or preamble fails or panics, the error is a [CallError].
//
// With a deterministic clock there is one sample and no warm-up.
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
	if body.Sample != nil && cfg.Cache == Cold && !body.Cold {
		return nil, errors.New("measuring: cold caches: the program that takes the samples does not flush them")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &sampler{watch: newStopwatch(clock), group: g, body: body, isolated: cfg.Cadence == Isolated, batch: 1,
		blockTime: blockTime}
	if d, ok := clock.(interface{ OnDevice() bool }); ok && d.OnDevice() {
		s.blockTime = deviceBlockTime
	}
	clockError, err := s.checkAgreement(ctx, cfg, clock)
	if err != nil {
		return nil, err
	}
	r := &Result{
		Samples: NewMatrix(g.Size()),
		Cadence: cfg.Cadence, Cache: cfg.Cache, Clock: clock.Name(), Deterministic: clock.Deterministic(),
		ClockOverhead: s.watch.calibration.Overhead, ClockResolution: s.watch.calibration.Resolution,
		GCOff: !clock.Deterministic(),
	}
	if cfg.Cache == Cold && body.Sample == nil {
		cache := cmp.Or(lastLevelCache(), assumedCache)
		r.ColdBytes = coldBytes(cfg.ColdBytes, cache)
		r.noteIf(int64(r.ColdBytes) <= cache, journal.CodeColdCache,
			journal.Named{"buffer_bytes": float64(r.ColdBytes), "cache_bytes": float64(cache)})
		s.cold = make([]uint64, r.ColdBytes/8)
	}
	percent := gcFrequent
	if r.GCOff {
		percent = gcOff
	}
	defer setGC(percent)()

	var call float64 // time of one call in ps; 0 if unknown
	if !r.Deterministic {
		if r.WarmupCalls, call, err = s.warmUp(ctx, cfg); err != nil {
			return nil, err
		}
		// A preamble and a cold cache prepare only one call, so a sample is then one call.
		if body.Preamble == nil && cfg.Cache == Warm {
			s.batch = batchFor(call, clockError)
		}
	}
	r.Batch = s.batch
	r.noteIf(s.isolated && s.batch > 1, journal.CodeBatched, journal.Named{"calls": float64(s.batch)})
	if err := s.sample(ctx, cfg, r, call); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Result) noteIf(when bool, code journal.Code, values journal.Named, text ...string) {
	if when {
		r.Conditions = append(r.Conditions, journal.NewCondition(code, values, text...))
	}
}

// checkAgreement returns an error if the ranks do not measure in the same way: they would wait for each
// other forever. It returns the largest clock error of all ranks, in picoseconds.
func (s *sampler) checkAgreement(ctx context.Context, cfg Config, clock Clock) (clockError int64, err error) {
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
	all, err := syncgroup.Numbers(ctx, s.group, mine)
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

// warmUp makes calls until their time no longer falls. It returns the number of calls, and the median
// time of a call in the last block in picoseconds.
func (s *sampler) warmUp(ctx context.Context, cfg Config) (calls int, call float64, err error) {
	decide := warmupRule{limits: cfg.Warmup, block: s.blockTime}
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

// sample takes samples until cfg.Stop ends the sampling. call is the time of a call in the warm-up.
func (s *sampler) sample(ctx context.Context, cfg Config, r *Result, call float64) error {
	decide := samplingRule{stop: cfg.Stop, block: s.blockTime, exact: r.Deterministic}
	heap := heapBytes()
	cfg.progress(phaseTimed, 0) // a failure in the first block belongs to this phase
	s.start(phaseTimed)
	blocks, pauseAfter := 0, 1 // the intervals double, so that the checks cost little in a long measurement
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
		heap = collectGarbage(heap)
	}
	r.Noise = Noise(floats(decide.series))
	if samples := r.Samples.Iterations(); !decide.exact {
		r.noteIf(samples < cfg.Stop.MinSamples, journal.CodeFewSamples, journal.Named{"samples": float64(samples),
			"wanted": float64(cfg.Stop.MinSamples), "seconds": cfg.Stop.MaxTime.Seconds()})
	}
	r.noteIf(cfg.Stop.RelNoise > 0 && r.Noise > cfg.Stop.RelNoise, journal.CodeNoise,
		journal.Named{"noise": r.Noise, "target": cfg.Stop.RelNoise}, string(r.Stopped))
	return nil
}

func (c Config) progress(phase string, iter int) {
	if c.Progress != nil {
		c.Progress(phase, iter)
	}
}

// HarnessCost measures the time per sample of an empty body, including clock readings and barriers: the
// cost that the harness adds to a sample. Every rank of the group must call it. It returns the time of
// the slowest rank.
func HarnessCost(ctx context.Context, cadence Cadence, g syncgroup.Group) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	empty := Body{Call: func() error { return nil }}
	s := &sampler{watch: newStopwatch(clock.Monotonic()), group: g, body: empty, isolated: cadence == Isolated, batch: 1}
	defer setGC(gcOff)()
	var cost int64
	for range 2 { // the first warms up
		s.start(phaseTimed)
		_, elapsed, err := s.block(ctx, maxBlock)
		if err != nil {
			return 0, fmt.Errorf("measuring the harness: %w", err)
		}
		cost = elapsed / maxBlock
	}
	return time.Duration(cost / 1000), nil
}

// Collect takes up to n samples that the ranks time by their own means, such as the timer of a device.
// sample returns the time of one call in picoseconds. After each sample the ranks exchange their times.
// They stop together when the time limit of any rank has passed. There is no warm-up and no stopping
// rule for noise, because each sample is already a mean over many calls.
func Collect(ctx context.Context, g syncgroup.Group, n int, limit time.Duration, sample func() (int64, error)) (Matrix,
	error) {
	m := NewMatrix(g.Size())
	for begin, expired := time.Now(), false; m.Iterations() < n && !expired; {
		ps, err := sample()
		if err != nil {
			g.Abort(err.Error())
			return Matrix{}, err
		}
		mine := []int64{ps, 0}
		if time.Since(begin) >= limit {
			mine[1] = 1
		}
		all, err := syncgroup.Numbers(ctx, g, mine)
		if err != nil {
			return Matrix{}, err
		}
		for _, theirs := range all {
			m.data = append(m.data, theirs[0])
			expired = expired || theirs[1] != 0
		}
	}
	return m, nil
}
