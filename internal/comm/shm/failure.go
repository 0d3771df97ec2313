package shm

import (
	"fmt"
	"sync/atomic"
	"time"
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

// Cannot is the failure of a group in which a rank cannot make its call.
func Cannot(rank int, reason error) Failure {
	return Failure{Kind: Refusal, Text: fmt.Sprintf("rank %d cannot make its call: %v", rank, reason)}
}

// Err is the failure as programs get it.
func (f Failure) Err() error {
	if f.Kind != PeerGone {
		return &MisuseError{Text: f.Text}
	}
	return &PeerError{Rank: f.Rank, PID: f.PID, Dead: f.Dead, Text: f.Text}
}

// MisuseError says that ranks did not call the same thing, and names both sides; or
// that a rank cannot make its call at all, and names it.
type MisuseError struct {
	Text  string
	Cause error // why it cannot, where that is known
}

func (e *MisuseError) Error() string { return e.Text }

func (e *MisuseError) Unwrap() error { return e.Cause }

// PeerError says that a rank is dead, has left or does not come.
type PeerError struct {
	Rank int
	PID  int // 0: not known
	Dead bool
	Text string
}

func (e *PeerError) Error() string { return e.Text }

// disagree fails the group because a peer makes another call.
func (m *Member) disagree(peer int) error {
	return m.DisagreeOn(m.calls-m.first, peer, m.said(m.rank), m.said(peer))
}

// DisagreeOn fails the group because a peer makes another call than this rank.
func (m *Member) DisagreeOn(call uint64, peer int, mine, theirs string) error {
	a, b := m.rank, peer
	if a > b {
		a, b, mine, theirs = b, a, theirs, mine
	}
	return m.Disagree(fmt.Sprintf("rank %d calls %s, but rank %d %s (call %d)", a, mine, b, theirs, call))
}

// said is what a rank calls in the present call.
func (m *Member) said(rank int) string {
	l := &m.board.cells[rank].labels[(m.calls-1)&1]
	return string(l.text[:min(int(l.length), len(l.text))])
}

// Name is how errors name a rank.
func (m *Member) Name(rank int) string {
	if m.others != nil {
		return m.others.Name(rank)
	}
	return fmt.Sprintf("rank %d (pid %d)", rank, m.pids[rank])
}

// Loss is the failure of a group of which a rank is gone for which this one waits; doing
// is what for, "" the present collective.
func (m *Member) Loss(peer int, dead bool, why, doing string) Failure {
	return Failure{Kind: PeerGone, Rank: peer, PID: m.pids[peer], Dead: dead,
		Text: fmt.Sprintf("%s %s while rank %d waits for it%s", m.Name(peer), why, m.rank, m.purpose(doing))}
}

// Lost fails the group by a [Member.Loss].
func (m *Member) Lost(peer int, dead bool, why, doing string) error {
	return m.Fail(m.Loss(peer, dead, why, doing))
}

func (m *Member) purpose(doing string) string {
	if doing != "" {
		return " in " + doing
	}
	if m.calls == 0 {
		return ""
	}
	return fmt.Sprintf(" in %s (call %d)", m.said(m.rank), m.calls-m.first)
}

// Refuse fails the group because this rank cannot make its call.
func (m *Member) Refuse(text string) { _ = m.Fail(Failure{Kind: Refusal, Text: text}) }

// Disagree fails the group with a text that names both sides.
func (m *Member) Disagree(text string) error { return m.Fail(Failure{Kind: Disagreement, Text: text}) }

// Fail makes f the failure of the group, unless there is one, and returns the
// one that counts. Any goroutine may call it.
func (m *Member) Fail(f Failure) error { return m.board.header.failure.Leave(f).Err() }

// Failed tells whether the group has failed, at the cost of one load.
func (m *Member) Failed() bool { return m.board.header.failure.Left() }

// Ended is what ended the group, nil while nothing has.
func (m *Member) Ended() *Failure { return m.board.header.failure.Read() }

// Failure is the error of what ended the group, or nil.
func (m *Member) Failure() error {
	if f := m.Ended(); f != nil {
		return f.Err()
	}
	return nil
}

// FailureIn is the failure as a rank sees it that waits for what doing says, ""
// the present collective; where another rank's call is the cause, it names both.
func (m *Member) FailureIn(doing string) error {
	if doing != "" || m.calls == 0 {
		return m.Failure()
	}
	return m.failureIn(m.said(m.rank))
}

func (m *Member) failureIn(call string) error {
	f := m.board.header.failure.read()
	if f.Kind == Refusal {
		f.Text += fmt.Sprintf("; rank %d calls %s", m.rank, call)
	}
	return f.Err()
}

// Notice is what ended a group, in the memory that its ranks share: the first one
// that is left counts.
type Notice struct {
	// Whoever takes claimed writes the rest and then sets written; others read it
	// only after they have seen that.
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
	// claimLimit is how long the one that took the claim may take to write: it may
	// have died before it did.
	claimLimit = time.Second
)

// Leave leaves a notice, unless there is one, and returns the one that counts.
func (n *Notice) Leave(f Failure) *Failure {
	if !n.claimed.CompareAndSwap(0, 1) {
		for until := time.Now().Add(claimLimit); !n.Left(); yield() {
			if time.Now().After(until) {
				return &f
			}
		}
		return n.read()
	}
	n.kind, n.rank, n.pid = uint32(f.Kind), int32(f.Rank), int32(f.PID)
	if f.Dead {
		n.kind |= deadBit
	}
	n.length = uint32(copy(n.text[:], f.Text))
	n.written.Store(1)
	return n.read()
}

// Left tells whether a notice has been left.
func (n *Notice) Left() bool { return n.written.Load() != 0 }

func (n *Notice) read() *Failure {
	return &Failure{Kind: Kind(n.kind &^ deadBit), Rank: int(n.rank), PID: int(n.pid), Dead: n.kind&deadBit != 0,
		Text: string(n.text[:min(int(n.length), len(n.text))])}
}

// Read is the notice, nil if there is none.
func (n *Notice) Read() *Failure {
	if !n.Left() {
		return nil
	}
	return n.read()
}
