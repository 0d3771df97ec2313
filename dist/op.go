package dist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Op is a prepared call. It may run any number of times, one at a time.
type Op struct {
	run    func() error
	stream *stream
	plan   Plan
	handle Handle

	group   *Group
	in, out *allocation     // nil: memory that no group gave
	ctx     context.Context // of this call alone; nil: none
	halves  halves
}

// Handle is a started Op.
type Handle struct {
	op      *Op
	ended   chan struct{} // holds a token once the run has ended
	started atomic.Bool
	err     error

	mu   sync.Mutex
	busy bool
	done chan struct{} // closed once the run has ended; nil: nobody asked for it
}

func newOp(p Plan, run func() error, s *stream) *Op {
	o := &Op{run: run, stream: s, plan: p}
	o.handle.op, o.handle.ended = o, make(chan struct{}, 1)
	return o
}

// Plan is the call as it was completed, with the algorithm that was chosen.
func (o *Op) Plan() Plan { return o.plan }

// Timings are the ways to time the call without the host. All ranks call it together,
// while nothing else is on its way in the group.
func (o *Op) Timings() ([]Timing, error) {
	t, has := o.group.engine.(Timer)
	if !has {
		return nil, nil
	}
	list, err := t.Timings(o.plan)
	if err != nil {
		return nil, fmt.Errorf("timing %v: %w", o.plan, o.group.explain(err))
	}
	return list, nil
}

// Run does the call and returns when this rank's part is complete. It allocates
// nothing. It waits for calls started before it.
func (o *Op) Run() error {
	o.stream.settle()
	if o.stream.pending.Load() != 0 {
		return o.Start().Wait()
	}
	return o.perform()
}

// perform runs the call, unless its memory is no longer there or its context has ended.
func (o *Op) perform() error {
	if err := o.intact(); err != nil {
		return err
	}
	if o.ctx != nil {
		if o.ctx.Err() != nil {
			return o.group.refuse(ended(o.ctx))
		}
		defer o.group.Watch(o.ctx)()
	}
	if err := o.run(); err != nil {
		return o.group.explain(err)
	}
	return nil
}

// intact fails the group if the call's memory is no longer there.
func (o *Op) intact() error {
	if o.in.gone() || o.out.gone() {
		return o.group.refuse(fmt.Errorf("%v: %w", o.plan, errFreed))
	}
	return nil
}

var errStarted = errors.New("dist: the operation was started again before Wait")

// Start begins the call and returns at once. Every Start needs its Wait before
// the next one of the same Op; prepare several Ops to have several on their way.
func (o *Op) Start() *Handle {
	h := &o.handle
	if !h.started.CompareAndSwap(false, true) {
		return &Handle{err: errStarted} // does not disturb the one on its way
	}
	h.err = nil
	o.stream.settle()
	h.begin()
	if !o.stream.submit(o) {
		h.err = ErrClosed
		h.end()
		h.started.Store(false)
	}
	return h
}

// Wait returns when the call is complete.
func (h *Handle) Wait() error { return h.WaitContext(context.Background()) }

// WaitContext is Wait that gives up when the context ends. The call itself goes on,
// and can be waited for again: what ends a call is [Group.Watch] or [WithContext].
func (h *Handle) WaitContext(ctx context.Context) error {
	if h.op == nil || !h.started.Load() {
		return h.err
	}
	select {
	case <-h.ended:
	case <-ctx.Done():
		return fmt.Errorf("waiting for %v: %w", h.op.plan, context.Cause(ctx))
	}
	h.started.Store(false)
	return h.err
}

// Done is closed once the call is complete, so that a select can wait for it among
// others. Wait then returns at once, and is still needed before the next Start, for
// which there is another channel.
func (h *Handle) Done() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done == nil {
		h.done = make(chan struct{})
		if !h.busy {
			close(h.done)
		}
	}
	return h.done
}

func (h *Handle) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy, h.done = true, nil
}

