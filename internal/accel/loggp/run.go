package loggp

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Result is what a schedule took.
type Result struct {
	Time     event.Time // until the last rank was through
	Messages int64      // with flags, and with requests and answers of reads
	Bytes    int64      // over the network
}

// Run simulates a schedule on elements of so many bytes. The schedule must be proved: one
// that hangs is an error, one that is wrong otherwise is not noticed.
func Run(s schedule.Schedule, elem int, n Network) (Result, error) { return newRun(s, elem, n).run(s) }

func newRun(s schedule.Schedule, elem int, n Network) *simulation {
	info, _ := schedule.Lookup(s.Collective(), s.Name())
	return &simulation{network: n, elem: int64(elem), ranks: make([]rank, s.Ranks()), shared: info.Direct && n.Load == 0,
		wire: pace{rate: n.Bandwidth}, adding: pace{rate: n.Reduce}, copying: pace{rate: n.Copy}}
}

func (r *simulation) run(s schedule.Schedule) (Result, error) {
	for i := range r.ranks {
		r.ranks[i].steps = schedule.Pull(s, i)
		defer r.ranks[i].steps.Stop()
	}
	for i := range r.ranks {
		r.advance(int32(i), 0)
	}
	for {
		e, more := r.queue.Pop()
		if !more {
			break
		}
		if e.Kind == resume {
			r.advance(e.A, e.Time)
		} else {
			r.arrive(e.B, e.Time)
		}
	}
	for i := range r.ranks {
		if k := &r.ranks[i]; !k.ended {
			return r.result, fmt.Errorf("%s %s: rank %d waits for ever in %v", s.Collective(), s.Name(), i, k.step)
		}
	}
	return r.result, nil
}

// The kinds of events.
const (
	resume  uint8 = iota // rank A goes on with the step that it has fetched
	arrival              // the first byte of message B is at its receiver
)

// simulation is a run. A rank goes ahead of the queue's time as far as nobody else can
// notice: up to the next step that needs a peer, or, where peers read its memory and so use
// its end of the network, up to the next step that is not local.
type simulation struct {
	network  Network
	elem     int64
	ranks    []rank
	shared   bool
	wire     pace
	adding   pace
	copying  pace
	queue    event.Queue
	messages []message
	free     []int32 // of messages
	result   Result
}

// pace is a rate that knows its last answer: most messages of a schedule are alike.
type pace struct {
	rate  Rate
	bytes int64
	time  event.Time
}

func (p *pace) of(bytes int64) event.Time {
	if bytes != p.bytes {
		p.bytes, p.time = bytes, p.rate.Time(bytes)
	}
	return p.time
}

// rank is where a rank is, and when its end of the network is free again.
type rank struct {
	steps     *schedule.Puller
	step      *schedule.Step
	fetched   bool // and not yet begun
	ended     bool
	receiving bool // it waits for what the step names, of which seen have come
	seen      int
	now, left event.Time // left: when the step's own bytes have left
	out, in   event.Time
	sent      uint32
	mail      []int32 // messages that have arrived and wait to be received, in order
}

type message struct {
	from, to int32
	kind     kind
	bytes    int64
	at       event.Time // when its last byte was there
}

// kind is what becomes of a message when it arrives.
type kind uint8

const (
	data    kind = iota // it waits for its receive
	flag                // it waits for its wait
	request             // the receiver's end sends as many bytes back
	answer              // it is what a get waits for
	written             // nothing: it is in memory
)

// post sends a message at a time, by the end of the network of a rank that has been
// busy with it, or never was. It gives when the bytes have left.
func (r *simulation) post(t event.Time, from, to int32, k kind, bytes int64) event.Time {
	src := &r.ranks[from]
	start, moves := max(t, src.out), bytes
	if k == request {
		moves = 0
	}
	left := start + r.wire.of(moves)
	src.out = left + r.network.Gap
	var slot int32
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		slot = int32(len(r.messages))
		r.messages = append(r.messages, message{})
	}
	r.messages[slot] = message{from: from, to: to, kind: k, bytes: bytes}
	src.sent++
	r.queue.Push(event.Event{Time: start + r.network.Latency, Seq: uint64(from)<<32 | uint64(src.sent), Kind: arrival,
		B: slot})
	r.result.Messages++
	r.result.Bytes += moves
	return left
}

