package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// queue is one IPCQ: a ring of slots at the receiver and credits at the sender.
type queue struct {
	number  int32
	port    program.Port
	path    topo.Path // of messages
	back    topo.Path // of credits, which have a channel of their own
	slots   *slotMemory
	credits int

	arrivals []*arrival // in the order they were sent
	landed   int        // of these, how many have left the fabric
	there    int        // ... have come to the memory of their slots
	shown    int        // ... are in their slots
	taken    int        // ... are being read or were
	out      int        // ... have left that memory
	freed    int        // ... have given their slot back

	posted  []int // receives that wait, as operations of the receiver, by turn
	started int   // of these, how many have got their message
	sender  *pe   // it waits for a credit
}

// arrival is one message of a queue and what happened to it.
type arrival struct {
	queue                 *queue
	from                  *pe
	op                    int // the send
	by                    *pe
	recv                  int // the receive
	bytes                 int
	sent, landed, visible event.Time
	reading, read, freed  event.Time // freed: its credit is at the sender
}

// checkSlots finds out whether the receive rings fit into their memory.
func (g *engine) checkSlots() error {
	rings := map[int]int64{} // by memory
	seen := map[program.Port]bool{}
	for _, p := range g.pes {
		for i := range p.prog.Ops {
			op := &p.prog.Ops[i]
			if op.Kind != program.Send || seen[op.Port] {
				continue
			}
			seen[op.Port] = true
			rings[g.memory(int(op.Port.To))] += int64(g.Slots) * int64(g.SlotBytes)
		}
	}
	for _, memory := range slices.Sorted(maps.Keys(rings)) {
		need := rings[memory]
		if have := g.Topo.Capacity(g.Buffer); need > have {
			return fmt.Errorf("the receive slots of %v need %d bytes of %s, which has %d: lower slot_size or n_slots",
				g.Topo.At(memory), need, g.Buffer, have)
		}
		if i, runs := g.byIndex[memory]; runs && g.Buffer == topo.TCMSpace {
			g.pes[i].room -= need
		}
	}
	return nil
}

// checkMessages finds out, at the end, whether every message was received, by a receive
// of its size. A kernel in which one was not is wrong, and so is its time.
func (g *engine) checkMessages() error {
	for _, q := range g.queues {
		from, to := g.Topo.At(int(q.port.From)), g.Topo.At(int(q.port.To))
		if left := len(q.arrivals) - q.taken; left > 0 {
			why := "has ended without receiving them"
			if _, runs := g.byIndex[int(q.port.To)]; !runs {
				why = "runs no program"
			}
			return fmt.Errorf("%v sent %d messages to %v that were not received (the first in call %d): %v %s",
				from, left, to, q.arrivals[q.taken].op, to, why)
		}
		for _, a := range q.arrivals {
			if want := a.by.prog.Ops[a.recv].Bytes(); want != a.bytes {
				return fmt.Errorf("%v sent %d bytes in call %d that %v received as %d bytes in call %d", from, a.bytes, a.op, to,
					want, a.recv)
			}
		}
	}
	return nil
}

// memory numbers the memory that the slots of a PE lie in.
func (g *engine) memory(index int) int {
	if g.Buffer == topo.SRAMSpace {
		return index - index%g.Topo.PEs()
	}
	return index
}

// queue finds or installs the queue of a port.
func (g *engine) queue(port program.Port) (*queue, error) {
	if n, known := g.byPort[port]; known {
		return g.queues[n], nil
	}
	from, to := atPE(g.Topo.At(int(port.From))), atPE(g.Topo.At(int(port.To)))
	q := &queue{number: int32(len(g.queues)), port: port, credits: g.Slots}
	var err error
	if q.path, err = g.path(from, to); err != nil {
		return nil, err
	}
	if q.back, err = g.path(to, from); err != nil {
		return nil, err
	}
	if q.slots, err = g.slotMemory(int(port.To)); err != nil {
		return nil, err
	}
	g.byPort[port] = q.number
	g.queues = append(g.queues, q)
	return q, nil
}

// trySend sends if there is a slot, and otherwise waits for one.
func (g *engine) trySend(p *pe) error {
	q, err := g.queue(p.prog.Ops[p.pc].Port)
	if err != nil {
		return err
	}
	if q.credits == 0 {
		q.sender = p
		return nil
	}
	g.send(p)
	return nil
}

// send sends the message; the program continues at once.
func (g *engine) send(p *pe) {
	op, log := &p.prog.Ops[p.pc], &p.log[p.pc]
	q := g.queues[g.byPort[op.Port]]
	q.credits--
	if q.credits < 0 {
		panic("sim: a queue has sent more than it has slots")
	}
	log.started = g.now
	q.arrivals = append(q.arrivals, &arrival{queue: q, from: p, op: p.pc, bytes: op.Bytes(), sent: g.now})
	g.track(g.fabric.Send(g.now, q.path, op.Bytes()), purpose{forQueue, q.number})
	g.effect(p, p.pc, op.Port)
	g.finish(p, g.now)
}

