package sim

import (
	"slices"

	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// All SIPs of a ring or torus have the same neighbours, links and costs. If they also run the same programs, the same
// events happen in all of them at the same times, and it is enough to simulate SIP 0. A message that SIP 0 sends to its
// eastern neighbour then arrives in SIP 0 itself, in place of the equal message from its western neighbour. The cost of
// simulating a symmetric launch therefore does not depend on the number of SIPs.

// symmetric reports whether SIP 0 can stand for all SIPs: each SIP runs the programs of SIP 0 with all addresses and
// peers shifted. Programs that access the memory of other SIPs, receive from any neighbour or use composites are
// simulated in full.
func symmetric(cfg Config, w *topo.Wiring, programs []*program.Program) bool {
	sips := cfg.Topo.SIPs
	n := len(programs) / sips.Count
	if sips.Count < 2 || !sips.Symmetric() || n == 0 || n*sips.Count != len(programs) ||
		cfg.Trace || recordsLoad(cfg, w) || !topo.QueueingOf(cfg.Topo).Plain() {
		return false
	}
	for sip := range sips.Count {
		for i, first := range programs[:n] {
			if !shifted(cfg.Topo, first, programs[sip*n+i], sip) {
				return false
			}
		}
	}
	return true
}

// shifted reports whether program b of the given SIP equals program a of SIP 0, with all PEs and addresses shifted to
// that SIP.
func shifted(t *topo.Topology, a, b *program.Program, sip int) bool {
	id := a.ID
	id.SIP = sip
	if a.Host || b.Host || a.ID.SIP != 0 || b.ID != id || a.TCM != b.TCM || len(a.Ops) != len(b.Ops) {
		return false
	}
	shift := func(index int32) int32 {
		at := t.At(int(index))
		at.SIP = t.SIPs.Shift(at.SIP, 0, sip)
		return int32(t.Index(at))
	}
	for i := range a.Ops {
		o, p := &a.Ops[i], &b.Ops[i]
		if o.Kind != p.Kind || o.N != p.N || o.Type != p.Type || o.Fn != p.Fn || o.Handle != p.Handle {
			return false
		}
		switch o.Kind {
		case program.Load, program.Store:
			from, err := t.Locate(o.Addr)
			to, failed := t.Locate(p.Addr)
			if err != nil || failed != nil || from.SIP != 0 || to.SIP != sip {
				return false
			}
			if from.SIP = sip; from != to {
				return false
			}
		case program.Send, program.Recv, program.RecvAsync:
			// The Input of a queue from a PE that is not a neighbour is the number of that PE. It is not shifted, so
			// such programs are simulated in full.
			if o.Any || o.Port.Input >= int32(program.Dirs) ||
				p.Port != (program.Port{From: shift(o.Port.From), To: shift(o.Port.To), Input: o.Port.Input}) {
				return false
			}
		case program.Math:
			if o.Work() != p.Work() {
				return false
			}
		case program.Dot:
			if g, h := o.Gemm, p.Gemm; g.M != h.M || g.K != h.K || g.N != h.N || g.Type != h.Type {
				return false
			}
		case program.Composite:
			return false
		}
	}
	return true
}

// runOneSIP simulates SIP 0 of a symmetric launch and returns the result for all SIPs. It returns nil if the result is
// not exact (fabric.Tied) or if the launch fails. The full simulation then gives the exact result or the exact error.
func runOneSIP(cfg Config, w *topo.Wiring, programs []*program.Program) *Result {
	sips := cfg.Topo.SIPs.Count
	n := len(programs) / sips
	g, err := newEngine(cfg, w, programs[:n], true)
	if err != nil || g.run() != nil || g.fabric.Tied() {
		return nil
	}
	r := g.result()
	r.Late *= sips
	r.Hops *= int64(sips)
	r.Messages *= sips
	r.Exec = slices.Repeat(r.Exec, sips)
	r.Usage = slices.Repeat(r.Usage, sips)
	r.Order.copies, r.Order.programs = sips, programs
	return r
}

// local returns the port with both PEs shifted into SIP 0, if SIP 0 stands for all SIPs.
func (g *engine) local(port program.Port) program.Port {
	if g.oneSIP {
		pes := int32(g.Topo.Cubes.Count() * g.Topo.PEs())
		port.From %= pes
		port.To %= pes
	}
	return port
}

// sender returns the PE that sent a message to the PE to. receiver returns the PE that received one from the PE from.
func (g *engine) sender(a *arrival, to topo.PEID) topo.PEID {
	return g.peer(a.sender, to.SIP, a.queue.ends[1], a.queue.ends[0])
}

func (g *engine) receiver(a *arrival, from topo.PEID) topo.PEID {
	return g.peer(a.receiver, from.SIP, a.queue.ends[0], a.queue.ends[1])
}

// peer returns the PE of a program in the SIP that lies from sip as to lies from origin.
func (g *engine) peer(p *pe, sip, origin, to int) topo.PEID {
	id := p.prog.ID
	if g.oneSIP {
		id.SIP = g.Topo.SIPs.Shift(sip, origin, to)
	}
	return id
}

// slowestLink returns the link with the lowest bandwidth between two PEs.
func (g *engine) slowestLink(from, to topo.PEID) int32 {
	path, err := g.wiring.Path(atPE(from), atPE(to))
	if err != nil {
		panic("sim: " + err.Error()) // a message went over it
	}
	return path.Bottleneck().Link
}
