package dist

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Op is a prepared call. It may run any number of times, one at a time.
type Op struct {
	run    func() error
	lane   *lane
	plan   Plan
	handle Handle
}

// Handle is a started Op.
type Handle struct {
	op      *Op
	done    chan struct{} // holds a token once the run has ended
	started atomic.Bool
	err     error
}

func newOp(p Plan, run func() error, l *lane) *Op {
	o := &Op{run: run, lane: l, plan: p}
	o.handle = Handle{op: o, done: make(chan struct{}, 1)}
	return o
}

// Plan is the call as it was completed, with the algorithm that was chosen.
func (o *Op) Plan() Plan { return o.plan }

// Run does the call and returns when this rank's part is complete. It allocates
// nothing. It waits for calls started before it.
func (o *Op) Run() error {
	if o.lane.pending.Load() != 0 {
		return o.Start().Wait()
	}
	return o.run()
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
	if !o.lane.submit(o) {
		h.err = ErrClosed
		h.started.Store(false)
	}
	return h
}

// Wait returns when the call is complete.
func (h *Handle) Wait() error {
	if h.op == nil || !h.started.Load() {
		return h.err
	}
	<-h.done
	h.started.Store(false)
	return h.err
}

// lane runs started operations one after the other, in a goroutine that exists
// while there are any.
type lane struct {
	pending atomic.Int32 // never 0 again once closed, so that Run need not look at more

	mu     sync.Mutex
	closed bool
	queue  []*Op
	active bool
	idle   sync.WaitGroup
}

// submit tells whether the operation will run.
func (l *lane) submit(o *Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.pending.Add(1)
	l.queue = append(l.queue, o)
	if !l.active {
		l.active = true
		l.idle.Add(1)
		go l.work()
	}
	return true
}

func (l *lane) work() {
	defer l.idle.Done()
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.active = false
			l.mu.Unlock()
			return
		}
		o := l.queue[0]
		l.queue = append(l.queue[:0], l.queue[1:]...)
		l.mu.Unlock()

		o.handle.err = o.run()
		l.pending.Add(-1)
		o.handle.done <- struct{}{}
	}
}

// drain waits until nothing is on its way.
func (l *lane) drain() { l.idle.Wait() }

// close waits and takes nothing more.
func (l *lane) close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.pending.Add(1)
	}
	l.mu.Unlock()
	l.drain()
}
