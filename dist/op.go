package dist

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Op is a prepared call. It may run any number of times, one at a time: with Run, with Start and Wait,
// or with Begin and Wait.
type Op struct {
	run    func() error
	stream *stream
	plan   Plan

	group   *Group
	in, out *allocation // nil: memory that no group has allocated
	halves  halves

	// The state of a started run.
	started atomic.Bool   // between Start and Wait
	ended   chan struct{} // holds a token once the run has ended; buffered, so that the stream never waits for Wait
	err     error
	mu      sync.Mutex
	busy    bool
	done    chan struct{} // closed once the run has ended; nil: Done was not called
}

// Plan returns the call with everything filled in, such as the algorithm that was chosen.
func (o *Op) Plan() Plan { return o.plan }

// Run makes the call and returns when this rank's part is complete. It allocates nothing. It waits for calls that were
// started before it.
func (o *Op) Run() error {
	o.stream.finishBegun()
	if o.stream.pending.Load() != 0 {
		if err := o.Start(); err != nil {
			return err
		}
		return o.Wait()
	}
	return o.perform()
}

// perform runs the call unless its memory was freed.
func (o *Op) perform() error {
	if err := o.checkMemory(); err != nil {
		return err
	}
	if err := o.run(); err != nil {
		return o.group.addCause(err)
	}
	return nil
}

// checkMemory fails the group if the memory of the call was freed.
func (o *Op) checkMemory() error {
	if o.in.gone() || o.out.gone() {
		return o.group.refuse(fmt.Errorf("%v: %w", o.plan, errFreed))
	}
	return nil
}

var (
	errStarted    = errors.New("dist: the operation was started again before Wait")
	errNotStarted = errors.New("dist: Wait for an operation that was not started")
)

// Start begins the call in the background and returns at once. Every Start needs its Wait before the next Start of the
// same Op; prepare several Ops to have several calls in flight.
func (o *Op) Start() error {
	if !o.started.CompareAndSwap(false, true) {
		return errStarted
	}
	o.stream.finishBegun()
	o.mu.Lock()
	o.err, o.busy, o.done = nil, true, nil
	o.mu.Unlock()
	if !o.stream.submit(o) {
		o.finish(ErrClosed)
		o.started.Store(false)
		return ErrClosed
	}
	return nil
}

// Wait returns when the call that Start or Begin has begun is complete on this rank.
func (o *Op) Wait() error {
	if h := &o.halves; h.begun {
		h.begun = false
		if !h.finished {
			o.stream.finishBegun()
		}
		return h.err
	}
	if !o.started.Load() {
		return errNotStarted
	}
	<-o.ended
	o.started.Store(false)
	return o.err
}

// Done returns a channel that is closed once the started call is complete, so that a select can wait for it. Wait then
// returns at once; it is still needed before the next Start, which has a new channel.
func (o *Op) Done() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done == nil {
		o.done = make(chan struct{})
		if !o.busy {
			close(o.done)
		}
	}
	return o.done
}

// finish records the result of a started run.
func (o *Op) finish(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.busy = err, false
	if o.done != nil {
		close(o.done)
	}
}

// halves are the two parts of a call, from [Overlapper], and their state.
type halves struct {
	begin, finish func() error // nil: the call cannot be divided
	arrived       func() bool
	prepared      bool
	begun         bool
	finished      bool  // another call has already finished it
	err           error // with this result
}

// Begin makes the part of the call that waits for no other rank, and returns; Wait makes the rest. No goroutine runs in
// between, and the program's own work hides the latency of the other ranks' parts. Either all ranks
// begin a call or none does. If the backend cannot divide the call, Begin is the same as [Op.Start].
//
// Messages may be sent in between. Another collective first finishes the one that was begun, so the order is kept.
// Begin allocates nothing after its first call.
func (o *Op) Begin() error {
	h := &o.halves
	if h.begun {
		return errStarted
	}
	if err := o.prepareHalves(); err != nil {
		return err
	}
	if h.begin == nil {
		return o.Start()
	}
	h.finished, h.err = false, nil
	o.stream.drain()
	if o.stream.pending.Load() != 0 {
		return ErrClosed
	}
	if err := o.checkMemory(); err != nil {
		return err
	}
	if err := h.begin(); err != nil {
		return o.group.addCause(err)
	}
	h.begun, o.stream.begun = true, o
	return nil
}

// Arrived reports whether Wait, after Begin, would return without waiting for another rank. It does not wait itself. It
// returns false if that is not known.
func (o *Op) Arrived() bool {
	h := &o.halves
	return h.begun && (h.finished || h.arrived != nil && h.arrived())
}

// prepareHalves asks the engine for the halves, once.
func (o *Op) prepareHalves() (err error) {
	h := &o.halves
	if h.prepared {
		return nil
	}
	if e, ok := o.group.engine.(Overlapper); ok && !o.plan.hostNorm(o.group.caps) {
		if h.begin, h.finish, h.arrived, err = e.PrepareHalves(o.plan); err != nil {
			return o.group.addCause(err)
		}
	}
	h.prepared = true
	return nil
}

// stream runs started operations one after the other. Its goroutine exists only while the queue is not empty, so an
// idle group costs no goroutine.
type stream struct {
	// pending counts started operations that have not ended. Closing the stream adds one more, so that it is never 0
	// again: Run needs only this check to see that it may run at once.
	pending atomic.Int32
	begun   *Op // the operation between Begin and Wait; used by the goroutine that uses the group

	mu     sync.Mutex
	closed bool
	queue  []*Op
	active bool
	idle   sync.WaitGroup
}

// submit queues an operation. It returns false if the stream is closed.
func (s *stream) submit(o *Op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.pending.Add(1)
	s.queue = append(s.queue, o)
	if !s.active {
		s.active = true
		s.idle.Add(1)
		go s.work()
	}
	return true
}

func (s *stream) work() {
	defer s.idle.Done()
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.active = false
			s.mu.Unlock()
			return
		}
		o := s.queue[0]
		s.queue = append(s.queue[:0], s.queue[1:]...)
		s.mu.Unlock()

		err := o.perform()
		s.pending.Add(-1)
		o.finish(err)
		o.ended <- struct{}{}
	}
}

// drain waits until nothing is in flight.
func (s *stream) drain() {
	s.finishBegun()
	s.idle.Wait()
}

// close drains the stream and refuses further operations.
func (s *stream) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.pending.Add(1)
	}
	s.mu.Unlock()
	s.drain()
}

// finishBegun finishes the operation between Begin and Wait, if there is one.
func (s *stream) finishBegun() {
	o := s.begun
	if o == nil {
		return
	}
	s.begun = nil
	if h := &o.halves; !h.finished {
		h.finished = true
		if err := h.finish(); err != nil {
			h.err = o.group.addCause(err)
		}
	}
}
