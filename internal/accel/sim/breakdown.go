package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Cause is the reason for a time on the critical path. Each cause is a part of a Breakdown.
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

// Breakdown splits the time of the slowest PE by cause. It follows the critical path backwards from the
// PE's end to the common start: at each point to the last dependency to arrive. The parts add up to the
// whole time.
type Breakdown struct {
	Wire     event.Time // on links: propagation, draining, store-and-forward
	Overhead event.Time // of nodes, PE_CPUs and schedulers
	Queueing event.Time // waiting at links, memories, slots and engines, and for the next poll of a sender
	Slot     event.Time // writing and reading receive slots
	Compute  event.Time // MATH, GEMM, composites
	Memory   event.Time // loads and stores, as long as they take without contention
}

// Total returns the sum of the parts.
func (b Breakdown) Total() event.Time {
	return b.Wire + b.Overhead + b.Queueing + b.Slot + b.Compute + b.Memory
}

// String returns the parts that are not zero, such as "overheads 13 ns, load and store 64 ns".
func (b Breakdown) String() string {
	var parts []string
	for i, part := range b.Parts() {
		if part != 0 {
			parts = append(parts, fmt.Sprintf("%v %v", Cause(i), part))
		}
	}
	return strings.Join(parts, ", ")
}

// Parts returns the parts in the order of the causes.
func (b Breakdown) Parts() [Causes]event.Time {
	return [Causes]event.Time{b.Wire, b.Overhead, b.Queueing, b.Slot, b.Compute, b.Memory}
}

// String returns the time, the slowest PE and the breakdown, with units, and what could not be checked.
func (r *Result) String() string {
	text := r.Crit.String()
	if n := len(r.Path); n > 0 {
		text = fmt.Sprintf("%v on %v: %v", r.Crit, r.Path[n-1].PE, r.Breakdown)
	}
	if r.Unchecked != "" {
		text += "; " + r.Unchecked
	}
	return text
}

// Step is a piece of the critical path with a single cause. Steps follow each other without gaps from the
// common start to the end of the slowest PE.
type Step struct {
	PE       topo.PEID  // the PE that works or waits
	Host     bool       // it is the host of the PE's SIP instead
	Sender   *topo.PEID // of the message that PE waits for, if any
	Op       program.OpKind
	Part     string // the engine or memory at work, or PartLink
	Link     int32  // PartLink: the slowest link of the path
	Cause    Cause
	From, To event.Time
}

// Values of Step.Part besides the names in Engines.
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
	time  event.Time
}

// step adds a step that ends at the current time, and moves the current time back to its start. It adds no step if took
// is 0.
func (c *chain) step(cause Cause, took event.Time, s Step) {
	if took == 0 {
		return
	}
	s.Cause, s.From, s.To = cause, c.time-took, c.time
	c.time = s.From
	c.steps = append(c.steps, s)
}

// criticalPath walks back in time from the end of a PE. It reaches an operation in one of two ways: another operation
// has waited for its result, or the program has continued after it. In the second case, an operation that runs
// concurrently with the program contributes only its dispatch.
func (g *engine) criticalPath(p *pe) []Step {
	c := &chain{time: p.ended}
	id := p.prog.ID
	op := len(p.prog.Ops) - 1
	for op >= 0 && p.log[op].end != c.time {
		op-- // the operation that ended last need not be the last of the program, because some run concurrently
	}
	result := true
	for op >= 0 && c.time > g.startTime {
		log := &p.log[op]
		kind := p.prog.Ops[op].Kind
		step := Step{PE: id, Host: p.prog.Host, Op: kind, Part: PartCPU, Link: -1}
		if kind == program.Wait {
			if target := &p.log[p.prog.Ops[op].Handle]; target.end > log.begun {
				// The operation that was waited for determined the end of the wait.
				op, result = p.prog.Ops[op].Handle, true
				continue
			}
		}
		switch a := log.arrival; {
		case !result && (kind == program.RecvAsync || kind == program.Composite):
			c.step(Overhead, c.time-log.begun, step)
		case a != nil:
			if g.stepReceive(c, a, log, step) {
				id = g.sender(a, id)
				p, op, result = a.sender, a.op, false
				continue
			}
		case log.credit != nil:
			// The receiver returned the slot late: continue with its receive.
			step.Part = PartSlot
			c.step(Queueing, c.time-log.credit.freed, step)
			id = g.receiver(log.credit, id)
			p, op, result = log.credit.receiver, log.credit.recv, true
			continue
		case kind == program.Load || kind == program.Store:
			step.Part = OwnLoad.Engine()
			idle := min(g.idleTime(p, op), c.time-log.started)
			c.step(Memory, idle, step)
			c.step(Queueing, c.time-log.begun, step)
		case kind == program.Math || kind == program.Dot || kind == program.Composite:
			step.Part = OwnDot.Engine()
			if kind == program.Math {
				step.Part = OwnMath.Engine()
			}
			c.step(Compute, c.time-log.started, step)
			c.step(Queueing, c.time-log.begun, step)
		default:
			c.step(Overhead, c.time-log.begun, step)
		}
		step.Part = PartCPU
		c.step(Overhead, c.time-log.issued, step)
		result = false
		op = g.previousOp(p, op)
	}
	slices.Reverse(c.steps)
	return c.steps
}

