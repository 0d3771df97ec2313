package loggp

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/accel/graph"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Machine simulates operations on the ranks of a network. The caller adds operations, starts each of their
// members at a simulated time, and calls Run. While Run handles events it calls back at the end of every
// member, and the callback may add and start further operations. A Machine is used by one goroutine. Its
// memory grows with the operations and messages under way, not with the length of the simulation.
type Machine struct {
	network Network
	ranks   int
	// ahead lets a member run ahead of the queue's time up to the next step that needs a peer. That saves
	// events, and changes no result as long as no other operation uses the links of its rank.
	ahead  bool
	strict bool // never run ahead; for tests

	adding, copying pace
	broken          broken
	classes         []linkClass
	links           []link
	totals          []totals      // of the links; nil: not counted
	routes          *graph.Routes // nil: the network is flat
	sent            []uint32      // messages sent by each rank
	computed        []uint64      // hash of each rank's computations in the order of their starts; nil: there are none

	queue      event.Queue
	now        event.Time
	operations []*operation
	freeSlots  []int32  // unused entries of operations
	added      uint64   // operations so far
	checks     uint64   // calls of Collective so far
	checked    []uint64 // the last of them that had each rank as a member
	messages   []message
	chains     []chain       // of the messages; only if ended is set
	free       []int32       // unused entries of messages
	step       schedule.Step // of the member that continues
	ended      func(End)
	result     Result
}

// NewMachine returns an idle machine with the given number of ranks. It returns an error if the network has too
// few ranks, or if its faults name unknown ranks or links, or cut ranks off.
func NewMachine(n Network, ranks int) (*Machine, error) {
	m := &Machine{network: n, ranks: ranks, adding: pace{rate: n.Reduce}, copying: pace{rate: n.Copy},
		sent: make([]uint32, ranks)}
	var err error
	if m.broken, err = n.resolve(ranks); err != nil {
		return nil, fmt.Errorf("network %s: %w", n.Name, err)
	}
	if n.Graph == nil {
		m.connectFlat()
		m.totals = make([]totals, len(m.links))
		return m, nil
	}
	if m.routes, err = graph.NewRoutes(n.Graph, m.broken.dead, ranks); err != nil {
		return nil, fmt.Errorf("network %s: %w", n.Name, err)
	}
	m.links = make([]link, len(n.Graph.Links))
	for i, l := range n.Graph.Links {
		m.links[i] = link{class: m.class(int32(i), l.Rate, l.Latency), to: l.To}
	}
	m.totals = make([]totals, len(m.links))
	return m, nil
}

// connectFlat creates the links of a flat network: from each rank to the switch, then from the switch to each.
func (m *Machine) connectFlat() {
	n := &m.network
	m.links = make([]link, 2*m.ranks)
	for i := range m.links {
		latency := n.Latency
		if i >= m.ranks {
			latency = 0
		}
		m.links[i].class = m.class(int32(i), n.Bandwidth, latency)
	}
}

// class returns the class of a link with these parameters, and adds it if it is new.
func (m *Machine) class(i int32, rate Rate, latency event.Time) int32 {
	if factor := m.broken.links[i]; factor > 0 {
		rate = max(1, Rate(int64(rate)*1000/factor))
	}
	for id, c := range slices.Backward(m.classes) { // there are few, and neighbours have the same
		if c.wire.rate == rate && c.latency == latency {
			return int32(id)
		}
	}
	m.classes = append(m.classes, linkClass{wire: pace{rate: rate}, latency: latency, gap: m.network.Gap})
	return int32(len(m.classes) - 1)
}

// Check reports an error if a machine with this number of ranks cannot be made.
func (n *Network) Check(ranks int) error {
	if _, err := n.resolve(ranks); err != nil {
		return fmt.Errorf("network %s: %w", n.Name, err)
	}
	return nil
}

// MaxRanks returns the largest number of ranks on the network.
func (n *Network) MaxRanks() int {
	if n.Graph != nil {
		return n.Graph.Ranks
	}
	return maxRanks
}

// Switch returns the switch to which a rank is connected, or -1 if it is connected to other ranks or the network is
// flat.
func (m *Machine) Switch(rank int) int32 {
	if m.network.Graph == nil {
		return -1
	}
	return m.network.Graph.Switch(rank)
}

