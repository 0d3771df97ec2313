package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
	"github.com/kernbench/kernbench/internal/base/unit"
)

// queue is one IPCQ: a ring of slots at the receiver and credits at the sender. The sender begins with one credit per
// slot. A send takes a credit, and without one it waits. The message travels to the receiving PE, is written to its
// slot, becomes visible, is matched with a receive and is read. Then the receiver's PE_CPU returns the credit, and
// the receive ends when the credit has reached the sender. So at most Slots messages are between send and read, and
// no slot is ever overwritten.
type queue struct {
	number  int32
	port    program.Port // within SIP 0 if that stands for all SIPs
	ends    [2]int       // the SIPs of sender and receiver
	enters  int          // the hop of path at which a message enters the receiver's SIP
	path    topo.Path    // of messages
	back    topo.Path    // of credits; they have their own channel and never wait
	slots   *slotMemory
	credits int

	// Messages stay in order, so counters tell how many of the arrivals have passed each stage.
	arrivals []*arrival // in the order they were sent
	landed   int        // reached the receiving PE
	atMemory int        // reached the memory of their slots
	inSlot   int        // visible in their slots
	matched  int        // matched with a receive
	readOut  int        // read from that memory
	freed    int        // returned their slot

	posted []int // receives in order, as operations of the receiver
	served int   // how many of them have been matched with a message
	sender *pe   // waits for a credit; nil if none does
}

// arrival is one message of a queue and the times of its stages.
type arrival struct {
	queue                 *queue
	from                  *pe
	op                    int // the send
	by                    *pe
	recv                  int // the receive
	bytes                 int
	sent, landed, visible event.Time
	reading, read, freed  event.Time // freed: its credit has reached the sender
}

// checkSlots fails if the receive slots do not fit into their memory. Slots in the TCM reduce the room for
// the tiles of composites.
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
			g.ports = append(g.ports, op.Port)
			rings[g.memory(int(g.local(op.Port).To))] += int64(g.Slots) * int64(g.SlotBytes)
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

// checkMessages fails if, at the end, a message was not received or was received with another size. Such a kernel is
// wrong, and its time means nothing.
func (g *engine) checkMessages() error {
	for _, q := range g.queues {
		from, to := g.Topo.At(int(q.port.From)), g.Topo.At(int(q.port.To))
		if left := len(q.arrivals) - q.matched; left > 0 {
			why, were := "has ended without receiving it", "was"
			if left > 1 {
				why, were = "has ended without receiving them", "were"
			}
			if _, runs := g.byIndex[int(q.port.To)]; !runs {
				why = "runs no program"
			}
			first := q.arrivals[q.matched]
			return fmt.Errorf("%v sent %s to %v that %s not received (the first at %s): %v %s",
				from, unit.Plural(left, "message"), to, were, first.from.prog.Where(first.op), to, why)
		}
		for _, a := range q.arrivals {
			sent, want := &a.from.prog.Ops[a.op], &a.by.prog.Ops[a.recv]
			if want.Bytes() != a.bytes {
				return fmt.Errorf("%v sent %d bytes at %s that %v received as %d bytes at %s", from, a.bytes,
					a.from.prog.Where(a.op), to, want.Bytes(), a.by.prog.Where(a.recv))
			}
			if want.Type != sent.Type {
				return fmt.Errorf("%v sent %v at %s that %v received as %v at %s", from, sent.Type,
					a.from.prog.Where(a.op), to, want.Type, a.by.prog.Where(a.recv))
			}
		}
	}
	return nil
}

// memory returns the number of the memory that holds a PE's slots. PEs of a cube share the SRAM.
func (g *engine) memory(index int) int {
	if g.Buffer == topo.SRAMSpace {
		return index - index%g.Topo.PEs()
	}
	return index
}

