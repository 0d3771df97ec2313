package syncgroup

import (
	"context"
	"fmt"
	"time"

	"github.com/kernbench/kernbench/internal/process/connection"
)

// HubRank is the rank of an [AbortedError] if the hub, or the connection to it, ended the group.
const HubRank = -1

// ServeHub connects ranks on several hosts. conns are the connections to them, in rank order; each rank calls
// [JoinStream] on the other end. ServeHub returns when every rank has closed its end or lost its connection, with an
// [AbortedError] if the group was aborted. It aborts the group when ctx ends.
func ServeHub(ctx context.Context, conns []*connection.Conn) error {
	h := newHub(len(conns))
	host := connection.NewUntimedHost(h)
	host.Add(conns...)
	defer context.AfterFunc(ctx, func() {
		host.Do(func(time.Duration) []action { h.over = true; return h.abort(HubRank, context.Cause(ctx).Error()) })
	})()
	<-host.Ended()
	if h.aborted != nil {
		return h.aborted
	}
	return nil
}

// hub is the state machine of the coordinator (connection.Coordinator). It decides what to send; a connection.Host does
// the I/O.
type hub struct {
	arrived  []*frame // by rank: its call that has not been answered, or nil
	waiting  int      // number of unanswered calls
	finished []bool   // by rank: it has left or its connection has ended
	left     int
	over     bool
	aborted  *AbortedError
}

type action = connection.Action[frame]

var _ connection.Coordinator[frame] = (*hub)(nil)

func newHub(size int) *hub {
	return &hub{arrived: make([]*frame, size), finished: make([]bool, size), over: size == 0}
}

// rankOf returns the rank of a connection. A connection.Host numbers connections from 1.
func rankOf(peer int) int { return peer - 1 }

func (h *hub) Over() bool                  { return h.over }
func (h *hub) Tick(time.Duration) []action { return nil }
func (h *hub) Refuse(_, _ string)          {}
func (h *hub) broadcast(f frame) (orders []action) {
	for rank := range h.arrived {
		orders = append(orders, action{Peer: rank + 1, Message: f})
	}
	return orders
}

func (h *hub) Disconnect(peer int, cause string, _ time.Duration) []action {
	return h.markGone(rankOf(peer), "connection lost: "+cause)
}

func (h *hub) Receive(peer int, f frame, _ time.Duration) []action {
	rank := rankOf(peer)
	switch {
	case f.kind == frameLeave:
		return h.markGone(rank, "")
	case f.kind == frameAbort:
		return h.abort(rank, string(f.payload))
	case f.kind == frameBarrier || f.kind == frameExchange:
		return h.arrive(rank, f)
	}
	return h.abort(rank, fmt.Sprintf("sent a frame of kind %q and %d bytes: %v", f.kind, len(f.payload), errMalformed))
}

// markGone marks a rank as gone. If reason is empty, the rank has left by itself. This is an error only for ranks that
// wait for it now or later.
func (h *hub) markGone(rank int, reason string) []action {
	if h.finished[rank] {
		return nil
	}
	h.finished[rank] = true
	h.left++
	h.over = h.over || h.left == len(h.finished)
	switch {
	case reason != "":
		return h.abort(rank, reason)
	case h.waiting > 0:
		return h.abort(rank, leftReason)
	}
	return nil
}

const leftReason = "left the group while other ranks waited for it"

func (h *hub) arrive(rank int, f frame) []action {
	if h.aborted != nil {
		return nil
	}
	if h.arrived[rank] != nil {
		return h.abort(rank, "called again before its last call was answered")
	}
	h.arrived[rank] = &f
	h.waiting++
	for r, gone := range h.finished {
		if gone {
			return h.abort(r, leftReason)
		}
	}
	if h.waiting == len(h.arrived) {
		return h.answer()
	}
	return nil
}

// answer releases the ranks once all have arrived.
func (h *hub) answer() []action {
	kind, total := h.arrived[0].kind, 0
	perRank := make([][]byte, len(h.arrived))
	for r, f := range h.arrived {
		if f.kind != kind {
			return h.abort(r, fmt.Sprintf("ranks out of step: sent %q where rank 0 sent %q", f.kind, kind))
		}
		perRank[r] = f.payload
		total += 4 + len(f.payload)
	}
	if total > maxPayload {
		return h.abort(HubRank, fmt.Sprintf("exchange of %d bytes: at most %d are allowed", total, maxPayload))
	}
	answer := frame{kind: kind}
	if kind == frameExchange {
		answer.payload = encodeGathered(perRank)
	}
	clear(h.arrived)
	h.waiting = 0
	return h.broadcast(answer)
}

func (h *hub) abort(rank int, reason string) []action {
	if h.aborted != nil {
		return nil
	}
	h.aborted = &AbortedError{Rank: rank, Reason: reason}
	return h.broadcast(frame{kind: frameAbort, payload: encodeAbort(h.aborted)})
}
