package shm

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// spinsAlone is how often a rank with a core of its own looks again before it
	// offers the core: some tens of microseconds, the usual spread of arrival.
	spinsAlone = 600
	// quickLooks come before anything else that waiting may need: most waits are
	// shorter. With more ranks than cores, where the one waited for may need this
	// very core, it is offered at once.
	quickLooks = 64
	// yields is how often the core is offered before the rank asks the time or, with
	// more ranks than cores, sleeps, which costs the signalling side a system call.
	yields = 500
	// awake is how long a rank with a core of its own goes on offering it. A sleeper
	// is late by what waking takes, so that others fall asleep over it in turn; and
	// under a hypervisor a core that sleeps is given to another guest and comes back
	// when that one lets go. One rank that is held up for a moment must not begin this.
	awake = 10 * time.Millisecond
	// patience bounds each sleep, so that a failure or a dead rank is seen.
	patience = 20 * time.Millisecond
)

// wait is one wait for a peer: spin, yield, sleep.
type wait struct {
	m     *Member
	peer  int
	steps int
	since time.Time // the first look at the clock
	began time.Time // of the sleeping
	doing string    // what for; "": the collective that the member is in
}

// pause is one step of the waiting for *word to become other than seen. It
// fails when waiting is of no use any more.
func (w *wait) pause(word *atomic.Uint32, seen uint32, sleepers *atomic.Int32) error {
	w.steps++
	switch {
	case w.steps <= w.m.spins:
		vec.Pause()
		return nil
	case w.steps <= w.m.spins+yields:
		if w.m.board.header.failed.Load() != 0 {
			return w.failed()
		}
		if w.m.shared {
			runtime.Gosched()
		}
		yield()
		return nil
	case w.awake():
		w.steps -= yields
		return nil
	}
	return w.sleep(word, seen, sleepers)
}

// awake tells whether it is too early to sleep.
func (w *wait) awake() bool {
	if w.m.crowded {
		return false
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since) < awake
}

func (w *wait) sleep(word *atomic.Uint32, seen uint32, sleepers *atomic.Int32) error {
	m := w.m
	if m.board.header.failed.Load() != 0 {
		return w.failed()
	}
	now := time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	left := m.timeout - now.Sub(w.began)
	if left <= 0 {
		return m.fail(Failure{Kind: PeerGone, Rank: w.peer, PID: m.pids[w.peer],
			Text: fmt.Sprintf("rank %d waited %v for rank %d (pid %d)%s", m.rank, m.timeout, w.peer, m.pids[w.peer], w.purpose())})
	}
	// The peer may have signalled and then gone: look at the word again after
	// finding it gone.
	if why := m.gone(w.peer); why != "" && word.Load() == seen {
		return m.fail(Failure{Kind: PeerGone, Rank: w.peer, PID: m.pids[w.peer], Dead: why == reasonDead,
			Text: fmt.Sprintf("rank %d (pid %d) %s while rank %d waits for it%s", w.peer, m.pids[w.peer], why, m.rank, w.purpose())})
	}
	// Whoever changes the word looks at sleepers afterwards; this rank counts
	// itself first and then lets the kernel compare the word.
	sleepers.Add(1)
	sleep(word, seen, min(patience, left))
	sleepers.Add(-1)
	return nil
}

func (w *wait) failed() error {
	if w.doing != "" || w.m.calls == 0 {
		return w.m.failure()
	}
	return w.m.failureIn(w.m.said(w.m.rank))
}

func (w *wait) purpose() string {
	if w.doing != "" {
		return " in " + w.doing
	}
	return w.m.inCall()
}

const (
	reasonDead = "is dead"
	reasonLeft = "has left the group"
)

// gone says why a rank will not signal any more, or "".
func (m *Member) gone(peer int) string {
	switch m.board.cells[peer].state.Load() {
	case stateLeft:
		return reasonLeft
	case stateJoined:
		if !m.segment.Claimed(m.world[peer]) {
			return reasonDead
		}
	}
	return ""
}