// queue returns the queue of a port. It is set up on first use.
func (g *engine) queue(port program.Port) (*queue, error) {
	local := g.local(port)
	if n, known := g.byPort[local]; known {
		return g.queues[n], nil
	}
	from, to := atPE(g.Topo.At(int(port.From))), atPE(g.Topo.At(int(port.To)))
	q := &queue{number: int32(len(g.queues)), port: local, ends: [2]int{from.SIP, to.SIP}, credits: g.Slots}
	var err error
	if q.path, err = g.path(from, to); err != nil {
		return nil, err
	}
	if q.back, err = g.path(to, from); err != nil {
		return nil, err
	}
	if g.oneSIP {
		whole, err := g.wiring.Path(from, to)
		if err != nil {
			return nil, err
		}
		q.enters = g.wiring.Crossing(whole)
	}
	if q.slots, err = g.slotMemory(int(local.To)); err != nil {
		return nil, err
	}
	g.byPort[local] = q.number
	g.queues = append(g.queues, q)
	return q, nil
}

// trySend sends a message if a slot is free; otherwise the program waits.
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
	q := g.queues[g.byPort[g.local(op.Port)]]
	q.credits--
	if q.credits < 0 {
		panic("sim: a queue has sent more than it has slots")
	}
	log.started = g.now
	q.arrivals = append(q.arrivals, &arrival{queue: q, from: p, op: p.pc, bytes: op.Bytes(), sent: g.now})
	m := g.fabric.Send(g.now, q.path, op.Bytes())
	g.track(m, purpose{forQueue, q.number})
	if g.oneSIP {
		m.Part, m.Enters = g.Topo.SIPs.Shift(0, q.ends[0], q.ends[1]), q.enters
	}
	g.effect(p, p.pc, op.Port)
	g.finish(p, g.now)
}

// arrived runs when a message has reached the receiving PE, which writes it to its slot.
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

// atSlot runs when a message has reached the memory of its slot.
func (g *engine) atSlot(q *queue) {
	a := q.arrivals[q.atMemory]
	q.atMemory++
	g.at(g.access(q.slots, a.bytes, true), evVisible, q.number, 0)
}

// visible runs when a message is in its slot and can be received. A program that waits for a message from any
// neighbour takes it, unless an earlier receive has been posted for this queue.
func (g *engine) visible(q *queue) {
	q.arrivals[q.inSlot].visible = g.now
	q.inSlot++
	if i, runs := g.byIndex[int(q.port.To)]; runs {
		if p := g.pes[i]; p.anyWait && q.port.Input < int32(program.Dirs) && q.served == len(q.posted) {
			p.anyWait = false
			p.turn = q.port.Input + 1
			q.posted = append(q.posted, p.pc)
		}
	}
	g.serve(q)
}

// receive posts a receive.
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

// nextQueue returns the next queue, round-robin, with a message for which no receive has been posted.
func (g *engine) nextQueue(p *pe) (program.Port, bool) {
	for i := range int32(program.Dirs) {
		input := (p.turn + i) % int32(program.Dirs)
		from, ok := program.Neighbor(g.Topo, p.prog.ID, program.Dir(input))
		if !ok {
			continue
		}
		port := program.Port{From: int32(g.Topo.Index(from)), To: int32(p.index), Input: input}
		if n, known := g.byPort[g.local(port)]; known {
			if q := g.queues[n]; q.inSlot > q.matched && q.served == len(q.posted) {
				return port, true
			}
		}
	}
	return program.Port{}, false
}

// serve matches visible messages with posted receives and starts to read them.
func (g *engine) serve(q *queue) {
	for q.served < len(q.posted) && q.matched < q.inSlot {
		p := g.pes[g.byIndex[int(q.port.To)]]
		a := q.arrivals[q.matched]
		a.by, a.recv = p, q.posted[q.served]
		q.matched++
		q.served++
		a.reading = g.now
		log := &p.log[a.recv]
		log.started, log.arrival = a.reading, a
		g.at(g.access(q.slots, a.bytes, false), evRead, q.number, 0)
	}
}

// slotRead runs when the memory has read a message, which then goes to the PE.
func (g *engine) slotRead(q *queue) {
	a := q.arrivals[q.readOut]
	q.readOut++
	if q.slots.from == nil {
		g.read(q)
		return
	}
	g.track(g.fabric.Send(g.now, q.slots.from, a.bytes), purpose{forReader, q.number})
}

