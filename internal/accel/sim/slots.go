package sim

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// ports are a memory's: one read and one write at a time.
type ports struct{ readFree, writeFree event.Time }

// take uses a port from the time it is free.
func (p *ports) take(write bool, at, took event.Time) event.Time {
	free := &p.readFree
	if write {
		free = &p.writeFree
	}
	*free = max(at, *free) + took
	return *free
}

// slotMemory is where the receive slots of one PE lie. The TCM is the PE's own. What goes
// to the cube's SRAM or to the HBM goes over the fabric and through that memory's ports or
// channels, like every other access.
type slotMemory struct {
	tier     topo.Tier
	to, from topo.Path // between the PE and the memory; none for TCM
	ports    *ports
	hbm      *hbm
}

// took is what the memory itself takes.
func (s *slotMemory) took(bytes int) event.Time { return s.tier.Cost + s.tier.BW.Time(bytes) }

// slotMemory finds the memory of a PE's slots.
func (g *engine) slotMemory(index int) (*slotMemory, error) {
	s := &slotMemory{tier: g.Topo.PE.Tiers[g.Buffer]}
	id := g.Topo.At(index)
	end := topo.End{PEID: id}
	switch g.Buffer {
	case topo.TCMSpace:
		s.ports = g.tcm(index)
		return s, nil
	case topo.SRAMSpace:
		end.Kind = topo.AtSRAM
		s.ports = g.portsOf(g.sram, g.memory(index))
	case topo.HBMSpace:
		end.Kind = topo.AtHBM
		s.hbm = g.controller(topo.Location{PEID: id})
	}
	var err error
	if s.to, err = g.path(atPE(id), end); err == nil {
		s.from, err = g.path(end, atPE(id))
	}
	return s, err
}

// tcm is the ports of a PE's TCM, for slots and for the operands and results of composites.
func (g *engine) tcm(index int) *ports { return g.portsOf(g.tcms, index) }

func (g *engine) portsOf(all map[int]*ports, memory int) *ports {
	if all[memory] == nil {
		all[memory] = &ports{}
	}
	return all[memory]
}

// access reads or writes a slot and says when that is done.
func (g *engine) access(s *slotMemory, bytes int, write bool) event.Time {
	if s.hbm == nil {
		return s.ports.take(write, g.now, s.took(bytes))
	}
	return g.stripe(s.hbm, s.took(bytes), write)
}

// stripe uses all channels of an HBM together: slots are spread over them, unlike the bursts
// of other accesses, since an access of one burst is published as fast as all of them.
func (g *engine) stripe(h *hbm, took event.Time, write bool) event.Time {
	start := g.now
	if g.Topo.Fabric == topo.Whole {
		start = max(start, h.served)
	}
	for ch := range h.free {
		from := h.free[ch]
		if h.writing[ch] != write {
			h.writing[ch] = write
			from = max(from, g.now) + g.Topo.Cube.HBM.SwitchPenalty
		}
		start = max(start, from)
	}
	for ch := range h.free {
		h.free[ch] = start + took
	}
	h.served = start + took
	return h.served
}

// slotTimes is what writing and reading a slot take when nobody else is there.
func (g *engine) slotTimes(s *slotMemory, bytes int) (write, read event.Time) {
	write, read = s.took(bytes), s.took(bytes)
	if s.to != nil {
		write += g.fabric.Latency(s.to, bytes)
		read += g.fabric.Latency(s.from, bytes)
	}
	return write, read
}
