package measure

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/clock"
)

// fakeClock advances only when a body advances it.
type fakeClock struct {
	now           int64
	reading       int64 // duration of each reading
	deterministic bool
	device        bool
	name          string
}

func (c *fakeClock) Now() int64          { c.now += c.reading; return c.now }
func (c *fakeClock) Deterministic() bool { return c.deterministic }
func (c *fakeClock) OnDevice() bool      { return c.device }
func (c *fakeClock) Name() string        { return "fake" + c.name }
func (c *fakeClock) Calibration() clock.Calibration {
	return clock.Calibration{Overhead: c.reading, Resolution: 1}
}

// rank is the configuration of one rank in a test; call advances the clock.
type rank struct {
	cfg   Config
	clock *fakeClock
	body  Body
}

// each returns n ranks whose calls take the same time.
func each(n int, cfg Config, call int64) []*rank {
	ranks := make([]*rank, n)
	for i := range ranks {
		clock := &fakeClock{}
		ranks[i] = &rank{cfg: cfg, clock: clock, body: Body{Call: func() error { clock.now += call; return nil }}}
	}
	return ranks
}

func hang(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// runAll runs every rank, through wrap if it is given.
func runAll(ctx context.Context, ranks []*rank, wrap func(syncgroup.Group) syncgroup.Group) ([]*Result, []error) {
	results, errs := make([]*Result, len(ranks)), make([]error, len(ranks))
	groups := syncgroup.Local(len(ranks))
	var all sync.WaitGroup
	for i, r := range ranks {
		g := groups[i]
		if wrap != nil {
			g = wrap(g)
		}
		all.Go(func() { results[i], errs[i] = Run(ctx, r.cfg, r.clock, g, r.body) })
	}
	all.Wait()
	return results, errs
}

// succeed runs every rank and returns the result, which must be the same on all.
func succeed(t *testing.T, ranks []*rank) *Result {
	t.Helper()
	results, errs := runAll(hang(t), ranks, nil)
	must.Do(t, errors.Join(errs...))
	for r, result := range results {
		if diff := cmp.Diff(results[0], result, cmp.AllowUnexported(Matrix{}), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("rank %d has another result than rank 0: %s", r, diff)
		}
	}
	return results[0]
}

func allEqual(t *testing.T, m Matrix, rank int, want int64) {
	t.Helper()
	for i := range m.Iterations() {
		if got := m.At(i, rank); got != want {
			t.Fatalf("sample %d of rank %d is %d ps, want %d", i, rank, got, want)
		}
	}
}

func TestSteadyRun(t *testing.T) {
	for _, cadence := range []Cadence{Streaming, Isolated} {
		for _, n := range []int{1, 3} {
			cfg := Default()
			cfg.Cadence = cadence
			var progress []string
			ranks := each(n, cfg, 1e9)
			ranks[0].cfg.Progress = func(phase string, _ int) { progress = append(progress, phase) }
			r := succeed(t, ranks)
			allEqual(t, r.Samples, n-1, 1e9)
			if r.Samples.Iterations() != 100 || r.Stopped != Precise || r.Batch != 1 || r.WarmupCalls != 3 || r.Noise != 0 {
				t.Errorf("%s, %d ranks: %d samples, %+v", cadence, n, r.Samples.Iterations(), r)
			}
			if r.Cadence != cadence || r.Cache != Warm || r.Clock != "fake" || !r.GCOff || r.Elapsed != 100*time.Millisecond ||
				r.Conditions != nil {
				t.Errorf("%s, %d ranks: %+v", cadence, n, r)
			}
			want := []string{"warmup", "warmup", "timed", "timed", "timed", "timed", "timed", "timed"}
			if !slices.Equal(progress, want) {
				t.Errorf("progress %q, want %q", progress, want)
			}
		}
	}
}

// TestNoiseIsWarnedOf takes a fixed number of samples whose times differ. Without a target, there is nothing to miss.
func TestNoiseIsWarnedOf(t *testing.T) {
	for target, want := range map[float64]string{
		0: "", 0.5: "", 0.15: "noise: the median is known to 16.7 %, not 15.0 % (stopped: max-samples)",
		0.1666: "noise: the median is known to 16.8 %, not 16.7 % (stopped: max-samples)",
	} {
		cfg := Default()
		cfg.Stop = Stop{RelNoise: target, MinSamples: 100, MaxSamples: 100, MaxTime: NoTimeLimit}
		r := each(1, cfg, 1e9)[0]
		call, calls := r.body.Call, 0
		r.body.Call = func() error { calls++; r.clock.now += int64(calls*calls%7) * 1e9; return call() }
		result := succeed(t, []*rank{r})
		if got := strings.Join(result.Conditions.Sentences(), "; "); got != want || result.Samples.Iterations() != 100 {
			t.Errorf("target %v: %q after %d samples, want %q", target, got, result.Samples.Iterations(), want)
		}
	}
}

// Samples of a device come in longer blocks, so that it pauses less often.
func TestDeviceTakesLongBlocks(t *testing.T) {
	for _, device := range []bool{false, true} {
		var progress []string
		ranks := each(2, Default(), 1e9)
		ranks[0].cfg.Progress = func(phase string, _ int) { progress = append(progress, phase) }
		for _, r := range ranks {
			r.clock.device = device
		}
		want := map[bool]int{false: 8, true: 4}[device]
		if succeed(t, ranks); len(progress) != want {
			t.Errorf("device %v: %q, want %d calls", device, progress, want)
		}
	}
}

func TestDeterministicClockTakesOneSample(t *testing.T) {
	ranks := each(2, Default(), 7)
	calls := 0
	for _, r := range ranks {
		r.clock.deterministic = true
	}
	call := ranks[0].body.Call
	ranks[0].body.Call = func() error { calls++; return call() }
	r := succeed(t, ranks)
	if calls != 1 || r.Samples.Iterations() != 1 || r.Samples.At(0, 1) != 7 || r.Stopped != Exact || !r.Deterministic ||
		r.GCOff || r.Conditions != nil {
		t.Errorf("%d calls, %+v", calls, r)
	}
	if s := Analyze(r.Samples).Summary; math.IsNaN(s.Mean) || !math.IsNaN(s.CILow) || !math.IsNaN(s.CIHigh) {
		t.Errorf("one sample has an interval: %v", s)
	}
}

func TestShortCallsAreBatched(t *testing.T) {
	ranks := each(1, Default(), 50_000)
	ranks[0].clock.reading = 25_000
	r := succeed(t, ranks)
	if r.Batch != 50 || r.ClockOverhead != 25_000 {
		t.Errorf("batch %d, overhead %d", r.Batch, r.ClockOverhead)
	}
	allEqual(t, r.Samples, 0, 50_000)
}

func TestBatchInIsolationIsWarnedOf(t *testing.T) {
	cfg := Default()
	cfg.Cadence = Isolated
	ranks := each(1, cfg, 50_000)
	ranks[0].clock.reading = 25_000
	if r := succeed(t, ranks); r.Batch != 50 || len(r.Conditions) != 1 ||
		!strings.Contains(r.Conditions[0].Sentence(), "followed by 50 calls") {
		t.Errorf("batch %d, warnings %q", r.Batch, r.Conditions.Sentences())
	}
}

// TestPreamble: the preamble is not timed, runs before each call, and prevents batches.
func TestPreamble(t *testing.T) {
	ranks := each(1, Default(), 50_000)
	clock, call := ranks[0].clock, ranks[0].body.Call
	clock.reading = 25_000
	var order []byte
	ranks[0].body.Preamble = func() error { order = append(order, 'p'); clock.now += 1e9; return nil }
	ranks[0].body.Call = func() error { order = append(order, 'c'); return call() }
	r := succeed(t, ranks)
	if r.Batch != 1 || strings.Trim(strings.ReplaceAll(string(order), "pc", ""), " ") != "" {
		t.Errorf("batch %d, order %.20q", r.Batch, order)
	}
	allEqual(t, r.Samples, 0, 50_000)
}

func TestColdCache(t *testing.T) {
	cfg := Default()
	cfg.Cache, cfg.ColdBytes = Cold, 4096
	ranks := each(1, cfg, 50_000)
	ranks[0].clock.reading = 25_000
	if r := succeed(t, ranks); r.Batch != 1 || r.ColdBytes != 4096 || len(r.Conditions) != 1 ||
		!strings.Contains(r.Conditions[0].Sentence(), "cannot evict") {
		t.Errorf("batch %d, %d bytes, warnings %q", r.Batch, r.ColdBytes, r.Conditions.Sentences())
	}
}

// TestSlowRankDecides: batch and time budget depend on the slowest rank.
func TestSlowRankDecides(t *testing.T) {
	cfg := Default()
	cfg.Stop.RelNoise, cfg.Stop.MaxTime, cfg.Stop.MinTime = 0, 30*time.Millisecond, 0
	ranks := each(3, cfg, 1e9)
	ranks[1].body.Call = func() error { ranks[1].clock.now += 10e9; return nil }
	r := succeed(t, ranks)
	if r.Samples.Iterations() != 3 || r.Stopped != MaxTime || len(r.Conditions) != 1 {
		t.Errorf("%d samples in 30 ms of 10 ms each, %s, %q", r.Samples.Iterations(), r.Stopped, r.Conditions.Sentences())
	}
	if a := Analyze(r.Samples); a.Straggler != 1 || a.Summary.P50 != 10_000 || a.Skew != 0.9 {
		t.Errorf("got %+v", a)
	}

	ranks = each(3, Default(), 50_000)
	for _, r := range ranks {
		r.clock.reading = 25_000
	}
	ranks[2].body.Call = func() error { ranks[2].clock.now += 500_000; return nil }
	if r := succeed(t, ranks); r.Batch != 5 {
		t.Errorf("batch %d, want the 5 that the slowest rank needs", r.Batch)
	}
}

// counting counts the calls of one rank's group.
type counting struct {
	syncgroup.Group
	barriers, exchanges atomic.Int32
}

func (c *counting) Barrier(ctx context.Context) error {
	c.barriers.Add(1)
	return c.Group.Barrier(ctx)
}

func (c *counting) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	c.exchanges.Add(1)
	return c.Group.Exchange(ctx, mine)
}

