package loggp

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// member is the state of a rank in an operation. With a million ranks, a simulation spends most of its time waiting for
// memory. A member therefore fits in one cache line: its step is unpacked when it is needed, and chains are stored
// separately and only if the caller asks for them.
type member struct {
	index   int32
	slow    int32 // factor of its own time in thousandths; 0: it is not slow
	fetched bool  // the step has been fetched but is not complete
	started bool
	ended   bool
	// receiving means that the member waits for messages from the peers of its step. seen is the number received.
	receiving bool
	paid      bool // the overhead of the next message of the step has been spent
	taken     bool // next has returned the only step of an operation without schedule
	seen      int32
	posted    int32 // peers of the step to which a message has been posted
	now       event.Time
	left      event.Time // when the bytes that the step sends have left
	// firstMail and lastMail are the ends of a linked list (message.next) of the messages that have arrived and wait to
	// be received, in order. Indices count from 1; 0 means none.
	firstMail, lastMail int32
}

// chain is the chain of the last dependencies up to a point in time, as the time spent by kind. It begins at the start
// of a member, which is its cause. The time spent in queues is not stored, because it is the remainder. All methods
// accept a nil chain and then do nothing.
type chain struct {
	cause int32
	wire  event.Time // of a message: on the slowest link so far
	spent Spent
}

func (c *chain) local(d event.Time) {
	if c != nil {
		c.spent.Local += d
	}
}

func (c *chain) set(to *chain) {
	if c != nil {
		*c = *to
	}
}

// memberChain has the chains of a member.
type memberChain struct {
	start event.Time
	now   chain // up to member.now
	left  chain // up to member.left
}

// chain returns the chain of a member, or nil if chains are not kept.
func (o *operation) chain(k *member) *chain {
	if o.chains == nil {
		return nil
	}
	return &o.chains[k.index].now
}

// leftChain returns the chain up to the time at which the bytes of a member's step have left, or nil.
func (o *operation) leftChain(k *member) *chain {
	if o.chains == nil {
		return nil
	}
	return &o.chains[k.index].left
}

// work lets a rank compute for the time d.
func (o *operation) work(k *member, d event.Time) {
	if k.slow > 0 {
		d = (d*event.Time(k.slow) + 999) / 1000
	}
	k.now += d
	o.chain(k).local(d)
}

// pace is a rate that caches its last result, because most messages of a schedule have the same size.
type pace struct {
	rate  Rate
	bytes int64
	time  event.Time
}

// of returns how long a number of bytes takes.
func (p *pace) of(bytes int64) event.Time {
	if bytes != p.bytes {
		p.bytes, p.time = bytes, p.rate.Time(bytes)
	}
	return p.time
}

// begin starts a member.
func (m *Machine) begin(id, index int32, t event.Time) {
	o := m.operations[id]
	k := &o.members[index]
	k.index, k.started, k.now = index, true, t
	k.slow = int32(m.broken.ranks[o.rank(index)])
	if o.chains != nil {
		o.chains[index] = memberChain{start: t, now: chain{cause: index}}
	}
	switch {
	case o.schedule != nil:
		o.work(k, m.network.Launch)
	case o.steps == nil:
		if m.computed == nil {
			m.computed = make([]uint64, m.ranks)
		}
		h := &m.computed[o.rank(index)]
		*h = *h*fnvPrime ^ uint64(o.key)
		o.work(k, o.duration)
	}
	m.advance(o, k, t)
}

// next fetches the next step of a member. It returns nil after the last one.
func (m *Machine) next(o *operation, k *member) *schedule.Step {
	switch {
	case o.pullers != nil:
		if !o.pullers[k.index].Next(&m.step) {
			return nil
		}
		return &m.step
	case o.steps == nil || k.taken:
		return nil
	}
	k.taken = true
	return &o.steps[k.index]
}

