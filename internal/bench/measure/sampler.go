package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
	"github.com/kernbench/kernbench/internal/host/clock"
	"github.com/kernbench/kernbench/internal/host/collector"
	"github.com/kernbench/kernbench/internal/host/hostinfo"
)

// Body is the code that is measured.
type Body struct {
	// Call is timed.
	Call func() error
	// Preamble, if set, runs untimed before each call. A sample is then one call.
	Preamble func() error
	// Between, if set, runs untimed after blocks 1, 2, 4, 8 and so on, but not after the last one, to
	// check the results of the calls. Either all ranks have it or none.
	Between func() error
	// Sample, if set, takes len(samples) samples of batch calls each, including preambles, and times
	// them itself in picoseconds. It is for bodies in another program: a request for each call would
	// often take longer than the call. If Preamble has been called just before Sample, Sample does not
	// run the preamble of its first call.
	Sample func(batch int, samples []int64) error
	// Cold means that Sample flushes the caches before each call.
	Cold bool
}

// CallError is an error or a panic of the body.
type CallError struct {
	Rank      int
	Phase     string // "warmup" or "timed"
	Iteration int    // within the phase, from 0
	Err       error
	Stack     []byte // of a panic, else nil
}

func (e *CallError) Error() string {
	return fmt.Sprintf("rank %d: %s iteration %d: %v", e.Rank, e.Phase, e.Iteration, e.Err)
}

func (e *CallError) Unwrap() error { return e.Err }

const (
	phaseWarmup = "warmup"
	phaseTimed  = "timed"
)

// sampler runs blocks of samples on one rank.
type sampler struct {
	watch    stopwatch
	group    syncgroup.Group
	body     Body
	isolated bool
	batch    int
	cold     []uint64 // swept before each sample unless empty
	// blockTime is how long a block should take.
	blockTime time.Duration

	phase     string
	since     int64 // start of the phase, in ps
	done      int   // iterations of the phase before this block
	iteration int   // current iteration within the block

	// message is sent to the other ranks after a block: the time since the start of the phase, then the
	// samples, all in ps. It is reused, so that a block allocates nothing.
	message [1 + maxBlock]int64
}

func (s *sampler) start(phase string) {
	s.phase, s.done, s.since = phase, 0, s.watch.now()
}

// block takes n samples on this rank and returns the samples of all ranks, and the time since the start
// of the phase on the slowest rank.
func (s *sampler) block(ctx context.Context, n int) (samples Matrix, elapsed int64, err error) {
	if err := context.Cause(ctx); err != nil {
		return Matrix{}, 0, fmt.Errorf("measuring: %s: %w", s.phase, err)
	}
	if !s.isolated {
		// Start together. Within the block each rank goes at its own pace.
		if err := s.group.Barrier(ctx); err != nil {
			return Matrix{}, 0, err
		}
	}
	if err := s.recoverLoop(ctx, s.message[1:1+n]); err != nil {
		return Matrix{}, 0, err
	}
	s.message[0] = s.watch.now() - s.since
	s.done += n
	return s.exchange(ctx, n)
}

// pause runs Between and then one call, which fills the caches again and whose time does not count.
// Neither of them counts as sampling time.
func (s *sampler) pause(ctx context.Context) error {
	from, done := s.watch.now(), s.done
	if err := s.body.Between(); err != nil {
		return err
	}
	if _, _, err := s.block(ctx, 1); err != nil {
		return err
	}
	s.done = done
	s.since += s.watch.now() - from
	return nil
}

// recoverLoop runs the loop and converts a panic to an error.
func (s *sampler) recoverLoop(ctx context.Context, samples []int64) (err error) {
	returned := false
	defer func() {
		if !returned {
			err = s.panicError(recover())
		}
	}()
	err = s.loop(ctx, samples)
	returned = true
	return err
}

// loop is the timed loop. Each sample consists of two clock readings and the calls, and nothing else.
func (s *sampler) loop(ctx context.Context, samples []int64) error {
	if s.body.Sample != nil {
		return s.sampleByBody(ctx, samples)
	}
	call, preamble, batch := s.body.Call, s.body.Preamble, s.batch
	overhead := s.watch.calibration.Overhead
	for i := range samples {
		s.iteration = i
		if preamble != nil {
			if err := preamble(); err != nil {
				return s.callError(fmt.Errorf("preamble: %w", err))
			}
		}
		evictCaches(s.cold)
		if s.isolated {
			if err := s.group.Barrier(ctx); err != nil {
				return err
			}
		}
		start := s.watch.now()
		for range batch {
			if err := call(); err != nil {
				return s.callError(err)
			}
		}
		samples[i] = max(0, s.watch.now()-start-overhead) / int64(batch)
	}
	return nil
}