// TestBarriersPerCadence: ranks meet once per block if streaming, and once per sample if isolated.
func TestBarriersPerCadence(t *testing.T) {
	for cadence, want := range map[Cadence]int32{Streaming: 7, Isolated: 103} {
		cfg := Default()
		cfg.Cadence = cadence
		var c *counting
		_, errs := runAll(hang(t), each(1, cfg, 1e9), func(g syncgroup.Group) syncgroup.Group {
			c = &counting{Group: g}
			return c
		})
		// One exchange of settings, two blocks of warm-up, five of samples.
		if errs[0] != nil || c.barriers.Load() != want || c.exchanges.Load() != 8 {
			t.Errorf("%s: %d barriers (want %d), %d exchanges (want 8), %v", cadence, c.barriers.Load(), want,
				c.exchanges.Load(), errs[0])
		}
	}
}

func TestDisagreementIsFound(t *testing.T) {
	for want, change := range map[string]func(*rank){
		"differ in configuration": func(r *rank) { r.cfg.Stop.MaxSamples++ },
		"differ in clock":         func(r *rank) { r.clock.name = "r" },
		"differ in kind of clock": func(r *rank) { r.clock.deterministic = true },
		"differ in preamble":      func(r *rank) { r.body.Preamble = func() error { return nil } },
		"cadence":                 func(r *rank) { r.cfg.Cadence = "often" },
		"no call":                 func(r *rank) { r.body.Call = nil },
	} {
		ranks := each(3, Default(), 1e9)
		change(ranks[1])
		_, errs := runAll(hang(t), ranks, nil)
		for r, err := range errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("rank %d: got %v, want %q", r, err, want)
			}
		}
	}
}