// current returns the step that next returned last. It is valid until another member continues.
func (m *Machine) current(o *operation, k *member) *schedule.Step {
	if o.pullers == nil {
		return &o.steps[k.index]
	}
	o.pullers[k.index].Current(&m.step)
	return &m.step
}

// finish marks the end of a member. It is reported when the queue's time has reached it.
func (m *Machine) finish(o *operation, k *member, t event.Time) {
	k.ended = true
	m.result.Time = max(m.result.Time, k.now)
	if m.ended == nil || k.now == t {
		m.report(o, k.index)
		return
	}
	m.queue.Push(event.Event{Time: k.now, Seq: sequence(progressClass, o.rank(k.index), o.serial), Kind: end, A: k.index,
		B: o.slot})
}

// advance performs the steps of a member until it has to wait.
func (m *Machine) advance(o *operation, k *member, t event.Time) {
	for {
		var s *schedule.Step
		if k.fetched {
			s = m.current(o, k)
		} else if s = m.next(o, k); s == nil {
			m.finish(o, k, t)
			return
		}
		k.fetched = false
		switch {
		case s.Op == schedule.Copy:
			m.result.MemoryBytes += 2 * int64(s.Src.Len) * o.elem
			o.work(k, m.copying.of(int64(s.Src.Len)*o.elem))
		case s.Op == schedule.Reduce:
			m.reduce(o, k, int64(s.Src.Len))
		case s.Op.Direct() && m.network.Load > 0:
			o.work(k, m.network.access(s, int(k.index), o.elem))
		case !m.ahead && k.now > t:
			m.resumeLater(o, k)
			return
		default:
			if !m.perform(o, k, s, t) {
				return
			}
			k.posted, k.seen = 0, 0
			if k.receiving && !m.receive(o, k, s) {
				return
			}
		}
	}
}

// access returns how long a rank takes to read or write shared memory. The source of a put is in the rank's
// caches, unless it is its input.
func (n *Network) access(s *schedule.Step, id int, elem int64) event.Time {
	bytes := int64(s.Src.Len) * elem
	took := n.Store.Time(bytes)
	if s.Op == schedule.Put {
		if s.Src.Buf == schedule.Input {
			took += n.Load.Time(bytes)
		}
		return took
	}
	for i := range s.From.N {
		if s.Src.Buf == schedule.Input || s.From.At(i) == id {
			took += n.Load.Time(bytes)
		} else {
			took += n.Fetch.Time(bytes)
		}
	}
	return took
}

// pay lets a member spend the overhead of a message. On a graph it returns false if the queue's time has not reached
// the end of the overhead. The step is then continued at that time, because messages of others may take the same link
// meanwhile.
func (m *Machine) pay(o *operation, k *member, t event.Time) bool {
	if !k.paid {
		o.work(k, m.network.Overhead)
	}
	if k.paid = m.routes != nil && k.now > t; k.paid {
		m.resumeLater(o, k)
	}
	return !k.paid
}

// resumeLater continues the step of a member when the queue's time has reached the member's.
func (m *Machine) resumeLater(o *operation, k *member) {
	k.fetched = true
	m.queue.Push(event.Event{Time: k.now, Seq: sequence(progressClass, o.rank(k.index), o.serial), Kind: resume,
		A: k.index,
		B: o.slot})
}

// perform starts a step and posts its messages. It returns false if it will be called again at a later time.
func (m *Machine) perform(o *operation, k *member, s *schedule.Step, t event.Time) bool {
	switch {
	case s.Op.Sends(), s.Op == schedule.Put:
		if !m.pay(o, k, t) {
			return false
		}
		what := data
		if s.Op == schedule.Put {
			what = written
		}
		left, took := m.send(o, k, s, s.To.First, what)
		k.left = left
		if c := o.leftChain(k); c != nil {
			*c = *o.chain(k)
			c.spent.Wire += took
		}
		if k.receiving = s.Op.Receives(); !k.receiving {
			o.awaitLeft(k)
		}
		return true
	case s.Op == schedule.Signal:
		return m.sendAll(o, k, s, t, s.To, flag)
	case s.Op == schedule.Get, s.Op == schedule.GetReduce:
		if !m.sendAll(o, k, s, t, s.From, request) {
			return false
		}
	}
	k.receiving = true
	return true
}

