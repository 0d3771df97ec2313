package shm

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// pace is how a rank waits before it sleeps.
type pace struct {
	// spins is how often a rank with a core of its own looks again before it offers
	// the core: the usual spread of arrival.
	spins int
	// yields is how often the core is offered before the rank asks the time or, with
	// more ranks than cores, sleeps, which costs the signalling side a system call.
	yields int
	// awake is how long a rank with a core of its own goes on offering it. A sleeper
	// is late by what waking takes, so that others fall asleep over it in turn; and
	// under a hypervisor a core that sleeps is given to another guest and comes back
	// when that one lets go. One rank that is held up for a moment must not begin this.
	awake time.Duration
}

var (
	// nearPace is that of a wait for shared memory, some tens of microseconds of spins.
	nearPace = pace{spins: 600, yields: 500, awake: 10 * time.Millisecond}
	// farPace is that of a wait for the network, where each look is a system call:
	// some hundred microseconds of spins, and then sleep, of which a packet wakes.
	farPace = pace{spins: 400, yields: 200}
)

// crowded is the pace with more ranks than cores, where the one waited for may need
// this very core: it is offered at once.
func (p pace) crowded() pace { return pace{yields: p.yields} }

const (
	// quickLooks come before anything else that waiting may need: most waits are
	// shorter.
	quickLooks = 64
	// patience bounds each sleep, so that a failure or a dead rank is seen.
	patience = 20 * time.Millisecond
)

// Wait is one wait for a peer: spin, yield, sleep. Whatever moves begins it anew.
type Wait struct {
	Peer  int // that is waited for
	m     *Member
	pace  *pace
	doing string // what for; "": the collective that the member is in
	steps int
	since time.Time // the first look at the clock
	began time.Time // of the sleeping
	gone  int       // 1 + the peer that was found gone
}

// NewWait begins to wait for shared memory; doing is for errors, "" means the
// present collective.
func (m *Member) NewWait(peer int, doing string) Wait {
	return Wait{m: m, pace: &m.near, Peer: peer, doing: doing}
}

// NewFarWait begins to wait for the network, or for both.
func (m *Member) NewFarWait(peer int, doing string) Wait {
	return Wait{m: m, pace: &m.far, Peer: peer, doing: doing}
}

// Moved resets the patience: something has happened.
func (w *Wait) Moved() { w.steps, w.began, w.gone = 0, time.Time{}, 0 }

// pause is one step of the waiting for *word to become other than seen. It
// fails when waiting is of no use any more.
func (w *Wait) pause(word *atomic.Uint32, seen uint32, sleepers *atomic.Int32) error {
	if w.spin() {
		return nil
	}
	limit, err := w.Step()
	if limit > 0 {
		// Whoever changes the word looks at sleepers afterwards; this rank counts
		// itself first and then lets the kernel compare the word.
		sleepers.Add(1)
		Park(word, seen, limit)
		sleepers.Add(-1)
	}
	return err
}

// Step is one step of waiting. It returns for how long to sleep at most, 0 to look
// again at once, and fails when waiting is of no use any more.
func (w *Wait) Step() (limit time.Duration, err error) {
	if w.spin() {
		return 0, nil
	}
	w.steps++
	switch {
	case w.m.Failed():
		return 0, w.m.FailureIn(w.doing)
	case w.steps <= w.pace.spins+w.pace.yields:
		if w.m.shared {
			runtime.Gosched()
		}
		yield()
		return 0, nil
	case w.awake():
		w.steps -= w.pace.yields
		return 0, nil
	}
	return w.useful()
}

func (w *Wait) spin() bool {
	if w.steps >= w.pace.spins {
		return false
	}
	w.steps++
	vec.Pause()
	return true
}

// awake tells whether it is too early to sleep.
func (w *Wait) awake() bool {
	if w.pace.awake == 0 {
		return false
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since) < w.pace.awake
}

// useful fails when waiting is of no use any more.
func (w *Wait) useful() (limit time.Duration, err error) {
	m, now := w.m, time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	left := m.timeout - now.Sub(w.began)
	if left <= 0 {
		return 0, w.inVain()
	}
	why, dead := m.Gone(w.Peer)
	if why == "" && m.others != nil {
		why = m.others.Lost(w.Peer)
	}
	switch {
	case why == "":
		return min(patience, left), nil
	case w.gone != 1+w.Peer:
		w.gone = 1 + w.Peer // it may have signalled before it went: look once more
		return 0, nil
	}
	return 0, m.Lost(w.Peer, dead, why, w.doing)
}

// inVain fails the group because a peer has not come in time.
func (w *Wait) inVain() error {
	m, peer := w.m, w.Peer
	if m.others != nil && w.doing == "" {
		peer = m.others.Behind(peer)
	}
	return m.Fail(Failure{Kind: PeerGone, Rank: peer, PID: m.pids[peer],
		Text: fmt.Sprintf("rank %d waited %v for %s%s", m.rank, m.timeout, m.Name(peer), m.purpose(w.doing))})
}

const (
	reasonDead = "is dead"
	reasonLeft = "has left the group"
)

// Gone says why a rank of this host will not signal any more, "" while it may.
func (m *Member) Gone(peer int) (why string, dead bool) {
	switch m.board.cells[peer].state.Load() {
	case stateLeft:
		return reasonLeft, false
	case stateJoined:
		if !m.segment.Claimed(m.world[peer]) {
			return reasonDead, true
		}
	}
	return "", false
}