func (h *Handle) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = false
	if h.done != nil {
		close(h.done)
	}
}

// halves are the two parts of a call that was begun.
type halves struct {
	Halves   // nil: the call is started instead
	prepared bool
	begun    bool
	handle   *Handle // of a call that was started
	done     bool    // another call has finished it already
	err      error   // with this
}

var (
	errBegun    = errors.New("dist: the operation was begun again before Finish")
	errNotBegun = errors.New("dist: the operation is finished but was not begun")
)

// Begin does of the call what waits for no other rank, and returns; Finish does the rest.
// What the program does in between hides the way of the others' parts, and no goroutine
// runs beside it. All ranks begin a call or none does. A group whose backend does not
// declare Capabilities.Overlap, or a call that it cannot cut in two, is started as by
// [Op.Start].
//
// Messages may travel in between. Another collective keeps the order: it finishes first
// what was begun. Neither half allocates after the first.
func (o *Op) Begin() error {
	h := &o.halves
	if h.begun {
		return errBegun
	}
	if err := o.prepareHalves(); err != nil {
		return err
	}
	h.done, h.err, h.handle = false, nil, nil
	if h.Begin == nil {
		h.handle, h.begun = o.Start(), true
		return nil
	}
	o.stream.drain()
	if o.stream.pending.Load() != 0 {
		return ErrClosed
	}
	if err := o.intact(); err != nil {
		return err
	}
	if err := h.Begin(); err != nil {
		return o.group.explain(err)
	}
	h.begun, o.stream.begun = true, o
	return nil
}

// Finish returns when this rank's part of a call that was begun is complete.
func (o *Op) Finish() error {
	h := &o.halves
	if !h.begun {
		return errNotBegun
	}
	h.begun = false
	switch {
	case h.handle != nil:
		return h.handle.Wait()
	case !h.done:
		o.stream.settle()
	}
	return h.err
}

// Arrived reports whether Finish of a call that was begun would wait for no other rank, and does not
// wait itself. Where it cannot be told it says no.
func (o *Op) Arrived() bool {
	h := &o.halves
	return h.begun && h.handle == nil && (h.done || h.Halves.Arrived != nil && h.Halves.Arrived())
}

// prepareHalves asks the engine for them, once.
func (o *Op) prepareHalves() (err error) {
	h := &o.halves
	if h.prepared {
		return nil
	}
	engine, can := o.group.engine.(Overlapper)
	ownNorm := o.plan.Epilogue != nil && o.plan.Epilogue.Norm != nil && !o.group.caps.Norm
	if can && o.group.caps.Overlap && !ownNorm && o.ctx == nil {
		if h.Halves, err = engine.PrepareHalves(o.plan); err != nil {
			return o.group.explain(err)
		}
	}
	h.prepared = true
	return nil
}

// stream runs started operations one after the other, in a goroutine that exists
// while there are any.
type stream struct {
	pending atomic.Int32 // never 0 again once closed, so that Run need not look at more
	begun   *Op          // of the goroutine that uses the group

	mu     sync.Mutex
	closed bool
	queue  []*Op
	active bool
	idle   sync.WaitGroup
}

// submit tells whether the operation will run.
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

		o.handle.err = o.perform()
		s.pending.Add(-1)
		o.handle.end()
		o.handle.ended <- struct{}{}
	}
}

// drain waits until nothing is on its way.
func (s *stream) drain() {
	s.settle()
	s.idle.Wait()
}

// close waits and takes nothing more.
func (s *stream) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.pending.Add(1)
	}
	s.mu.Unlock()
	s.drain()
}

// settle finishes what was begun.
func (s *stream) settle() {
	o := s.begun
	if o == nil {
		return
	}
	s.begun = nil
	if h := &o.halves; !h.done {
		h.done = true
		if err := h.Finish(); err != nil {
			h.err = o.group.explain(err)
		}
	}
}
