package cpu

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

const (
	// remoteSpins is how often a rank with a core of its own looks again, which over
	// TCP is a system call each: some hundred microseconds.
	remoteSpins = 400
	// remoteYields is how often it then offers the core before it sleeps.
	remoteYields = 200
	// remotePatience bounds a sleep, and mixedPatience one in which shared memory,
	// that cannot wake it, is waited for too.
	remotePatience = 20 * time.Millisecond
	mixedPatience  = time.Millisecond
	// askLimit is how long a peer may take to explain itself.
	askLimit = time.Second
)

// waiting is one wait for a peer: look, offer the core, sleep. Whatever moves
// begins it anew.
type waiting struct {
	s       *spanning
	sleeper *tcp.Sleeper
	peer    int
	doing   string // for errors; "": the present collective
	steps   int
	began   time.Time
}

func (s *spanning) wait(peer int) waiting { return waiting{s: s, sleeper: &s.sleeps, peer: peer} }

func (w *waiting) moved() { w.steps, w.began = 0, time.Time{} }

// awake is the part of a step of waiting that does not sleep; it tells whether
// it was all.
func (w *waiting) awake() (bool, error) {
	w.steps++
	spins := remoteSpins
	if w.s.crowded {
		spins = 0
	}
	switch {
	case w.steps <= spins:
		vec.Pause()
		return true, nil
	case w.s.member.Failed():
		return false, w.s.failedIn(w.doing)
	case w.steps <= spins+remoteYields:
		if w.s.shared {
			runtime.Gosched()
		}
		syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return true, nil
	}
	return false, w.useful()
}

// useful fails when waiting is of no use any more.
func (w *waiting) useful() error {
	now := time.Now()
	if w.began.IsZero() {
		w.began = now
	}
	if now.Sub(w.began) >= w.s.timeout {
		return w.s.absent(w.peer, w.doing)
	}
	if w.s.local(w.peer) {
		if why, dead := w.s.member.Gone(w.peer); why != "" {
			return w.s.lost(w.peer, dead, why, w.doing)
		}
		return nil
	}
	if end, err := w.s.controls[w.peer].End(); end == tcp.Cut {
		return w.s.lost(w.peer, false, fmt.Sprintf("is out of reach: nothing was heard of it for %v (%v)", w.s.silence, err), w.doing)
	}
	return nil
}

// pause is one step of the waiting for one of the links, or with mixed also
// for shared memory.
func (w *waiting) pause(links []*tcp.Link, mixed bool) error {
	if awake, err := w.awake(); awake || err != nil {
		return err
	}
	limit := remotePatience
	if mixed {
		limit = mixedPatience
	}
	w.sleeper.Sleep(limit, links...)
	return nil
}

// progress moves what can be moved on the links. Busy is one on which more is
// to be moved, nil if there is none.
func (s *spanning) progress(links []*tcp.Link) (moved bool, busy *tcp.Link, err error) {
	for _, l := range links {
		if l.Idle() {
			continue
		}
		m, err := l.Progress()
		if err != nil {
			return moved, l, s.broken(l, err, "")
		}
		moved = moved || m
		if !l.Idle() {
			busy = l
		}
	}
	return moved, busy, nil
}

// settle returns when nothing posted on the links is left.
func (s *spanning) settle(links []*tcp.Link) error {
	w := s.wait(-1)
	for {
		moved, busy, err := s.progress(links)
		switch {
		case err != nil:
			return err
		case busy == nil:
			return nil
		case moved:
			w.moved()
			continue
		}
		w.peer = busy.Peer
		if err := w.pause(links, false); err != nil {
			return err
		}
	}
}

// awaitLocal waits for an epoch of a rank of this host, and keeps the links
// moving: their other ends may have to move before that rank can.
func (s *spanning) awaitLocal(peer int, epoch uint32, links []*tcp.Link) error {
	w := s.wait(peer)
	for {
		if reached, err := s.member.Reached(peer, epoch); reached || err != nil {
			return err
		}
		moved, _, err := s.progress(links)
		switch {
		case err != nil:
			return err
		case moved:
			w.moved()
			continue
		}
		if err := w.pause(links, true); err != nil {
			return err
		}
	}
}

// awaitLocals waits for an epoch of all ranks of this host.
func (s *spanning) awaitLocals(epoch uint32, links []*tcp.Link) error {
	for _, peer := range s.locals {
		if peer != s.rank {
			if err := s.awaitLocal(peer, epoch, links); err != nil {
				return err
			}
		}
	}
	return nil
}