// shortening drops a sample from the messages of rank 1, as if it were out of step.
type shortening struct{ syncgroup.Group }

func (s shortening) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	if s.Rank() == 1 && len(mine) != 5*8 { // 5 numbers are the settings
		mine = mine[8:]
	}
	return s.Group.Exchange(ctx, mine)
}

func TestOutOfStepIsFound(t *testing.T) {
	_, errs := runAll(hang(t), each(2, Default(), 1e9), func(g syncgroup.Group) syncgroup.Group { return shortening{g} })
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "rank 1 sent 1 numbers after a block of 1") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

func TestFailuresNameRankAndIteration(t *testing.T) {
	broken := errors.New("link down")
	fail := map[string]func() error{
		"link down":              func() error { return broken },
		"panic: link down":       func() error { panic(broken) },
		"panic: 42":              func() error { panic(42) },
		"ended its goroutine":    func() error { runtime.Goexit(); return nil },
		"preamble: link down":    nil,
		"panic: runtime error: ": func() error { var s []int; _ = s[len(s)]; return nil },
	}
	for want, how := range fail {
		for at, phase := range map[int]string{1: "warmup iteration 1", 13: "timed iteration 10"} {
			ranks := each(3, Default(), 1e9)
			calls, call := -1, ranks[1].body.Call
			failing := func() error {
				if calls++; calls != at {
					return call()
				}
				if how == nil {
					return broken
				}
				return how()
			}
			if how == nil {
				for _, r := range ranks {
					r.body.Preamble = func() error { return nil }
				}
				ranks[1].body.Preamble = failing
			} else {
				ranks[1].body.Call = failing
			}
			_, errs := runAll(hang(t), ranks, nil)
			for r, err := range errs {
				var aborted *syncgroup.AbortedError
				var called *CallError
				switch {
				case r == 1 && want == "ended its goroutine":
					// The goroutine has ended, so there is no caller to return to.
				case err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), phase):
					t.Errorf("rank %d: got %v, want %q and %q", r, err, want, phase)
				case r == 1 && (!errors.As(err, &called) || called.Rank != 1):
					t.Errorf("rank 1: %#v is not its CallError", err)
				case r == 1 && strings.HasSuffix(want, "link down") && !errors.Is(err, broken):
					t.Errorf("rank 1: %v does not wrap its cause", err)
				case r == 1 && strings.HasPrefix(want, "panic") != strings.Contains(string(called.Stack), "run_test.go"):
					t.Errorf("rank 1: stack %q", called.Stack)
				case r != 1 && (!errors.As(err, &aborted) || aborted.Rank != 1):
					t.Errorf("rank %d: %#v does not blame rank 1", r, err)
				}
			}
		}
	}
}

