// Package measure samples a function on all ranks of a launch at once.
//
// [Run] warms up, chooses how many calls make one sample, and takes samples in blocks. Inside a
// block each rank runs on its own. After each block the ranks exchange their samples, and every rank
// computes the same decision from the same data, so no rank has to lead. The statistics of the samples
// are pure functions of the [Matrix].
//
// The package knows nothing about benches, rows or journals, and reaches the other ranks only through
// a [syncgroup.Group]. It does not detect a call that hangs in the backend under test. Its caller
// does, by watching the progress.
package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"time"
)

// Cadence is how consecutive samples follow each other.
type Cadence string

const (
	// Isolated means a barrier of all ranks before each sample. A sample is one call that all ranks
	// start together, so its time is the latency of a single call.
	Isolated Cadence = "isolated"
	// Streaming means that calls follow one another inside a block without barriers. Ranks may run
	// ahead of each other, as they do in a program.
	Streaming Cadence = "streaming"
)

// Cache is the state of the caches at the start of a sample.
type Cache string

const (
	// Warm leaves the caches as the previous call left them.
	Warm Cache = "warm"
	// Cold sweeps a buffer larger than the last-level cache before each sample.
	Cold Cache = "cold"
)

// Stop is the stopping rule: it decides when there are enough samples.
type Stop struct {
	// RelNoise is the target for the noise, which is half the width of the median's 95 % interval over
	// the median. Sampling ends at this noise, or when more samples would hardly reduce it. 0 disables
	// both rules.
	RelNoise float64
	// MinSamples and MaxSamples bound the number of samples per rank. For the target noise, even the
	// effective number of samples must reach MinSamples; see [stats.Span].
	MinSamples, MaxSamples int
	// MinTime is the minimum time before noise may end the sampling. MaxTime ends the sampling even
	// before MinSamples are taken, but not before each rank has one. NoTimeLimit disables it.
	MinTime, MaxTime time.Duration
}

// FixedCount reports whether only the number of samples ends the sampling, so that the number is fixed.
func FixedCount(s Stop) bool {
	return s.RelNoise == 0 && s.MinSamples == s.MaxSamples && s.MaxTime == NoTimeLimit
}

// Warmup bounds the calls before the first sample. The warm-up continues until the time per call no
// longer falls.
type Warmup struct {
	MinCalls, MaxCalls int
	MaxTime            time.Duration
}

// Config describes how a body is sampled. It must be the same on all ranks, except for Progress.
type Config struct {
	Cadence Cadence
	Cache   Cache
	Stop    Stop
	Warmup  Warmup
	// ColdBytes is the size of the buffer that is swept for a cold cache. 0 means 1.25 times the
	// last-level cache, but at most MaxColdBytes.
	ColdBytes int
	// Progress, if set, is called when the timing starts and after each block, with the phase ("warmup"
	// or "timed") and the number of iterations in this phase so far.
	Progress func(phase string, iter int) `json:"-"`
}

// Default returns a streaming, warm measurement that ends when the median is known to 1 %. This takes
// 0.1 s on a quiet machine, and up to 5 s on a noisy one.
func Default() Config {
	return Config{
		Cadence: Streaming,
		Cache:   Warm,
		Stop: Stop{
			RelNoise:   0.01,
			MinSamples: 20, MaxSamples: 10_000,
			MinTime: 100 * time.Millisecond, MaxTime: 5 * time.Second,
		},
		Warmup: Warmup{MinCalls: 3, MaxCalls: 10_000, MaxTime: 250 * time.Millisecond},
	}
}

// Bounds combines a requested lower and upper bound with the defaults. A bound of 0 is not requested. If
// only one bound is requested, the default of the other one is moved where necessary.
func Bounds[T int | time.Duration](low, high, ownLow, ownHigh T) (T, T) {
	switch {
	case low != 0 && high != 0:
		return low, high
	case low != 0:
		return low, max(ownHigh, low)
	case high != 0:
		return min(ownLow, high), high
	}
	return ownLow, ownHigh
}

// Validate returns all errors of the configuration, joined.
func (c Config) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("measure config: "+format, args...))
		}
	}
	s, w := c.Stop, c.Warmup
	fault(c.Cadence != Isolated && c.Cadence != Streaming, "cadence %q: must be %q or %q", c.Cadence, Isolated, Streaming)
	fault(c.Cache != Warm && c.Cache != Cold, "cache %q: must be %q or %q", c.Cache, Warm, Cold)
	fault(math.IsNaN(s.RelNoise) || s.RelNoise < 0 || s.RelNoise >= 1, "relative noise %v: must be in [0, 1)", s.RelNoise)
	fault(s.MinSamples < 1, "min samples %d: must be at least 1", s.MinSamples)
	fault(s.MaxSamples < s.MinSamples, "max samples %d: must be at least min samples %d", s.MaxSamples, s.MinSamples)
	fault(s.MinTime < 0, "min time %v: must not be negative", s.MinTime)
	fault(s.MaxTime <= 0 || s.MaxTime < s.MinTime, "max time %v: must be positive and at least min time %v", s.MaxTime,
		s.MinTime)
	fault(s.MaxTime > NoTimeLimit, "max time %v: must be at most %v", s.MaxTime, maxDuration)
	fault(w.MinCalls < 1, "warm-up min calls %d: must be at least 1", w.MinCalls)
	fault(w.MaxCalls < w.MinCalls, "warm-up max calls %d: must be at least min calls %d", w.MaxCalls, w.MinCalls)
	fault(w.MaxTime < 0 || w.MaxTime > maxDuration, "warm-up max time %v: must be in [0, %v]", w.MaxTime, maxDuration)
	fault(c.ColdBytes < 0, "cold bytes %d: must not be negative", c.ColdBytes)
	return errors.Join(faults...)
}

// maxDuration keeps durations far below the largest int64 number of picoseconds, which is 106 days.
const maxDuration = 24 * time.Hour

// NoTimeLimit as Stop.MaxTime disables the limit.
const NoTimeLimit = maxDuration + 1

// fingerprint returns a hash of everything that must be the same on all ranks.
func (c Config) fingerprint() int64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %+v %+v ", c.Cadence, c.Cache, c.Stop, c.Warmup)
	binary.Write(h, binary.LittleEndian, int64(c.ColdBytes))
	return int64(h.Sum64())
}
