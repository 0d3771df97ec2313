package measure

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

const microsecond = int64(1e6) // ps

// drive feeds a rule with calls and returns the number of calls at the end. The n-th call takes at(n) picoseconds.
func drive(next func(maxima []int64, elapsed int64) int, first int, at func(n int) int64) (calls int) {
	elapsed := int64(0)
	for n := first; n > 0; {
		block := make([]int64, n)
		for i := range block {
			block[i] = at(calls + i)
			elapsed += block[i]
		}
		calls += n
		n = next(block, elapsed)
	}
	return calls
}

func TestWarming(t *testing.T) {
	limits := Warmup{MinCalls: 3, MaxCalls: 1000, MaxTime: 250 * time.Millisecond}
	steady := func(int) int64 { return microsecond }
	falling := func(n int) int64 { return int64(1e12) >> min(n, 30) }
	for _, test := range []struct {
		name   string
		limits Warmup
		at     func(n int) int64
		want   int
	}{
		{"steady: no longer than it must be", limits, steady, 3},
		{"min calls", Warmup{20, 1000, time.Second}, steady, 1 + 2 + 4 + 8 + 16},
		{"first call is slow", limits, func(n int) int64 {
			if n == 0 {
				return 1000 * microsecond
			}
			return microsecond
		}, 1 + 2 + 4},
		{"slow for ten calls", limits, func(n int) int64 {
			if n < 10 {
				return 100 * microsecond / int64(n+1)
			}
			return microsecond
		}, 1 + 2 + 4 + 8 + 16},
		{"max calls", Warmup{3, 5, time.Second}, func(n int) int64 { return microsecond * int64(100-10*n) }, 5},
		{"time is up after the first call", limits, falling, 1},
		{"time is up before min calls", Warmup{3, 10, 2 * time.Microsecond}, func(int) int64 { return 2 * microsecond }, 1},
	} {
		w := warmupRule{limits: test.limits, block: blockTime}
		if got := drive(w.next, 1, test.at); got != test.want || w.calls != got {
			t.Errorf("%s: %d calls (counted %d), want %d", test.name, got, w.calls, test.want)
		}
	}
}

// TestWarmupLimits checks each limit of the warm-up on both sides. The calls of the previous block took 100 µs each.
func TestWarmupLimits(t *testing.T) {
	limits := Warmup{MinCalls: 9, MaxCalls: 100, MaxTime: time.Second}
	for _, c := range []struct {
		calls, us int // of this block
		elapsed   time.Duration
		want      int
	}{
		{6, 94, time.Millisecond, 12}, // still falling by more than 5 %
		{6, 95, time.Millisecond, 0},
		{5, 100, time.Millisecond, 10}, // fewer than nine calls so far
		{6, 94, time.Second - time.Millisecond, 1},
		{6, 94, time.Second, 0},
		{96, 94, 99 * time.Millisecond, 1}, // the last of 100 calls
		{97, 94, 99 * time.Millisecond, 0},
		{60, 50, 63 * time.Millisecond, 20}, // a block of 20 ms
	} {
		w := warmupRule{limits: limits, block: blockTime, calls: 3, last: 100e6}
		block := slices.Repeat([]int64{int64(c.us) * microsecond}, c.calls)
		if got := w.next(block, picoseconds(c.elapsed)); got != c.want {
			t.Errorf("%d calls of %d µs until %v: then a block of %d, want %d", c.calls, c.us, c.elapsed, got, c.want)
		}
	}
}

func TestBatch(t *testing.T) {
	for _, test := range []struct {
		call       float64
		clockError int64
		want       int
	}{
		{1e6, 0, 1},          // an exact clock
		{2_500_000, 25e3, 1}, // just long enough
		{2_499_999, 25e3, 2},
		{50_000, 25e3, 50},
		{0, 25e3, 2500}, // too short to be seen: counts as a nanosecond
	} {
		if got := batchFor(test.call, test.clockError); got != test.want {
			t.Errorf("calls of %v ps, clock error %d: batch %d, want %d", test.call, test.clockError, got, test.want)
		}
	}
}

func TestBlockSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cost := rapid.Float64Range(0, 1e13).Draw(t, "cost")
		budget := rapid.Int64Range(1, 1e13).Draw(t, "budget")
		limit := rapid.IntRange(1, 10_000).Draw(t, "limit")
		n := blockSize(blockTime, cost, budget, limit)
		if n < 1 || n > min(limit, maxBlock) {
			t.Fatalf("%d is not in 1 to %d", n, min(limit, maxBlock))
		}
		if room := float64(min(budget, 20e9)); n > 1 && float64(n)*cost > room {
			t.Fatalf("%d of %v ps take more than %v", n, cost, room)
		}
	})
}

