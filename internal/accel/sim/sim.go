// Package sim simulates the programs of PEs (processing elements) on an accelerator and reports when each operation
// happened. It is a discrete-event simulation in integer picoseconds without randomness, so the same input gives the
// same result on any machine.
//
// The simulation computes times and no data. Result.Order lists the operations in the order in which they took effect,
// so that a program.Executor can compute the data afterwards. Package fabric moves the messages. This package simulates
// the launch, the PEs, their receive queues (IPCQ) and the HBM.
//
// The methods of engine whose names begin with "on" handle events: onVisible runs when a message has become visible in
// its slot, onCredit when a slot is free again.
package sim

import (
	"fmt"
	"maps"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Config is the machine and the setup of the receive queues of its PEs.
type Config struct {
	Topo        *topo.Topology
	Buffer      topo.Space // memory of the receive slots
	Slots       int        // per queue
	SlotBytes   int
	CreditBytes int  // size of the message that returns a slot to the sender
	Poll        bool // a sender without a free slot polls every topo.PE.Poll instead of being woken
	FlitByFlit  bool // simulate every flit separately (no trains); slow, used as a reference in tests
	Load        bool // record the load of every link in Result.Load, unless there are too many links
	Trace       bool // record all activity in Result.Trace, flit by flit
}

// The kinds of this package's events. A and B are the fields of event.Event.
const (
	evIssue   = fabric.Kinds + iota // program A starts, or continues with its next operation
	evBegin                         // the operation of program A has been dispatched
	evWake                          // program A, a sender that had no slot, tries again
	evDone                          // the engine has finished the operation of program A
	evAcquire                       // the next transfer of program A gets the DMA channel; B is 1 for writes
	evStored                        // the last burst of program A's write is in the HBM
	evVisible                       // a message is in its slot of queue A
	evRead                          // a message has been read from its slot of queue A
	evCredit                        // a slot of queue A is free again
	evAsync                         // operation B of program A has finished
	evResult                        // tile B of the result of composite A is ready to be stored
	evFetch                         // the registers of program A have room for another tile
	evFetched                       // the operands of a tile are in the registers of program A
	evTile                          // tile B of the result of composite A is in the TCM
)

// purpose determines what happens when a message is delivered. It travels in the Tag of the message.
type purpose struct {
	kind purposeKind
	a    int32 // the number of a queue, a program or a cube, depending on kind
}

type purposeKind uint8

const (
	forQueue     purposeKind = iota // a: queue
	forSlot                         // a: queue; from the receiving PE to the memory of the slots
	forReader                       // a: queue; from the memory of the slots to the receiving PE
	forLoad                         // a: program; the request of a load
	forLoadData                     // a: program
	forStoreData                    // a: program
	forStoreAck                     // a: program
	forCube                         // a: cube of the system; the launch command, to its M_CPU
	forProgram                      // a: program; the launch command
)

// engine is the state of a simulation.
type engine struct {
	Config
	events     event.Queue
	fabric     *fabric.Fabric
	wiring     *topo.Wiring
	paths      map[[2]topo.End]topo.Path // cache
	pes        []*pe                     // by program
	byIndex    map[int]int               // program by index of its PE
	queues     []*queue
	byPort     map[program.Port]int32
	ports      []program.Port // of all sends
	tcms, sram map[int]*ports // by PE; by the first PE of the cube
	hbm        map[int]*hbm   // by PE
	ready      []event.Time   // buffer of onReadRequest
	order      []Effect
	composites []*composite
	links      map[int32][]linkSpan // with Config.Trace
	load       *recorder            // with Config.Load
	startTime  event.Time           // the common start of all PEs
	latePEs    int
	now        event.Time
	running    int     // programs that have not ended
	planned    bool    // paths has all paths of the programs
	oneSIP     bool    // only SIP 0 is simulated and stands for all SIPs
	idle       *engine // for idleTime
}

// Run simulates the launch of programs until all have ended. There is at most one program per PE and
// one per host.
func Run(cfg Config, programs []*program.Program) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	wiring := topo.NewWiring(cfg.Topo)
	if symmetric(cfg, wiring, programs) {
		if r := runOneSIP(cfg, wiring, programs); r != nil {
			return r, nil
		}
	}
	g, err := newEngine(cfg, wiring, programs, false)
	if err != nil {
		return nil, err
	}
	if err := g.run(); err != nil {
		return nil, err
	}
	return g.result(), nil
}

