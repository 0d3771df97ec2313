package sim

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/tl"
)

// pe is one program on its way. PE_CPU issues its operations one after the
// other; sends, composites and asynchronous receives go on beside it.
type pe struct {
	number int32
	index  int // of the PE in the system
	prog   *tl.Program
	pc     int
	log    []opLog

	started, ended event.Time
	over           bool
	async          int // operations that run beside the program
	waitFor        int // the asynchronous operation it waits for; -1 is none
	anyWait        bool
	turn           int32 // the door whose turn it is in receives from anyone

	readFree, writeFree event.Time // DMA channels
	engineFree          event.Time // GEMM and MATH share a slot
	stored              event.Time // the last burst of the store
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

// issue goes on with the next operation that costs something.
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
	case tl.Load, tl.Store:
		cost += g.Topo.PE.SchedulerCost + g.Topo.PE.TLBCost
	case tl.Math, tl.Dot, tl.Composite:
		cost += g.Topo.PE.SchedulerCost
	}
	p.log[p.pc].issued = g.now
	g.at(g.now+cost, evBegin, p.number, 0)
}

// begin does what the operation does once it is dispatched.
func (g *engine) begin(p *pe) error {
	op, log := &p.prog.Ops[p.pc], &p.log[p.pc]
	log.begun = g.now
	switch op.Kind {
	case tl.Load:
		g.at(max(g.now, p.readFree), evAcquire, p.number, 0)
	case tl.Store:
		g.at(max(g.now, p.writeFree), evAcquire, p.number, 0)
	case tl.Math:
		elements := event.Time(op.N) * event.Nanosecond / event.Time(g.Topo.PE.MathPerNS)
		g.compute(p, roundUp(max(elements, event.Picosecond)))
	case tl.Dot:
		g.compute(p, g.Topo.PE.TileCost*event.Time(g.tiles(op.Gemm)))
	case tl.Composite:
		p.async++
		log.started = g.now
		g.at(g.composite(p, op.Gemm), evAsync, p.number, int32(p.pc))
		g.next(p)
	case tl.Send:
		return g.trySend(p)
	case tl.Recv, tl.RecvAsync:
		return g.receive(p)
	case tl.Wait:
		if target := &p.log[op.Handle]; target.done {
			g.finish(p, g.now)
		} else {
			p.waitFor = op.Handle
		}
	}
	return nil
}

func (g *engine) compute(p *pe, took event.Time) {
	log := &p.log[p.pc]
	log.started = max(g.now, p.engineFree)
	p.engineFree = log.started + took
	g.at(p.engineFree, evDone, p.number, 0)
}

// finish ends the current operation and takes note of its effect.
func (g *engine) finish(p *pe, at event.Time) {
	log := &p.log[p.pc]
	log.end, log.done = at, true
	switch p.prog.Ops[p.pc].Kind {
	case tl.Load, tl.Store, tl.Math, tl.Dot:
		g.effect(p, p.pc, tl.Port{})
	}
	p.pc++
	g.at(at, evIssue, p.number, 0)
}

// next goes on although the operation may not have ended.
func (g *engine) next(p *pe) {
	p.pc++
	g.at(g.now, evIssue, p.number, 0)
}

// completed ends an operation that ran beside the program.
func (g *engine) completed(p *pe, op int) {
	log := &p.log[op]
	log.end, log.done = g.now, true
	p.async--
	if p.prog.Ops[op].Kind == tl.Composite {
		g.effect(p, op, tl.Port{})
	}
	if p.waitFor == op {
		p.waitFor = -1
		g.finish(p, g.now)
	}
	g.mayEnd(p)
}

// mayEnd ends the program when nothing of it is under way.
func (g *engine) mayEnd(p *pe) {
	if p.over && p.async == 0 {
		p.ended = g.now
		g.running--
	}
}

func (g *engine) effect(p *pe, op int, port tl.Port) {
	g.order = append(g.order, Effect{p.number, int32(op), port})
}

// roundUp gives whole nanoseconds.
func roundUp(t event.Time) event.Time {
	return (t + event.Nanosecond - 1) / event.Nanosecond * event.Nanosecond
}

// tiles is how many tiles of the GEMM engine cover a product.
func (g *engine) tiles(m *tl.Gemm) int {
	c := &g.Topo.PE
	return tl.Cdiv(m.M, c.TileM) * tl.Cdiv(m.K, c.TileK) * tl.Cdiv(m.N, c.TileN)
}

// composite is the pipeline DMA read, fetch, GEMM, epilogue, store and DMA
// write, tile by tile: each stage takes a tile when it has finished the one
// before and the stage before has finished this one. Along K the accumulator
// stays, so there is one write-back per tile of the output.
func (g *engine) composite(p *pe, m *tl.Gemm) event.Time {
	c, hbm := &g.Topo.PE, &g.Topo.Cube.HBM
	rows, depth, cols := tl.Cdiv(m.M, c.TileM), tl.Cdiv(m.K, c.TileK), tl.Cdiv(m.N, c.TileN)
	burst := hbm.ChannelBW.Time(hbm.Burst) // what the first burst takes before data flow
	read, fetch, gemm, math, store, write := max(g.now, p.readFree), g.now, max(g.now, p.engineFree), g.now, g.now, max(g.now, p.writeFree)
	for range rows * cols {
		for range depth {
			a, b := c.TileM*c.TileK*tl.ElemSize, c.TileK*c.TileN*tl.ElemSize
			streamed := 0
			if !m.A.Resident() {
				streamed += a
			}
			if !m.B.Resident() {
				streamed += b
			}
			there := g.now
			if streamed > 0 {
				read += hbm.BW.Time(streamed)
				there = read + burst
			}
			fetch = max(fetch, there) + c.FetchBW.Time(a+b)
			gemm = max(gemm, fetch) + c.TileCost
		}
		out := c.TileM * c.TileN
		math = max(math, gemm)
		if len(m.Epilogue) > 0 {
			math += event.Time(len(m.Epilogue)) * roundUp(event.Time(out)*event.Nanosecond/event.Time(c.MathPerNS))
		}
		store = max(store, math) + c.FetchBW.Time(out*tl.ElemSize)
		write = max(write, store) + hbm.BW.Time(out*tl.ElemSize)
	}
	p.readFree, p.engineFree, p.writeFree = read, max(gemm, math), write
	return write + burst
}
