package system

import (
	"fmt"
	"runtime"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

const (
	// pieceValues is the largest number of values in one message. Long halos are sent in pieces, so that neither side
	// has to buffer more than a few of them.
	pieceValues = 4096
	// window is the number of pieces that a rank sends before it waits for the first piece of its peer. A piece from the
	// peer shows that it has received this rank's piece from one window before. So at most two windows, 128 KiB, are
	// in flight between two ranks, and backends that buffer that much never block a sender.
	window = 2
)

// halo exchanges the ghosts of a vector, or of a block vector with a limited number of columns, with all peers. It
// starts all messages before it waits for any. It implements krylov.Halo.
type halo struct {
	plan  *sparse.Plan
	links []link
	meter *meter

	started bool // Start was called and Finish was not
}

// link holds the messages between this rank and one peer.
type link struct {
	peer  *sparse.Peer
	out   []float64
	in    []float64
	sends []*dist.Op // one for each piece of out
	recvs []*dist.Op // one for each piece of in
	next  int        // next piece to send
	last  int        // number of pieces to send; less than len(sends) for a block vector with fewer columns than prepared
}

// newHalo prepares the messages of a plan whose peers have been told what this rank needs, for block vectors of up to
// width columns.
func (t team) newHalo(plan *sparse.Plan, width int) (h *halo, err error) {
	h = &halo{plan: plan, links: make([]link, len(plan.Peers)), meter: t.meter}
	for i := range h.links {
		l := &h.links[i]
		l.peer = &plan.Peers[i]
		l.out, l.in = make([]float64, width*l.peer.SendCount()), make([]float64, width*l.peer.Recv.Len())
		if l.sends, err = pieces(t.Group, dist.Send, l.out, l.peer.Rank); err != nil {
			return h, err
		}
		if l.recvs, err = pieces(t.Group, dist.Recv, l.in, l.peer.Rank); err != nil {
			return h, err
		}
	}
	return h, nil
}

// pieces prepares one message for each piece of a buffer.
func pieces(g *dist.Group, op dist.Collective, buf []float64, peer int) ([]*dist.Op, error) {
	var out []*dist.Op
	for lo := 0; lo < len(buf); lo += pieceValues {
		part := dist.Of(buf[lo:min(lo+pieceValues, len(buf))])
		c := dist.Call{Op: op, Peer: peer}
		if op == dist.Send {
			c.In = part
		} else {
			c.Out = part
		}
		o, err := g.Prepare(c)
		if err != nil {
			return nil, fmt.Errorf("preparing the halo exchange with rank %d: %w", peer, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// messages returns the number of messages that this rank sends for one product.
func (h *halo) messages() int {
	n := 0
	for i := range h.links {
		n += len(h.links[i].sends)
	}
	return n
}

// Start packs the values that peers need and sends the first pieces.
func (h *halo) Start(v []float64, width int) error {
	h.started = true
	if len(h.links) == 0 {
		return nil
	}
	defer h.meter.add(&h.meter.pack, h.meter.clock.Now())
	for i := range h.links {
		l := &h.links[i]
		h.plan.Pack(l.out, v, width, l.peer)
		l.next, l.last = 0, piecesOf(width*l.peer.SendCount())
		if err := l.send(window); err != nil {
			return err
		}
	}
	return nil
}

// send starts to send the next n pieces. It then yields the processor: with GOMAXPROCS=1 the goroutine that sends must
// run before this rank computes or waits.
func (l *link) send(n int) error {
	before := l.next
	for ; n > 0 && l.next < l.last; n-- {
		if err := l.sends[l.next].Start(); err != nil {
			return fmt.Errorf("sending ghosts to rank %d: %w", l.peer.Rank, err)
		}
		l.next++
	}
	if l.next > before {
		runtime.Gosched()
	}
	return nil
}

// piecesOf returns the number of messages that carry n values.
func piecesOf(n int) int { return (n + pieceValues - 1) / pieceValues }

// Finish receives the ghosts and waits until the send buffers may be overwritten.
func (h *halo) Finish(v []float64, width int) error {
	if !h.started {
		return nil
	}
	h.started = false
	if len(h.links) == 0 {
		return nil
	}
	defer h.meter.add(&h.meter.wait, h.meter.clock.Now())
	for k, more := 0, true; more; k++ {
		more = false
		for i := range h.links {
			l := &h.links[i]
			if k >= piecesOf(width*l.peer.Recv.Len()) {
				continue
			}
			more = true
			if err := l.recvs[k].Run(); err != nil {
				return fmt.Errorf("receiving ghosts from rank %d: %w", l.peer.Rank, err)
			}
			if err := l.send(1); err != nil {
				return err
			}
		}
	}
	for i := range h.links {
		l := &h.links[i]
		copy(v[width*l.peer.Recv.Lo:width*l.peer.Recv.Hi], l.in)
		if err := l.send(l.last); err != nil { // the rest, if the peer sends fewer pieces than it receives
			return err
		}
		for _, send := range l.sends[:l.last] {
			if err := send.Wait(); err != nil {
				return fmt.Errorf("sending ghosts to rank %d: %w", l.peer.Rank, err)
			}
		}
	}
	return nil
}