// newEngine sets up a simulation. It fails if two programs share a PE or the receive slots do not fit. If oneSIP is
// set, programs has the programs of SIP 0 only, and all other SIPs run the same ones (see symmetric).
func newEngine(cfg Config, wiring *topo.Wiring, programs []*program.Program, oneSIP bool) (*engine, error) {
	g := &engine{Config: cfg, wiring: wiring, oneSIP: oneSIP, paths: map[[2]topo.End]topo.Path{},
		byIndex: map[int]int{}, byPort: map[program.Port]int32{}, tcms: map[int]*ports{}, sram: map[int]*ports{},
		hbm: map[int]*hbm{}}
	links := wiring.Links()
	if oneSIP {
		links = wiring.LinksPerSIP()
	}
	g.fabric = fabric.New(&g.events, links, cfg.Topo.Fabric, cfg.Topo.FlitBytes)
	if oneSIP {
		g.fabric.Symmetric()
	}
	g.fabric.Arbitrate(topo.QueueingOf(cfg.Topo))
	if cfg.FlitByFlit || cfg.Trace {
		g.fabric.FlitByFlit()
	}
	if cfg.Trace {
		g.links = map[int32][]linkSpan{}
	}
	if recordsLoad(cfg, wiring) {
		g.load = newRecorder(links)
	}
	if cfg.Trace || g.load != nil {
		g.fabric.Observe(g.onPassage)
	}
	for i, p := range programs {
		index, at := cfg.Topo.Index(p.ID), atPE(p.ID)
		if p.Host {
			index, at = -1-p.ID.SIP, topo.End{Kind: topo.AtHost, PEID: topo.PEID{SIP: p.ID.SIP}}
		}
		if other, taken := g.byIndex[index]; taken {
			return nil, fmt.Errorf("two programs (%d and %d) for %v", other, i, p.ID)
		}
		g.byIndex[index] = i
		g.pes = append(g.pes, &pe{number: int32(i), index: index, endpoint: at, prog: p, log: make([]opLog, len(p.Ops)),
			waitFor: -1, writing: channel{write: true}, tcmRoom: cfg.Topo.PE.TCMBytes - p.TCM, tracing: cfg.Trace})
	}
	g.running = len(programs)
	return g, g.checkSlots()
}

// onPassage records that a flit or a whole message has gone over a link.
func (g *engine) onPassage(p fabric.Passage) {
	if g.load != nil {
		g.load.record(p)
	}
	if g.links != nil {
		g.onLink(p)
	}
}

// run simulates until no event is left, and checks that every program has ended and every message was received.
func (g *engine) run() error {
	if err := g.plan(); err != nil {
		return err
	}
	if err := g.launch(); err != nil {
		return err
	}
	if g.load != nil {
		g.load.start = g.startTime
	}
	if err := g.loop(); err != nil {
		return err
	}
	if link := g.fabric.Blocked(); link >= 0 {
		return fmt.Errorf("the buffers of the fabric are full in a cycle, for example before %s: raise buffer_flits",
			g.wiring.LinkName(link))
	}
	if g.running > 0 {
		return g.deadlock()
	}
	return g.checkMessages()
}

func (c *Config) check() error {
	switch {
	case c.Slots < 1:
		return fmt.Errorf("%d slots per queue: want at least 1", c.Slots)
	case c.SlotBytes < program.ElemSize:
		return fmt.Errorf("slots of %d bytes hold no element", c.SlotBytes)
	case c.CreditBytes < 0:
		return fmt.Errorf("credits of %d bytes: want 0 or more", c.CreditBytes)
	}
	if _, known := c.Topo.PE.Tiers[c.Buffer]; !known {
		return fmt.Errorf("receive slots in %q: want one of %v", c.Buffer, topo.Spaces())
	}
	return nil
}

// loop handles events until none is left.
func (g *engine) loop() error {
	for {
		e, ok := g.events.Pop()
		if !ok {
			return nil
		}
		g.now = e.Time
		var err error
		switch e.Kind {
		case fabric.Delivered:
			if g.fabric.Valid(e) {
				err = g.onDelivered(e.A)
			}
		case fabric.FlitThere:
			g.onFlitThere(e.A, int(e.B))
		case evIssue:
			g.issue(g.pes[e.A])
		case evBegin:
			err = g.begin(g.pes[e.A])
		case evWake:
			g.send(g.pes[e.A])
		case evDone:
			g.finish(g.pes[e.A], g.now)
		case evAcquire:
			err = g.transfer(g.pes[e.A], e.B == 1)
		case evStored:
			err = g.onStored(g.pes[e.A])
		case evVisible:
			g.onVisible(g.queues[e.A])
		case evRead:
			g.onSlotRead(g.queues[e.A])
		case evCredit:
			g.onCredit(g.queues[e.A])
		case evAsync:
			g.onAsyncDone(g.pes[e.A], int(e.B))
		case evResult:
			g.onResult(e.A, int(e.B))
		case evFetch:
			g.fetch(g.pes[e.A])
		case evFetched:
			err = g.onFetched(g.pes[e.A])
		case evTile:
			err = g.onTileStored(e.A, int(e.B))
		default:
			g.fabric.Handle(e)
		}
		if err != nil {
			return err
		}
	}
}