// ID identifies an operation of a Machine until the callback for its last member has returned.
type ID int32

// End says when and why a member of an operation ended.
type End struct {
	ID     ID
	Key    int64 // as given by the caller when it added the operation
	Member int
	Rank   int
	Start  event.Time // of this member
	Time   event.Time
	// Cause is the member that delayed this one: the chain of last dependencies to arrive begins at its start.
	// The chain lasts from CauseStart to Time, which is the sum of Spent.
	Cause      int
	CauseStart event.Time
	Spent      Spent
}

// Spent divides the time of a chain of dependencies within an operation.
type Spent struct {
	Local   event.Time // overheads, reductions, copies, computation
	Wire    event.Time // bytes passing the slowest link of their path
	Latency event.Time
	Queue   event.Time // waiting for links that other messages occupy
}

// Total returns the sum of the parts.
func (s Spent) Total() event.Time { return s.Local + s.Wire + s.Latency + s.Queue }

// operation is a collective, a message or a computation.
type operation struct {
	slot     int32
	serial   uint64 // counts operations in the order in which they were added
	key      int64
	schedule schedule.Schedule // nil: steps holds the only step of each member
	steps    []schedule.Step
	elem     int64
	ranks    []int32 // of the members; nil: member i is rank i
	duration event.Time
	pullers  []schedule.Puller
	members  []member      // nil until the first one starts
	chains   []memberChain // of the members; nil: not kept
	ended    int
}

func (o *operation) rank(member int32) int32 {
	if o.ranks == nil {
		return member
	}
	return o.ranks[member]
}

// size returns the number of members.
func (o *operation) size() int {
	if o.ranks != nil {
		return len(o.ranks)
	}
	return o.schedule.Ranks()
}

// name describes the operation for errors.
func (o *operation) name() string {
	switch {
	case o.schedule != nil:
		return o.schedule.Collective() + " " + o.schedule.Name()
	case o.steps != nil:
		return fmt.Sprintf("message of %d bytes from rank %d to rank %d", o.steps[0].Src.Len, o.ranks[0], o.ranks[1])
	}
	return "computation"
}

// Collective adds a collective with elements of elem bytes. Member i of the schedule is the rank members[i];
// nil means that all ranks of the machine are members. Members must be different ranks. The schedule must have
// been proved.
func (m *Machine) Collective(key int64, s schedule.Schedule, elem int, members []int32) (ID, error) {
	switch {
	case members == nil && s.Ranks() != m.ranks:
		return 0, fmt.Errorf("%s %s of %d ranks on a network of %d", s.Collective(), s.Name(), s.Ranks(), m.ranks)
	case members != nil && s.Ranks() != len(members):
		return 0, fmt.Errorf("%s %s of %d ranks with %d members", s.Collective(), s.Name(), s.Ranks(), len(members))
	}
	if m.checked == nil {
		m.checked = make([]uint64, m.ranks)
	}
	m.checks++
	for _, rank := range members {
		if rank < 0 || int(rank) >= m.ranks || m.checked[rank] == m.checks {
			return 0, fmt.Errorf("%s %s: member rank %d appears twice, or is not one of %d ranks", s.Collective(), s.Name(),
				rank, m.ranks)
		}
		m.checked[rank] = m.checks
	}
	return ID(m.add(operation{key: key, schedule: s, elem: int64(elem), ranks: members})), nil
}

// Message adds a message between two different ranks. Member 0 sends: it ends when the bytes
// have left. Member 1 receives.
func (m *Machine) Message(key int64, from, to int, bytes int64) ID {
	data := schedule.Range{Len: int(bytes)}
	return ID(m.add(operation{key: key, elem: 1, ranks: []int32{int32(from), int32(to)}, steps: []schedule.Step{
		{Op: schedule.Send, To: schedule.One(1), Src: data}, {Op: schedule.Recv, From: schedule.One(0), Dst: data}}}))
}

// Compute adds a computation of one rank, which is member 0.
func (m *Machine) Compute(key int64, rank int, duration event.Time) ID {
	return ID(m.add(operation{key: key, ranks: []int32{int32(rank)}, duration: duration}))
}

