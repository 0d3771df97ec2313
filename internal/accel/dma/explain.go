package dma

import (
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// explain splits the time of a transfer on an idle machine by cause. It follows the critical path backwards
// through a recurrence over flits and links, without an event queue.
func (m *Machine) explain(x Transfer) (Parts, error) {
	forward, err := m.wiring.Path(x.end(), x.memory())
	if err != nil {
		return Parts{}, err
	}
	back, err := m.wiring.Path(x.memory(), x.end())
	if err != nil {
		return Parts{}, err
	}
	p := Parts{Command: m.PE.DispatchCost + m.PE.CPUCost + m.PE.SchedulerCost + m.PE.TLBCost}
	if x.Host {
		p[Command] = 0
	}
	if x.Write {
		m.explainWrite(&p, x, forward)
		p.addEmpty(back) // the acknowledgement
	} else {
		p.addEmpty(forward) // the request
		ready := m.reading(x)
		piece := m.message(back, x.Bytes, ready).explain(&p, -1)
		p[Memory] += ready[piece]
	}
	return p, nil
}

// addEmpty adds the time of an empty message.
func (p *Parts) addEmpty(path topo.Path) {
	p[Nodes] += path.Costs()
	p[Wires] += path.Fixed() - path.Costs()
}

// burst returns the time of one burst on its channel.
func (m *Machine) burst() event.Time { return m.Cube.HBM.ChannelBW.Time(m.Cube.HBM.Burst) }

// bursts calls do with the channel of each burst that a piece of a transfer moves.
func (m *Machine) bursts(x Transfer, off int, write bool, do func(channel int)) {
	size := int64(m.Cube.HBM.Burst)
	offset, bytes := m.Cube.HBM.Piece(x.At.Offset, x.Bytes, off, min(m.piece(), x.Bytes-off), write)
	for off := offset - offset%size; off < offset+int64(bytes); off += size {
		do(m.Channel(off))
	}
}

// piece returns the size of the pieces of a transfer: flits, or bursts if messages are whole.
func (m *Machine) piece() int {
	if m.Fabric == topo.Whole {
		return m.Cube.HBM.Burst
	}
	return m.FlitBytes
}

// reading returns when the pieces of a read leave the memory, counted from the arrival of the request.
func (m *Machine) reading(x Transfer) (ready []event.Time) {
	free := make([]event.Time, m.Cube.HBM.Channels)
	latest := event.Time(0)
	for off := 0; off < x.Bytes; off += m.piece() {
		m.bursts(x, off, false, func(ch int) {
			free[ch] += m.burst()
			latest = max(latest, free[ch])
		})
		ready = append(ready, latest)
	}
	return ready
}

// explainWrite explains the data of a write. It goes back from the burst that ends last to the piece that
// found the channel of that burst idle.
func (m *Machine) explainWrite(p *Parts, x Transfer, path topo.Path) {
	sent := m.message(path, x.Bytes, []event.Time{0})
	channels := make([]struct {
		free    event.Time
		from    int // the piece that found the channel idle
		writing bool
	}, m.Cube.HBM.Channels)
	var stored event.Time
	first, count := 0, (x.Bytes+m.piece()-1)/m.piece()
	for i := range count {
		arrived, off := sent.arrived(i, count), i*m.piece()
		m.bursts(x, off, true, func(ch int) {
			c := &channels[ch]
			if arrived >= c.free {
				c.free, c.from = arrived, i
			}
			if !c.writing {
				c.free += m.Cube.HBM.SwitchPenalty
				c.writing = true
			}
			if c.free += m.burst(); c.free > stored {
				stored, first = c.free, c.from
			}
		})
	}
	if m.Fabric == topo.Whole {
		first = count - 1 // pieces of a whole message count as arrived with its tail
	}
	p[Memory] += stored - sent.arrived(first, count)
	sent.explain(p, first)
}

// message is a message without contention, in one of the two models of the fabric.
type message interface {
	// arrived returns when the i-th of count pieces has arrived.
	arrived(i, count int) event.Time
	// explain adds the time of a piece (-1 means the last) to p and returns the piece that determined its start.
	explain(p *Parts, piece int) int
}

func (m *Machine) message(path topo.Path, bytes int, ready []event.Time) message {
	if m.Fabric == topo.Whole {
		return newWhole(path, bytes, m.Cube.HBM.Burst, ready)
	}
	return newFlits(path, bytes, m.FlitBytes, ready)
}

// flits is a message of flits. ready and left have the times at which each flit may enter the link of a hop
// and has left it.
type flits struct {
	path        topo.Path
	ready, left [][]event.Time // by hop, by flit
}

// newFlits computes the times of all flits on all links. ready has the times at which flits may enter
// the first link; its last element applies to the rest.
func newFlits(path topo.Path, bytes, size int, ready []event.Time) *flits {
	count := (bytes + size - 1) / size
	f := &flits{path: path}
	now := make([]event.Time, count)
	for i := range now {
		now[i] = ready[min(i, len(ready)-1)]
	}
	for _, h := range path {
		f.ready = append(f.ready, now)
		departed := make([]event.Time, count)
		free := event.Time(0)
		for i := range departed {
			departed[i] = max(now[i], free) + h.BW.Time(min(size, bytes-i*size))
			free = departed[i]
		}
		f.left = append(f.left, departed)
		next := make([]event.Time, count)
		for i := range next {
			switch {
			case h.Collect:
				next[i] = departed[count-1] + h.Wire + h.Cost
			case i == 0:
				next[0] = departed[0] + h.Wire + h.Cost
			default: // it does not overtake the head, which the node delays
				next[i] = max(departed[i]+h.Wire, next[0])
			}
		}
		now = next
	}
	f.ready = append(f.ready, now)
	return f
}

func (f *flits) arrived(i, _ int) event.Time { return f.ready[len(f.path)][i] }

// explain follows a flit back over the hops. At each hop it charges the wire and the node to their causes, then goes
// back over the flits that occupied the link before it, which is the drain.
func (f *flits) explain(p *Parts, i int) int {
	if i < 0 {
		i = len(f.ready[0]) - 1
	}
	for hop := len(f.path) - 1; hop >= 0; hop-- {
		h := &f.path[hop]
		p[Wires] += h.Wire
		switch {
		case h.Collect:
			i = len(f.ready[0]) - 1
			p[Nodes] += h.Cost
		case i == 0 || f.ready[hop+1][i] > f.left[hop][i]+h.Wire: // held by the head
			i = 0
			p[Nodes] += h.Cost
		}
		// Go back over the flits that it waited for, to the one that found the link idle. If a flit arrives
		// exactly when the link becomes free, the delay is charged to the link.
		end := f.left[hop][i]
		for i > 0 && f.left[hop][i-1] >= f.ready[hop][i] {
			i--
		}
		p[Drain] += end - f.ready[hop][i]
	}
	return i
}

// whole is a whole message, whose bytes drain behind its head. start and tail have the times at which head
// and tail reach the link of a hop.
type whole struct {
	path        topo.Path
	pieces      int
	each        event.Time
	start, tail []event.Time
	drain       []event.Time
}

// newWhole computes the times of head and tail on all links. The head leaves at the first time of ready, the tail not
// before the last.
func newWhole(path topo.Path, bytes, piece int, ready []event.Time) *whole {
	w := &whole{path: path, pieces: len(ready), each: path.Bottleneck().BW.Time(piece)}
	head, tail := ready[0], ready[len(ready)-1]
	for _, h := range path {
		w.start, w.tail, w.drain = append(w.start, head), append(w.tail, tail), append(w.drain, h.BW.Time(bytes))
		tail = max(head+h.BW.Time(bytes), tail) + h.Wire + h.Cost
		head += h.Wire + h.Cost
	}
	w.tail = append(w.tail, tail)
	return w
}

// arrived assumes that pieces drain at the rate of the slowest link, the last one with the tail.
func (w *whole) arrived(i, count int) event.Time {
	return w.tail[len(w.path)] - event.Time(count-1-i)*w.each
}

// explain charges the bytes to the slowest link, and wires and nodes to the head.
func (w *whole) explain(p *Parts, _ int) int {
	atHead := false
	for hop, h := range slices.Backward(w.path) {
		p[Wires] += h.Wire
		p[Nodes] += h.Cost
		if !atHead && w.start[hop]+w.drain[hop] > w.tail[hop] {
			p[Drain] += w.drain[hop]
			atHead = true
		}
	}
	if atHead {
		return 0
	}
	return w.pieces - 1
}
