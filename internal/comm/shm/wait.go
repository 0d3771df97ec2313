package shm

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// pace sets how long a waiting rank spins and yields before it sleeps.
type pace struct {
	// spins is the number of times that a rank with its own core checks the flag before it yields:
	// enough for the usual spread of arrival times.
	spins int
	// yields is the number of times that it yields before it reads the clock, or before it sleeps if awake is 0.
	// Sleeping is expensive for the other side too, because the signal then needs a system call.
	yields int
	// awake is the time for which a rank with its own core continues to yield instead of sleeping. A rank that
	// slept wakes late, so the ranks that wait for it fall asleep too, and a hypervisor gives an idle core to
	// another guest. A short delay of a single rank must not start this chain.
	awake time.Duration
}

var (
	// nearPace is the pace of waits for shared memory: some tens of microseconds of spinning.
	nearPace = pace{spins: 600, yields: 500, awake: 10 * time.Millisecond}
	// farPace is the pace of waits for the network, where each check is a system call: a few hundred microseconds
	// of spinning, then sleep until a packet arrives.
	farPace = pace{spins: 400, yields: 200}
)

// crowded returns the pace to use with more ranks than cores. It yields at once, because the awaited rank may need the
// core on which this rank spins.
func (p pace) crowded() pace { return pace{yields: p.yields} }

const (
	// quickChecks is the number of times that Await checks the flag before it sets up a Wait. Most waits end
	// within these checks.
	quickChecks = 64
	// maxSleep limits each sleep, so that the rank notices a failed group or a dead peer, which send no signal.
	maxSleep = 20 * time.Millisecond
)

// Wait is the state of one wait for a peer, which spins, then yields, then sleeps. Progress restarts it (Moved).
type Wait struct {
	Peer     int // the awaited rank
	m        *Member
	pace     *pace
	op       string // what for; "": the collective that the member is in
	steps    int
	since    time.Time // the first reading of the clock
	began    time.Time // start of the sleeping
	gonePeer int       // 1 + the peer that was found gone; 0: none
}

// NewWait starts a wait for shared memory. Errors name op; "" means the current collective.
func (m *Member) NewWait(peer int, op string) Wait {
	return Wait{m: m, pace: &m.near, Peer: peer, op: op}
}

// NewFarWait starts a wait for the network, or for the network and shared memory. Errors name op, as in NewWait.
func (m *Member) NewFarWait(peer int, op string) Wait {
	return Wait{m: m, pace: &m.far, Peer: peer, op: op}
}

// Moved restarts the wait, with its timeout, after some data has been transferred.
func (w *Wait) Moved() { w.steps, w.began, w.gonePeer = 0, time.Time{}, 0 }

// pause is one step of waiting until *word differs from seen. It fails if the group has failed, the
// peer is gone, or the time is over.
func (w *Wait) pause(word *atomic.Uint32, seen uint32, sleepers *atomic.Int32) error {
	if w.spin() {
		return nil
	}
	limit, err := w.Step()
	if limit > 0 {
		// The signalling rank changes the word and then reads sleepers. This rank works in the opposite
		// order: it increments sleepers and then lets the kernel compare the word. One of the two always
		// notices the other, so no wake-up is lost. The model in sleep_test.go explores all interleavings.
		sleepers.Add(1)
		Park(word, seen, limit)
		sleepers.Add(-1)
	}
	return err
}

// Step is one step of waiting. It returns the longest time to sleep, or 0 to check again at once. It
// fails if the group has failed, the peer is gone, or the time is over.
func (w *Wait) Step() (limit time.Duration, err error) {
	if w.spin() {
		return 0, nil
	}
	w.steps++
	switch {
	case w.m.Failed():
		return 0, w.m.FailureIn(w.op)
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
	return w.check()
}

func (w *Wait) spin() bool {
	if w.steps >= w.pace.spins {
		return false
	}
	w.steps++
	vec.Pause()
	return true
}

// awake reports whether it is too early to sleep.
func (w *Wait) awake() bool {
	if w.pace.awake == 0 {
		return false
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since) < w.pace.awake
}

// check returns how long the rank may sleep. It fails if the peer is gone or the timeout has expired.
func (w *Wait) check() (limit time.Duration, err error) {
	m, now := w.m, time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	left := m.timeout - now.Sub(w.began)
	if left <= 0 {
		return 0, w.timeOut()
	}
	why, dead := m.Gone(w.Peer)
	if why == "" && m.others != nil {
		why = m.others.Lost(w.Peer)
	}
	switch {
	case why == "":
		return min(maxSleep, left), nil
	case w.gonePeer != 1+w.Peer:
		w.gonePeer = 1 + w.Peer // the peer may have signalled just before it left: check its flag once more
		return 0, nil
	}
	return 0, m.FailPeer(w.Peer, dead, why, w.op)
}

// timeOut fails the group because a peer has not signalled in time.
func (w *Wait) timeOut() error {
	m, peer := w.m, w.Peer
	if m.others != nil && w.op == "" {
		peer = m.others.Behind(peer)
	}
	return m.Fail(Failure{Kind: PeerGone, Rank: peer, PID: m.pids[peer],
		Text: fmt.Sprintf("rank %d waited %v for %s%s", m.rank, m.timeout, m.Name(peer), m.purpose(w.op))})
}

const (
	reasonDead = "is dead"
	reasonLeft = "has left the group"
)

// Gone returns why a rank of this host will not signal any more, or "" if it may still signal.
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
