package loggp

import (
	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// member is the state of a rank in an operation.
type member struct {
	index   int32
	cause   int32 // the member at whose start the chain of last dependencies begins
	steps   *schedule.Puller
	step    schedule.Step
	fetched bool // step has been fetched but not begun
	started bool
	ended   bool
	// receiving means that the member waits for the peers of step. Of these, seen have been received.
	receiving bool
	seen      int
	paid      bool  // the overhead of the next message of the step has been spent
	posted    int   // peers of the step to which a message has been posted
	slow      int64 // factor of its own time in thousandths; 0: it is not slow
	start     event.Time
	now       event.Time
	left      event.Time // when the bytes that the step sends have left
	spent     Spent      // on the chain up to now; Queue is not kept, because it is the rest
	leftSpent Spent      // on the chain up to left, with leftCause as its beginning
	leftCause int32
	mail      []int32 // messages that have arrived and wait to be received, in order
}

// work lets a rank spend time of its own.
func (k *member) work(d event.Time) {
	if k.slow > 0 {
		d = (d*event.Time(k.slow) + 999) / 1000
	}
	k.now += d
	k.spent.Local += d
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
	k.index, k.cause, k.started, k.start, k.now = index, index, true, t, t
	k.slow = m.broken.ranks[o.rank(index)]
	switch {
	case o.schedule != nil:
		k.steps = &o.pullers[index]
		k.work(m.network.Launch)
	case o.steps != nil:
		k.step, k.fetched = o.steps[index], true
	default:
		if m.computed == nil {
			m.computed = make([]uint64, m.ranks)
		}
		h := &m.computed[o.rank(index)]
		*h = *h*fnvPrime ^ uint64(o.key)
		k.work(o.duration)
	}
	m.advance(o, k, t)
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
		if !k.fetched {
			if k.steps == nil || !k.steps.Next(&k.step) {
				m.finish(o, k, t)
				return
			}
			k.fetched = true
		}
		s := &k.step
		switch {
		case s.Op == schedule.Copy:
			m.result.MemoryBytes += 2 * int64(s.Src.Len) * o.elem
			k.work(m.copying.of(int64(s.Src.Len) * o.elem))
		case s.Op == schedule.Reduce:
			m.reduce(o, k, int64(s.Src.Len))
		case s.Op.Direct() && m.network.Load > 0:
			k.work(m.network.access(s, int(k.index), o.elem))
		default:
			if !m.ahead && k.now > t {
				m.resumeLater(o, k)
				return
			}
			if !m.perform(o, k, t) {
				return
			}
			k.fetched, k.posted, k.seen = false, 0, 0
			if k.receiving && !m.receive(o, k) {
				return
			}
		}
		k.fetched = false
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
		k.work(m.network.Overhead)
	}
	if k.paid = m.routes != nil && k.now > t; k.paid {
		m.resumeLater(o, k)
	}
	return !k.paid
}

// resumeLater continues the step of a member when the queue's time has reached the member's.
func (m *Machine) resumeLater(o *operation, k *member) {
	m.queue.Push(event.Event{Time: k.now, Seq: sequence(progressClass, o.rank(k.index), o.serial), Kind: resume,
		A: k.index,
		B: o.slot})
}

// perform starts a step and posts its messages. It returns false if it will be called again at a later time.
func (m *Machine) perform(o *operation, k *member, t event.Time) bool {
	s := &k.step
	switch {
	case s.Op.Sends(), s.Op == schedule.Put:
		if !m.pay(o, k, t) {
			return false
		}
		what := data
		if s.Op == schedule.Put {
			what = written
		}
		k.leftSpent, k.leftCause = k.spent, k.cause
		left, took := m.send(o, k, s.To.First, what)
		k.left, k.leftSpent.Wire = left, k.leftSpent.Wire+took
		if k.receiving = s.Op.Receives(); !k.receiving {
			k.awaitLeft()
		}
		return true
	case s.Op == schedule.Signal:
		return m.sendAll(o, k, t, s.To, flag)
	case s.Op == schedule.Get, s.Op == schedule.GetReduce:
		if !m.sendAll(o, k, t, s.From, request) {
			return false
		}
	}
	k.receiving = true
	return true
}

// sendAll sends a message to each of a set of peers. It returns false if it will be called again at a later time.
func (m *Machine) sendAll(o *operation, k *member, t event.Time, peers schedule.Peers, what kind) bool {
	for first := true; k.posted < peers.N; k.posted++ {
		to := peers.At(k.posted)
		if to == int(k.index) {
			continue
		}
		oneForAll := what == flag && m.network.Load > 0 // in shared memory one flag serves all peers
		if (first || !oneForAll) && !m.pay(o, k, t) {
			return false
		}
		first = false
		m.send(o, k, to, what)
	}
	return true
}

// send posts a message of a member's step.
func (m *Machine) send(o *operation, k *member, to int, what kind) (left, took event.Time) {
	return m.post(k.now, message{operation: o.slot, from: k.index, to: int32(to), source: o.rank(k.index),
		target: o.rank(int32(to)), cause: k.cause, kind: what, bytes: int64(k.step.Src.Len) * o.elem, spent: k.spent})
}

// awaitLeft lets a member wait until the bytes of its step have left.
func (k *member) awaitLeft() {
	if k.left > k.now {
		k.now, k.spent, k.cause = k.left, k.leftSpent, k.leftCause
	}
}

// receive takes the messages that the member waits for from its mail. It returns true if none is missing, so
// that the member can continue.
func (m *Machine) receive(o *operation, k *member) bool {
	s := &k.step
	for ; k.seen < s.From.N; k.seen++ {
		from := int32(s.From.At(k.seen))
		if from == k.index {
			continue
		}
		if !m.take(k, from) {
			return false
		}
	}
	k.receiving = false
	k.awaitLeft()
	k.left = 0
	switch s.Op {
	case schedule.RecvReduce, schedule.SendRecvReduce:
		m.reduce(o, k, int64(s.Dst.Len))
	case schedule.GetReduce:
		m.reduce(o, k, int64(s.Dst.Len)*int64(s.From.N-1))
	}
	return true
}

// reduce lets a member add so many elements to others. Each addition reads two elements and writes one.
func (m *Machine) reduce(o *operation, k *member, elements int64) {
	bytes := elements * o.elem
	m.result.Ops += elements
	m.result.MemoryBytes += 3 * bytes
	k.work(m.adding.of(bytes))
}

// take receives the first message from a member of the kind that the step waits for.
func (m *Machine) take(k *member, from int32) bool {
	want := data
	switch k.step.Op {
	case schedule.Wait:
		want = flag
	case schedule.Get, schedule.GetReduce:
		want = answer
	}
	for i, slot := range k.mail {
		if g := &m.messages[slot]; g.from == from && g.kind == want {
			if g.last > k.now {
				k.now, k.spent, k.cause = g.last, g.spent, g.cause
			}
			k.work(m.network.Overhead)
			k.mail = append(k.mail[:i], k.mail[i+1:]...)
			m.free = append(m.free, slot)
			return true
		}
	}
	return false
}
