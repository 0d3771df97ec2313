package sim

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// hbm is the channels of one PE's share of the memory.
type hbm struct {
	free    []event.Time
	writing []bool // what the channel did last
}

// commit passes the bursts of a range through their channels and says when the
// last is done.
func (g *engine) commit(l topo.Location, bytes int, write bool, at event.Time) event.Time {
	c := &g.Topo.Cube.HBM
	h := g.hbm[g.Topo.Index(l.PEID)]
	if h == nil {
		h = &hbm{free: make([]event.Time, c.Channels), writing: make([]bool, c.Channels)}
		g.hbm[g.Topo.Index(l.PEID)] = h
	}
	last := at
	for off := l.Offset - l.Offset%int64(c.Burst); off < l.Offset+int64(bytes); off += int64(c.Burst) {
		ch := g.Topo.Channel(off)
		start := max(at, h.free[ch])
		if h.writing[ch] != write {
			start += c.SwitchPenalty
			h.writing[ch] = write
		}
		h.free[ch] = start + c.ChannelBW.Time(c.Burst)
		last = max(last, h.free[ch])
	}
	return last
}

// place is where the current load or store of a program goes.
func (g *engine) place(p *pe) topo.Location {
	l, err := g.Topo.Locate(p.prog.Ops[p.pc].Addr)
	if err != nil {
		panic("sim: a recorded address is nowhere: " + err.Error()) // Record has checked it
	}
	return l
}

func atHBM(l topo.Location) topo.End { return topo.End{Kind: topo.AtHBM, PEID: l.PEID} }

// transfer starts a load or store that has its DMA channel, which is held for
// the whole way there and back. A load sends a request, a store its data.
func (g *engine) transfer(p *pe) error {
	op, log := &p.prog.Ops[p.pc], &p.log[p.pc]
	log.started = g.now
	l := g.place(p)
	if op.Kind == tl.Load {
		return g.post(atPE(p.prog.ID), atHBM(l), purpose{forLoad, p.number})
	}
	path, err := g.path(atPE(p.prog.ID), atHBM(l))
	if err != nil {
		return err
	}
	p.stored = g.now
	g.noted(g.fabric.SendEach(g.now, path, op.Bytes(), []event.Time{g.now}), purpose{forStoreData, p.number})
	return nil
}

// piece is what a transfer is cut into, as in the fabric: flits, or bursts where
// messages are whole.
func (g *engine) piece() int {
	if g.Topo.Fabric == topo.Flits {
		return g.Topo.FlitBytes
	}
	return g.Topo.Cube.HBM.Burst
}

// answer is the HBM sending what a load asked for, piece by piece as the channels
// deliver.
func (g *engine) answer(p *pe) error {
	l, bytes := g.place(p), p.prog.Ops[p.pc].Bytes()
	path, err := g.path(atHBM(l), atPE(p.prog.ID))
	if err != nil {
		return err
	}
	var ready []event.Time
	latest := g.now
	for off := 0; off < bytes; off += g.piece() {
		part := l
		part.Offset += int64(off)
		latest = max(latest, g.commit(part, min(g.piece(), bytes-off), false, g.now))
		ready = append(ready, latest)
	}
	g.noted(g.fabric.SendEach(g.now, path, bytes, ready), purpose{forLoadData, p.number})
	return nil
}

// flitThere is one flit of a store at the HBM; flits of loads need nothing.
func (g *engine) flitThere(message int32, flit int) {
	why := g.purposes[message]
	if why.kind != forStoreData {
		return
	}
	p := g.pes[why.a]
	part := g.place(p)
	off := flit * g.Topo.FlitBytes
	part.Offset += int64(off)
	p.stored = max(p.stored, g.commit(part, min(g.Topo.FlitBytes, p.prog.Ops[p.pc].Bytes()-off), true, g.now))
}

// storeArrived is all of a store at the HBM. A whole message has drained burst
// by burst, the last one now.
func (g *engine) storeArrived(p *pe, m *fabric.Message) {
	if g.Topo.Fabric == topo.Whole {
		l, bytes, burst := g.place(p), m.Bytes, g.Topo.Cube.HBM.Burst
		each := m.Path.Slowest().Time(burst)
		for off := 0; off < bytes; off += burst {
			part := l
			part.Offset += int64(off)
			after := tl.Cdiv(bytes-off, burst) - 1
			p.stored = max(p.stored, g.commit(part, min(burst, bytes-off), true, g.now-event.Time(after)*each))
		}
	}
	g.at(max(p.stored, g.now), evStored, p.number, 0)
}

// stored answers a store whose last burst is in the memory.
func (g *engine) stored(p *pe) error {
	return g.post(atHBM(g.place(p)), atPE(p.prog.ID), purpose{forStoreAck, p.number})
}

// transferred ends a load or store and frees its DMA channel.
func (g *engine) transferred(p *pe) {
	if p.prog.Ops[p.pc].Kind == tl.Load {
		p.readFree = g.now
	} else {
		p.writeFree = g.now
	}
	g.finish(p, g.now)
}
