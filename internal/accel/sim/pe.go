package sim

import (
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// pe is a running program and the state of the PE that runs it. The PE_CPU issues the program's operations one after
// the other. Sends, composites and asynchronous receives then run concurrently with the program.
type pe struct {
	number   int32
	index    int      // of the PE in the system; negative for a host
	endpoint topo.End // where its loads and stores start on the fabric
	prog     *program.Program
	pc       int
	log      []opLog

	ended     event.Time
	issuedAll bool  // all operations have been issued
	async     int   // number of operations that run concurrently with the program
	waitFor   int   // the asynchronous operation that the program waits for; -1 if none
	anyWait   bool  // waits for a message from any neighbour
	turn      int32 // the input that the next receive from any neighbour looks at first

	reading, writing   channel // of the DMA
	storeFree          event.Time
	gemmFree, mathFree event.Time
	tcmRoom, tcmUsed   int64   // TCM available for the tiles of composites, and the part of it in use, in bytes
	starved            []int32 // composites that wait for room
	tiles              []tile  // of composites, in the TCM; the first is being fetched
	fetching           bool
	registers          event.Time // when the registers have room for the next tile
	usage              Usages
	tracing            bool
	spans              []Span // of its engines
}

// opLog records when an operation reached each of its stages. The critical path is computed from it.
type opLog struct {
	issued  event.Time // when the previous operation ended
	begun   event.Time // when it was dispatched
	started event.Time // when it got the engine that it needs
	end     event.Time
	done    bool
	arrival *arrival // receive: the message that it took
	credit  *arrival // send that had to wait: the message whose slot it got
}

// issue continues with the next operation that takes time.
func (g *engine) issue(p *pe) {
	for p.pc < len(p.prog.Ops) && p.prog.Ops[p.pc].Kind.Free() {
		p.pc++
	}
	if p.pc == len(p.prog.Ops) {
		p.issuedAll = true
		g.endIfDone(p)
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
		cost = 0 // its software is not modelled
	}
	p.log[p.pc].issued = g.now
	g.schedule(g.now+cost, evBegin, p.number, 0)
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
		g.request(p, c, transfer{location: at, bytes: op.Bytes()})
	case program.Math:
		g.compute(p, OwnMath, &p.mathFree, g.mathTime(op.Work()))
	case program.Dot:
		tiles := op.Gemm.Tiles(program.TileOf(g.Topo)) * op.Gemm.Halves()
		g.compute(p, OwnDot, &p.gemmFree, g.Topo.PE.TileCost*event.Time(tiles))
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

// compute runs an operation on an engine of the PE.
func (g *engine) compute(p *pe, a Activity, free *event.Time, took event.Time) {
	took = topo.ComputeTime(g.Topo, p.prog.ID, took)
	end := p.occupy(a, free, g.now, took)
	p.log[p.pc].started = end - took
	g.schedule(end, evDone, p.number, 0)
}

// finish ends the current operation, records its effect and schedules the next operation.
func (g *engine) finish(p *pe, at event.Time) {
	log := &p.log[p.pc]
	log.end, log.done = at, true
	switch p.prog.Ops[p.pc].Kind {
	case program.Load, program.Store, program.Math, program.Dot:
		g.recordEffect(p, p.pc, program.Port{})
	}
	p.pc++
	g.schedule(at, evIssue, p.number, 0)
}

// next schedules the next operation while the current one continues to run.
func (g *engine) next(p *pe) {
	p.pc++
	g.schedule(g.now, evIssue, p.number, 0)
}

// onAsyncDone ends an operation that ran concurrently with the program.
func (g *engine) onAsyncDone(p *pe, op int) {
	log := &p.log[op]
	log.end, log.done = g.now, true
	p.async--
	if p.prog.Ops[op].Kind == program.Composite {
		g.recordEffect(p, op, program.Port{})
	}
	if p.waitFor == op {
		p.waitFor = -1
		g.finish(p, g.now)
	}
	g.endIfDone(p)
}

// endIfDone ends the program if all its operations have ended.
func (g *engine) endIfDone(p *pe) {
	if p.issuedAll && p.async == 0 {
		p.ended = g.now
		g.running--
	}
}

// recordEffect appends an operation to Result.Order.
func (g *engine) recordEffect(p *pe, op int, port program.Port) {
	g.order = append(g.order, Effect{p.number, int32(op), port, g.now})
}

// roundUp rounds up to whole nanoseconds.
func roundUp(t event.Time) event.Time {
	return (t + event.Nanosecond - 1) / event.Nanosecond * event.Nanosecond
}

// A launch command goes from the IO_CPU of each SIP to the M_CPU of each cube and from there to the PEs. The IO_CPU
// knows how long this takes. It sets a common start time for all PEs, at which the command has reached the last of
// them. The launch is therefore not part of the kernel's time, and no PE starts late.

// ioCPU is the end at which a SIP's launch starts.
func ioCPU(sip int) topo.End { return topo.End{Kind: topo.AtIOCPU, PEID: topo.PEID{SIP: sip}} }

// launch computes the common start and sends the launch commands.
func (g *engine) launch() error {
	g.now = g.Topo.IOCPUCost
	sent := map[int]bool{}
	for _, p := range g.pes {
		if p.prog.Host {
			continue
		}
		id := p.prog.ID
		toCube, err := g.path(ioCPU(id.SIP), mCPU(id))
		if err != nil {
			return err
		}
		toPE, err := g.path(mCPU(id), atPE(id))
		if err != nil {
			return err
		}
		g.startTime = max(g.startTime, g.now+toCube.Fixed()+toPE.Fixed()+g.Topo.PE.CPUCost)
		if cube := id.SIP*g.Topo.Cubes.Count() + id.Cube; !sent[cube] {
			sent[cube] = true
			if err := g.post(ioCPU(id.SIP), mCPU(id), purpose{forCube, int32(cube)}); err != nil {
				return err
			}
		}
	}
	g.startTime = max(g.startTime, g.now)
	for _, p := range g.pes {
		if p.prog.Host { // hosts need no launch command
			g.schedule(g.startTime, evIssue, p.number, 0)
		}
	}
	return nil
}

// mCPU and atPE return the ends of launch commands in a cube.
func mCPU(id topo.PEID) topo.End {
	id.PE = 0
	return topo.End{Kind: topo.AtMCPU, PEID: id}
}

func atPE(id topo.PEID) topo.End { return topo.End{Kind: topo.AtPE, PEID: id} }

// onCubeLaunch runs when the launch command has reached an M_CPU, which forwards it to the PEs that take part.
func (g *engine) onCubeLaunch(cube int) error {
	id := topo.PEID{SIP: cube / g.Topo.Cubes.Count(), Cube: cube % g.Topo.Cubes.Count()}
	for pe := range g.Topo.PEs() {
		id.PE = pe
		if i, runs := g.byIndex[g.Topo.Index(id)]; runs {
			if err := g.post(mCPU(id), atPE(id), purpose{forProgram, int32(i)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// onLaunch runs when the launch command has reached a PE, which waits for the common start.
func (g *engine) onLaunch(p *pe) {
	ready := g.now + g.Topo.PE.CPUCost
	if ready > g.startTime {
		g.latePEs++
	}
	g.schedule(max(ready, g.startTime), evIssue, p.number, 0)
}

// Deadlock is the error of programs that wait for each other: no event is left, but they have not ended.
type Deadlock struct {
	Stuck int      // programs that have not ended
	Chain []string // what one of them waits for, then what the program that it waits for waits for, and so on
	Cycle bool     // the chain leads back to one of its own programs
}

func (d *Deadlock) Error() string {
	text := fmt.Sprintf("deadlock, %d programs wait forever: %s", d.Stuck, strings.Join(d.Chain, "; "))
	if d.Cycle {
		text += "; the chain is a cycle"
	}
	return text
}

// deadlock follows the chain of waiting programs from the first one that has not ended.
func (g *engine) deadlock() error {
	d := &Deadlock{Stuck: g.running}
	seen := map[*pe]bool{}
	var p *pe
	for _, p = range g.pes {
		if p.ended == 0 {
			break
		}
	}
	for p != nil {
		if seen[p] {
			d.Cycle = true
			break
		}
		seen[p] = true
		text, next := g.describeWait(p)
		d.Chain = append(d.Chain, text)
		p = next
		if p != nil && p.issuedAll && p.async == 0 {
			d.Chain = append(d.Chain, fmt.Sprintf("%v has ended", p.prog.ID))
			break
		}
	}
	return d
}

// describeWait returns a text that says what a program waits for, and the program that it waits for, or nil.
func (g *engine) describeWait(p *pe) (text string, next *pe) {
	at := p.pc
	if p.waitFor >= 0 {
		at = p.waitFor
	}
	if p.issuedAll {
		for at = range p.prog.Ops {
			if p.prog.Ops[at].Kind == program.RecvAsync && !p.log[at].done {
				break
			}
		}
	}
	op := &p.prog.Ops[at]
	who, how := int(op.Port.From), "from"
	if op.Kind == program.Send {
		who, how = int(op.Port.To), "for a free slot at"
	}
	peer := g.Topo.At(who)
	if i, runs := g.byIndex[who]; runs {
		next = g.pes[i]
	}
	text = fmt.Sprintf("%v waits at %s (%v) %s %v", p.prog.ID, p.prog.Where(at), op.Kind, how, peer)
	switch {
	case op.Any:
		return fmt.Sprintf("%v waits at %s (recv) for anyone", p.prog.ID, p.prog.Where(at)), nil
	case next == nil:
		text += ", which runs no program"
	}
	return text, next
}