// arrive takes a message in.
func (r *simulation) arrive(slot int32, t event.Time) {
	m := &r.messages[slot]
	dst := &r.ranks[m.to]
	m.at = max(t, dst.in)
	if m.kind != request {
		m.at += r.wire.of(m.bytes)
	}
	dst.in = m.at + r.network.Gap
	switch m.kind {
	case request:
		r.free = append(r.free, slot)
		r.post(m.at, m.to, m.from, answer, m.bytes)
		return
	case written:
		r.free = append(r.free, slot)
		r.result.Time = max(r.result.Time, m.at)
		return
	}
	dst.mail = append(dst.mail, slot)
	if to := m.to; dst.receiving && r.receive(to) {
		r.advance(to, t)
	}
}

// advance goes through the steps of a rank until one has to wait.
func (r *simulation) advance(id int32, t event.Time) {
	k := &r.ranks[id]
	for {
		if !k.fetched {
			if k.step = k.steps.Next(); k.step == nil {
				k.ended = true
				r.result.Time = max(r.result.Time, k.now)
				return
			}
			k.fetched = true
		}
		s := k.step
		switch {
		case s.Op == schedule.Copy:
			k.now += r.copying.of(int64(s.Src.Len) * r.elem)
		case s.Op == schedule.Reduce:
			k.now += r.adding.of(int64(s.Src.Len) * r.elem)
		case s.Op.Direct() && r.network.Load > 0:
			k.now += r.network.access(s, int(id), r.elem)
		default:
			if r.shared && k.now > t {
				r.queue.Push(event.Event{Time: k.now, Seq: uint64(id) << 32, Kind: resume, A: id})
				return
			}
			k.fetched = false
			if r.begin(id); k.receiving && !r.receive(id) {
				return
			}
		}
		k.fetched = false
	}
}

// access is how long a rank takes that reads or writes memory which all share. What it puts into peers'
// memory it has at hand, unless it is its input.
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

// begin posts what the step sends.
func (r *simulation) begin(id int32) {
	k := &r.ranks[id]
	s, o := k.step, r.network.Overhead
	k.left, k.seen = 0, 0
	switch {
	case s.Op.Sends(), s.Op == schedule.Put:
		k.now += o
		what := data
		if s.Op == schedule.Put {
			what = written
		}
		k.left = r.post(k.now, id, int32(s.To.First), what, int64(s.Src.Len)*r.elem)
		if k.receiving = s.Op.Receives(); !k.receiving {
			k.now = k.left
		}
	case s.Op == schedule.Signal:
		first := true
		for i := range s.To.N {
			if to := int32(s.To.At(i)); to != id {
				if first || r.network.Load == 0 { // in a memory that all share, it is one flag for all
					k.now += o
				}
				first = false
				r.post(k.now, id, to, flag, 0)
			}
		}
	case s.Op == schedule.Get, s.Op == schedule.GetReduce:
		for i := range s.From.N {
			if from := int32(s.From.At(i)); from != id {
				k.now += o
				r.post(k.now, id, from, request, int64(s.Src.Len)*r.elem)
			}
		}
		k.receiving = true
	default:
		k.receiving = true
	}
}

// receive takes from the mail what the rank waits for. When that was the last, the rank goes
// on, and it is true.
func (r *simulation) receive(id int32) bool {
	k := &r.ranks[id]
	s := k.step
	for ; k.seen < s.From.N; k.seen++ {
		from := int32(s.From.At(k.seen))
		if from == id {
			continue
		}
		if !r.take(k, from) {
			return false
		}
	}
	k.receiving = false
	k.now = max(k.now, k.left)
	bytes := int64(s.Dst.Len) * r.elem
	switch s.Op {
	case schedule.RecvReduce, schedule.SendRecvReduce:
		k.now += r.adding.of(bytes)
	case schedule.GetReduce:
		k.now += r.adding.of(bytes * int64(s.From.N-1))
	}
	return true
}

// take receives the first message of a rank that is of the kind the step waits for.
func (r *simulation) take(k *rank, from int32) bool {
	want := data
	switch k.step.Op {
	case schedule.Wait:
		want = flag
	case schedule.Get, schedule.GetReduce:
		want = answer
	}
	for i, slot := range k.mail {
		if m := &r.messages[slot]; m.from == from && m.kind == want {
			k.now = max(k.now, m.at) + r.network.Overhead
			k.mail = append(k.mail[:i], k.mail[i+1:]...)
			r.free = append(r.free, slot)
			return true
		}
	}
	return false
}
