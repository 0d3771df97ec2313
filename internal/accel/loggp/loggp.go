// Package loggp simulates schedules on a flat network: LogGP (Alexandrov et al., 1995) with contention at
// the receiver. Every rank reaches every other rank equally fast. Only time is simulated, no data moves,
// and the same input gives the same time to the picosecond.
//
// A message of k bytes occupies its sender for the overhead o. Then its bytes leave at the bandwidth B,
// after the bytes of the sender's earlier messages. The first byte reaches the receiver after the latency
// L. The receiver takes the bytes in after those of messages that arrived earlier. Each end is occupied
// for the gap g longer than the bytes take. When the last byte has arrived and the receiver asks for the
// message, it is occupied for o again. So a message without contention takes 2o + L + k/B.
//
// A send is complete when its bytes have left. Both halves of an exchange run at the same time. Flags are
// empty messages. A read of a peer's memory is an empty request to the peer's network interface, which
// sends the data without the peer. A write to it is a message that needs no receive. Reductions and copies
// have their own rates. If ranks share a memory (Load is not 0), reads and writes need no messages: a rank
// loads what it reads and stores what it writes, and fetches data that a peer has written during the call
// from the peer's caches. Flags travel between caches as they do over a network.
//
// Not modelled: congestion inside the network, finite buffers, and a handshake before large messages.
package loggp

import (
	_ "embed"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/kernbench/kernbench/internal/accel/event"
	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/comm/schedule"
)

// Network holds the parameters of the network and of memory.
type Network struct {
	Name     string
	Latency  event.Time
	Overhead event.Time
	Gap      event.Time
	// A rate of 0 means that the operation takes no time. Bandwidth must not be 0.
	Bandwidth, Reduce, Copy Rate
	// Rates for ranks that share a memory; Load is 0 if they do not. Load is for data that no peer has written
	// during the call, Fetch for data that a peer has written, Store for writes.
	Load, Fetch, Store Rate
}

// Rate is a rate in bytes per millisecond, a millionth of a GB/s.
type Rate int64

// Time returns how long a number of bytes takes, rounded up to whole picoseconds.
func (r Rate) Time(bytes int64) event.Time {
	if r == 0 {
		return 0
	}
	const millisecond = uint64(1000 * event.Microsecond)
	high, low := bits.Mul64(uint64(bytes), millisecond)
	whole, rest := bits.Div64(high, low, uint64(r))
	if rest > 0 {
		whole++
	}
	return event.Time(whole)
}

//go:embed network.yaml
var builtIn []byte

// Default returns the built-in network.
var Default = sync.OnceValue(func() Network {
	n, err := Parse("network.yaml", builtIn)
	if err != nil {
		panic("loggp: " + err.Error())
	}
	return n
})

// Load reads a network file.
func Load(path string) (Network, error) {
	data, err := infile.Read(path, infile.Config)
	if err != nil {
		return Network{}, fmt.Errorf("reading a network: %w", err)
	}
	return Parse(path, data)
}

// Bounds of the values in a file: a second, 1 MB/s and 1,000 TB/s.
const (
	maxNS   = 1e9
	minRate = 1e3
	maxRate = 1e12
)

// Parse reads the text of a network file; name appears in errors. All faults are reported at once, each
// with line and column.
func Parse(name string, data []byte) (Network, error) {
	r, root := yamlfile.Parse(name, data, "network", "name, latency_ns, overhead_ns, gap_ns and bandwidth_gbs")
	if root == nil {
		return Network{}, r.Err()
	}
	var n Network
	ns := func(key string, into *event.Time) yamlfile.Field {
		return yamlfile.Field{Key: key, Read: func(node yamlfile.Node, what string) {
			v, _ := r.Decimal(node, what, 3, 0, maxNS*1000)
			*into = event.Time(v)
		}}
	}
	rate := func(key string, into *Rate, optional bool) yamlfile.Field {
		return yamlfile.Field{Key: key, Optional: optional, Read: func(node yamlfile.Node, what string) {
			least := int64(minRate)
			if optional {
				least = 0
			}
			v, _ := r.Decimal(node, what, 6, least, maxRate)
			*into = Rate(v)
		}}
	}
	r.Struct(root, "the network",
		yamlfile.Field{Key: "name", Read: func(node yamlfile.Node, what string) {
			if s, ok := r.Text(node, what); ok {
				n.Name = s.Text
			}
		}},
		ns("latency_ns", &n.Latency), ns("overhead_ns", &n.Overhead), ns("gap_ns", &n.Gap),
		rate("bandwidth_gbs", &n.Bandwidth, false), rate("reduce_gbs", &n.Reduce, true), rate("copy_gbs", &n.Copy, true))
	if err := r.Err(); err != nil {
		return Network{}, err
	}
	if n.Name == "" {
		return Network{}, errors.New(name + ": the network has no name")
	}
	return n, nil
}

