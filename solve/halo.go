package solve

import (
	"fmt"
	"runtime"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

const (
	// pieceValues is the most values of one message. Long halos go in pieces, so
	// that neither side has to hold more than a few at a time.
	pieceValues = 4096
	// window is how many pieces are in flight before the first answer. A piece
	// from a peer shows that it has received this rank's piece a window before,
	// so never more than two windows are between two ranks: backends that buffer
	// that much (128 KiB) never make a sender wait.
	window = 2
)

// halo exchanges the ghosts of a vector with all peers: every message is
// started before any is waited for. It implements krylov.Halo.
type halo struct {
	plan  *sparse.Plan
	links []link
	most  int // pieces of the longest message that comes in

	sending bool
}

// link is what goes between this rank and one peer.
type link struct {
	peer     *sparse.Peer
	out      []float64
	in       []float64
	sends    []*dist.Op
	recvs    []*dist.Op
	starting int // next piece to send
	handles  []*dist.Handle
}

func newHalo(g *dist.Group, plan *sparse.Plan) (h *halo, err error) {
	h = &halo{plan: plan, links: make([]link, len(plan.Peers))}
	for i := range h.links {
		l := &h.links[i]
		l.peer = &plan.Peers[i]
		l.out, l.in = make([]float64, l.peer.SendCount()), make([]float64, l.peer.Recv.Len())
		if l.sends, err = pieces(g, dist.Send, l.out, l.peer.Rank); err != nil {
			return h, err
		}
		if l.recvs, err = pieces(g, dist.Recv, l.in, l.peer.Rank); err != nil {
			return h, err
		}
		l.handles = make([]*dist.Handle, len(l.sends))
		h.most = max(h.most, len(l.recvs))
	}
	return h, nil
}

// pieces prepares the messages of a buffer.
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

// messages is how many messages this rank sends for one product.
func (h *halo) messages() int {
	n := 0
	for i := range h.links {
		n += len(h.links[i].sends)
	}
	return n
}

// Start packs and sends.
func (h *halo) Start(v []float64) error {
	for i := range h.links {
		l := &h.links[i]
		h.plan.Pack(l.out, v, l.peer)
		l.starting = 0
		l.send(window)
	}
	h.sending = true
	return nil
}

// send starts the next n pieces, and yields so that they leave before this rank
// turns to its interior, or waits for a piece, where it has a single thread.
func (l *link) send(n int) {
	before := l.starting
	for ; n > 0 && l.starting < len(l.sends); n-- {
		l.handles[l.starting] = l.sends[l.starting].Start()
		l.starting++
	}
	if l.starting > before {
		runtime.Gosched()
	}
}

// Finish receives the ghosts and waits until what was sent may be overwritten.
func (h *halo) Finish(v []float64) error {
	if !h.sending {
		return nil
	}
	h.sending = false
	for k := range h.most {
		for i := range h.links {
			l := &h.links[i]
			if k >= len(l.recvs) {
				continue
			}
			if err := l.recvs[k].Run(); err != nil {
				return fmt.Errorf("receiving ghosts from rank %d: %w", l.peer.Rank, err)
			}
			l.send(1)
		}
	}
	for i := range h.links {
		l := &h.links[i]
		copy(v[l.peer.Recv.Lo:l.peer.Recv.Hi], l.in)
		l.send(len(l.sends)) // to a peer that sends less than it receives
		for _, handle := range l.handles {
			if err := handle.Wait(); err != nil {
				return fmt.Errorf("sending ghosts to rank %d: %w", l.peer.Rank, err)
			}
		}
	}
	return nil
}
