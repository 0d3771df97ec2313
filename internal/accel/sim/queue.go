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
// slot. A send takes a credit; if there is none, it waits. The message travels to the receiving PE, is written to its
// slot, becomes visible, is matched with a receive and is read. Then the receiver's PE_CPU returns the credit. The
// receive ends when the credit has reached the sender. At most Slots messages are therefore between send and read, and
// no slot is overwritten too early.
type queue struct {
	number     int32
	port       program.Port // within SIP 0 if that stands for all SIPs
	ends       [2]int       // the SIPs of sender and receiver
	entryHop   int          // the hop of path at which a message enters the receiver's SIP
	path       topo.Path    // of messages
	creditPath topo.Path    // of credits; they have their own channel and never wait
	slots      *slotMemory
	credits    int

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
	sender                *pe
	op                    int // the send
	receiver              *pe
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
			g.pes[i].tcmRoom -= need
		}
	}
	return nil
}

// checkMessages fails if a message was not received, or was received with another size or type. Such a kernel is wrong,
// so its time is meaningless.
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
				from, unit.Plural(left, "message"), to, were, first.sender.prog.Where(first.op), to, why)
		}
		for _, a := range q.arrivals {
			sent, want := &a.sender.prog.Ops[a.op], &a.receiver.prog.Ops[a.recv]
			if want.Bytes() != a.bytes {
				return fmt.Errorf("%v sent %d bytes at %s that %v received as %d bytes at %s", from, a.bytes,
					a.sender.prog.Where(a.op), to, want.Bytes(), a.receiver.prog.Where(a.recv))
			}
			if want.Type != sent.Type {
				return fmt.Errorf("%v sent %v at %s that %v received as %v at %s", from, sent.Type,
					a.sender.prog.Where(a.op), to, want.Type, a.receiver.prog.Where(a.recv))
			}
		}
	}
	return nil
}

// memory returns the number of the memory that holds a PE's slots. All PEs of a cube share its SRAM.
func (g *engine) memory(index int) int {
	if g.Buffer == topo.SRAMSpace {
		return index - index%g.Topo.PEs()
	}
	return index
}

// queue returns the queue of a port, which is created on first use.
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
	if q.creditPath, err = g.path(to, from); err != nil {
		return nil, err
	}
	if g.oneSIP {
		fullPath, err := g.wiring.Path(from, to)
		if err != nil {
			return nil, err
		}
		q.entryHop = g.wiring.Crossing(fullPath)
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
	q.arrivals = append(q.arrivals, &arrival{queue: q, sender: p, op: p.pc, bytes: op.Bytes(), sent: g.now})
	m := g.fabric.Send(g.now, q.path, op.Bytes())
	g.track(m, purpose{forQueue, q.number})
	if g.oneSIP {
		m.Part, m.Enters = g.Topo.SIPs.Shift(0, q.ends[0], q.ends[1]), q.entryHop
	}
	g.recordEffect(p, p.pc, op.Port)
	g.finish(p, g.now)
}

// onArrived runs when a message has reached the receiving PE. The PE writes it to its slot.
func (g *engine) onArrived(q *queue) {
	a := q.arrivals[q.landed]
	q.landed++
	a.landed = g.now
	if q.slots.to == nil {
		g.onAtSlot(q)
		return
	}
	g.track(g.fabric.Send(g.now, q.slots.to, a.bytes), purpose{forSlot, q.number})
}

// onAtSlot runs when a message has reached the memory of its slot.
func (g *engine) onAtSlot(q *queue) {
	a := q.arrivals[q.atMemory]
	q.atMemory++
	g.schedule(g.access(q.slots, a.bytes, true), evVisible, q.number, 0)
}

// onVisible runs when a message is in its slot and can be received. A program that waits for a message from any
// neighbour takes it, unless an earlier receive has been posted for this queue.
func (g *engine) onVisible(q *queue) {
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
		a.receiver, a.recv = p, q.posted[q.served]
		q.matched++
		q.served++
		a.reading = g.now
		log := &p.log[a.recv]
		log.started, log.arrival = a.reading, a
		g.schedule(g.access(q.slots, a.bytes, false), evRead, q.number, 0)
	}
}

// onSlotRead runs when a message has been read from the memory of the slots. It then goes to the PE.
func (g *engine) onSlotRead(q *queue) {
	a := q.arrivals[q.readOut]
	q.readOut++
	if q.slots.from == nil {
		g.onRead(q)
		return
	}
	g.track(g.fabric.Send(g.now, q.slots.from, a.bytes), purpose{forReader, q.number})
}

// onRead runs when a message has reached the PE from its slot. The PE_CPU returns the slot as a credit, and the receive
// ends when the credit has reached the sender.
func (g *engine) onRead(q *queue) {
	a := q.arrivals[q.freed]
	q.freed++
	a.read = g.now
	a.freed = g.now + g.Topo.PE.CPUCost + q.creditPath.Bottleneck().BW.Time(g.CreditBytes) + q.creditPath.Fixed()
	g.schedule(a.freed, evCredit, q.number, 0)
	p := a.receiver
	g.recordEffect(p, a.recv, q.port)
	if p.prog.Ops[a.recv].Kind == program.RecvAsync {
		g.schedule(a.freed, evAsync, p.number, int32(a.recv))
		return
	}
	g.finish(p, a.freed)
}

// onCredit runs when a credit has reached the sender. A sender that waits for one continues: at once, or at its next
// poll.
func (g *engine) onCredit(q *queue) {
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
	g.schedule(wake, evWake, p.number, 0)
}

// ports is the state of the ports of a memory, which performs one read and one write at a time.
type ports struct{ readFree, writeFree event.Time }

// take occupies a port for the given time, as soon as it is free, and returns when the access ends.
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

// accessTime returns how long an access to the memory takes, without the way through the fabric.
func (s *slotMemory) accessTime(bytes int) event.Time { return s.tier.Cost + s.tier.BW.Time(bytes) }

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

// access reads or writes a slot and returns when the access ends.
func (g *engine) access(s *slotMemory, bytes int, write bool) event.Time {
	if s.hbm == nil {
		return s.ports.take(write, g.now, s.accessTime(bytes))
	}
	return g.stripe(s.hbm, s.accessTime(bytes), write)
}

// stripe occupies all channels of an HBM together and returns when they are free. Slots are striped over all channels,
// unlike other data, because the published access time of one burst is the time of all channels together.
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

// slotTimes returns how long writing and reading a slot takes without contention.
func (g *engine) slotTimes(s *slotMemory, bytes int) (write, read event.Time) {
	write, read = s.accessTime(bytes), s.accessTime(bytes)
	if s.to != nil {
		write += g.fabric.Latency(s.to, bytes)
		read += g.fabric.Latency(s.from, bytes)
	}
	return write, read
}