// Result is the outcome of a simulation.
type Result struct {
	Time     event.Time // until the last rank has ended
	Messages int64      // including flags, and requests and answers of reads
	Bytes    int64      // over the network
}

// Run simulates a schedule with elements of elem bytes. The schedule must have been proved: Run reports a
// deadlock, but no other fault.
func Run(s schedule.Schedule, elem int, n Network) (Result, error) { return newRun(s, elem, n).run(s) }

func newRun(s schedule.Schedule, elem int, n Network) *simulation {
	info, _ := schedule.Lookup(s.Collective(), s.Name())
	return &simulation{network: n, elem: int64(elem), ranks: make([]rank, s.Ranks()), shared: info.Direct && n.Load == 0,
		wire: pace{rate: n.Bandwidth}, adding: pace{rate: n.Reduce}, copying: pace{rate: n.Copy}}
}

// run handles events until none is left, and fails if a rank has not reached the end of its steps.
func (r *simulation) run(s schedule.Schedule) (Result, error) {
	pullers := schedule.PullAll(s)
	defer schedule.StopAll(pullers)
	for i := range r.ranks {
		r.ranks[i].steps = &pullers[i]
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
	resume  uint8 = iota // rank A continues with the step that it has fetched
	arrival              // the first byte of message B has reached the receiver
)

// simulation is the state of a run. A rank runs ahead of the queue's time as long as that has no effect on
// others: up to the next step that needs a peer. If peers read its memory and thus use its network interface
// (shared), it stops at the next step that is not local.
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
	free     []int32 // unused entries of messages
	result   Result
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

// rank is the state of a rank and of its network interface.
type rank struct {
	steps   *schedule.Puller
	step    schedule.Step
	fetched bool // step has been fetched but not begun
	ended   bool
	// receiving means that the rank waits for the peers of step. Of these, seen have been received.
	receiving bool
	seen      int
	now, left event.Time // left: when the bytes that the step sends have left
	out, in   event.Time // when each direction of the interface is free
	sent      uint32
	mail      []int32 // messages that have arrived and wait to be received, in order
}

// message is a message in transit, or in the mail of its receiver.
type message struct {
	from, to int32
	kind     kind
	bytes    int64
	at       event.Time // when its last byte has arrived
}

// kind is the kind of a message.
type kind uint8

const (
	data    kind = iota // for a receive
	flag                // for a wait
	request             // of a get: the receiver's interface answers with as many bytes
	answer              // for a get
	written             // of a put: goes to memory
)

// post sends a message from a rank's network interface, at time t or when the interface is free. It returns
// when the bytes have left.
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

// arrive handles the arrival of a message.
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

// advance performs the steps of a rank until it has to wait.
func (r *simulation) advance(id int32, t event.Time) {
	k := &r.ranks[id]
	for {
		if !k.fetched {
			if !k.steps.Next(&k.step) {
				k.ended = true
				r.result.Time = max(r.result.Time, k.now)
				return
			}
			k.fetched = true
		}
		s := &k.step
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

// begin starts a step and posts its messages.
func (r *simulation) begin(id int32) {
	k := &r.ranks[id]
	s, o := &k.step, r.network.Overhead
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
				if first || r.network.Load == 0 { // in shared memory one flag serves all peers
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

// receive takes the messages that the rank waits for from its mail. It returns true if none is missing, so
// that the rank can continue.
func (r *simulation) receive(id int32) bool {
	k := &r.ranks[id]
	s := &k.step
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

// take receives the first message from a rank of the kind that the step waits for.
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
