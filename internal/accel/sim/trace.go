package sim

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/program"
)

// Span is something that was busy for a time: a program with an operation, an engine of its PE, or a link
// with a message.
type Span struct {
	Group, Lane, Name string // such as sip0.cube1.pe0, pe_dma, DMA_READ
	From, To          event.Time
}

// Arrow goes from a send to the receive that took its message, each a time within its span.
type Arrow struct {
	From, To       [2]string // group and lane
	Sent, Received event.Time
}

// Count is how many messages lie in a receive queue from a time on.
type Count struct {
	Group, Queue string // the PE, and who sends into the queue from where
	At           event.Time
	Messages     int
}

// Trace is everything that happened, by the clock of the simulation.
type Trace struct {
	Spans  []Span
	Arrows []Arrow
	Counts []Count // those of one queue in order
}

// The lanes of a trace that no engine has.
const (
	ProgramLane = "program"
	LinkGroup   = "links"
)

// onLink records that a link sends part of a message; what follows without a gap is one span.
func (g *engine) onLink(p fabric.Passage) {
	spans := g.links[p.Link]
	if n := len(spans); n > 0 && spans[n-1].message == p.Message && spans[n-1].to == p.From {
		spans[n-1].to = p.To
		return
	}
	g.links[p.Link] = append(spans, linkSpan{p.Message, p.From, p.To})
}

type linkSpan struct {
	message  int32
	from, to event.Time
}

// trace puts together what was recorded.
func (g *engine) trace() *Trace {
	t := &Trace{}
	for _, p := range g.pes {
		for i := range p.log {
			if l := &p.log[i]; l.done && l.end > l.issued {
				at := p.laneOf(i)
				t.Spans = append(t.Spans, Span{at[0], at[1], p.prog.Ops[i].Kind.String(), l.issued, l.end})
			}
		}
		for _, s := range p.spans {
			s.Group = p.prog.ID.String()
			t.Spans = append(t.Spans, s)
		}
	}
	for link := range g.wiring.Links() {
		for _, s := range g.links[int32(link)] {
			if s.to > s.from {
				t.Spans = append(t.Spans, Span{LinkGroup, g.wiring.LinkName(link), fmt.Sprintf("message %d", s.message), s.from,
					s.to})
			}
		}
	}
	for _, q := range g.queues {
		for _, a := range q.arrivals {
			t.Arrows = append(t.Arrows, Arrow{a.from.laneOf(a.op), a.by.laneOf(a.recv), a.from.log[a.op].issued, a.read})
		}
		t.Counts = append(t.Counts, g.counts(q)...)
	}
	return t
}

// counts says how full a queue was: a message is in it from when it can be received until it has been read.
func (g *engine) counts(q *queue) (counts []Count) {
	input := "SendTo"
	if q.port.Input < int32(program.Dirs) {
		input = program.Dir(q.port.Input).String()
	}
	name := fmt.Sprintf("queue %s of %v", input, g.Topo.At(int(q.port.From)))
	held, read := 0, 0
	note := func(at event.Time) {
		if n := len(counts); n > 0 && counts[n-1].At == at {
			counts = counts[:n-1]
		}
		counts = append(counts, Count{g.Topo.At(int(q.port.To)).String(), name, at, held})
	}
	for _, a := range q.arrivals { // both its times are in order
		for ; read < len(q.arrivals) && q.arrivals[read].read <= a.visible; read++ {
			held--
			note(q.arrivals[read].read)
		}
		held++
		note(a.visible)
	}
	for ; read < len(q.arrivals); read++ {
		held--
		note(q.arrivals[read].read)
	}
	return counts
}

// laneOf keeps what runs beside a program off the program's own lane.
func (p *pe) laneOf(op int) [2]string {
	lane := ProgramLane
	if k := p.prog.Ops[op].Kind; k == program.Composite || k == program.RecvAsync {
		lane = fmt.Sprintf("%v %d", k, op)
	}
	return [2]string{p.prog.ID.String(), lane}
}
