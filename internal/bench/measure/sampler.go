package measure

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/kernbench/kernbench/internal/comm/syncgroup"
)

// Body is what is measured.
type Body struct {
	// Call is timed.
	Call func() error
	// Preamble, if set, runs untimed before each call; a sample is then one call.
	Preamble func() error
	// Between, if set, runs untimed after the first, the second, the fourth, the
	// eighth block of samples and so on, but not after the last: to look at what the
	// calls left. All ranks have it, or none.
	Between func() error
	// Sample, if set, makes the calls of this many samples and times them itself, in
	// picoseconds, preambles included: a program of its own does so, in a block,
	// because asking it for each call would cost more than many calls do. A Preamble
	// just before stands for that of the first call.
	Sample func(batch int, samples []int64) error
}

// CallError is an error or a panic of the body.
type CallError struct {
	Rank      int
	Phase     string // "warmup" or "timed"
	Iteration int    // of the phase, counted from 0
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

	phase string
	since int64 // start of the phase
	done  int   // iterations of the phase before this block
	at    int   // iteration of this block that runs now

	// message is what goes to the other ranks after a block: the time since the
	// phase started, then the samples. It is reused, so that a block allocates nothing.
	message [1 + maxBlock]int64
}

func (s *sampler) start(phase string) {
	s.phase, s.done, s.since = phase, 0, s.watch.now()
}

// block takes n samples on this rank and returns those of all ranks, with the
// time since the start of the phase on the slowest.
func (s *sampler) block(ctx context.Context, n int) (samples Matrix, elapsed int64, err error) {
	if err := context.Cause(ctx); err != nil {
		return Matrix{}, 0, fmt.Errorf("measuring: %s: %w", s.phase, err)
	}
	if !s.isolated {
		// Start together; within the block each rank goes at its own pace.
		if err := s.group.Barrier(ctx); err != nil {
			return Matrix{}, 0, err
		}
	}
	if err := s.guarded(ctx, s.message[1:1+n]); err != nil {
		return Matrix{}, 0, err
	}
	s.message[0] = s.watch.now() - s.since
	s.done += n
	return s.exchange(ctx, n)
}

// pause runs what is to happen between two blocks, and then a call whose time does
// not count, since the caches hold something else by now. Neither is part of the time
// that the sampling takes.
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

// guarded runs the loop and turns a panic into an error.
func (s *sampler) guarded(ctx context.Context, samples []int64) (err error) {
	returned := false
	defer func() {
		if !returned {
			err = s.panicked(recover())
		}
	}()
	err = s.loop(ctx, samples)
	returned = true
	return err
}

// loop is the hot part: per sample two readings of the clock and the calls.
func (s *sampler) loop(ctx context.Context, samples []int64) error {
	if s.body.Sample != nil {
		return s.sampledElsewhere(ctx, samples)
	}
	call, preamble, batch := s.body.Call, s.body.Preamble, s.batch
	overhead := s.watch.calibration.Overhead
	for i := range samples {
		s.at = i
		if preamble != nil {
			if err := preamble(); err != nil {
				return s.callError(fmt.Errorf("preamble: %w", err))
			}
		}
		sweep(s.cold)
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

// sampledElsewhere has the body take the samples: all at once, or one after each
// barrier.
func (s *sampler) sampledElsewhere(ctx context.Context, samples []int64) error {
	step := len(samples)
	if s.isolated {
		step = 1
	}
	for s.at = 0; s.at < len(samples); s.at += step {
		if s.isolated {
			if s.body.Preamble != nil { // its own, before the ranks meet
				if err := s.body.Preamble(); err != nil {
					return s.callError(fmt.Errorf("preamble: %w", err))
				}
			}
			if err := s.group.Barrier(ctx); err != nil {
				return err
			}
		}
		if err := s.body.Sample(s.batch, samples[s.at:s.at+step]); err != nil {
			return s.callError(err)
		}
	}
	for i, t := range samples {
		samples[i] = max(0, t-s.watch.calibration.Overhead) / int64(s.batch)
	}
	return nil
}

func (s *sampler) callError(err error) *CallError {
	return &CallError{Rank: s.group.Rank(), Phase: s.phase, Iteration: s.done + s.at, Err: err}
}

// panicked is the error of a body that did not return. A nil value means that it
// called runtime.Goexit, so that nobody gets the error: the group is aborted here.
func (s *sampler) panicked(value any) error {
	if value == nil {
		err := s.callError(errors.New("the body ended its goroutine"))
		s.group.Abort(err.Error())
		return err
	}
	err := s.callError(fmt.Errorf("panic: %v", value))
	if cause, ok := value.(error); ok {
		err.Err = fmt.Errorf("panic: %w", cause)
	}
	err.Stack = debug.Stack()
	return err
}

// exchange sends the block just taken to the other ranks, and receives theirs.
func (s *sampler) exchange(ctx context.Context, n int) (samples Matrix, elapsed int64, err error) {
	all, err := s.group.Exchange(ctx, s.message[:1+n])
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