// arrived is a message at the receiver's side: it is written to its slot.
func (g *engine) arrived(q *queue) {
	a := q.arrivals[q.landed]
	q.landed++
	a.landed = g.now
	if q.slots.to == nil {
		g.atSlot(q)
		return
	}
	g.track(g.fabric.Send(g.now, q.slots.to, a.bytes), purpose{forSlot, q.number})
}

// atSlot is a message at the memory of its slot.
func (g *engine) atSlot(q *queue) {
	a := q.arrivals[q.there]
	q.there++
	g.at(g.access(q.slots, a.bytes, true), evVisible, q.number, 0)
}

// visible is a message that can be received.
func (g *engine) visible(q *queue) {
	q.arrivals[q.shown].visible = g.now
	q.shown++
	if i, runs := g.byIndex[int(q.port.To)]; runs {
		if p := g.pes[i]; p.anyWait && q.port.Input < int32(program.Dirs) && q.started == len(q.posted) {
			p.anyWait = false
			p.turn = q.port.Input + 1
			q.posted = append(q.posted, p.pc)
		}
	}
	g.serve(q)
}

// receive posts a receive and serves it if its message is there.
func (g *engine) receive(p *pe) error {
	op := &p.prog.Ops[p.pc]
	port := op.Port
	if op.Any {
		next, found := g.nextQueue(p)
		if !found {
			p.anyWait = true
			return nil
		}
		p.turn = next.Input + 1
		port = next
	}
	q, err := g.queue(port)
	if err != nil {
		return err
	}
	q.posted = append(q.posted, p.pc)
	g.serve(q)
	if op.Kind == program.RecvAsync {
		p.async++
		g.next(p)
	}
	return nil
}

// nextQueue is the next queue, round-robin, with a message that no receive has
// been posted for.
func (g *engine) nextQueue(p *pe) (program.Port, bool) {
	for i := range int32(program.Dirs) {
		input := (p.turn + i) % int32(program.Dirs)
		from, ok := program.Neighbor(g.Topo, p.prog.ID, program.Dir(input))
		if !ok {
			continue
		}
		port := program.Port{From: int32(g.Topo.Index(from)), To: int32(p.index), Input: input}
		if n, known := g.byPort[port]; known {
			if q := g.queues[n]; q.shown > q.taken && q.started == len(q.posted) {
				return port, true
			}
		}
	}
	return program.Port{}, false
}

// serve reads messages for the receives that wait.
func (g *engine) serve(q *queue) {
	for q.started < len(q.posted) && q.taken < q.shown {
		p := g.pes[g.byIndex[int(q.port.To)]]
		a := q.arrivals[q.taken]
		a.by, a.recv = p, q.posted[q.started]
		q.taken++
		q.started++
		a.reading = g.now
		log := &p.log[a.recv]
		log.started, log.arrival = a.reading, a
		g.at(g.access(q.slots, a.bytes, false), evRead, q.number, 0)
	}
}

// slotRead is a message that its memory has read: it goes to the PE.
func (g *engine) slotRead(q *queue) {
	a := q.arrivals[q.out]
	q.out++
	if q.slots.from == nil {
		g.read(q)
		return
	}
	g.track(g.fabric.Send(g.now, q.slots.from, a.bytes), purpose{forReader, q.number})
}

// read is a message at the PE that receives it: PE_CPU sends the slot back as a credit, and
// the receive is held until the sender has it.
func (g *engine) read(q *queue) {
	a := q.arrivals[q.freed]
	q.freed++
	a.read = g.now
	a.freed = g.now + g.Topo.PE.CPUCost + q.back.Bottleneck().BW.Time(g.CreditBytes) + q.back.Fixed()
	g.at(a.freed, evCredit, q.number, 0)
	p := a.by
	g.effect(p, a.recv, q.port)
	if p.prog.Ops[a.recv].Kind == program.RecvAsync {
		g.at(a.freed, evAsync, p.number, int32(a.recv))
		return
	}
	g.finish(p, a.freed)
}

// credit is a free slot at the sender.
func (g *engine) credit(q *queue) {
	q.credits++
	p := q.sender
	if p == nil {
		return
	}
	q.sender = nil
	log := &p.log[p.pc]
	// The slot that came free is that of the message one ring before.
	log.credit = q.arrivals[len(q.arrivals)-g.Slots]
	wake := g.now
	if g.Poll && g.Topo.PE.Poll > 0 {
		rounds := (g.now - log.begun + g.Topo.PE.Poll - 1) / g.Topo.PE.Poll
		wake = log.begun + rounds*g.Topo.PE.Poll
	}
	g.at(wake, evWake, p.number, 0)
}

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
