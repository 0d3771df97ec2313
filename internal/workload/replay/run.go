package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/loggp"
)

// player replays a workload on a machine. It decides when nodes start; the machine decides when they end.
type player struct {
	*Workload
	machine Machine
	ranks   []rankLanes
	limits  [lanes]int // nodes of a rank that run at a time; receives have no limit
	ids     []loggp.ID // of the operations that have started
	added   []bool     // the operation is known to the machine
	now     event.Time
	instant []int32 // nodes that end now without taking time
	touched []int32 // ranks on which a stream may start another node now
	left    int     // nodes that have not ended
	err     error
}

// rankLanes is the use of a rank's streams.
type rankLanes struct {
	busy  [lanes]int       // nodes that run
	ready [lanes]positions // nodes that wait for a stream
	freed int32            // the node that ended last
}

// Run replays the workload. It can be called again, with another machine; results stay valid.
func (w *Workload) Run(m Machine) (*Result, error) {
	w = w.fresh()
	p := &player{Workload: w, machine: m, ranks: make([]rankLanes, len(w.traces)), left: len(w.nodes),
		ids: make([]loggp.ID, len(w.operations)), added: make([]bool, len(w.operations))}
	p.limits = [lanes]int{computeLane: max(w.options.Streams, 1), hostLane: 1, commLane: w.options.CommStreams}
	if p.limits[commLane] == 0 {
		p.limits[commLane] = math.MaxInt
	}
	for _, i := range w.order {
		if w.nodes[i].waits == 0 {
			p.ready(i, -1)
		}
	}
	p.dispatch()
	err := m.Run(p.ended)
	switch {
	case p.err != nil:
		return nil, p.err
	case p.left > 0:
		return nil, p.deadlock()
	case err != nil:
		return nil, err
	}
	return w.result(), nil
}

// fresh returns the workload before its replay. The first replay uses the nodes themselves, later ones a copy.
func (w *Workload) fresh() *Workload {
	if !w.used {
		w.used = true
		return w
	}
	c := *w
	c.nodes, c.queues = slices.Clone(w.nodes), slices.Clone(w.queues)
	for i := range c.nodes {
		n := &c.nodes[i]
		_, of := c.origin(int32(i))
		n.waits, n.reason, n.state = int32(len(of.CtrlDeps)+len(of.DataDeps)), -1, waiting
		n.start, n.end = 0, 0
	}
	for i := range c.queues {
		c.queues[i].next = 0
	}
	return &c
}

// ended handles the end of a member of an operation.
func (p *player) ended(e loggp.End) {
	if p.err != nil {
		return
	}
	if p.now = e.Time; e.Time > longest {
		p.err = fmt.Errorf("the step takes longer than %d days, which cannot be replayed",
			longest/event.Microsecond/1e6/86400)
		return
	}
	// Keys below the number of nodes are computations, and the others are operations (see start).
	i := int32(e.Key)
	if op := e.Key - int64(len(p.nodes)); op >= 0 {
		i = p.operations[op].nodes[e.Member]
	}
	n := &p.nodes[i]
	n.start, n.cause, n.spent = e.Start, int32(e.Cause), e.Spent // a rank may start later than requested
	p.finish(i)
	p.dispatch()
}

// finish ends a node now: its stream is free, and its successors may be ready.
func (p *player) finish(i int32) {
	n := &p.nodes[i]
	n.end, n.state = p.now, done
	p.left--
	lanes := &p.ranks[n.rank]
	if n.lane != noLane {
		lanes.busy[n.lane]--
		lanes.freed = i
		p.touched = append(p.touched, n.rank)
	}
	if n.queue >= 0 {
		q := &p.queues[n.queue]
		if q.next++; q.next < len(q.nodes) && p.nodes[q.nodes[q.next]].state == ready {
			p.offer(q.nodes[q.next])
		}
	}
	for _, s := range p.successors[p.first[i]:p.first[i+1]] {
		if p.nodes[s].waits--; p.nodes[s].waits == 0 {
			p.ready(s, i)
		}
	}
}

