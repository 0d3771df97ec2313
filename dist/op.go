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
	run     func() error
	release func() error // nil: nothing to release
	stream  *stream
	plan    Plan

	group   *Group
	in, out *allocation // nil if the group has not allocated the memory
	halves  halves

	// The state of a started run.
	started atomic.Bool   // true between Start and Wait
	ended   chan struct{} // receives a value when the run has ended; buffered, so that the stream never waits for Wait
	err     error
	mu      sync.Mutex    // guards err, busy and done
	busy    bool          // the run has not ended
	done    chan struct{} // closed when the run has ended; nil until Done is called
}

// Plan returns the call with all options resolved, for example with the algorithm that was chosen.
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

// Close releases what the operation holds, such as copies of host memory on a device. The operation must have ended
// and cannot run again. Closing the group does this for all operations.
func (o *Op) Close() error {
	release := o.release
	o.run, o.release = func() error { return ErrClosed }, nil
	if release == nil || o.group.closed {
		return nil
	}
	return release()
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
	if o.in.isFreed() || o.out.isFreed() {
		return o.group.refuse(fmt.Errorf("%v: %w", o.plan, errFreed))
	}
	return nil
}

var (
	errStarted    = errors.New("dist: the operation was started again before Wait")
	errNotStarted = errors.New("dist: Wait for an operation that was not started")
)

// Start begins the call in the background and returns at once. The program must call Wait before it starts the same Op
// again. To have several calls in flight, prepare several Ops.
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

// Wait waits until the call that Start or Begin has begun is complete on this rank.
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

// Done returns a channel that is closed when the started call is complete, for use in a select. Wait then returns at
// once, but must still be called before the next Start. Each Start needs a new call of Done.
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

// halves holds the two halves of a call, which an engine has prepared, and their state.
type halves struct {
	begin, finish func() error // nil: the call cannot be divided
	arrived       func() bool
	prepared      bool
	begun         bool
	finished      bool  // finish has already run, because another call was made before Wait
	err           error // the result of finish
}

// Begin makes the half of the call that waits for no other rank, and returns. Wait makes the other half. The program
// can work in between, while the data of the other ranks arrives; no goroutine runs for the call. Either all ranks
// begin a call or none does. If the backend cannot divide the call, Begin is the same as [Op.Start].
//
// Messages may be sent in between. Another collective first finishes the one that was begun, which keeps the order.
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

// Arrived reports whether Wait, after Begin, would return without waiting for another rank. It does not wait. It
// returns false if the backend cannot tell.
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
	if e, ok := o.group.engine.(overlapper); ok && !o.plan.hostNorm(o.group.caps) {
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
	// pending is the number of started operations that have not ended. Closing the stream adds one, so that pending
	// never becomes 0 again. Run can therefore check with a single load that it may run at once.
	pending atomic.Int32
	begun   *Op // the operation between Begin and Wait; only the goroutine that uses the group accesses it

	mu     sync.Mutex // guards the fields below
	closed bool
	queue  []*Op
	active bool           // a goroutine runs work
	idle   sync.WaitGroup // waits for that goroutine
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

// drain waits until no operation is in flight.
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
