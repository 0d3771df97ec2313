package cpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/comm/tcp"
)

// askLimit is how long a rank waits for a peer's answer to the question how many calls it has begun.
const askLimit = time.Second

// progress moves as much as possible on the links without waiting.
func (h *hosts) progress(links []*tcp.Link) (moved bool, err error) {
	for _, l := range links {
		if l.Idle() {
			continue
		}
		m, err := l.Progress()
		if err != nil {
			return moved, h.linkFailure(l, err, "")
		}
		moved = moved || m
	}
	return moved, nil
}

// waitUntil waits for a peer and keeps the links moving meanwhile, because the awaited rank may depend on
// their data. If mixed is set, done also depends on shared memory, which does not wake a sleeping
// rank, so sleeps are short.
func (h *hosts) waitUntil(peer int, links []*tcp.Link, mixed bool, done func() (bool, error)) error {
	w := h.engine.member.NewFarWait(peer, "")
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		moved, err := h.progress(links)
		switch {
		case err != nil:
			return err
		case moved:
			w.Moved()
			continue
		}
		limit, err := w.Step()
		if mixed {
			limit = min(limit, mixedMaxSleep)
		}
		if limit > 0 {
			h.sleeps.Sleep(limit, links...)
		}
		if err != nil {
			return err
		}
	}
}

// flush waits until everything that was posted on the links has been moved.
func (h *hosts) flush(links []*tcp.Link) error {
	for _, l := range links {
		if err := h.waitUntil(l.Peer, links, false, func() (bool, error) { return l.Idle(), nil }); err != nil {
			return err
		}
	}
	return nil
}

// awaitLocal waits for an epoch of a rank of this host.
func (h *hosts) awaitLocal(peer int, epoch uint32, links []*tcp.Link) error {
	return h.waitUntil(peer, links, true, func() (bool, error) { return h.engine.member.Reached(peer, epoch) })
}

// awaitLocals waits for an epoch of all ranks of this host, and keeps the links moving.
func (h *hosts) awaitLocals(epoch uint32, links []*tcp.Link) error {
	for _, peer := range h.locals {
		if peer != h.rank {
			if err := h.awaitLocal(peer, epoch, links); err != nil {
				return err
			}
		}
	}
	return nil
}

// linkFailure converts the error of a link into the failure of the group.
func (h *hosts) linkFailure(l *tcp.Link, err error, op string) error {
	if other, is := errors.AsType[*tcp.MismatchError](err); is {
		return h.failMismatch(l.Peer, other)
	}
	// The last message on the peer's control connection explains the failure better than the error of the data
	// connection.
	control := h.controls[l.Peer]
	control.AwaitEnd(askLimit)
	if h.engine.member.Failed() {
		return h.engine.member.FailureIn(op)
	}
	switch end, _ := control.End(); end {
	case tcp.Left:
		return h.engine.member.FailPeer(l.Peer, false, "has left the group", op)
	case tcp.Closed:
		return h.engine.member.FailPeer(l.Peer, true, fmt.Sprintf("is dead (%v)", err), op)
	case tcp.Cut:
		return h.engine.member.FailPeer(l.Peer, false, fmt.Sprintf("is unreachable (%v)", err), op)
	}
	return h.engine.member.FailPeer(l.Peer, false, fmt.Sprintf("has lost its connection (%v)", err), op)
}

// failMismatch fails the group because a peer makes a different call. It asks the peer for the text of its
// call.
func (h *hosts) failMismatch(peer int, e *tcp.MismatchError) error {
	_, theirs, _ := h.controls[peer].Ask(e.Got.Call, askLimit)
	theirs = cmp.Or(theirs, "something else")
	_, mine := h.callText(e.Want.Call)
	return h.engine.member.DisagreeOn(e.Want.Call, peer, mine, theirs)
}

// Name returns the name of a rank in errors.
func (h *hosts) Name(rank int) string {
	return fmt.Sprintf("rank %d (pid %d, host %s)", rank, h.ranks[rank].PID, h.ranks[rank].Name)
}

// Lost returns why a rank is unreachable, or "".
func (h *hosts) Lost(rank int) string {
	if h.local(rank) {
		return ""
	}
	if end, err := h.controls[rank].End(); end == tcp.Cut {
		return fmt.Sprintf("is unreachable: no message from it for %v (%v)", h.silence, err)
	}
	return ""
}

// Behind asks all ranks for their progress, because the rank whose wait timed out may itself be waiting for another.
func (h *hosts) Behind(rank int) int {
	calls := h.calls.Load()
	ranks := make([]progress, len(h.ranks))
	var asked sync.WaitGroup
	for r, c := range h.controls {
		ranks[r].calls = calls
		if c != nil {
			asked.Go(func() {
				theirs, _, ok := c.Ask(calls, askLimit)
				ranks[r] = progress{theirs, !ok}
			})
		}
	}
	asked.Wait()
	return furthestBehind(ranks, calls, rank)
}

// progress is a rank's answer to Behind: the number of calls that it has begun, or no answer.
type progress struct {
	calls  uint64
	silent bool
}

// furthestBehind returns the rank to blame for a timeout. This is the first rank that does not answer. If all answer,
// it is the rank with the fewest calls, if it has begun fewer than this rank: the others wait for it too. Otherwise it
// is the rank that was waited for.
func furthestBehind(ranks []progress, calls uint64, waited int) int {
	if r := slices.IndexFunc(ranks, func(p progress) bool { return p.silent }); r >= 0 {
		return r
	}
	blamed, fewest := waited, calls
	for r, p := range ranks {
		if p.calls < fewest {
			blamed, fewest = r, p.calls
		}
	}
	return blamed
}

// markFailed marks the group as failed when a rank of another host reports a failure.
func (h *hosts) markFailed(f shm.Failure) {
	h.segmentMu.RLock()
	defer h.segmentMu.RUnlock()
	if !h.closed {
		_ = h.engine.member.Fail(f)
	}
}

// reportFailure reports the failure of the group to the other hosts, once.
func (h *hosts) reportFailure() {
	f := h.engine.member.Ended()
	if f == nil || !h.reported.CompareAndSwap(false, true) {
		return
	}
	for r, c := range h.controls {
		if c != nil && !h.local(r) {
			c.Fail(*f)
		}
	}
}
