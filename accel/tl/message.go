package tl

import (
	"strings"

	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Dir is a direction in which a PE has a neighbour.
type Dir = program.Dir

// The directions: to another PE of the cube (Intra), to the same PE of the next cube, and to the same
// PE of the next SIP (Global).
const (
	IntraN  = program.IntraN
	IntraS  = program.IntraS
	IntraE  = program.IntraE
	IntraW  = program.IntraW
	N       = program.N
	S       = program.S
	E       = program.E
	W       = program.W
	GlobalN = program.GlobalN
	GlobalS = program.GlobalS
	GlobalE = program.GlobalE
	GlobalW = program.GlobalW
)

// neighborPort returns the queue to the neighbour in a direction if sending is set, otherwise the queue from it.
func (p *PE) neighborPort(what string, d Dir, sending bool) program.Port {
	if d < 0 || d >= program.Dirs {
		p.fail("%s: %d is not a direction", what, int(d))
		return program.Port{}
	}
	t := p.env.Topo
	peer, ok := program.Neighbor(t, p.env.ID, d)
	if !ok {
		var valid []string
		for o := range program.Dirs {
			if _, ok := program.Neighbor(t, p.env.ID, o); ok {
				valid = append(valid, o.String())
			}
		}
		p.fail("%s %v: no neighbour there; the directions of %v are %s", what, d, p.env.ID, strings.Join(valid, " "))
		return program.Port{}
	}
	me, other := int32(t.Index(p.env.ID)), int32(t.Index(peer))
	if sending {
		return program.Port{From: me, To: other, Input: int32(d.Opposite())}
	}
	return program.Port{From: other, To: me, Input: int32(d)}
}

// directPort returns the queue to any other PE if sending is set, otherwise the queue from it.
func (p *PE) directPort(what string, peer topo.PEID, sending bool) program.Port {
	t := p.env.Topo
	if _, err := t.Address(topo.Location{PEID: peer, Space: topo.HBMSpace}); err != nil || peer == p.env.ID {
		p.fail("%s %v: want another PE of the system", what, peer)
		return program.Port{}
	}
	me, other := t.Index(p.env.ID), t.Index(peer)
	if !sending {
		me, other = other, me
	}
	return program.Port{From: int32(me), To: int32(other), Input: program.Direct(me)}
}

// checkSlot checks that a message fits into a receive slot.
func (p *PE) checkSlot(what string, f program.Form) {
	if bytes := f.Bytes(); bytes > p.env.SlotBytes {
		p.fail("%s: a tile of %d bytes does not fit into a slot of %d bytes: raise slot_size", what, bytes, p.env.SlotBytes)
	}
}

func (p *PE) send(t Tile, port program.Port) {
	p.checkSlot("send", t.form)
	p.emit(program.Op{Kind: program.Send, Type: t.form.Type, A: p.use("send", t), N: t.Len(), Port: port})
}

// Send sends a tile to the neighbour in a direction. The message contains the current elements of the tile, so the
// kernel may change the tile afterwards. The kernel continues at once. Only if all receive slots of the neighbour are
// in use, it waits until one is free.
func (p *PE) Send(d Dir, t Tile) { p.send(t, p.neighborPort("send", d, true)) }

// SendTo is like Send, to any other PE of the system.
func (p *PE) SendTo(peer topo.PEID, t Tile) { p.send(t, p.directPort("send to", peer, true)) }

// Recv waits for a tile of n elements, in one row, from the neighbour in a direction. They are f16 unless another type
// is given. It must be the type that was sent.
func (p *PE) Recv(d Dir, n int, of ...DType) Tile {
	return p.receive(row(n, of), program.Op{Kind: program.Recv, Port: p.neighborPort("recv", d, false)}).tile
}

// RecvFrom is like Recv, from any other PE of the system.
func (p *PE) RecvFrom(peer topo.PEID, n int, of ...DType) Tile {
	return p.receive(row(n, of), program.Op{Kind: program.Recv, Port: p.directPort("recv from", peer, false)}).tile
}

// RecvAny waits for a tile of n elements from any neighbour. If several have sent one, neighbours are
// served round-robin. If the order of arrival decides which message it takes, Result.Unchecked says so.
func (p *PE) RecvAny(n int, of ...DType) Tile {
	me := program.Port{To: int32(p.env.Topo.Index(p.env.ID))}
	return p.receive(row(n, of), program.Op{Kind: program.Recv, Any: true, Port: me}).tile
}

// RecvAsync starts a Recv. Wait returns its tile.
func (p *PE) RecvAsync(d Dir, n int, of ...DType) Handle {
	return p.receive(row(n, of), program.Op{Kind: program.RecvAsync, Port: p.neighborPort("recv", d, false)})
}

// receive records a receive. The tile takes no TCM from the kernel's tiles.
func (p *PE) receive(f program.Form, op program.Op) Handle {
	p.checkSlot("recv", f)
	t := p.tile(f, false)
	op.Out, op.N, op.Type = int32(t.value), f.Len(), f.Type
	p.emit(op)
	if op.Kind == program.RecvAsync {
		return p.startAsync(t)
	}
	return Handle{tile: t}
}