func TestBlockSizeExamples(t *testing.T) {
	const ms = 1e9 // ps
	for _, c := range []struct {
		cost   float64
		budget int64
		limit  int
		want   int
	}{
		{ms, 1000 * ms, 1000, 20}, {3 * ms, 1000 * ms, 1000, 6}, {ms, 5 * ms, 1000, 5}, {ms, 1000 * ms, 4, 4},
		{ms, 1000 * ms, 20, 20}, {100 * ms, 1000 * ms, 1000, 1}, {ms, 0, 1000, 1}, {0, 1000 * ms, 1000, 1000},
		{0, 1000 * ms, 10_000, maxBlock}, {0, 3, 1000, 3},
	} {
		if got := blockSize(blockTime, c.cost, c.budget, c.limit); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestReason checks each condition of the stopping rule at its limit.
func TestReason(t *testing.T) {
	stop := Stop{RelNoise: 0.01, MinSamples: 20, MaxSamples: 100, MinTime: time.Second, MaxTime: time.Minute}
	endless, noiseless := stop, stop
	endless.MaxTime, noiseless.RelNoise = NoTimeLimit, 0
	for _, c := range []struct {
		stop  Stop
		n     int
		noise float64
		spent time.Duration
		want  StopReason
	}{
		{stop, 20, 0.01, time.Second, Precise}, {stop, 20, 0.011, time.Second, ""}, {stop, 19, 0, time.Second, ""},
		{stop, 20, 0, time.Second - 1, ""}, {stop, 20, math.NaN(), time.Second, ""}, {noiseless, 20, 0, time.Second, ""},
		{stop, 99, 1, 0, ""}, {stop, 100, 1, 0, MaxSamples}, {stop, 99, 1, time.Minute - 1, ""},
		{stop, 99, 1, time.Minute, MaxTime}, {stop, 100, 1, time.Minute, MaxSamples}, {stop, 100, 0, time.Minute, Precise},
		{endless, 99, 1, 1000 * time.Hour, ""},
	} {
		if got := c.stop.Reason(c.n, c.noise, c.spent); got != c.want {
			t.Errorf("%d samples with noise %v after %v: %q, want %q", c.n, c.noise, c.spent, got, c.want)
		}
	}
}

func TestSampling(t *testing.T) {
	stop := Stop{RelNoise: 0.01, MinSamples: 20, MaxSamples: 10_000, MinTime: 0, MaxTime: 5 * time.Second}
	with := func(change func(*Stop)) Stop {
		s := stop
		change(&s)
		return s
	}
	steady := func(int) int64 { return 1000 * microsecond }
	noisy := func(spread float64) func(int) int64 {
		random := newRandom(3)
		return func(int) int64 { return int64(1e9 * (1 + spread*random.Float64())) }
	}
	for _, test := range []struct {
		name   string
		stop   Stop
		at     func(n int) int64
		reason StopReason
		least  int
		most   int
	}{
		{"steady", stop, steady, Precise, 20, 20},
		{"min samples", with(func(s *Stop) { s.MinSamples = 1000 }), steady, Precise, 1000, 1000},
		{"min time", with(func(s *Stop) { s.MinTime = 100 * time.Millisecond }), steady, Precise, 100, 100},
		{"a little noise", stop, noisy(0.1), Precise, 20, 200},
		{"much noise settles", stop, noisy(3), Settled, 300, 1500},
		{"max samples", with(func(s *Stop) { s.MaxSamples = 50 }), noisy(3), MaxSamples, 50, 50},
		{"fixed number", with(func(s *Stop) { s.MinSamples, s.MaxSamples = 33, 33 }), noisy(3), MaxSamples, 33, 33},
		{"max time", with(func(s *Stop) { s.MaxTime = 100 * time.Millisecond }), noisy(3), MaxTime, 20, 100},
		{"max time before min samples", with(func(s *Stop) { s.MaxTime = 3 * time.Millisecond }), steady, MaxTime, 3, 3},
		{"noise ignored", with(func(s *Stop) { s.RelNoise, s.MaxTime = 0, 100*time.Millisecond }), steady, MaxTime, 100, 100},
		{"times of zero", with(func(s *Stop) { s.MaxSamples = 100 }), func(int) int64 { return 0 }, Precise, 20, 100},
	} {
		s := samplingRule{stop: test.stop, block: blockTime}
		var reason StopReason
		next := func(maxima []int64, elapsed int64) (n int) {
			n, reason = s.next(maxima, elapsed)
			return n
		}
		got := drive(next, s.first(float64(steady(0))), test.at)
		if reason != test.reason || got < test.least || got > test.most {
			t.Errorf("%s: %d samples, %s; want %d to %d, %s", test.name, got, reason, test.least, test.most, test.reason)
		}
	}
}

// TestSettled checks that the sampling ends when the noise has hardly changed in the last settledBlocks blocks, unless
// another rule comes first.
func TestSettled(t *testing.T) {
	random, series := newRandom(5), make([]int64, 100)
	for i := range series {
		series[i] = int64(1e9 * (1 + random.Float64()))
	}
	equal := slices.Repeat([]float64{Noise(floats(series))}, settledBlocks)
	for _, c := range []struct {
		before   []float64 // noises of earlier blocks
		min, max int       // samples
		spent    time.Duration
		want     StopReason
	}{
		{equal[1:], 100, 101, 0, Settled},
		{equal[1:], 100, 101, time.Second, Settled},
		{slices.Concat([]float64{10}, equal[1:]), 100, 101, 0, Settled}, // the oldest noise no longer counts
		{slices.Concat([]float64{10}, equal[2:]), 100, 101, 0, ""},
		{equal[2:], 100, 101, 0, ""},
		{equal[2:], 100, 101, time.Second, MaxTime},
		{equal[1:], 101, 101, 0, ""},
		{equal[1:], 100, 100, 0, MaxSamples},
	} {
		s := samplingRule{block: blockTime, noises: slices.Clone(c.before),
			stop: Stop{RelNoise: 1e-6, MinSamples: c.min, MaxSamples: c.max, MaxTime: time.Second}}
		if n, reason := s.next(series, picoseconds(c.spent)); reason != c.want || n != map[bool]int{true: 1}[c.want == ""] {
			t.Errorf("%d earlier blocks, %d to %d samples in %v: %q and %d more samples, want %q", len(c.before), c.min, c.max,
				c.spent, reason, n, c.want)
		}
	}
}

// TestNoiseOfTheTarget checks that samples whose noise is just the target are precise enough.
func TestNoiseOfTheTarget(t *testing.T) {
	random, series := newRandom(4), make([]int64, 100)
	for i := range series {
		series[i] = int64(1e9 * (1 + 0.1*random.Float64()))
	}
	noise := Noise(floats(series))
	for target, want := range map[float64]StopReason{noise: Precise, math.Nextafter(noise, 0): MaxSamples} {
		s := samplingRule{stop: Stop{RelNoise: target, MinSamples: 20, MaxSamples: 100, MaxTime: NoTimeLimit}}
		if n, reason := s.next(series, 1e12); n != 0 || reason != want {
			t.Errorf("noise %v, target %v: %s, want %s", noise, target, reason, want)
		}
	}
}

// The dependence is estimated after the first block, even if samples are still missing, and then again after the
// samples have grown by a tenth.
func TestSamplingLooks(t *testing.T) {
	s := samplingRule{stop: Stop{RelNoise: 0.01, MinSamples: 20, MaxSamples: 1000, MaxTime: NoTimeLimit}}
	n := 0
	for _, block := range []struct{ samples, estimatedAt int }{{10, 10}, {9, 10}, {1, 20}, {1, 20}, {1, 22}} {
		s.next(make([]int64, block.samples), 1e12)
		if n += block.samples; s.estimatedAt != block.estimatedAt {
			t.Errorf("after %d samples: looked at %d, want %d", n, s.estimatedAt, block.estimatedAt)
		}
	}
}

func TestSamplingExact(t *testing.T) {
	s := samplingRule{stop: Default().Stop, exact: true}
	if n := s.first(1); n != 1 {
		t.Errorf("first block of %d", n)
	}
	if n, reason := s.next([]int64{5}, 5); n != 0 || reason != Exact {
		t.Errorf("next block of %d, %q", n, reason)
	}
}

func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Int64Range(0, 50))
		sorted, more := values.Draw(t, "sorted"), values.Draw(t, "more")
		slices.Sort(sorted)
		want := slices.Sorted(slices.Values(slices.Concat(sorted, more)))
		if got := mergeSorted(sorted, more); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