// stepReceive adds the steps of a receive, back from the arrival of its credit at the sender to its start. If the
// message became visible after that start, it adds the message's way too and returns true: the path continues at the
// sender.
func (g *engine) stepReceive(c *chain, a *arrival, log *opLog, step Step) (sender bool) {
	slot, wire, credit := step, step, step
	slot.Part, wire.Part, credit.Part = PartSlot, PartLink, PartLink
	sent := g.sender(a, step.PE)
	credit.Link = g.slowestLink(step.PE, sent)
	nodes := a.queue.creditPath.Costs() + g.Topo.PE.CPUCost
	c.step(Wire, c.time-a.read-nodes, credit)
	c.step(Overhead, nodes, credit)
	writing, reading := g.slotTimes(a.queue.slots, a.bytes)
	c.step(Slot, reading, slot)
	c.step(Queueing, c.time-a.reading, slot)
	if a.visible <= log.begun {
		c.step(Queueing, c.time-log.begun, slot)
		return false
	}
	c.step(Queueing, c.time-a.visible, slot)
	c.step(Slot, writing, slot)
	c.step(Queueing, c.time-a.landed, slot)
	wire.Link = g.slowestLink(sent, step.PE)
	wire.Sender = &sent
	idle := g.fabric.Latency(a.queue.path, a.bytes)
	// The flits of a long message may hide node costs.
	costs := min(a.queue.path.Costs(), idle)
	c.step(Wire, idle-costs, wire)
	c.step(Overhead, costs, wire)
	c.step(Queueing, c.time-a.sent, wire)
	return true
}

// idleTime simulates a load or store on an idle machine and returns how long it takes. All of these simulations use the
// same machine, one after the other, because it is idle again after each.
func (g *engine) idleTime(p *pe, op int) event.Time {
	h := g.idle
	if h == nil {
		cfg := g.Config
		cfg.Trace, cfg.Load = false, false
		var err error
		if h, err = newEngine(cfg, g.wiring, nil, g.oneSIP); err != nil {
			panic(fmt.Sprintf("sim: setting up an idle machine: %v", err))
		}
		h.paths = g.paths
		g.idle = h
	}
	one := &program.Program{ID: p.prog.ID, Host: p.prog.Host, Ops: p.prog.Ops[op : op+1]}
	only := &pe{index: p.index, endpoint: p.endpoint, prog: one, log: make([]opLog, 1), waitFor: -1,
		writing: channel{write: true}}
	h.pes, h.running, h.hbm, h.order = []*pe{only}, 1, map[int]*hbm{}, nil
	h.schedule(h.now+event.Nanosecond, evIssue, 0, 0)
	if err := h.loop(); err != nil {
		panic(fmt.Sprintf("sim: simulating a single operation again: %v", err))
	}
	return only.log[0].end - only.log[0].started
}

// previousOp returns the previous operation that takes time, or -1.
func (g *engine) previousOp(p *pe, op int) int {
	for op--; op >= 0 && p.prog.Ops[op].Kind.Free(); op-- {
	}
	return op
}
