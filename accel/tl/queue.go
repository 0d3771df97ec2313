package tl

import (
	"strings"

	"github.com/kernbench/kernbench/internal/accel/topo"
)

// port is the queue to (or from) the neighbour in a direction.
func (p *PE) port(what string, d Dir, sending bool) Port {
	if d < 0 || d >= Dirs {
		p.fail("%s: %d is not a direction", what, int(d))
		return Port{}
	}
	t := p.env.Topo
	peer, ok := Neighbor(t, p.env.ID, d)
	if !ok {
		var there []string
		for o := range Dirs {
			if _, ok := Neighbor(t, p.env.ID, o); ok {
				there = append(there, o.String())
			}
		}
		p.fail("%s %v: no neighbour there; the directions of %v are %s", what, d, p.env.ID, strings.Join(there, " "))
		return Port{}
	}
	me, other := int32(t.Index(p.env.ID)), int32(t.Index(peer))
	if sending {
		return Port{From: me, To: other, Input: int32(d.Opposite())}
	}
	return Port{From: other, To: me, Input: int32(d)}
}

func (p *PE) direct(what string, peer PEID, sending bool) Port {
	t := p.env.Topo
	if _, err := t.Address(topo.Location{PEID: peer, Space: topo.HBMSpace}); err != nil || peer == p.env.ID {
		p.fail("%s %v: want another PE of the system", what, peer)
		return Port{}
	}
	me, other := int32(t.Index(p.env.ID)), int32(t.Index(peer))
	if sending {
		return Port{From: me, To: other, Input: Direct(int(me))}
	}
	return Port{From: other, To: me, Input: Direct(int(other))}
}

// fits checks a message against the slots it goes through.
func (p *PE) fits(what string, n int) {
	if bytes := n * ElemSize; bytes > p.env.SlotBytes {
		p.fail("%s: a tile of %d bytes does not fit into a slot of %d bytes: raise slot_size", what, bytes, p.env.SlotBytes)
	}
}

// Send sends a tile to the neighbour in a direction and continues at once, unless
// all slots there are taken.
func (p *PE) Send(d Dir, t Tile) {
	p.fits("send", t.n)
	p.emit(Op{Kind: Send, A: p.take("send", t), N: t.n, Port: p.port("send", d, true)})
}

// SendTo is Send to any PE of the system.
func (p *PE) SendTo(peer PEID, t Tile) {
	p.fits("send", t.n)
	p.emit(Op{Kind: Send, A: p.take("send", t), N: t.n, Port: p.direct("send to", peer, true)})
}

// Recv waits for a tile of n elements from a direction.
func (p *PE) Recv(d Dir, n int) Tile {
	return p.receive(Op{Kind: Recv, N: n, Port: p.port("recv", d, false)}).tile
}

// RecvFrom is Recv from any PE of the system.
func (p *PE) RecvFrom(peer PEID, n int) Tile {
	return p.receive(Op{Kind: Recv, N: n, Port: p.direct("recv from", peer, false)}).tile
}

// RecvAny waits for a tile from whichever neighbour has sent one; where several
// have, round-robin.
func (p *PE) RecvAny(n int) Tile {
	return p.receive(Op{Kind: Recv, N: n, Any: true, Port: Port{To: int32(p.env.Topo.Index(p.env.ID))}}).tile
}

// RecvAsync starts a Recv; Wait gives its tile.
func (p *PE) RecvAsync(d Dir, n int) Handle {
	return p.receive(Op{Kind: RecvAsync, N: n, Port: p.port("recv", d, false)})
}

// receive records a receive. Its tile stays in the slot's copy, which is not
// TCM of the kernel's.
func (p *PE) receive(op Op) Handle {
	p.fits("recv", op.N)
	t := p.tile(op.N, false)
	op.Out = int32(t.value)
	p.emit(op)
	return Handle{len(p.prog.Ops) - 1, t}
}
