// Package sim runs the programs of PEs on a simulated accelerator and says when
// everything happened. It is a discrete-event simulation in integer picoseconds
// without any randomness: the same input gives the same result on any machine.
//
// It knows time, not data: Result.Order lists the operations in the order in
// which they took effect, for program.Executor to compute afterwards. Package fabric
// moves the messages; here are the launch, the PEs, their receive queues (IPCQ)
// and the HBM.
package sim

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/fabric"
	"github.com/kernbench/kernbench/internal/accel/program"
	"github.com/kernbench/kernbench/internal/accel/topo"
)

// Config is the machine and how its PEs' receive queues are set up.
type Config struct {
	Topo        *topo.Topology
	Buffer      topo.Space // where receive slots lie
	Slots       int        // per queue
	SlotBytes   int
	CreditBytes int
	Poll        bool // a sender without a free slot looks every topo.PE.Poll instead of being woken
	FlitByFlit  bool // no trains: the slow reference
	Load        bool // Result.Load has what every link carried when, unless there are too many
	Trace       bool // Result.Trace has everything, flit by flit
}

// Result is what happened. Times of PEs count from their common start.
type Result struct {
	Start     event.Time   // when the PEs started, after the launch
	Late      int          // PEs that the launch reached after Start; 0 if the model is right
	Exec      []event.Time // by program: from start to end
	Crit      event.Time   // the longest of these
	Slowest   int          // the program that took it
	Breakdown Breakdown    // of Crit
	Path      []Step       // its critical path
	Order     []Effect
	Hops      int64 // passages of flits over links
	Messages  int
	Busy      []event.Time // by link: how long it was sending
	Usage     []Usages     // by program: what its engines did
	End       event.Time
	Load      *Load  // if Config.Load, and there are not too many links
	Trace     *Trace // if Config.Trace
}

// Effect is an operation that took effect: of a receive from anyone, Port says
// whose message it took.
type Effect struct {
	Program, Op int32
	Port        program.Port
}

// The kinds of this package's events.
const (
	evIssue   = fabric.Kinds + iota // program A starts, or continues with its next operation
	evBegin                         // the operation of program A has been dispatched
	evWake                          // a sender that had no slot looks again
	evDone                          // the engine has finished the operation of program A
	evAcquire                       // the next transfer of program A gets the DMA channel, B: 1 to write
	evStored                        // the last burst of program A's write is in the HBM
	evVisible                       // a message is in its slot of queue A
	evRead                          // a message has been read from its slot of queue A
	evCredit                        // a slot of queue A is free again
	evAsync                         // operation B of program A has finished
	evResult                        // tile B of the result of composite A is ready to be stored
	evFetch                         // the registers of program A have room
	evFetched                       // the operands of a tile are in them
	evTile                          // tile B of the result of composite A is in the TCM
)

// purpose is what a message is for.
type purpose struct {
	kind purposeKind
	a    int32 // a queue, a program or a cube
}

type purposeKind uint8

const (
	forQueue     purposeKind = iota // a: queue
	forSlot                         // a: queue; on to the memory of its slots
	forReader                       // a: queue; from there to the PE
	forLoad                         // a: program; the request for its load
	forLoadData                     // a: program
	forStoreData                    // a: program
	forStoreAck                     // a: program
	forCube                         // a: cube of the system; the launch, to its M_CPU
	forProgram                      // a: program; the launch
)

type engine struct {
	Config
	events     event.Queue
	fabric     *fabric.Fabric
	wiring     *topo.Wiring
	paths      map[[2]topo.End]topo.Path
	purposes   []purpose // by message
	pes        []*pe
	byIndex    map[int]int // program by index of its PE
	queues     []*queue
	byPort     map[program.Port]int32
	tcms, sram map[int]*ports // by PE, by cube
	hbm        map[int]*hbm
	ready      []event.Time // of the pieces of a read; reused
	order      []Effect
	composites []*composite
	links      map[int32][]linkSpan // with Config.Trace
	load       *recorder            // with Config.Load
	target     event.Time           // when all start
	late       int
	now        event.Time
	running    int
}

// Run simulates the launch of the programs, at most one per PE and one per host, to its end.
func Run(cfg Config, programs []*program.Program) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	g, err := newEngine(cfg, topo.NewWiring(cfg.Topo), programs)
	if err != nil {
		return nil, err
	}
	if err := g.run(); err != nil {
		return nil, err
	}
	return g.result(), nil
}

