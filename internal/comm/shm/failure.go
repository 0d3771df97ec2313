package shm

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Kind classifies the failure of a group.
type Kind uint32

// The kinds of failure.
const (
	Disagreement Kind = iota + 1 // ranks made different calls
	Refusal                      // a rank cannot make its call
	PeerGone                     // a rank died, left or does not respond
)

// Failure is the reason why a group has failed. It is the same on every rank.
type Failure struct {
	Kind Kind
	Rank int  // of the peer, if Kind is PeerGone
	PID  int  // of the peer
	Dead bool // the peer has died, rather than left or not responded
	Text string
}

// RefusalBy returns the failure of a group in which rank cannot make its call.
func RefusalBy(rank int, reason error) Failure {
	return Failure{Kind: Refusal, Text: fmt.Sprintf("rank %d cannot make its call: %v", rank, reason)}
}

// Err returns the failure as a [MisuseError] or a [PeerError].
func (f Failure) Err() error {
	if f.Kind != PeerGone {
		return &MisuseError{Text: f.Text}
	}
	return &PeerError{Rank: f.Rank, PID: f.PID, Dead: f.Dead, Text: f.Text}
}

// MisuseError reports that two ranks made different calls, or that a rank cannot make its call. Text names the calls.
type MisuseError struct {
	Text  string
	Cause error // why the rank cannot make its call; nil if only another rank knows
}

func (e *MisuseError) Error() string { return e.Text }

func (e *MisuseError) Unwrap() error { return e.Cause }

// PeerError reports that a rank is dead, has left or does not respond.
type PeerError struct {
	Rank int
	PID  int // 0 if not known
	Dead bool
	Text string
}

func (e *PeerError) Error() string { return e.Text }

// disagree fails the group because peer makes a different call.
func (m *Member) disagree(peer int) error {
	return m.DisagreeOn(m.calls-m.uncountedCalls, peer, m.currentCall(m.rank), m.currentCall(peer))
}

// DisagreeOn fails the group because peer makes a different call than this rank. call is its number.
func (m *Member) DisagreeOn(call uint64, peer int, mine, theirs string) error {
	a, b := m.rank, peer
	if a > b {
		a, b, mine, theirs = b, a, theirs, mine
	}
	return m.Disagree(fmt.Sprintf("ranks disagree on call %d: rank %d called %s, rank %d called %s", call, a, mine, b,
		theirs))
}

// currentCall returns the label of the current call of rank.
func (m *Member) currentCall(rank int) string {
	l := &m.board.cells[rank].labels[(m.calls-1)&1]
	return string(l.text[:min(int(l.length), len(l.text))])
}

// Name returns the name of a rank in errors.
func (m *Member) Name(rank int) string {
	if m.others != nil {
		return m.others.Name(rank)
	}
	return fmt.Sprintf("rank %d (pid %d)", rank, m.pids[rank])
}

// FailPeer fails the group because rank peer is gone while this rank waits for it. op names the operation that waits;
// "" is the current collective.
func (m *Member) FailPeer(peer int, dead bool, why, op string) error {
	return m.Fail(Failure{Kind: PeerGone, Rank: peer, PID: m.pids[peer], Dead: dead,
		Text: fmt.Sprintf("%s %s while rank %d waits for it%s", m.Name(peer), why, m.rank, m.purpose(op))})
}

// purpose returns the end of an error text that says in which operation or call the rank waited.
func (m *Member) purpose(op string) string {
	if op != "" {
		return " in " + op
	}
	if m.calls == 0 {
		return ""
	}
	return fmt.Sprintf(" in %s (call %d)", m.currentCall(m.rank), m.calls-m.uncountedCalls)
}

// RefuseCall fails the group because this rank cannot make its call. It reports false if the group has failed already.
func (m *Member) RefuseCall(reason error) (first bool) {
	return m.board.header.failure.postFirst(RefusalBy(m.rank, reason))
}

// Refuse fails the group because this rank cannot join it, or do what all ranks do.
func (m *Member) Refuse(text string) { _ = m.Fail(Failure{Kind: Refusal, Text: text}) }

// Disagree fails the group because two ranks made different calls. text names both calls.
func (m *Member) Disagree(text string) error { return m.Fail(Failure{Kind: Disagreement, Text: text}) }

// Fail makes f the failure of the group, unless the group has failed already. It returns the first failure as an error.
// Any goroutine may call it.
func (m *Member) Fail(f Failure) error { return m.board.header.failure.Post(f).Err() }

// Failed reports whether the group has failed. It is cheap enough for a waiting loop: one atomic load.
func (m *Member) Failed() bool { return m.board.header.failure.Posted() }

// Ended returns the failure of the group, or nil.
func (m *Member) Ended() *Failure { return m.board.header.failure.Read() }

// Failure returns the failure of the group as an error, or nil.
func (m *Member) Failure() error {
	if f := m.Ended(); f != nil {
		return f.Err()
	}
	return nil
}

// FailureIn returns the failure of the group to a rank that waits in op; "" is the current collective. If another rank
// refused its call, the error also names the call of this rank.
func (m *Member) FailureIn(op string) error {
	if op != "" || m.calls == 0 {
		return m.Failure()
	}
	return m.failureIn(m.currentCall(m.rank))
}

func (m *Member) failureIn(call string) error {
	f := m.board.header.failure.read()
	if f.Kind == Refusal {
		f.Text += fmt.Sprintf("; rank %d calls %s", m.rank, call)
	}
	return f.Err()
}

// Notice holds the failure of a group, in shared memory. Only the first failure that is posted is kept.
type Notice struct {
	// The rank that wins claimed fills in the other fields and then sets written. Other ranks read these fields only
	// after they have seen written, so the fields need not be atomic.
	written atomic.Uint32
	_       [LineBytes - 4]byte
	claimed atomic.Uint32
	kind    uint32
	rank    int32
	pid     int32
	length  uint32
	text    [4096 - LineBytes - 20]byte
}

const (
	deadBit = 1 << 16 // in Notice.kind
	// claimLimit is how long a rank waits for the rank that has set claimed, which may die before it sets written.
	claimLimit = time.Second
)

// Post posts a failure, unless one has been posted already. It returns the failure that counts.
func (n *Notice) Post(f Failure) *Failure {
	if n.postFirst(f) {
		return n.read()
	}
	for until := time.Now().Add(claimLimit); !n.Posted(); yield() {
		if time.Now().After(until) {
			return &f
		}
	}
	return n.read()
}

// postFirst posts a failure and reports true, unless one has been posted already.
func (n *Notice) postFirst(f Failure) bool {
	if !n.claimed.CompareAndSwap(0, 1) {
		return false
	}
	n.kind, n.rank, n.pid = uint32(f.Kind), int32(f.Rank), int32(f.PID)
	if f.Dead {
		n.kind |= deadBit
	}
	n.length = uint32(copy(n.text[:], f.Text))
	n.written.Store(1)
	return true
}

// Posted reports whether a failure has been posted.
func (n *Notice) Posted() bool { return n.written.Load() != 0 }

func (n *Notice) read() *Failure {
	return &Failure{Kind: Kind(n.kind &^ deadBit), Rank: int(n.rank), PID: int(n.pid), Dead: n.kind&deadBit != 0,
		Text: string(n.text[:min(int(n.length), len(n.text))])}
}

// Read returns the failure, or nil if there is none.
func (n *Notice) Read() *Failure {
	if !n.Posted() {
		return nil
	}
	return n.read()
}
