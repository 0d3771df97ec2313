package shm

import (
	"hash/fnv"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// Membership is the input of [Join].
type Membership struct {
	Segment *Segment
	Board   Board
	Rank    int
	PIDs    []int // process IDs, by rank
	World   []int // by rank: the number under which it has claimed the segment, which is its rank in the first group
	Crowded bool  // more ranks than cores
	Timeout time.Duration
	Others  Others // nil if all ranks are on this host
}

// Others answers questions about ranks on other hosts, in a group that spans several. The board then has a cell for
// every rank, but only the ranks of this host use theirs.
type Others interface {
	// Name returns the name of a rank in errors.
	Name(rank int) string
	// Lost returns why a rank is unreachable, or "" if it can be reached.
	Lost(rank int) string
	// Behind returns the rank that delays the current collective. Member calls it after a wait for rank has timed out,
	// because that rank may itself be waiting for another one.
	Behind(rank int) int
}

// Member is one rank's access to a board. Only one goroutine may use it at a time. The channels of the program are the
// exception.
type Member struct {
	segment     *Segment
	board       Board
	rank        int
	pids        []int
	world       []int
	quickChecks int

	lines          [2][]*line // by parity of the epoch and rank
	mine           *cell
	calls          uint64 // number of calls begun
	uncountedCalls uint64 // number of calls before the one that errors call number 1
	epoch          uint32 // last epoch that this rank has signalled
	lastEpoch      uint32 // last epoch of the current call
	sig            uint64 // signature of the current call, in the upper half
	labels         [2]*Label

	signals []uint32 // signals sent to each peer, and seen from each
	seen    []uint32

	// State of waiting.
	timeout   time.Duration
	others    Others
	near, far pace
	// shared is true if other goroutines may need this thread: other ranks of this process, or any goroutine if
	// the process has only one thread for Go code.
	shared bool
}

// Join returns a rank's access to the board. The rank must already have claimed the segment.
func Join(s Membership) *Member {
	m := &Member{segment: s.Segment, board: s.Board, rank: s.Rank, pids: s.PIDs, world: s.World,
		timeout: s.Timeout, others: s.Others, quickChecks: quickChecks, near: nearPace, far: farPace}
	if s.Crowded {
		m.quickChecks, m.near, m.far = 1, m.near.crowded(), m.far.crowded()
	}
	m.shared = runtime.GOMAXPROCS(0) == 1
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

// Leave announces that this rank will not signal again.
func (m *Member) Leave() { m.mine.state.Store(stateLeft) }

// Rank returns the number of this rank.
func (m *Member) Rank() int { return m.rank }

// Size returns the number of ranks.
func (m *Member) Size() int { return len(m.board.cells) }

// Stage returns the staging buffer of a rank, which has StageBytes bytes.
func (m *Member) Stage(rank int) []byte { return m.board.cells[rank].stage[:] }

// Label identifies a call. Ranks compare the hash of its text; errors contain the text.
type Label struct {
	text string
	sig  uint64
}

// Text returns the text of the label.
func (l *Label) Text() string { return l.text }

// Signature returns the hash. Labels with the same text have the same signature.
func (l *Label) Signature() uint64 { return l.sig }

// NewLabel returns the label of a call. text contains everything that ranks must agree on.
func NewLabel(text string) *Label {
	h := fnv.New32a()
	h.Write([]byte(text))
	return &Label{text: text, sig: uint64(h.Sum32()) << 32}
}

// Begin starts a call. epochs is the number of times that the rank will signal before it begins the next call. It must
// be the same on all ranks that make this call.
func (m *Member) Begin(l *Label, epochs int) error {
	if m.Failed() {
		return m.failureIn(l.text)
	}
	parity := m.calls & 1
	if m.labels[parity] != l {
		m.publishLabel(parity, l)
	}
	m.calls++
	m.sig = l.sig
	m.lastEpoch = m.epoch + uint32(epochs)
	return nil
}

// ResetCallCount excludes all previous calls from the call numbers in errors.
func (m *Member) ResetCallCount() { m.uncountedCalls = m.calls }

func (m *Member) publishLabel(parity uint64, l *Label) {
	to := &m.mine.labels[parity]
	to.length = uint32(copy(to.text[:], l.text))
	m.labels[parity] = l
}

// Next returns the epoch that the next Signal will signal.
func (m *Member) Next() uint32 { return m.epoch + 1 }

// Signal signals the next epoch. It is a release store: a rank that sees the epoch also sees everything that this rank
// stored before.
func (m *Member) Signal() {
	m.epoch++
	l := &m.mine.lines[m.epoch&1]
	l.flag.Store(m.sig | uint64(m.epoch))
	if m.mine.sleepers.Load() > 0 {
		Unpark(l.epoch())
	}
}

// Await waits until a peer has signalled an epoch of this call.
func (m *Member) Await(peer int, epoch uint32) error {
	flag, want := &m.lines[epoch&1][peer].flag, m.sig|uint64(epoch)
	for range m.quickChecks {
		if flag.Load() == want {
			return nil
		}
	}
	return m.await(peer, epoch)
}

func (m *Member) await(peer int, epoch uint32) error {
	l := m.lines[epoch&1][peer]
	w := m.NewWait(peer, "")
	for {
		v := l.flag.Load()
		switch Judge(v, epoch, m.lastEpoch, m.sig) {
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

// Reached reports whether a peer has signalled an epoch of this call. It does not wait.
func (m *Member) Reached(peer int, epoch uint32) (bool, error) {
	switch Judge(m.lines[epoch&1][peer].flag.Load(), epoch, m.lastEpoch, m.sig) {
	case Reached:
		return true, nil
	case Differs:
		return false, m.disagree(peer)
	}
	return false, nil
}

// Verdict is the result of comparing a peer's flag with the epoch that a rank waits for.
type Verdict uint8

// The verdicts.
const (
	Early   Verdict = iota // the peer has not reached the epoch
	Reached                // the peer has reached it
	Differs                // the peer has reached it in a different call
)

// Judge compares a flag with an epoch, in a call that ends with epoch last and has the signature sig.
// Epochs wrap around, so they are compared by the sign of their difference.
func Judge(flag uint64, epoch, last uint32, sig uint64) Verdict {
	signalled := uint32(flag)
	switch {
	case int32(signalled-epoch) < 0:
		return Early
	// A peer that is past this call has already compared its signature with this rank's, in the first epoch.
	case int32(signalled-last) > 0, flag&^0xffffffff == sig:
		return Reached
	}
	return Differs
}

// AwaitAll waits until all ranks have signalled an epoch of this call.
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

// Arrived reports whether AwaitAll would return without waiting.
func (m *Member) Arrived(epoch uint32) bool {
	for peer, l := range m.lines[epoch&1] {
		if peer != m.rank && Judge(l.flag.Load(), epoch, m.lastEpoch, m.sig) == Early {
			return false
		}
	}
	return true
}

// Tiny returns the data of a rank for an epoch that shares a cache line with the rank's flag.
func (m *Member) Tiny(rank int, epoch uint32) *[TinyBytes]byte {
	return &m.lines[epoch&1][rank].tiny
}

// Word returns the i-th 64-bit word of Tiny.
func (m *Member) Word(rank int, epoch uint32, i int) *uint64 {
	return (*uint64)(unsafe.Pointer(&m.lines[epoch&1][rank].tiny[8*i]))
}

// Slot returns the data of a rank for an epoch: InlineBytes bytes.
func (m *Member) Slot(rank int, epoch uint32) []byte { return m.lines[epoch&1][rank].body[:] }

// Notify signals one peer. Expect on the peer consumes the signal. These signals are counted apart from epochs.
func (m *Member) Notify(peer int) {
	m.signals[peer]++
	p := &m.board.pairs[m.rank*m.Size()+peer]
	p.count.Store(m.signals[peer])
	if p.sleepers.Load() > 0 {
		Unpark(&p.count)
	}
}

// Expect waits for the next signal that a peer sends with Notify.
func (m *Member) Expect(peer int) error {
	m.seen[peer]++
	p := &m.board.pairs[peer*m.Size()+m.rank]
	return m.reach(peer, &p.count, m.seen[peer], &p.sleepers)
}

// reach waits until a counter of a peer is at least target.
func (m *Member) reach(peer int, word *atomic.Uint32, target uint32, sleepers *atomic.Int32) error {
	w := m.NewWait(peer, "")
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
