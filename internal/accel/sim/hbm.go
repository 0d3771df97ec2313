package sim

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// hbm is the channels of one PE's share of the memory.
type hbm struct {
	free    []event.Time
	writing []bool     // what the channel did last
	served  event.Time // whole messages: the controller serves one transfer at a time
}

// controller is that of the memory of a place.
func (g *engine) controller(l topo.Location) *hbm {
	index := g.Topo.Index(l.PEID)
	h := g.hbm[index]
	if h == nil {
		h = &hbm{free: make([]event.Time, g.Topo.Cube.HBM.Channels), writing: make([]bool, g.Topo.Cube.HBM.Channels)}
		g.hbm[index] = h
	}
	return h
}

// commit passes the bursts of a range through their channels and says when the
// last is done.
func (g *engine) commit(l topo.Location, bytes int, write bool, at event.Time) event.Time {
	c := &g.Topo.Cube.HBM
	h := g.controller(l)
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

// move is commit of a piece of a transfer, n bytes from off on or what is left.
func (g *engine) move(t *transfer, off, n int, write bool, at event.Time) event.Time {
	part := t.at
	part.Offset, n = g.Topo.Cube.HBM.Piece(t.at.Offset, t.bytes, off, min(n, t.bytes-off), write)
	return g.commit(part, n, write, at)
}

func atHBM(l topo.Location) topo.End { return topo.End{Kind: topo.AtHBM, PEID: l.PEID} }

// transfer starts what has its DMA channel now. A read sends a request, a write
// its data.
func (g *engine) transfer(p *pe, write bool) error {
	c := &p.reading
	if write {
		c = &p.writing
	}
	t := c.current()
	t.start, t.stored = g.now, g.now
	if !t.isTile {
		p.log[p.pc].started = g.now
	}
	if !write {
		return g.post(p.at, atHBM(t.at), purpose{forLoad, p.number})
	}
	path, err := g.path(p.at, atHBM(t.at))
	if err != nil {
		return err
	}
	g.track(g.fabric.SendEach(g.now, path, t.bytes, []event.Time{g.now}), purpose{forStoreData, p.number})
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

// answer is the HBM sending what a read asked for, piece by piece as the channels
// deliver. With whole messages it has sent what came before.
func (g *engine) answer(p *pe) error {
	t := p.reading.current()
	from := g.now
	h := g.controller(t.at)
	if g.Topo.Fabric == topo.Whole {
		from = max(from, h.served)
	}
	path, err := g.path(atHBM(t.at), p.at)
	if err != nil {
		return err
	}
	g.ready = g.ready[:0]
	latest := from
	for off := 0; off < t.bytes; off += g.piece() {
		latest = max(latest, g.move(t, off, g.piece(), false, from))
		g.ready = append(g.ready, latest)
	}
	h.served = max(latest, g.ready[0]+g.Topo.Cube.HBM.BW.Time(t.bytes))
	g.track(g.fabric.SendEach(g.now, path, t.bytes, g.ready), purpose{forLoadData, p.number})
	return nil
}

// flitThere is one flit of a write at the HBM; flits of reads need nothing.
func (g *engine) flitThere(message int32, flit int) {
	why := g.purposes[message]
	if why.kind != forStoreData {
		return
	}
	t := g.pes[why.a].writing.current()
	t.stored = max(t.stored, g.move(t, flit*g.Topo.FlitBytes, g.Topo.FlitBytes, true, g.now))
}

// storeArrived is all of a write at the HBM. A whole message has drained burst
// by burst, the last one now.
func (g *engine) storeArrived(p *pe, m *fabric.Message) {
	t := p.writing.current()
	if g.Topo.Fabric == topo.Whole {
		bytes, burst := m.Bytes, g.Topo.Cube.HBM.Burst
		each := m.Path.Bottleneck().BW.Time(burst)
		h := g.controller(t.at)
		for off := 0; off < bytes; off += burst {
			after := program.Cdiv(bytes-off, burst) - 1
			from := max(g.now-event.Time(after)*each, h.served)
			t.stored = max(t.stored, g.move(t, off, burst, true, from))
		}
		h.served = t.stored
	}
	g.at(max(t.stored, g.now), evStored, p.number, 0)
}

// stored answers a write whose last burst is in the memory.
func (g *engine) stored(p *pe) error {
	return g.post(atHBM(p.writing.current().at), p.at, purpose{forStoreAck, p.number})
}

// loaded ends a read, for the program or for a tile.
func (g *engine) loaded(p *pe) error {
	t := g.release(p, &p.reading)
	if t.isTile {
		p.used(DMARead, t.start, g.now)
		return g.tileRead(t.composite)
	}
	p.used(OwnLoad, t.start, g.now)
	g.finish(p, g.now)
	return nil
}

// written ends a write, of the program or of a tile.
func (g *engine) written(p *pe) error {
	t := g.release(p, &p.writing)
	if t.isTile {
		p.used(DMAWrite, t.start, g.now)
		return g.tileWritten(t.composite, t.bytes)
	}
	p.used(OwnStore, t.start, g.now)
	g.finish(p, g.now)
	return nil
}