func (m *Machine) add(o operation) int32 {
	if n := len(m.freeSlots); n > 0 {
		o.slot, m.freeSlots = m.freeSlots[n-1], m.freeSlots[:n-1]
	} else {
		o.slot = int32(len(m.operations))
		m.operations = append(m.operations, nil)
	}
	o.serial = m.added
	m.added++
	m.operations[o.slot] = &o
	return o.slot
}

// open creates the state of the members.
func (m *Machine) open(o *operation) {
	o.members = make([]member, o.size())
	if m.ended != nil {
		o.chains = make([]memberChain, o.size())
	}
	if o.schedule != nil {
		o.pullers = schedule.PullAll(o.schedule)
	}
}

// Start starts a member of an operation at a time that is not before Now, or at the start offset of its rank if that
// is later. Every member is started once.
func (m *Machine) Start(id ID, member int, at event.Time) {
	o := m.operations[id]
	rank := o.rank(int32(member))
	m.queue.Push(event.Event{Time: max(at, m.now, m.broken.offsets[rank]), Seq: sequence(startClass, rank, o.serial),
		Kind: start, A: int32(member), B: int32(id)})
}

// Now returns the simulated time: of the event that Run is handling, or of the last one.
func (m *Machine) Now() event.Time { return m.now }

// Result returns the totals so far.
func (m *Machine) Result() Result { return m.result }

// The kinds of events.
const (
	start   uint8 = iota // member A of operation B starts
	resume               // member A of operation B continues with the step that it has fetched
	end                  // member A of operation B has ended
	arrival              // the first byte of message B has reached the next link of its path
)

// The classes of events of the same time, in their order.
const (
	startClass uint64 = iota << 62
	progressClass
	_
	messageClass = progressClass | 1<<serialBits
)

// serialBits is the size of the last part of a sequence number. The class takes 2 bits, the rank 20.
const (
	serialBits = 40
	maxRanks   = 1 << 20
)

// sequence returns a sequence number that orders events of the same time: see the package comment.
func sequence(class uint64, rank int32, number uint64) uint64 {
	return class | uint64(rank)<<(serialBits+1) | number
}

// Run handles events until none is left. If ended is not nil, it is called at the end of every member, in the
// order of simulated time. It returns an error if a member waits for ever or has not been started.
func (m *Machine) Run(ended func(End)) error {
	m.ended = ended
	defer func() {
		for _, o := range m.operations {
			if o != nil {
				schedule.StopAll(o.pullers)
			}
		}
	}()
	for {
		e, more := m.queue.Pop()
		if !more {
			break
		}
		m.now = e.Time
		switch e.Kind {
		case start:
			o := m.operations[e.B]
			if o.members == nil {
				m.open(o)
			}
			m.begin(e.B, e.A, e.Time)
		case resume:
			o := m.operations[e.B]
			m.advance(o, &o.members[e.A], e.Time)
		case end:
			m.report(m.operations[e.B], e.A)
		default:
			m.pass(e.B, e.Time)
		}
	}
	for _, o := range m.operations {
		if o != nil {
			return m.stuck(o)
		}
	}
	return nil
}

// stuck returns the error for an operation that cannot end.
func (m *Machine) stuck(o *operation) error {
	for i := range o.size() {
		switch rank := o.rank(int32(i)); {
		case o.members == nil || !o.members[i].started:
			return fmt.Errorf("%s: rank %d has not started", o.name(), rank)
		case !o.members[i].ended:
			return fmt.Errorf("%s: rank %d waits for ever in %v", o.name(), rank, m.current(o, &o.members[i]))
		}
	}
	return fmt.Errorf("%s: its end was not reported", o.name())
}

// report tells the caller that a member has ended, and removes the operation after its last one.
func (m *Machine) report(o *operation, index int32) {
	if m.ended != nil {
		now, c := o.members[index].now, &o.chains[index]
		from, spent := o.chains[c.now.cause].start, c.now.spent
		spent.Queue = now - from - spent.Total()
		m.ended(End{ID: ID(o.slot), Key: o.key, Member: int(index), Rank: int(o.rank(index)), Start: c.start, Time: now,
			Cause: int(c.now.cause), CauseStart: from, Spent: spent})
	}
	if o.ended++; o.ended == len(o.members) {
		schedule.StopAll(o.pullers)
		m.operations[o.slot] = nil
		m.freeSlots = append(m.freeSlots, o.slot)
	}
}