// ready handles a node whose dependencies have ended, the last one being reason.
func (p *player) ready(i, reason int32) {
	n := &p.nodes[i]
	n.state, n.start, n.reason = ready, p.now, reason
	switch {
	case n.lane == noLane:
		n.state = running
		p.instant = append(p.instant, i)
	case n.queue < 0 || p.queues[n.queue].nodes[p.queues[n.queue].next] == i:
		p.offer(i)
	}
}

// offer lets a node wait for a stream.
func (p *player) offer(i int32) {
	n := &p.nodes[i]
	p.ranks[n.rank].ready[n.lane].push(entry{uint64(n.position), i})
	p.touched = append(p.touched, n.rank)
}

// dispatch starts all nodes that can start now. It first ends the nodes that take no time, so that a stream chooses
// among all nodes that are ready at this moment and takes the first in issue order.
func (p *player) dispatch() {
	for len(p.instant)+len(p.touched) > 0 {
		for len(p.instant) > 0 {
			last := len(p.instant) - 1
			i := p.instant[last]
			p.instant = p.instant[:last]
			p.finish(i)
		}
		if last := len(p.touched) - 1; last >= 0 {
			rank := p.touched[last]
			p.touched = p.touched[:last]
			p.fill(rank)
		}
	}
}

// fill starts nodes of a rank as long as streams are free.
func (p *player) fill(rank int32) {
	lanes := &p.ranks[rank]
	for lane := range lanes.ready {
		waiting := &lanes.ready[lane]
		for len(*waiting) > 0 && (lanes.busy[lane] < p.limits[lane] || lane == int(receiveLane)) {
			i := waiting.pop()
			lanes.busy[lane]++
			n := &p.nodes[i]
			if n.start < p.now { // it was ready, and waited for a stream or for its turn
				n.reason = lanes.freed
			}
			n.start, n.state = p.now, running
			p.start(i)
		}
	}
}

// start starts a node on the machine. The first member of an operation to start makes the operation known to the
// machine.
func (p *player) start(i int32) {
	n := &p.nodes[i]
	if n.operation < 0 {
		p.machine.Start(p.machine.Compute(int64(i), int(n.rank), n.duration), 0, p.now)
		return
	}
	o := &p.operations[n.operation]
	if !p.added[n.operation] {
		p.added[n.operation] = true
		key := int64(len(p.nodes)) + int64(n.operation)
		if o.group < 0 {
			p.ids[n.operation] = p.machine.Message(key, int(p.nodes[o.nodes[0]].rank), int(p.nodes[o.nodes[1]].rank),
				o.call.Bytes)
		} else {
			id, err := p.machine.Collective(key, o.call, p.groups[o.group].members)
			if err != nil {
				p.err = fmt.Errorf("%s: %w", p.describe(i), err)
				return
			}
			p.ids[n.operation] = id
		}
	}
	if p.err == nil {
		p.machine.Start(p.ids[n.operation], int(n.member), p.now)
	}
}

// entry is a node in a heap.
type entry struct {
	position uint64 // in issue order, or the id that decides it
	node     int32
}

// positions is a binary heap of nodes, the one with the smallest position on top.
type positions []entry

func (h *positions) push(e entry) {
	list := append(*h, e)
	i := len(list) - 1
	for i > 0 && e.position < list[(i-1)/2].position {
		list[i] = list[(i-1)/2]
		i = (i - 1) / 2
	}
	list[i] = e
	*h = list
}

func (h *positions) pop() int32 {
	list := *h
	top, last := list[0].node, list[len(list)-1]
	list = list[:len(list)-1]
	*h = list
	for i := 0; len(list) > 0; {
		child := 2*i + 1
		if child+1 < len(list) && list[child+1].position < list[child].position {
			child++
		}
		if child >= len(list) || last.position <= list[child].position {
			list[i] = last
			break
		}
		list[i] = list[child]
		i = child
	}
	return top
}
