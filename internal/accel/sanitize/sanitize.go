// Package sanitize finds races in simulated kernels. A race is a pair of accesses to the same HBM, at least one of them
// a write, that are ordered neither by a program nor by messages. Only their simulated times decide which value is
// read, so a faster link could change the result.
//
// The order is the happens-before relation. An operation of a program happens before the next one, a send before
// the receive that takes its message, and a receive before the send that reuses its slot. A composite runs concurrently
// with its program: it begins after the operations before it, and ends before the operation that follows its Wait.
//
// The relation is tracked with vector clocks (Mattern, 1988). Their length is the number of programs that access
// memory which several programs access and at least one writes, or that receive from any neighbour. Most kernels have
// none, so that checking them costs little.
package sanitize

import (
	"fmt"
	"slices"
	"sort"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/sim"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Memory says which ranges of HBM are allocated and which are initialized.
type Memory interface {
	// Allocated returns an error if n bytes at an address are not all part of one allocation.
	Allocated(at topo.Address, n int64) error
	// Initialized reports whether all of n bytes at an address have been written before the launch.
	Initialized(at topo.Address, n int64) bool
}

// maxWork limits the number of vector clock entries that a check copies. Copying this many takes about ten seconds. A
// launch that needs more is not checked for races, but for everything else.
const maxWork = 1 << 32

// access is an access of an operation to HBM.
type access struct {
	program, op int32
	until       int32 // the operation of the program after which it has ended: itself, or the Wait of a composite
	write       bool
	at          event.Time
}

// span is a range of one PE's HBM.
type span struct {
	memory   int // index of the PE
	from, to int64
	addr     topo.Address
}

// use is a span that an operation reads or writes.
type use struct {
	span
	write bool
}

// Launch is a simulated launch.
type Launch struct {
	Topo     *topo.Topology
	Programs []*program.Program
	Order    sim.Effects
	Start    event.Time // the common start of the programs
	Slots    int        // per receive queue
	Memory   Memory
}

// Check returns an error for the first invalid access: to memory that was not allocated, to memory that is not
// initialized, or in a race with another access. unchecked is a text that says why races were not checked, or which
// receives from any neighbour depend on the order of arrival. It is empty if everything was checked.
func (l Launch) Check() (unchecked string, err error) {
	c := &checker{Launch: l, shadows: map[int]*shadow{}, column: make([]int32, len(l.Programs)),
		next: make([]int, len(l.Programs)), waits: make([]map[int]int, len(l.Programs))}
	shared, err := c.assignColumns()
	if err != nil {
		return "", err
	}
	if work := int64(l.Order.Len()) * int64(shared); work > maxWork {
		return fmt.Sprintf("races were not looked for: %d programs share memory, and %d operations are too many for that",
			shared, l.Order.Len()), nil
	}
	c.clocks = make([]clock, len(l.Programs))
	for i := range c.clocks {
		c.clocks[i] = make(clock, shared)
	}
	for e := range l.Order.All() {
		if err := c.handleEffect(e); err != nil {
			return "", err
		}
	}
	return c.arrivalOrder, nil
}

// clock is a vector clock: for each program with a column, how many of its operations have happened before.
type clock []int32

func (c clock) join(o clock) {
	for i, n := range o {
		c[i] = max(c[i], n)
	}
}

// checker is the state of a check.
type checker struct {
	Launch
	column  []int32            // by program: its entry in clocks, -1 if it shares no memory
	clocks  []clock            // by program
	next    []int              // by program: the operation after the last one that was handled
	waits   []map[int]int      // by program: the Wait of each asynchronous operation
	issued  map[[2]int32]clock // by program and operation: the clock of an asynchronous operation
	queues  map[program.Port]*queue
	shadows map[int]*shadow // by memory
	// anySource has the latest receive from any neighbour of each program. arrivalOrder describes
	// the first two messages of such receives that nothing orders.
	anySource    map[int]anyReceive
	arrivalOrder string
}

// anyReceive is a receive from any neighbour and the message that it took.
type anyReceive struct {
	op   int32
	port program.Port
	sent access
}

// message is a message in flight: the clock of its send, and the send.
type message struct {
	clock
	sent access
}

// queue holds the clocks of the messages of one receive queue.
type queue struct {
	sent    int
	flight  []message // not received yet
	credits []clock   // of receives whose slots were not used again yet
}

// accesses returns the accesses of an operation to HBM.
func (c *checker) accesses(o *program.Op) ([]use, error) {
	var all []use
	add := func(at topo.Address, elements int, write bool) error {
		loc, err := c.Topo.Locate(at)
		if err != nil {
			return err
		}
		n := int64(elements * o.Type.Size())
		all = append(all, use{span{c.Topo.Index(loc.PEID), loc.Offset, loc.Offset + n, at}, write})
		return nil
	}
	var err error
	switch g := o.Gemm; o.Kind {
	case program.Load, program.Store:
		err = add(o.Addr, o.N, o.Kind == program.Store)
	case program.Composite:
		for _, m := range []struct {
			program.Operand
			n int
		}{{g.A, g.M * g.K}, {g.B, g.K * g.N}} {
			if err == nil && !m.Resident() {
				err = add(m.Addr, m.n, false)
			}
		}
		if err == nil {
			err = add(g.Out, g.M*g.N, true)
		}
	}
	return all, err
}

// assignColumns checks that all accesses go to allocated memory and gives each program that shares memory a column. It
// returns the number of columns.
func (c *checker) assignColumns() (int, error) {
	type users struct {
		first          int
		several, write bool
	}
	memories := map[int]*users{}
	touched, wild := make([][]int, len(c.Programs)), make([]bool, len(c.Programs))
	for i, p := range c.Programs {
		c.column[i] = -1
		for k := range p.Ops {
			uses, err := c.accesses(&p.Ops[k])
			for _, u := range uses {
				if err == nil && c.Memory != nil {
					err = c.Memory.Allocated(u.addr, u.to-u.from)
				}
				m := memories[u.memory]
				if m == nil {
					m = &users{first: i}
					memories[u.memory] = m
				}
				m.several = m.several || m.first != i
				m.write = m.write || u.write
				if !slices.Contains(touched[i], u.memory) {
					touched[i] = append(touched[i], u.memory)
				}
			}
			if err != nil {
				return 0, fmt.Errorf("%v: %v at %s: %w", p.ID, p.Ops[k].Kind, p.Where(k), err)
			}
			wild[i] = wild[i] || p.Ops[k].Any
			if p.Ops[k].Kind == program.Wait {
				if c.waits[i] == nil {
					c.waits[i] = map[int]int{}
				}
				c.waits[i][p.Ops[k].Handle] = k
			}
		}
	}
	columns := 0
	for i, list := range touched {
		shares := func(memory int) bool { return memories[memory].several && memories[memory].write }
		if wild[i] || slices.ContainsFunc(list, shares) {
			c.column[i] = int32(columns)
			columns++
		}
	}
	c.issued, c.queues, c.anySource = map[[2]int32]clock{}, map[program.Port]*queue{}, map[int]anyReceive{}
	return columns, nil
}

// handleEffect handles an operation in the order in which the simulation found it to take effect.
func (c *checker) handleEffect(e sim.Effect) error {
	p := int(e.Program)
	c.advance(p, int(e.Op))
	op := &c.Programs[p].Ops[e.Op]
	switch op.Kind {
	case program.Send:
		c.send(p, e)
	case program.Recv, program.RecvAsync:
		c.receive(p, e, op.Kind == program.RecvAsync)
	}
	uses, err := c.accesses(op)
	if err != nil {
		return err
	}
	for _, u := range uses {
		a := access{program: e.Program, op: e.Op, until: e.Op, write: u.write, at: e.At - c.Start}
		known := c.clocks[p]
		if op.Kind == program.Composite {
			if w, waited := c.waits[p][int(e.Op)]; waited {
				a.until = int32(w)
			}
			known = c.issued[[2]int32{e.Program, e.Op}]
		}
		if err := c.touch(u, a, known); err != nil {
			return err
		}
	}
	return nil
}

// advance handles the operations of a program up to op that have no effect of their own. It stores the clock with which
// an asynchronous operation begins, and joins the clock of an operation for which the program waits.
func (c *checker) advance(p, op int) {
	for ; c.next[p] <= op; c.next[p]++ {
		o := &c.Programs[p].Ops[c.next[p]]
		switch o.Kind {
		case program.Composite:
			c.issued[[2]int32{int32(p), int32(c.next[p])}] = slices.Clone(c.clocks[p])
		case program.Wait:
			key := [2]int32{int32(p), int32(o.Handle)}
			c.clocks[p].join(c.issued[key])
			delete(c.issued, key)
		}
	}
}

// stamp returns a copy of a program's clock in which its operations before op have happened.
func (c *checker) stamp(p, op int) clock {
	s := slices.Clone(c.clocks[p])
	if column := c.column[p]; column >= 0 {
		s[column] = int32(op)
	}
	return s
}

func (c *checker) queue(port program.Port) *queue {
	q := c.queues[port]
	if q == nil {
		q = &queue{}
		c.queues[port] = q
	}
	return q
}

// send stamps a message. A send that reuses a slot happens after the receive that freed it.
func (c *checker) send(p int, e sim.Effect) {
	if len(c.clocks[p]) == 0 {
		return
	}
	q := c.queue(e.Port)
	if q.sent >= c.Slots && len(q.credits) > 0 {
		c.clocks[p].join(q.credits[0])
		q.credits = q.credits[1:]
	}
	q.sent++
	sent := access{program: e.Program, op: e.Op, at: e.At - c.Start}
	q.flight = append(q.flight, message{c.stamp(p, int(e.Op)+1), sent})
}

// receive joins the clock of the message. The clock of an asynchronous receive is joined by its Wait.
func (c *checker) receive(p int, e sim.Effect, async bool) {
	if len(c.clocks[p]) == 0 {
		return
	}
	q := c.queue(e.Port)
	if len(q.flight) == 0 {
		return
	}
	m := q.flight[0]
	q.flight = q.flight[1:]
	if c.Programs[p].Ops[e.Op].Any {
		c.checkAnySource(p, e, m)
	}
	if async {
		c.issued[[2]int32{e.Program, e.Op}] = m.clock
		q.credits = append(q.credits, c.stamp(p, int(e.Op)))
		return
	}
	c.clocks[p].join(m.clock)
	q.credits = append(q.credits, c.stamp(p, int(e.Op)))
}

// checkAnySource looks for two messages from different senders whose order of arrival decides which of two
// receives takes which: the second one was not sent after the first receive.
func (c *checker) checkAnySource(p int, e sim.Effect, m message) {
	last, seen := c.anySource[p]
	if seen && last.port != e.Port && m.clock[c.column[p]] <= last.op && c.arrivalOrder == "" {
		prog := c.Programs[p]
		c.arrivalOrder = fmt.Sprintf("the order of arrival decides what %v receives from any neighbour at %s and at %s: "+
			"%s and %s are in no order", prog.ID, prog.Where(int(last.op)), prog.Where(int(e.Op)), c.describe(last.sent),
			c.describe(m.sent))
	}
	c.anySource[p] = anyReceive{e.Op, e.Port, m.sent}
}

// before reports whether an access has ended before operation op of program p begins. known is the clock of that
// operation.
func (c *checker) before(a access, p, op int32, known clock) bool {
	if a.program == p {
		return a.until < op
	}
	column := c.column[a.program]
	return column >= 0 && known[column] > a.until
}

// shadow holds the latest accesses to one memory, as segments in order of their position.
type shadow struct{ segments []segment }

// segment is a range with the last write to it and the reads since then.
type segment struct {
	from, to int64
	written  bool
	write    access
	reads    []access
}

// touch records an access and returns an error if it races with an earlier one.
func (c *checker) touch(u use, a access, known clock) error {
	s := c.shadows[u.memory]
	if s == nil {
		s = &shadow{}
		c.shadows[u.memory] = s
	}
	for i := s.cut(u.from, u.to); i < len(s.segments) && s.segments[i].from < u.to; i++ {
		g := &s.segments[i]
		if g.written && !c.before(g.write, a.program, a.op, known) {
			return c.race(u, g, g.write, a)
		}
		if !a.write {
			if !g.written && c.Memory != nil && !c.Memory.Initialized(u.addr+topo.Address(g.from-u.from), g.to-g.from) {
				return fmt.Errorf("%s reads %v, which was allocated by Empty and never written", c.describe(a),
					c.location(u.memory, g.from))
			}
			g.reads = slices.DeleteFunc(g.reads, func(r access) bool {
				return r.program == a.program && c.before(r, a.program, a.op, known)
			})
			g.reads = append(g.reads, a)
			continue
		}
		for _, r := range g.reads {
			// A composite that reads and writes the same memory is refused when it is recorded.
			if (r.program != a.program || r.op != a.op) && !c.before(r, a.program, a.op, known) {
				return c.race(u, g, r, a)
			}
		}
		g.written, g.write, g.reads = true, a, nil
	}
	return nil
}

// cut splits segments so that [from, to) is covered by whole segments, and returns the index of the first one.
func (s *shadow) cut(from, to int64) int {
	find := func(at int64) int {
		return sort.Search(len(s.segments), func(i int) bool { return s.segments[i].to > at })
	}
	for _, at := range []int64{from, to} {
		if i := find(at); i < len(s.segments) && s.segments[i].from < at {
			left := s.segments[i]
			left.to, left.reads = at, slices.Clone(left.reads)
			s.segments[i].from = at
			s.segments = slices.Insert(s.segments, i, left)
		}
	}
	first := find(from)
	for i, at := first, from; at < to; i++ { // fill the gaps
		if i == len(s.segments) || s.segments[i].from > at {
			end := to
			if i < len(s.segments) {
				end = min(end, s.segments[i].from)
			}
			s.segments = slices.Insert(s.segments, i, segment{from: at, to: end})
		}
		at = s.segments[i].to
	}
	return first
}

func (c *checker) location(memory int, offset int64) topo.Location {
	return topo.Location{PEID: c.Topo.At(memory), Space: topo.HBMSpace, Offset: offset}
}

// describe returns the PE, operation, position and time of an access.
func (c *checker) describe(a access) string {
	p := c.Programs[a.program]
	return fmt.Sprintf("%v: %v at %s (%.3f ns)", p.ID, p.Ops[a.op].Kind, p.Where(int(a.op)), a.at.Nanoseconds())
}

// race returns the error for two accesses without an order.
func (c *checker) race(u use, g *segment, earlier, later access) error {
	how := func(a access) string {
		if a.write {
			return "writes"
		}
		return "reads"
	}
	advice := "no message orders them"
	if earlier.program == later.program {
		advice = "wait for the composite first"
	}
	return fmt.Errorf("race on %d bytes at %v: %s %s them, %s %s them; %s", min(u.to, g.to)-max(u.from, g.from),
		c.location(u.memory, max(u.from, g.from)), c.describe(earlier), how(earlier), c.describe(later), how(later), advice)
}
