package gemm

import (
	"runtime"
	"sync/atomic"

	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// A team is the threads of an engine: the caller, and helpers that stay between calls. A helper spins for a while to
// wait for the next job, because consecutive calls of a loop follow quickly. Then it sleeps, so that an idle engine
// costs nothing.
type team struct {
	job     func(member int) // of the running call
	helpers []helper
	started atomic.Uint64 // number of jobs started
	working atomic.Int64  // helpers that have not finished the job
	closed  bool
	gate    barrier
}

type helper struct {
	asleep atomic.Bool
	wake   chan struct{}
	_      [64]byte // padding: each helper's flag has its own cache line
}

// The number of spins before a waiter yields its processor (about 5 µs), and before a helper without work goes to sleep
// (about 100 µs).
const (
	spinsToYield = 100
	spinsToSleep = 2000
)

// spin waits until done returns true. It yields the processor now and then, in case the thread that it waits for needs
// it.
func spin(done func() bool) {
	for n := 1; !done(); n++ {
		if n%spinsToYield == 0 {
			runtime.Gosched()
		} else {
			vec.Pause()
		}
	}
}

// newTeam starts the helpers. The caller of run is member 0, so there is one helper less than threads.
func newTeam(threads int) *team {
	t := &team{helpers: make([]helper, threads-1), gate: barrier{members: int64(threads)}}
	for i := range t.helpers {
		t.helpers[i].wake = make(chan struct{}, 1)
		go t.serve(i + 1)
	}
	return t
}

// run runs the job on every member and returns when all have finished.
func (t *team) run(job func(member int)) {
	t.job = job
	t.working.Store(int64(len(t.helpers)))
	t.signal()
	job(0)
	spin(func() bool { return t.working.Load() == 0 })
}

// signal announces a job and wakes the helpers that sleep.
func (t *team) signal() {
	t.started.Add(1)
	for i := range t.helpers {
		if h := &t.helpers[i]; h.asleep.Load() && h.asleep.CompareAndSwap(true, false) {
			h.wake <- struct{}{}
		}
	}
}

// serve is the loop of a helper.
func (t *team) serve(member int) {
	h := &t.helpers[member-1]
	for seen := uint64(0); ; seen++ {
		t.await(h, seen)
		if t.closed {
			t.working.Add(-1)
			return
		}
		t.job(member)
		t.working.Add(-1)
	}
}

// await returns once a job after the first seen jobs has started.
func (t *team) await(h *helper, seen uint64) {
	for n := 1; t.started.Load() == seen; n++ {
		switch {
		case n%spinsToSleep == 0:
			h.asleep.Store(true)
			// A job that started before the flag was set did not wake this helper, so check again.
			if t.started.Load() != seen && h.asleep.CompareAndSwap(true, false) {
				return
			}
			<-h.wake
		case n%spinsToYield == 0:
			runtime.Gosched()
		default:
			vec.Pause()
		}
	}
}

// close ends the helpers and waits for them.
func (t *team) close() {
	t.closed = true
	t.working.Store(int64(len(t.helpers)))
	t.signal()
	spin(func() bool { return t.working.Load() == 0 })
}

// A barrier lets its members continue when all have arrived.
type barrier struct {
	members int64
	arrived atomic.Int64
	round   atomic.Uint64
}

// wait blocks until all members have called it. The last one to arrive calls before, while the others still wait.
func (b *barrier) wait(before func()) {
	round := b.round.Load()
	if b.arrived.Add(1) == b.members {
		before()
		b.arrived.Store(0)
		b.round.Add(1)
		return
	}
	spin(func() bool { return b.round.Load() != round })
}