// read runs when the PE has a message. The PE_CPU returns the slot as a credit, and the receive ends when
// the sender has the credit.
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

// credit runs when the sender learns that a slot is free. If it waits for one, it continues: at once, or at
// its next poll.
func (g *engine) credit(q *queue) {
	q.credits++
	p := q.sender
	if p == nil {
		return
	}
	q.sender = nil
	log := &p.log[p.pc]
	// The slot was used by the message g.Slots messages earlier.
	log.credit = q.arrivals[len(q.arrivals)-g.Slots]
	wake := g.now
	if g.Poll && g.Topo.PE.Poll > 0 {
		rounds := (g.now - log.begun + g.Topo.PE.Poll - 1) / g.Topo.PE.Poll
		wake = log.begun + rounds*g.Topo.PE.Poll
	}
	g.at(wake, evWake, p.number, 0)
}

// ports are the ports of a memory: it performs one read and one write at a time.
type ports struct{ readFree, writeFree event.Time }

// take occupies a port as soon as it is free, and returns the end.
func (p *ports) take(write bool, at, took event.Time) event.Time {
	free := &p.readFree
	if write {
		free = &p.writeFree
	}
	*free = max(at, *free) + took
	return *free
}

// slotMemory is the memory that holds the receive slots of one PE. The TCM is inside the PE. Accesses to
// the cube's SRAM or to the HBM go over the fabric and through the ports or channels of that memory, like
// all other accesses.
type slotMemory struct {
	tier     topo.Tier
	to, from topo.Path // between the PE and the memory; none for TCM
	ports    *ports
	hbm      *hbm
}

// took returns the time that the memory itself takes.
func (s *slotMemory) took(bytes int) event.Time { return s.tier.Cost + s.tier.BW.Time(bytes) }

// slotEnds has the end of the paths to slots outside of the PE, by the memory that holds them.
var slotEnds = map[topo.Space]topo.EndKind{topo.SRAMSpace: topo.AtSRAM, topo.HBMSpace: topo.AtHBM}

// slotMemory returns the memory of a PE's slots.
func (g *engine) slotMemory(index int) (*slotMemory, error) {
	s := &slotMemory{tier: g.Topo.PE.Tiers[g.Buffer]}
	id := g.Topo.At(index)
	end := topo.End{Kind: slotEnds[g.Buffer], PEID: id}
	switch g.Buffer {
	case topo.TCMSpace:
		s.ports = g.tcm(index)
		return s, nil
	case topo.SRAMSpace:
		s.ports = g.portsOf(g.sram, g.memory(index))
	case topo.HBMSpace:
		s.hbm = g.controller(topo.Location{PEID: id})
	}
	var err error
	if s.to, err = g.path(atPE(id), end); err == nil {
		s.from, err = g.path(end, atPE(id))
	}
	return s, err
}

// tcm returns the ports of a PE's TCM, which receive slots and the tiles of composites share.
func (g *engine) tcm(index int) *ports { return g.portsOf(g.tcms, index) }

func (g *engine) portsOf(all map[int]*ports, memory int) *ports {
	if all[memory] == nil {
		all[memory] = &ports{}
	}
	return all[memory]
}

// access reads or writes a slot and returns the end.
func (g *engine) access(s *slotMemory, bytes int, write bool) event.Time {
	if s.hbm == nil {
		return s.ports.take(write, g.now, s.took(bytes))
	}
	return g.stripe(s.hbm, s.took(bytes), write)
}

// stripe occupies all channels of an HBM together and returns the end. Slots are striped over the channels,
// unlike other data, because the published access time of one burst is that of all channels.
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

// slotTimes returns how long writing and reading a slot take without contention.
func (g *engine) slotTimes(s *slotMemory, bytes int) (write, read event.Time) {
	write, read = s.took(bytes), s.took(bytes)
	if s.to != nil {
		write += g.fabric.Latency(s.to, bytes)
		read += g.fabric.Latency(s.from, bytes)
	}
	return write, read
}
