package sim

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// pe is one running program. PE_CPU issues its operations one after the
// other; sends, composites and asynchronous receives run concurrently.
type pe struct {
	number int32
	index  int      // of the PE in the system; below 0 for a host
	at     topo.End // where its loads and stores start
	prog   *program.Program
	pc     int
	log    []opLog

	ended   event.Time
	over    bool
	async   int // operations that run concurrently with the program
	waitFor int // the asynchronous operation it waits for; -1 is none
	anyWait bool
	turn    int32 // the next input to look at in receives from anyone

	reading, writing   channel // of the DMA
	storeFree          event.Time
	gemmFree, mathFree event.Time
	room, held         int64   // TCM for the tiles of composites, and how much they take
	starved            []int32 // composites that wait for room
	tiles              []tile  // of composites, in the TCM; the first is being fetched
	fetching           bool
	registers          event.Time // when they have room for the next tile
	usage              Usages
	tracing            bool
	spans              []Span // of its engines
}

// opLog is when an operation went through its stages, and what held it up.
type opLog struct {
	issued  event.Time // the operation before had ended
	begun   event.Time // dispatched
	started event.Time // got the engine it needs
	end     event.Time
	done    bool
	arrival *arrival // of a receive: what it took
	credit  *arrival // of a send that had no slot: the message whose slot it got
}

// issue continues with the next operation that costs something.
func (g *engine) issue(p *pe) {
	for p.pc < len(p.prog.Ops) && p.prog.Ops[p.pc].Kind.Free() {
		p.pc++
	}
	if p.pc == len(p.prog.Ops) {
		p.over = true
		g.mayEnd(p)
		return
	}
	op := &p.prog.Ops[p.pc]
	cost := g.Topo.PE.DispatchCost + g.Topo.PE.CPUCost
	switch op.Kind {
	case program.Load, program.Store:
		cost += g.Topo.PE.SchedulerCost + g.Topo.PE.TLBCost
	case program.Math, program.Dot, program.Composite:
		cost += g.Topo.PE.SchedulerCost
	}
	if p.prog.Host {
		cost = g.Topo.PCIeCost // the endpoint passes it on
	}
	p.log[p.pc].issued = g.now
	g.at(g.now+cost, evBegin, p.number, 0)
}

// begin starts an operation that has been dispatched.
func (g *engine) begin(p *pe) error {
	op, log := &p.prog.Ops[p.pc], &p.log[p.pc]
	log.begun = g.now
	switch op.Kind {
	case program.Load, program.Store:
		at, err := g.Topo.Locate(op.Addr)
		if err != nil {
			return err
		}
		c := &p.reading
		if op.Kind == program.Store {
			c = &p.writing
		}
		g.request(p, c, transfer{at: at, bytes: op.Bytes()})
	case program.Math:
		g.compute(p, OwnMath, &p.mathFree, g.mathTime(op.N))
	case program.Dot:
		g.compute(p, OwnDot, &p.gemmFree, g.Topo.PE.TileCost*event.Time(op.Gemm.Tiles(program.TileOf(g.Topo))))
	case program.Composite:
		p.async++
		log.started = g.now
		if err := g.compose(p); err != nil {
			return err
		}
		g.next(p)
	case program.Send:
		return g.trySend(p)
	case program.Recv, program.RecvAsync:
		return g.receive(p)
	case program.Wait:
		if target := &p.log[op.Handle]; target.done {
			g.finish(p, g.now)
		} else {
			p.waitFor = op.Handle
		}
	}
	return nil
}

func (g *engine) compute(p *pe, a Activity, free *event.Time, took event.Time) {
	end := p.engine(a, free, g.now, took)
	p.log[p.pc].started = end - took
	g.at(end, evDone, p.number, 0)
}

// finish ends the current operation and records its effect.
func (g *engine) finish(p *pe, at event.Time) {
	log := &p.log[p.pc]
	log.end, log.done = at, true
	switch p.prog.Ops[p.pc].Kind {
	case program.Load, program.Store, program.Math, program.Dot:
		g.effect(p, p.pc, program.Port{})
	}
	p.pc++
	g.at(at, evIssue, p.number, 0)
}

// next continues although the operation may not have ended.
func (g *engine) next(p *pe) {
	p.pc++
	g.at(g.now, evIssue, p.number, 0)
}

// completed ends an operation that ran concurrently with the program.
func (g *engine) completed(p *pe, op int) {
	log := &p.log[op]
	log.end, log.done = g.now, true
	p.async--
	if p.prog.Ops[op].Kind == program.Composite {
		g.effect(p, op, program.Port{})
	}
	if p.waitFor == op {
		p.waitFor = -1
		g.finish(p, g.now)
	}
	g.mayEnd(p)
}

// mayEnd ends the program when none of its operations is running.
func (g *engine) mayEnd(p *pe) {
	if p.over && p.async == 0 {
		p.ended = g.now
		g.running--
	}
}

func (g *engine) effect(p *pe, op int, port program.Port) {
	g.order = append(g.order, Effect{p.number, int32(op), port})
}

// roundUp gives whole nanoseconds.
func roundUp(t event.Time) event.Time {
	return (t + event.Nanosecond - 1) / event.Nanosecond * event.Nanosecond
}
