package syncgroup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// HubRank is the rank of an [AbortedError] when it was the hub, or the way to
// it, that ended the group.
const HubRank = -1

// Hub joins ranks on several hosts: each has a connection to it.
type Hub struct {
	conns []io.ReadWriteCloser
	wires []*wire

	arrived  []*frame // by rank: its call that has not been answered
	waiting  int      // how many of them
	finished []bool   // by rank: left, or its connection ended
	left     int
	aborted  *AbortedError
}

// NewHub makes the hub of the ranks at the other ends of conns, in rank order.
func NewHub(conns []io.ReadWriteCloser) *Hub {
	n := len(conns)
	return &Hub{conns: conns, wires: make([]*wire, n), arrived: make([]*frame, n), finished: make([]bool, n)}
}

type hubEvent struct {
	rank  int
	frame frame
	err   error
}

// Run serves the ranks until each has closed its end or lost its connection,
// then closes the connections. It returns an [AbortedError] if the group was
// aborted. The end of ctx aborts the group.
func (h *Hub) Run(ctx context.Context) error {
	events := make(chan hubEvent)
	over := make(chan struct{})
	defer close(over)
	for rank, conn := range h.conns {
		h.wires[rank] = newWire(conn, func(f frame, err error) {
			select {
			case events <- hubEvent{rank, f, err}:
			case <-over:
			}
		})
	}
	defer h.closeAll()
	done := ctx.Done()
	var giveUp <-chan time.Time
	for h.left < len(h.conns) {
		select {
		case e := <-events:
			h.handle(e)
		case <-done:
			h.abort(HubRank, context.Cause(ctx).Error())
			// Ranks that still read learn the reason before the connection ends.
			done, giveUp = nil, time.After(drainTime)
		case <-giveUp:
			return h.aborted
		}
	}
	if h.aborted != nil {
		return h.aborted
	}
	return nil
}

// closeAll closes all at once, so that stuck peers cost drainTime together.
func (h *Hub) closeAll() {
	var closing sync.WaitGroup
	for _, w := range h.wires {
		closing.Go(func() { w.close() })
	}
	closing.Wait()
}

func (h *Hub) handle(e hubEvent) {
	switch {
	case e.err != nil:
		h.drop(e.rank, fmt.Sprintf("connection lost: %v", e.err))
	case e.frame.kind == frameLeave:
		h.drop(e.rank, "")
	case e.frame.kind == frameAbort:
		h.abort(e.rank, string(e.frame.payload))
	case e.frame.kind == frameHello:
		if want := encodeHello(e.rank, len(h.conns)); !bytes.Equal(e.frame.payload, want) {
			h.abort(e.rank, fmt.Sprintf("joined with another rank or size than %d of %d", e.rank, len(h.conns)))
		}
	case e.frame.kind == frameBarrier || e.frame.kind == frameExchange && len(e.frame.payload)%8 == 0:
		h.arrive(e.rank, e.frame)
	default:
		h.abort(e.rank, fmt.Sprintf("sent a frame of kind %q and %d bytes: %v", e.frame.kind, len(e.frame.payload), errMalformed))
	}
}

// drop marks a rank as gone. Without a reason it left of itself, which is an
// error only for those that wait for it now or later.
func (h *Hub) drop(rank int, reason string) {
	if h.finished[rank] {
		return
	}
	h.finished[rank] = true
	h.left++
	if reason != "" {
		h.abort(rank, reason)
	} else if h.waiting > 0 {
		h.abort(rank, leftReason)
	}
}

const leftReason = "left the group while other ranks waited for it"

func (h *Hub) arrive(rank int, f frame) {
	if h.aborted != nil {
		return
	}
	if h.arrived[rank] != nil {
		h.abort(rank, "called again before its last call was answered")
		return
	}
	h.arrived[rank] = &f
	h.waiting++
	for r, gone := range h.finished {
		if gone {
			h.abort(r, leftReason)
			return
		}
	}
	if h.waiting == len(h.conns) {
		h.answer()
	}
}

// answer releases the ranks, all of which have arrived.
func (h *Hub) answer() {
	kind, total := h.arrived[0].kind, 0
	perRank := make([][]byte, len(h.arrived))
	for r, f := range h.arrived {
		if f.kind != kind {
			h.abort(r, fmt.Sprintf("ranks out of step: sent %q where rank 0 sent %q", f.kind, kind))
			return
		}
		perRank[r] = f.payload
		total += 4 + len(f.payload)
	}
	if total > maxPayload {
		h.abort(HubRank, fmt.Sprintf("exchange of %d bytes: at most %d are allowed", total, maxPayload))
		return
	}
	answer := frame{kind: kind}
	if kind == frameExchange {
		answer.payload = encodeGathered(perRank)
	}
	clear(h.arrived)
	h.waiting = 0
	h.tell(answer)
}

func (h *Hub) abort(rank int, reason string) {
	if h.aborted != nil {
		return
	}
	h.aborted = &AbortedError{Rank: rank, Reason: reason}
	h.tell(frame{kind: frameAbort, payload: encodeAbort(h.aborted)})
}

func (h *Hub) tell(f frame) {
	for _, w := range h.wires {
		w.send(f)
	}
}
