package sim

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Cause is what a time on the critical path went to: a part of a Breakdown.
type Cause uint8

// The causes, in the order in which they are shown.
const (
	Wire Cause = iota
	Overhead
	Queueing
	Slot
	Compute
	Memory
	Causes
)

func (c Cause) String() string {
	return [...]string{"wires", "overheads", "queueing", "slot access", "compute", "load and store"}[c]
}

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

// Step is a piece of the critical path, which has one cause. Steps follow each other without a gap from
// the common start to the end of the slowest PE.
type Step struct {
	PE       topo.PEID  // who does it, or waits for it
	Host     bool       // not the PE, but the host of its SIP
	Sender   *topo.PEID // of what PE waits for, if it is a message
	Op       program.OpKind
	Part     string // the engine or memory at work, or PartLink
	Link     int32  // with PartLink, the slowest on the way
	Cause    Cause
	From, To event.Time
}

// The parts of a PE and of the machine that work on a critical path, besides Engines.
const (
	PartCPU  = "pe_cpu"
	PartSlot = "receive slot"
	PartLink = "link"
)

// breakdown adds up the steps by cause.
func breakdown(path []Step) (b Breakdown) {
	parts := [Causes]*event.Time{&b.Wire, &b.Overhead, &b.Queueing, &b.Slot, &b.Compute, &b.Memory}
	for _, s := range path {
		*parts[s.Cause] += s.To - s.From
	}
	return b
}

// chain is a critical path under construction, from its end backwards.
type chain struct {
	steps []Step
	at    event.Time
}

// step goes back by what something took; what took nothing leaves no step.
func (c *chain) step(cause Cause, took event.Time, s Step) {
	if took == 0 {
		return
	}
	s.Cause, s.From, s.To = cause, c.at-took, c.at
	c.at = s.From
	c.steps = append(c.steps, s)
}

// criticalPath walks back from the end of a PE. It comes to an operation either by its
// result, which somebody waited for, or because the program went on after it; of an
// operation that runs concurrently the latter is only its dispatch.
func (g *engine) criticalPath(p *pe) []Step {
	c := &chain{at: p.ended}
	op := len(p.prog.Ops) - 1
	for op >= 0 && p.log[op].end != c.at {
		op-- // something that ran concurrently ended last
	}
	result := true
	for op >= 0 && c.at > g.target {
		log := &p.log[op]
		kind := p.prog.Ops[op].Kind
		here := Step{PE: p.prog.ID, Host: p.prog.Host, Op: kind, Part: PartCPU, Link: -1}
		if kind == program.Wait {
			if target := &p.log[p.prog.Ops[op].Handle]; target.end > log.begun {
				// What the wait was for decided when it ended.
				op, result = p.prog.Ops[op].Handle, true
				continue
			}
		}
		switch a := log.arrival; {
		case !result && (kind == program.RecvAsync || kind == program.Composite):
			c.step(Overhead, c.at-log.begun, here)
		case a != nil:
			if g.received(c, a, log, here) {
				p, op, result = a.from, a.op, false
				continue
			}
		case log.credit != nil:
			// The receiver gave the slot back late: on with its receive.
			here.Part = PartSlot
			c.step(Queueing, c.at-log.credit.freed, here)
			p, op, result = log.credit.by, log.credit.recv, true
			continue
		case kind == program.Load || kind == program.Store:
			here.Part = OwnLoad.Engine()
			alone := min(g.alone(p, op), c.at-log.started)
			c.step(Memory, alone, here)
			c.step(Queueing, c.at-log.begun, here)
		case kind == program.Math || kind == program.Dot || kind == program.Composite:
			here.Part = OwnDot.Engine()
			if kind == program.Math {
				here.Part = OwnMath.Engine()
			}
			c.step(Compute, c.at-log.started, here)
			c.step(Queueing, c.at-log.begun, here)
		default:
			c.step(Overhead, c.at-log.begun, here)
		}
		here.Part = PartCPU
		c.step(Overhead, c.at-log.issued, here)
		result = false
		op = g.before(p, op)
	}
	slices.Reverse(c.steps)
	return c.steps
}

// received goes back over a receive, from its credit at the sender to where it began; if its message
// came last, on along the message's way to its sender.
func (g *engine) received(c *chain, a *arrival, log *opLog, here Step) (sender bool) {
	slot, way, credit := here, here, here
	slot.Part, way.Part, credit.Part = PartSlot, PartLink, PartLink
	credit.Link = a.queue.back.Bottleneck().Link
	nodes := a.queue.back.Costs() + g.Topo.PE.CPUCost
	c.step(Wire, c.at-a.read-nodes, credit)
	c.step(Overhead, nodes, credit)
	writing, reading := g.slotTimes(a.queue.slots, a.bytes)
	c.step(Slot, reading, slot)
	c.step(Queueing, c.at-a.reading, slot)
	if a.visible <= log.begun {
		c.step(Queueing, c.at-log.begun, slot)
		return false
	}
	c.step(Queueing, c.at-a.visible, slot)
	c.step(Slot, writing, slot)
	c.step(Queueing, c.at-a.landed, slot)
	way.Link = a.queue.path.Bottleneck().Link
	way.Sender = &a.from.prog.ID
	alone := g.fabric.Latency(a.queue.path, a.bytes)
	// Behind a long message's flits the costs of nodes may be hidden.
	costs := min(a.queue.path.Costs(), alone)
	c.step(Wire, alone-costs, way)
	c.step(Overhead, costs, way)
	c.step(Queueing, c.at-a.sent, way)
	return true
}

// alone is what a load or store takes on a machine that does nothing else.
func (g *engine) alone(p *pe, op int) event.Time {
	cfg := g.Config
	cfg.Trace, cfg.Load = false, false
	h, err := newEngine(cfg, g.wiring, []*program.Program{{ID: p.prog.ID, Host: p.prog.Host, Ops: p.prog.Ops[op : op+1]}})
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

// before is the operation before one that cost something; -1 is none.
func (g *engine) before(p *pe, op int) int {
	for op--; op >= 0 && p.prog.Ops[op].Kind.Free(); op-- {
	}
	return op
}
