package shm

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"
)

// Kind says what went wrong in a group.
type Kind uint32

// The kinds of failure.
const (
	Disagreement Kind = iota + 1 // ranks made different calls
	Refusal                      // a rank cannot make its call
	PeerGone                     // a rank died, left or does not come
)

// Failure ends a group: every rank gets it.
type Failure struct {
	Kind Kind
	Rank int // the rank that is gone
	PID  int
	Dead bool
	Text string
}

func (f *Failure) Error() string { return f.Text }

// Membership is what a rank needs to know to use a board.
type Membership struct {
	Segment *Segment
	Board   Board
	Rank    int
	PIDs    []int // of the processes, by rank
	World   []int // the ranks' numbers in the segment's first group, under which they made their claims
	Crowded bool  // more ranks than cores
	Timeout time.Duration
}

// Member is one rank's end of a board. Except for channels of the program, one
// goroutine at a time uses it.
type Member struct {
	segment *Segment
	board   Board
	rank    int
	pids    []int
	world   []int
	timeout time.Duration
	looks   int
	spins   int
	crowded bool
	shared  bool // other ranks are goroutines of this process: they may need its threads

	lines [2][]*line // by parity of the epoch and rank
	mine  *cell
	calls uint64 // begun
	first uint64 // calls that do not count in errors
	epoch uint32 // last signalled
	last  uint32 // of the present call
	sig   uint64 // of the present call, in the upper half
	told  [2]*Label

	signals []uint32 // sent to each peer, and seen from each
	seen    []uint32
}

// Join makes the rank a member. Its claim must have been made before.
func Join(s Membership) *Member {
	m := &Member{segment: s.Segment, board: s.Board, rank: s.Rank, pids: s.PIDs, world: s.World, timeout: s.Timeout, spins: spinsAlone, looks: quickLooks}
	if m.crowded = s.Crowded; m.crowded {
		m.spins, m.looks = 0, 1
	}
	for r, pid := range s.PIDs {
		m.shared = m.shared || r != s.Rank && pid == s.PIDs[s.Rank]
	}
	size := len(m.board.cells)
	for parity := range m.lines {
		for r := range size {
			m.lines[parity] = append(m.lines[parity], &m.board.cells[r].lines[parity])
		}
	}
	m.mine = &m.board.cells[m.rank]
	m.signals, m.seen = make([]uint32, size), make([]uint32, size)
	first := [2]uint32{uint32(m.mine.lines[0].flag.Load()), uint32(m.mine.lines[1].flag.Load())}
	m.epoch = first[0]
	if int32(first[1]-first[0]) > 0 {
		m.epoch = first[1]
	}
	m.mine.state.Store(stateJoined)
	return m
}

// Leave tells the others that this rank will not signal any more.
func (m *Member) Leave() { m.mine.state.Store(stateLeft) }

// Rank is the member's number.
func (m *Member) Rank() int { return m.rank }

// Size is the number of ranks.
func (m *Member) Size() int { return len(m.board.cells) }

// Stage is a rank's memory for pieces on their way.
func (m *Member) Stage(rank int) []byte { return m.board.cells[rank].stage[:] }

// Label is what a call says of itself, and a hash of it: calls of different text
// have different signatures.
type Label struct {
	text string
	sig  uint64
}

// NewLabel makes the label of a call. Everything that ranks must agree on is in the text.
func NewLabel(text string) *Label {
	h := fnv.New32a()
	h.Write([]byte(text))
	return &Label{text: text, sig: uint64(h.Sum32()) << 32}
}

// Begin starts a call of so many epochs, which is also how many times the rank
// will signal before it begins the next one.
func (m *Member) Begin(l *Label, epochs int) error {
	if m.board.header.failed.Load() != 0 {
		return m.failureIn(l.text)
	}
	parity := m.calls & 1
	if m.told[parity] != l {
		m.tell(parity, l)
	}
	m.calls++
	m.sig = l.sig
	m.last = m.epoch + uint32(epochs)
	return nil
}

// CountFromHere leaves the calls made so far out of the count in errors.
func (m *Member) CountFromHere() { m.first = m.calls }

func (m *Member) tell(parity uint64, l *Label) {
	to := &m.mine.labels[parity]
	to.length = uint32(copy(to.text[:], l.text))
	m.told[parity] = l
}

// Next is the epoch that the next Signal raises.
func (m *Member) Next() uint32 { return m.epoch + 1 }

// Signal raises the next epoch. What the rank has stored before is visible to
// whoever sees it.
func (m *Member) Signal() {
	m.epoch++
	l := &m.mine.lines[m.epoch&1]
	l.flag.Store(m.sig | uint64(m.epoch))
	if m.mine.sleepers.Load() > 0 {
		wake(l.epoch())
	}
}

// Await returns once a peer has signalled an epoch of this call.
func (m *Member) Await(peer int, epoch uint32) error {
	flag, want := &m.lines[epoch&1][peer].flag, m.sig|uint64(epoch)
	for range m.looks {
		if flag.Load() == want {
			return nil
		}
	}
	return m.await(peer, epoch)
}

func (m *Member) await(peer int, epoch uint32) error {
	l := m.lines[epoch&1][peer]
	w := wait{m: m, peer: peer}
	for {
		v := l.flag.Load()
		switch Judge(v, epoch, m.last, m.sig) {
		case Reached:
			return nil
		case Differs:
			return m.disagree(peer)
		}
		if err := w.pause(l.epoch(), uint32(v), &m.board.cells[peer].sleepers); err != nil {
			return err
		}
	}
}