func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(hang(t))
	ranks := each(1, Default(), 1e9)
	calls, call := 0, ranks[0].body.Call
	ranks[0].body.Call = func() error {
		if calls++; calls == 10 {
			cancel()
		}
		return call()
	}
	_, errs := runAll(ctx, ranks, nil)
	if !errors.Is(errs[0], context.Canceled) || calls > 50 {
		t.Errorf("after %d calls: %v", calls, errs[0])
	}
}

// TestCollectorIsOff also covers ranks that share the process and end one by one.
func TestCollectorIsOff(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	ranks := each(3, Default(), 1e9)
	var on atomic.Int32
	for _, r := range ranks {
		call := r.body.Call
		r.body.Call = func() error {
			if debug.SetGCPercent(-1) != -1 {
				on.Add(1)
			}
			return call()
		}
	}
	first, second := setGC(gcOff), setGC(gcOff)
	first()
	if still := debug.SetGCPercent(-1); still != -1 {
		t.Errorf("the first rank to end set the collector's target to %d", still)
	}
	second()
	succeed(t, ranks)
	if on.Load() != 0 {
		t.Errorf("the collector was on in %d calls", on.Load())
	}
	if after := debug.SetGCPercent(123); after != 123 {
		t.Errorf("afterwards the collector's target is %d, want 123", after)
	}
}

