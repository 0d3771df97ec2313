package sim

import (
	"fmt"

	"github.com/kernbench/kernbench/accel/tl"
	"github.com/kernbench/kernbench/internal/accel/event"
)

// Breakdown says where the time of the slowest PE went, along its critical path:
// from its end back through whatever it waited for last, to the common start.
// The parts add up to the whole.
type Breakdown struct {
	Wire     event.Time // on links: propagation, draining, store-and-forward
	Overhead event.Time // of nodes, PE_CPUs and schedulers
	Queueing event.Time // behind others, at links, memories, slots and engines, or until a sender polls
	Slot     event.Time // writing and reading receive slots
	Compute  event.Time // MATH, GEMM, composites
	Memory   event.Time // loads and stores, as long as they take when nobody else is there
}

// Total is the sum of the parts.
func (b Breakdown) Total() event.Time {
	return b.Wire + b.Overhead + b.Queueing + b.Slot + b.Compute + b.Memory
}

// breakdown walks the critical path backwards. It comes to an operation either by its
// result, which somebody waited for, or because the program went on after it; of an
// operation that runs concurrently the latter is only its dispatch.
func (g *engine) breakdown(p *pe) Breakdown {
	var b Breakdown
	until := p.ended
	op := len(p.prog.Ops) - 1
	for op >= 0 && p.log[op].end != until {
		op-- // something that ran concurrently ended last
	}
	result := true
	for op >= 0 && until > g.target {
		log := &p.log[op]
		kind := p.prog.Ops[op].Kind
		if kind == tl.Wait {
			if target := &p.log[p.prog.Ops[op].Handle]; target.end > log.begun {
				// What the wait was for decided when it ended.
				op, result = p.prog.Ops[op].Handle, true
				continue
			}
		}
		switch a := log.arrival; {
		case !result && (kind == tl.RecvAsync || kind == tl.Composite):
			b.Overhead += until - log.begun
		case a != nil:
			credit := a.queue.back.Costs() + g.Topo.PE.CPUCost
			b.Overhead += credit
			b.Wire += until - a.read - credit
			writing, reading := g.slotTimes(a.queue.slots, a.bytes)
			b.Slot += reading
			b.Queueing += a.read - a.reading - reading
			if a.visible > log.begun {
				// The message came last: on along its way, to its sender.
				b.Queueing += a.reading - a.visible
				b.Slot += writing
				b.Queueing += a.visible - a.landed - writing
				g.journey(&b, a)
				p, op, until, result = a.from, a.op, a.sent, false
				continue
			}
			b.Queueing += a.reading - log.begun
		case log.credit != nil:
			// The receiver gave the slot back late: on with its receive.
			c := log.credit
			b.Queueing += until - c.freed
			p, op, until, result = c.by, c.recv, c.freed, true
			continue
		case kind == tl.Load || kind == tl.Store:
			alone := min(g.alone(p, op), until-log.started)
			b.Memory += alone
			b.Queueing += until - log.begun - alone
		case kind == tl.Math || kind == tl.Dot || kind == tl.Composite:
			b.Compute += until - log.started
			b.Queueing += log.started - log.begun
		default:
			b.Overhead += until - log.begun
		}
		b.Overhead += log.begun - log.issued
		until, result = log.issued, false
		op = g.before(p, op)
	}
	return b
}

// alone is what a load or store takes on a machine that does nothing else.
func (g *engine) alone(p *pe, op int) event.Time {
	cfg := g.Config
	cfg.Trace = false
	h, err := newEngine(cfg, g.wiring, []*tl.Program{{ID: p.prog.ID, Ops: p.prog.Ops[op : op+1]}})
	if err == nil {
		h.paths = g.paths
		err = h.run()
	}
	if err != nil {
		panic(fmt.Sprintf("sim: what has run does not run alone: %v", err))
	}
	log := &h.pes[0].log[0]
	return log.end - log.started
}

// journey splits the time of a message in the fabric.
func (g *engine) journey(b *Breakdown, a *arrival) {
	alone := g.fabric.Latency(a.queue.path, a.bytes)
	// Behind a long message's flits the costs of nodes may be hidden.
	costs := min(a.queue.path.Costs(), alone)
	b.Overhead += costs
	b.Wire += alone - costs
	b.Queueing += a.landed - a.sent - alone
}

// before is the operation before one that cost something; -1 is none.
func (g *engine) before(p *pe, op int) int {
	for op--; op >= 0 && p.prog.Ops[op].Kind.Free(); op-- {
	}
	return op
}