// Verdict is what a peer's flag tells a rank that waits for it.
type Verdict uint8

// The verdicts.
const (
	Early   Verdict = iota // it is not there yet
	Reached                // it is there, or beyond
	Differs                // it is there in another call
)

// Judge compares a flag with the epoch waited for, in a call that ends with epoch
// last and has the signature sig. Epochs wrap around.
func Judge(flag uint64, epoch, last uint32, sig uint64) Verdict {
	at := uint32(flag)
	switch {
	case int32(at-epoch) < 0:
		return Early
	// Beyond this call the peer has seen this rank's signature, and agreed.
	case int32(at-last) > 0, flag&^0xffffffff == sig:
		return Reached
	}
	return Differs
}

// AwaitAll returns once all have signalled an epoch of this call.
func (m *Member) AwaitAll(epoch uint32) error {
	for peer := range m.lines[0] {
		if peer == m.rank {
			continue
		}
		if err := m.Await(peer, epoch); err != nil {
			return err
		}
	}
	return nil
}

// Tiny is the memory beside a rank's flag for an epoch.
func (m *Member) Tiny(rank int, epoch uint32) *[TinyBytes]byte {
	return &m.lines[epoch&1][rank].tiny
}

// Word is the i-th of the words in Tiny.
func (m *Member) Word(rank int, epoch uint32, i int) *uint64 {
	return (*uint64)(unsafe.Pointer(&m.lines[epoch&1][rank].tiny[8*i]))
}

// Slot is the larger memory of a rank for an epoch.
func (m *Member) Slot(rank int, epoch uint32) []byte { return m.lines[epoch&1][rank].body[:] }

// Notify raises the count of signals to one peer.
func (m *Member) Notify(peer int) {
	m.signals[peer]++
	p := &m.board.pairs[m.rank*m.Size()+peer]
	p.count.Store(m.signals[peer])
	if p.sleepers.Load() > 0 {
		wake(&p.count)
	}
}

// Expect waits for the next signal of one peer.
func (m *Member) Expect(peer int) error {
	m.seen[peer]++
	p := &m.board.pairs[peer*m.Size()+m.rank]
	return m.reach(peer, &p.count, m.seen[peer], &p.sleepers)
}

// reach waits until a count that a peer raises is at least target.
func (m *Member) reach(peer int, word *atomic.Uint32, target uint32, sleepers *atomic.Int32) error {
	w := wait{m: m, peer: peer}
	for {
		v := word.Load()
		if int32(v-target) >= 0 {
			return nil
		}
		if err := w.pause(word, v, sleepers); err != nil {
			return err
		}
	}
}

// disagree fails the group because a peer makes another call.
func (m *Member) disagree(peer int) error {
	a, b := m.rank, peer
	if a > b {
		a, b = b, a
	}
	return m.fail(Failure{Kind: Disagreement,
		Text: fmt.Sprintf("rank %d calls %s, but rank %d %s (call %d)", a, m.said(a), b, m.said(b), m.calls-m.first)})
}

// said is what a rank calls in the present call.
func (m *Member) said(rank int) string {
	l := &m.board.cells[rank].labels[(m.calls-1)&1]
	return string(l.text[:min(int(l.length), len(l.text))])
}

func (m *Member) inCall() string {
	if m.calls == 0 {
		return ""
	}
	return fmt.Sprintf(" in %s (call %d)", m.said(m.rank), m.calls-m.first)
}

// Refuse fails the group because this rank cannot make its call.
func (m *Member) Refuse(text string) { _ = m.fail(Failure{Kind: Refusal, Text: text}) }

// Disagree fails the group with a text that names both sides.
func (m *Member) Disagree(text string) error { return m.fail(Failure{Kind: Disagreement, Text: text}) }

const deadBit = 1 << 16 // in header.kind

// fail makes f the failure of the group, unless there is one.
func (m *Member) fail(f Failure) error {
	h := m.board.header
	if !h.claimed.CompareAndSwap(0, 1) {
		// The other one is writing, unless it died between two stores.
		for until := time.Now().Add(time.Second); h.failed.Load() == 0; yield() {
			if time.Now().After(until) {
				return &f
			}
		}
		return m.failure()
	}
	h.kind, h.rank, h.pid = uint32(f.Kind), int32(f.Rank), int32(f.PID)
	if f.Dead {
		h.kind |= deadBit
	}
	h.length = uint32(copy(h.text[:], f.Text))
	h.failed.Store(1)
	return m.failure()
}

// Failure is what ended the group, or nil.
func (m *Member) Failure() error {
	if m.board.header.failed.Load() == 0 {
		return nil
	}
	return m.failure()
}

// failureIn is the failure as a rank sees it that makes a call; where another
// one's call is the cause, it names both.
func (m *Member) failureIn(call string) error {
	f := m.failure()
	if f.Kind == Refusal {
		f.Text += fmt.Sprintf("; rank %d calls %s", m.rank, call)
	}
	return f
}

func (m *Member) failure() *Failure {
	h := m.board.header
	return &Failure{Kind: Kind(h.kind &^ deadBit), Rank: int(h.rank), PID: int(h.pid), Dead: h.kind&deadBit != 0,
		Text: string(slices.Clone(h.text[:min(int(h.length), len(h.text))]))}
}