func newEngine(cfg Config, wiring *topo.Wiring, programs []*program.Program) (*engine, error) {
	g := &engine{Config: cfg, wiring: wiring, paths: map[[2]topo.End]topo.Path{},
		byIndex: map[int]int{}, byPort: map[program.Port]int32{}, tcms: map[int]*ports{}, sram: map[int]*ports{},
		hbm: map[int]*hbm{}}
	g.fabric = fabric.New(&g.events, g.wiring.Links(), cfg.Topo.Fabric, cfg.Topo.FlitBytes)
	if cfg.FlitByFlit || cfg.Trace {
		g.fabric.FlitByFlit()
	}
	if cfg.Trace {
		g.links = map[int32][]linkSpan{}
	}
	if links := g.wiring.Links(); cfg.Load && links <= mostRecorded {
		g.load = newRecorder(links)
	}
	if cfg.Trace || g.load != nil {
		g.fabric.Observe(g.passed)
	}
	for i, p := range programs {
		index, at := cfg.Topo.Index(p.ID), atPE(p.ID)
		if p.Host {
			index, at = -1-p.ID.SIP, topo.End{Kind: topo.AtPCIe, PEID: topo.PEID{SIP: p.ID.SIP}}
		}
		if other, taken := g.byIndex[index]; taken {
			return nil, fmt.Errorf("two programs (%d and %d) for %v", other, i, p.ID)
		}
		g.byIndex[index] = i
		g.pes = append(g.pes, &pe{number: int32(i), index: index, at: at, prog: p, log: make([]opLog, len(p.Ops)),
			waitFor: -1, writing: channel{write: true}, room: cfg.Topo.PE.TCMBytes - p.TCM, tracing: cfg.Trace})
	}
	g.running = len(programs)
	return g, g.checkSlots()
}

// passed records what went over a link, for who looks.
func (g *engine) passed(p fabric.Passage) {
	if g.load != nil {
		g.load.passed(p)
	}
	if g.links != nil {
		g.onLink(p)
	}
}

// run simulates to the end, at which every program has ended and every message has
// been received as it was sent.
func (g *engine) run() error {
	if err := g.launch(); err != nil {
		return err
	}
	if g.load != nil {
		g.load.start = g.target
	}
	if err := g.loop(); err != nil {
		return err
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

// loop handles events until there are none.
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
				err = g.delivered(e.A)
			}
		case fabric.FlitThere:
			g.flitThere(e.A, int(e.B))
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
			err = g.stored(g.pes[e.A])
		case evVisible:
			g.visible(g.queues[e.A])
		case evRead:
			g.slotRead(g.queues[e.A])
		case evCredit:
			g.credit(g.queues[e.A])
		case evAsync:
			g.completed(g.pes[e.A], int(e.B))
		case evResult:
			g.store(e.A, int(e.B))
		case evFetch:
			g.fetch(g.pes[e.A])
		case evFetched:
			err = g.fetched(g.pes[e.A])
		case evTile:
			err = g.tileStored(e.A, int(e.B))
		default:
			g.fabric.Handle(e)
		}
		if err != nil {
			return err
		}
	}
}

// at schedules an event of this package. The sequence number names the event,
// so that its order among others of the same time does not depend on when it
// was scheduled.
func (g *engine) at(t event.Time, kind uint8, a, b int32) {
	g.events.Push(event.Event{Time: t, Seq: fabric.Sequences + uint64(kind)<<52 + uint64(a)<<24 + uint64(b), Kind: kind,
		A: a, B: b})
}

// path finds a path and remembers it.
func (g *engine) path(from, to topo.End) (topo.Path, error) {
	key := [2]topo.End{from, to}
	if p, known := g.paths[key]; known {
		return p, nil
	}
	p, err := g.wiring.Path(from, to)
	if err == nil {
		g.paths[key] = p
	}
	return p, err
}

// post sends a message without content.
func (g *engine) post(from, to topo.End, why purpose) error {
	path, err := g.path(from, to)
	if err != nil {
		return err
	}
	g.track(g.fabric.Send(g.now, path, 0), why)
	return nil
}

func (g *engine) track(m *fabric.Message, why purpose) {
	for int(m.ID) >= len(g.purposes) {
		g.purposes = append(g.purposes, purpose{})
	}
	g.purposes[m.ID] = why
}

func (g *engine) delivered(message int32) error {
	m := g.fabric.Message(message)
	defer g.fabric.Done(m)
	switch why := g.purposes[message]; why.kind {
	case forQueue:
		g.arrived(g.queues[why.a])
	case forSlot:
		g.atSlot(g.queues[why.a])
	case forReader:
		g.read(g.queues[why.a])
	case forLoad:
		return g.answer(g.pes[why.a])
	case forLoadData:
		return g.loaded(g.pes[why.a])
	case forStoreAck:
		return g.written(g.pes[why.a])
	case forStoreData:
		g.storeArrived(g.pes[why.a], m)
	case forCube:
		return g.launchCube(int(why.a))
	case forProgram:
		g.launched(g.pes[why.a])
	}
	return nil
}

func (g *engine) result() *Result {
	r := &Result{Start: g.target, Late: g.late, Order: g.order, Hops: g.fabric.Hops(),
		Messages: len(g.purposes), Busy: g.fabric.Busy(), End: g.now}
	for i, p := range g.pes {
		exec := p.ended - g.target
		r.Exec = append(r.Exec, exec)
		r.Usage = append(r.Usage, p.usage)
		if exec > r.Crit {
			r.Crit, r.Slowest = exec, i
		}
	}
	if len(g.pes) > 0 {
		r.Path = g.criticalPath(g.pes[r.Slowest])
		r.Breakdown = breakdown(r.Path)
	}
	if g.load != nil {
		r.Load = &g.load.Load
	}
	if g.Config.Trace {
		r.Trace = g.trace()
	}
	return r
}