// broken says what an error of a link means.
func (s *spanning) broken(l *tcp.Link, err error, doing string) error {
	var other *tcp.MismatchError
	if errors.As(err, &other) {
		return s.disagree(l.Peer, other)
	}
	// What the peer said before its connections ended explains it better.
	control := s.controls[l.Peer]
	control.AwaitEnd(askLimit)
	if s.member.Failed() {
		return s.failedIn(doing)
	}
	switch end, _ := control.End(); end {
	case tcp.Left:
		return s.lost(l.Peer, false, "has left the group", doing)
	case tcp.Closed:
		return s.lost(l.Peer, true, fmt.Sprintf("is dead (%v)", err), doing)
	case tcp.Cut:
		return s.lost(l.Peer, false, fmt.Sprintf("is out of reach (%v)", err), doing)
	}
	return s.lost(l.Peer, false, fmt.Sprintf("has lost its connection (%v)", err), doing)
}

// disagree fails the group because a peer makes another call than this rank.
func (s *spanning) disagree(peer int, e *tcp.MismatchError) error {
	_, theirs, _ := s.controls[peer].Ask(e.Got.Call, askLimit)
	if theirs == "" {
		theirs = "something else"
	}
	_, mine := s.said(e.Want.Call)
	a, b, first, second := s.rank, peer, mine, theirs
	if a > b {
		a, b, first, second = b, a, second, first
	}
	return s.member.Fail(shm.Failure{Kind: shm.Disagreement,
		Text: fmt.Sprintf("rank %d calls %s, but rank %d %s (call %d)", a, first, b, second, e.Want.Call)})
}

// lost fails the group because a rank is gone.
func (s *spanning) lost(peer int, dead bool, why, doing string) error {
	return s.member.Fail(shm.Failure{Kind: shm.PeerGone, Rank: peer, PID: s.places[peer].PID, Dead: dead,
		Text: fmt.Sprintf("%s %s while rank %d waits for it%s", s.named(peer), why, s.rank, s.purpose(doing))})
}

// absent fails the group because a rank has not come in time. The one waited for
// may itself wait for another, so all are asked how far they are.
func (s *spanning) absent(peer int, doing string) error {
	if doing == "" {
		calls := s.calls.Load()
		behind := make(chan int, s.Size())
		for r, c := range s.controls {
			go func() {
				late := -1
				if c != nil {
					if theirs, _, ok := c.Ask(calls, askLimit); !ok || theirs < calls {
						late = r
					}
				}
				behind <- late
			}()
		}
		first := s.Size()
		for range s.controls {
			if r := <-behind; r >= 0 {
				first = min(first, r)
			}
		}
		if first < s.Size() {
			peer = first
		}
	}
	return s.member.Fail(shm.Failure{Kind: shm.PeerGone, Rank: peer, PID: s.places[peer].PID,
		Text: fmt.Sprintf("rank %d waited %v for %s%s", s.rank, s.timeout, s.named(peer), s.purpose(doing))})
}

func (s *spanning) purpose(doing string) string {
	if doing != "" {
		return " in " + doing
	}
	calls := s.calls.Load()
	_, text := s.said(calls)
	return fmt.Sprintf(" in %s (call %d)", text, calls)
}

// failedIn is the group's failure as a rank sees it that makes a call; where
// another one's call is the cause, it names both.
func (s *spanning) failedIn(doing string) error {
	err := s.member.Failure()
	var f *shm.Failure
	if errors.As(err, &f) && f.Kind == shm.Refusal && doing == "" {
		if _, text := s.said(s.calls.Load()); text != "" {
			f.Text += fmt.Sprintf("; rank %d calls %s", s.rank, text)
		}
	}
	return err
}

// said tells how many calls have begun, and what the n-th says if it is one of the
// last two.
func (s *spanning) said(n uint64) (calls uint64, text string) {
	calls = s.calls.Load()
	if l := s.labels[n&1].Load(); l != nil && n <= calls && n+2 > calls {
		text = l.Text()
	}
	return calls, text
}

// hear takes a failure that another host's rank reports.
func (s *spanning) hear(f shm.Failure) {
	s.alive.RLock()
	defer s.alive.RUnlock()
	if !s.closed {
		_ = s.member.Fail(f)
	}
}

// spread tells the other hosts of the group's failure, once.
func (s *spanning) spread() {
	var f *shm.Failure
	if !errors.As(s.member.Failure(), &f) || !s.told.CompareAndSwap(false, true) {
		return
	}
	for r, c := range s.controls {
		if c != nil && !s.local(r) {
			c.Fail(*f)
		}
	}
}

// outward tells the others of a failure and gives it the type of package dist.
func (s *spanning) outward(err error) error {
	if err == nil {
		return nil
	}
	s.spread()
	return outward(err)
}

// spreading is outward for code that has given its errors their types already.
func (s *spanning) spreading(run func() error) func() error {
	return func() error {
		err := run()
		if err != nil {
			s.spread()
		}
		return err
	}
}

// guarded is outward for everything that a prepared call returns.
func (s *spanning) guarded(run func() error) func() error {
	return func() error {
		if err := run(); err != nil {
			return s.outward(err)
		}
		return nil
	}
}

// timed is the context of connecting within a group.
func timed(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("%v have passed", limit))
}

var _ dist.Engine = (*spanning)(nil)