func TestMuchGarbageIsCollected(t *testing.T) {
	collections := func() uint32 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.NumForcedGC
	}
	// No garbage of other tests, and no other collection meanwhile.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	before := collections()
	base := heapBytes()
	if got := collectGarbage(base); got != base || collections() != before {
		t.Error("collected though the heap had not grown")
	}
	garbage := make([]byte, garbageLimit) // never touched, so it uses no physical memory
	if collectGarbage(base); collections() != before+1 {
		t.Error("did not collect a heap that had grown")
	}
	runtime.KeepAlive(garbage)
}

func TestLoopAllocatesNothing(t *testing.T) {
	for _, isolated := range []bool{false, true} {
		s := &sampler{watch: newStopwatch(clock.Monotonic()), group: syncgroup.Solo(), isolated: isolated, batch: 2,
			body: Body{Call: func() error { return nil }, Preamble: func() error { return nil }}}
		n := testing.AllocsPerRun(10, func() {
			must.Do(t, s.recoverLoop(context.Background(), s.message[1:101]))
		})
		if n != 0 {
			t.Errorf("isolated %v: %v allocations in 100 samples", isolated, n)
		}
	}
}

// TestMonotonicRun measures with the real clock. It does not judge the times.
func TestMonotonicRun(t *testing.T) {
	cfg := Default()
	cfg.Stop.MaxTime, cfg.Stop.MinTime = 20*time.Millisecond, 0
	r := must.Get(Run(hang(t), cfg, clock.Monotonic(), syncgroup.Solo(), Body{Call: func() error { return nil }}))(t)
	if r.Samples.Iterations() == 0 || r.Batch < 2 || r.Clock != "monotonic" || r.Deterministic || r.ClockResolution <= 0 {
		t.Errorf("%d samples, %+v", r.Samples.Iterations(), r)
	}
	for _, cadence := range []Cadence{Streaming, Isolated} {
		begin := time.Now()
		if cost, err := HarnessCost(hang(t), cadence, syncgroup.Solo()); err != nil || cost <= 0 ||
			maxBlock*cost > time.Since(begin) {
			t.Errorf("%s: harness cost %v, %v", cadence, cost, err)
		}
	}
}

// A body that times with its group's clock (State.UseClock) must have the same overhead subtracted as one that
// leaves the default clock in place.
func TestGroupClockHasSameOverhead(t *testing.T) {
	g := must.Get(dist.Init(t.Context(), dist.Config{Backend: "cpu", Size: 1, ID: t.Name()}))(t)
	defer g.Close()
	cfg := Default()
	cfg.Stop.MaxTime, cfg.Stop.MinTime = time.Millisecond, 0
	var results []*Result
	for _, c := range []Clock{clock.Monotonic(), g.Clock()} {
		results = append(results, must.Get(Run(hang(t), cfg, c, syncgroup.Solo(), Body{Call: func() error {
			return nil
		}}))(t))
	}
	if a, b := results[0], results[1]; a.ClockOverhead != b.ClockOverhead || a.ClockResolution != b.ClockResolution {
		t.Errorf("overhead %d and resolution %d ps by default, %d and %d with the group's clock", a.ClockOverhead,
			a.ClockResolution, b.ClockOverhead, b.ClockResolution)
	}
}
