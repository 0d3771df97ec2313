package syncgroup

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/kernel/vec"
)

// parker puts a rank to sleep and detects dead ranks. Goroutines and processes differ only in this.
type parker interface {
	// park sleeps while *word == seen: until unpark, the end of ctx (if it can watch it), or a bounded time. It may return
	// early.
	park(ctx context.Context, word *atomic.Uint32, seen uint32)
	// unpark wakes all ranks that sleep on word.
	unpark(word *atomic.Uint32)
	// alive reports whether a rank that has joined can still arrive.
	alive(rank int) bool
}

const (
	// spinTime is longer than the usual spread of arrival times at a collective call. After a longer wait, the cost of
	// a system call is negligible.
	spinTime = 100 * time.Microsecond
	// maxSleep limits each sleep, so that an ended context or a dead rank is noticed without a wake-up.
	maxSleep = 20 * time.Millisecond
)

// member is one rank's end of a board.
type member struct {
	board
	parker parker
	rank   int

	spin    bool       // every rank has its own core, so waiting ranks spin before they sleep
	parity  int        // the index of the slot that the next chunk uses
	closing sync.Mutex // orders Abort and Close, which unmaps the board
	closed  atomic.Bool
	release func() error
}

var _ Group = (*member)(nil)

func (m *member) Rank() int { return m.rank }
func (m *member) Size() int { return len(m.cells) }

// The kinds of a round, as added to header.arrived.
const (
	kindBarrier  = 1
	kindExchange = 1 | 1<<16
)

// Barrier releases all ranks within a few hundred nanoseconds if each has its own core. A rank that slept wakes tens of
// microseconds late. After a release that woke a rank, all ranks therefore make one more round, which they reach awake.
func (m *member) Barrier(ctx context.Context) error {
	again, err := m.round(ctx, kindBarrier, true)
	if err == nil && again {
		_, err = m.round(ctx, kindBarrier, false)
	}
	return err
}

// Exchange passes the data through the slots, one chunk per round. The first chunk carries the lengths, from which
// all ranks compute the number of rounds.
func (m *member) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	if err := checkLength(mine); err != nil {
		m.Abort(err.Error())
		return nil, err
	}
	result := make([][]byte, len(m.cells))
	for left := mine; ; {
		slots := &m.cells[m.rank].slots[m.parity]
		slots.total = int64(len(mine))
		left = left[copy(slots.data[:], left):]
		if _, err := m.round(ctx, kindExchange, false); err != nil {
			return nil, err
		}
		more := m.collect(result)
		m.parity ^= 1
		if !more {
			return result, nil
		}
	}
}

// collect appends every rank's chunk to the result and reports whether any rank has more.
func (m *member) collect(result [][]byte) (more bool) {
	for r := range m.cells {
		from := &m.cells[r].slots[m.parity]
		missing := int(from.total) - len(result[r])
		chunk := min(missing, slotBytes)
		result[r] = append(result[r], from.data[:chunk]...)
		more = more || missing > chunk
	}
	return more
}

// round arrives and returns when all ranks have arrived. The last rank to arrive opens the gate. With tighten, it also
// asks for another round if ranks spin and it had to wake one.
func (m *member) round(ctx context.Context, kind uint32, tighten bool) (again bool, err error) {
	if m.closed.Load() {
		return false, ErrClosed
	}
	head, size := m.head, uint32(len(m.cells))
	old := head.gate.Load()
	if old&gatePoisoned != 0 {
		return false, m.abortedError()
	}
	if m.cells[m.rank].rounds.Add(1) == 2 { // all have joined, so the affinity of all ranks is known
		m.spin = m.spin || m.coresForAll()
	}
	arrived := head.arrived.Add(kind)
	if arrived&0xffff != size {
		now, err := m.await(ctx, old)
		return now&gateAgain != 0, err
	}
	if exchanges := arrived >> 16; exchanges != 0 && exchanges != size {
		return false, m.abortFor(m.rank,
			fmt.Sprintf("ranks out of step: %d of %d came to an exchange, the others to a barrier", exchanges, size))
	}
	next := old&^gateAgain + gateStep
	if tighten && m.spin && head.sleepers.Load() > 0 {
		next |= gateAgain
	}
	head.arrived.Store(0)
	if !head.gate.CompareAndSwap(old, next) {
		return false, m.abortedError()
	}
	if head.sleepers.Load() > 0 {
		m.parker.unpark(&head.gate)
	}
	return next&gateAgain != 0, nil
}

// await returns the new value of the gate once it differs from old.
func (m *member) await(ctx context.Context, old uint32) (now uint32, err error) {
	gate := &m.head.gate
	defer func() {
		if err == nil && now&gatePoisoned != 0 {
			err = m.abortedError()
		}
	}()
	if m.spin {
		begin := time.Now()
		for i := 1; i%1024 != 0 || time.Since(begin) < spinTime; i++ {
			if now = gate.Load(); now != old {
				return now, nil
			}
			vec.Pause()
		}
	}
	for {
		m.head.sleepers.Add(1)
		m.parker.park(ctx, gate, old)
		m.head.sleepers.Add(-1)
		if now = gate.Load(); now != old {
			return now, nil
		}
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("waiting for ranks %v of %d: %w", m.lateRanks(), len(m.cells), cause)
			m.Abort(err.Error())
			return now, err
		}
		// A rank that opened the gate may leave at once, so check the gate again before reporting that
		// it is gone.
		if rank, why := m.goneRank(); why != "" && gate.Load() == old {
			return now, m.abortFor(rank, why)
		}
	}
}

// lateRanks returns the ranks that have not begun the current round.
func (m *member) lateRanks() (ranks []int) {
	mine := m.cells[m.rank].rounds.Load()
	for r := range m.cells {
		if m.cells[r].rounds.Load() != mine {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// goneRank returns a rank that will not arrive any more, and why.
func (m *member) goneRank() (rank int, why string) {
	for r := range m.cells {
		switch state := m.cells[r].state.Load(); {
		case r == m.rank:
		case state == stateClosed:
			return r, leftReason
		case state == stateJoined && !m.parker.alive(r):
			return r, "its process ended"
		}
	}
	return 0, ""
}

func (m *member) Abort(reason string) { _ = m.abortFor(m.rank, reason) }

// abortFor poisons the group, unless it is poisoned already, and returns the first abort.
func (m *member) abortFor(rank int, reason string) error {
	m.closing.Lock()
	defer m.closing.Unlock()
	if m.closed.Load() {
		return &AbortedError{Rank: rank, Reason: reason}
	}
	f := m.head.aborted.Post(shm.Failure{Rank: rank, Text: reason})
	if m.head.aborted.Posted() { // it is not posted if the first rank to abort died in between
		m.head.gate.Or(gatePoisoned)
		m.parker.unpark(&m.head.gate)
	}
	return &AbortedError{Rank: f.Rank, Reason: f.Text}
}

// abortedError returns the abort that was posted. It is valid once the gate is poisoned.
func (m *member) abortedError() error {
	f := m.head.aborted.Read()
	return &AbortedError{Rank: f.Rank, Reason: f.Text}
}

func (m *member) Close() error {
	m.closing.Lock()
	defer m.closing.Unlock()
	if m.closed.Swap(true) {
		return nil
	}
	m.cells[m.rank].state.Store(stateClosed)
	m.parker.unpark(&m.head.gate)
	if m.release == nil {
		return nil
	}
	return m.release()
}