// schedule adds an event of this package to the queue. Its place is derived from the event itself, so that the order of
// events with the same time does not depend on when they were scheduled.
func (g *engine) schedule(t event.Time, kind uint8, a, b int32) {
	g.events.Push(event.Event{Time: t, Class: fabric.Owner + kind, Seq: uint64(a)<<32 + uint64(b), Kind: kind, A: a, B: b})
}

// plan finds all paths that the programs use, so that the fabric knows which links follow each other (fabric.Chain).
func (g *engine) plan() error {
	var err error
	add := func(from, to topo.End) {
		if err == nil {
			_, err = g.path(from, to)
		}
	}
	addBoth := func(from, to topo.End) { add(from, to); add(to, from) }
	memory := func(p *pe, at topo.Address) {
		l, failed := g.Topo.Locate(at)
		if failed == nil { // otherwise the operation itself reports the error
			addBoth(p.endpoint, atHBM(l))
		}
	}
	for _, p := range g.pes {
		if !p.prog.Host {
			add(ioCPU(p.prog.ID.SIP), mCPU(p.prog.ID))
			add(mCPU(p.prog.ID), atPE(p.prog.ID))
		}
		for i := range p.prog.Ops {
			switch op := &p.prog.Ops[i]; op.Kind {
			case program.Load, program.Store:
				memory(p, op.Addr)
			case program.Composite:
				for _, o := range []program.Operand{op.Gemm.A, op.Gemm.B} {
					if !o.Resident() {
						memory(p, o.Addr)
					}
				}
				memory(p, op.Gemm.Out)
			}
		}
	}
	for _, port := range g.ports {
		from, to := atPE(g.Topo.At(int(port.From))), atPE(g.Topo.At(int(port.To)))
		addBoth(from, to)
		if kind, outside := slotEnds[g.Buffer]; outside {
			addBoth(to, topo.End{Kind: kind, PEID: to.PEID})
		}
	}
	if err == nil {
		g.fabric.Chain(maps.Values(g.paths))
		g.planned = true
	}
	return err
}

// path returns the path between two ends of the fabric. Paths are cached.
func (g *engine) path(from, to topo.End) (topo.Path, error) {
	key := [2]topo.End{from, to}
	if p, known := g.paths[key]; known {
		return p, nil
	}
	if g.planned { // a receive without a send asks for a path that plan has not seen: undo the chaining
		g.fabric.Chain(func(func(topo.Path) bool) {})
	}
	p, err := g.wiring.Path(from, to)
	if err != nil {
		return nil, err
	}
	if g.oneSIP {
		for i := range p {
			p[i].Link %= int32(g.wiring.LinksPerSIP())
		}
	}
	g.paths[key] = p
	return p, nil
}

// post sends a message without data, such as a request or an acknowledgement.
func (g *engine) post(from, to topo.End, why purpose) error {
	path, err := g.path(from, to)
	if err != nil {
		return err
	}
	g.track(g.fabric.Send(g.now, path, 0), why)
	return nil
}

// track attaches its purpose to a message.
func (g *engine) track(m *fabric.Message, why purpose) {
	m.Tag = uint64(why.kind)<<32 | uint64(uint32(why.a))
}

// purposeOf returns the purpose of a message.
func purposeOf(m *fabric.Message) purpose {
	return purpose{purposeKind(m.Tag >> 32), int32(uint32(m.Tag))}
}

// onDelivered handles the delivery of a message.
func (g *engine) onDelivered(message int32) error {
	m := g.fabric.Message(message)
	defer g.fabric.Done(m)
	switch why := purposeOf(m); why.kind {
	case forQueue:
		g.onArrived(g.queues[why.a])
	case forSlot:
		g.onAtSlot(g.queues[why.a])
	case forReader:
		g.onRead(g.queues[why.a])
	case forLoad:
		return g.onReadRequest(g.pes[why.a])
	case forLoadData:
		return g.onLoadData(g.pes[why.a])
	case forStoreAck:
		return g.onStoreAck(g.pes[why.a])
	case forStoreData:
		g.onStoreData(g.pes[why.a], m)
	case forCube:
		return g.onCubeLaunch(int(why.a))
	case forProgram:
		g.onLaunch(g.pes[why.a])
	}
	return nil
}