// sendAll sends a message to each of a set of peers. It returns false if it will be called again at a later time.
func (m *Machine) sendAll(o *operation, k *member, s *schedule.Step, t event.Time, peers schedule.Peers,
	what kind) bool {
	for first := true; int(k.posted) < peers.N; k.posted++ {
		to := peers.At(int(k.posted))
		if to == int(k.index) {
			continue
		}
		oneForAll := what == flag && m.network.Load > 0 // in shared memory one flag serves all peers
		if (first || !oneForAll) && !m.pay(o, k, t) {
			return false
		}
		first = false
		m.send(o, k, s, to, what)
	}
	return true
}

// send posts a message of a member's step.
func (m *Machine) send(o *operation, k *member, s *schedule.Step, to int, what kind) (left, took event.Time) {
	return m.post(k.now, message{operation: o.slot, from: k.index, to: int32(to), source: o.rank(k.index),
		target: o.rank(int32(to)), kind: what, bytes: int64(s.Src.Len) * o.elem}, o.chain(k))
}

// awaitLeft lets a member wait until the bytes of its step have left.
func (o *operation) awaitLeft(k *member) {
	if k.left > k.now {
		k.now = k.left
		o.chain(k).set(o.leftChain(k))
	}
}

// receive takes the messages that the member waits for from its mail. It returns true if none is missing, so
// that the member can continue.
func (m *Machine) receive(o *operation, k *member, s *schedule.Step) bool {
	want := data
	switch s.Op {
	case schedule.Wait:
		want = flag
	case schedule.Get, schedule.GetReduce:
		want = answer
	}
	for ; int(k.seen) < s.From.N; k.seen++ {
		from := int32(s.From.At(int(k.seen)))
		if from == k.index {
			continue
		}
		if !m.take(o, k, from, want) {
			return false
		}
	}
	k.receiving = false
	o.awaitLeft(k)
	k.left = 0
	switch s.Op {
	case schedule.RecvReduce, schedule.SendRecvReduce:
		m.reduce(o, k, int64(s.Dst.Len))
	case schedule.GetReduce:
		m.reduce(o, k, int64(s.Dst.Len)*int64(s.From.N-1))
	}
	return true
}

// reduce lets a member add a number of elements to others. Each addition reads two elements and writes one.
func (m *Machine) reduce(o *operation, k *member, elements int64) {
	bytes := elements * o.elem
	m.result.Ops += elements
	m.result.MemoryBytes += 3 * bytes
	o.work(k, m.adding.of(bytes))
}

// deliver appends a message to the mail of a member.
func (m *Machine) deliver(k *member, slot int32) {
	m.messages[slot].next = 0
	if k.lastMail == 0 {
		k.firstMail = slot + 1
	} else {
		m.messages[k.lastMail-1].next = slot + 1
	}
	k.lastMail = slot + 1
}

// take receives the first message of a kind from a member.
func (m *Machine) take(o *operation, k *member, from int32, want kind) bool {
	before := int32(0)
	for at := k.firstMail; at != 0; before, at = at, m.messages[at-1].next {
		g := &m.messages[at-1]
		if g.from != from || g.kind != want {
			continue
		}
		if before == 0 {
			k.firstMail = g.next
		} else {
			m.messages[before-1].next = g.next
		}
		if k.lastMail == at {
			k.lastMail = before
		}
		if g.last > k.now {
			k.now = g.last
			o.chain(k).set(m.chain(at - 1))
		}
		o.work(k, m.network.Overhead)
		m.free = append(m.free, at-1)
		return true
	}
	return false
}