// sampleByBody lets the body take the samples: all at once, or one after each barrier.
func (s *sampler) sampleByBody(ctx context.Context, samples []int64) error {
	step := len(samples)
	if s.isolated {
		step = 1
	}
	for s.iteration = 0; s.iteration < len(samples); s.iteration += step {
		if s.isolated {
			if s.body.Preamble != nil { // before the barrier, so that all ranks start the call together
				if err := s.body.Preamble(); err != nil {
					return s.callError(fmt.Errorf("preamble: %w", err))
				}
			}
			if err := s.group.Barrier(ctx); err != nil {
				return err
			}
		}
		if err := s.body.Sample(s.batch, samples[s.iteration:s.iteration+step]); err != nil {
			return s.callError(err)
		}
	}
	for i, t := range samples {
		samples[i] = max(0, t-s.watch.calibration.Overhead) / int64(s.batch)
	}
	return nil
}

func (s *sampler) callError(err error) *CallError {
	return &CallError{Rank: s.group.Rank(), Phase: s.phase, Iteration: s.done + s.iteration, Err: err}
}

// panicError returns the error for a body that did not return. value is what recover returned. nil means
// that the body called runtime.Goexit: then nobody receives an error, so the group is aborted here.
func (s *sampler) panicError(value any) error {
	if value == nil {
		s.group.Abort(s.callError(errors.New("the body ended its goroutine")).Error())
		return nil
	}
	err := s.callError(fmt.Errorf("panic: %v", value))
	if cause, ok := value.(error); ok {
		err.Err = fmt.Errorf("panic: %w", cause)
	}
	err.Stack = debug.Stack()
	return err
}

// exchange sends this rank's samples of the block to the other ranks and receives theirs.
func (s *sampler) exchange(ctx context.Context, n int) (samples Matrix, elapsed int64, err error) {
	all, err := syncgroup.Numbers(ctx, s.group, s.message[:1+n])
	if err != nil {
		return Matrix{}, 0, err
	}
	for r, message := range all {
		if len(message) != 1+n {
			return Matrix{}, 0, fmt.Errorf("measuring: ranks out of step: rank %d sent %d numbers after a block of %d samples",
				r, len(message), n)
		}
		elapsed = max(elapsed, message[0])
	}
	samples = Matrix{ranks: len(all), data: make([]int64, 0, n*len(all))}
	for i := range n {
		for _, message := range all {
			samples.data = append(samples.data, message[1+i])
		}
	}
	return samples, elapsed, nil
}

// MaxColdBytes limits the default size of the buffer that is swept for a cold cache. Each rank has its
// own buffer, and each sweep takes tens of milliseconds.
const MaxColdBytes = 256 << 20

// assumedCache is the cache size assumed if the system does not report it.
const assumedCache = 64 << 20

var lastLevelCache = sync.OnceValue(func() int64 {
	cpu := hostinfo.Local().CPU
	return max(cpu.L1d, cpu.L2, cpu.L3)
})

// coldBytes returns the buffer size for a last-level cache of the given size, and a warning if the buffer
// is too small to evict the whole cache. given is the configured size or 0, cache is 0 if unknown.
func coldBytes(given int, cache int64) int {
	return cmp.Or(given, int(min(cache+cache/4, MaxColdBytes)))
}

// cacheLine is the smallest common line size in bytes. Longer lines are written twice, which does no harm.
const cacheLine = 64

// evictCaches writes to every cache line of the buffer, which evicts everything else.
func evictCaches(buffer []uint64) {
	for i := 0; i < len(buffer); i += cacheLine / 8 {
		buffer[i]++
	}
}

// GC percentages. The collector is off during measurements, because it would disturb them. It cannot
// disturb simulated time, and simulated machines use much memory, so there it runs often.
const (
	gcOff      = -1
	gcFrequent = 60
)

// setGC runs a collection and sets the GC percentage until resume is called. A memory limit of the
// process (GOMEMLIMIT) remains in force.
func setGC(percent int) (resume func()) {
	resume, first := collector.Hold(percent)
	if first {
		runtime.GC()
	}
	return resume
}

// garbageLimit is the heap growth after which garbage is collected between blocks although the
// collector is off. Otherwise a body that allocates would fill the memory.
const garbageLimit = 512 << 20

// collectGarbage runs a collection if the heap has grown by garbageLimit over base, and returns the
// new base.
func collectGarbage(base uint64) uint64 {
	heap := heapBytes()
	if heap < base+garbageLimit {
		return base
	}
	runtime.GC()
	return heapBytes()
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Clock is the clock that calls are timed with.
type Clock = clock.Clock

// stopwatch reads a clock in the sampling loop. It calls the monotonic clock directly: an interface call
// would add to the time of every sample.
type stopwatch struct {
	clock       Clock // nil for the monotonic clock
	calibration clock.Calibration
}

func newStopwatch(c Clock) stopwatch {
	w := stopwatch{calibration: clock.CalibrationOf(c)}
	if _, ok := c.(clock.Host); !ok {
		w.clock = c
	}
	return w
}

func (w *stopwatch) now() int64 {
	if w.clock == nil {
		return clock.Host{}.Now()
	}
	return w.clock.Now()
}

// picoseconds converts a duration of at most maxDuration to picoseconds.
func picoseconds(d time.Duration) int64 { return int64(d) * 1000 }
