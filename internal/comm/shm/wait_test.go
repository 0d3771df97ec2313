package shm

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A peer may signal and then exit. A rank that finds it dead must check the flag once more before it
// fails.
func TestGonePeerIsLookedAtOnceMore(t *testing.T) {
	s := segment(t, BoardBytes(2))
	var ranks [2]*Member
	for r := range ranks {
		ranks[r] = Join(Membership{Segment: s, Board: BoardAt(s, 0, 2), Rank: r,
			PIDs: []int{1, 2}, World: []int{0, 1}, Crowded: true, Timeout: time.Minute})
	}
	ranks[1].Leave()
	w := ranks[0].NewFarWait(1, "a test")
	for range farPace.yields + 1 {
		if limit, err := w.Step(); limit != 0 || err != nil {
			t.Fatalf("gave up at once: %v, %v", limit, err)
		}
	}
	const want = "rank 1 (pid 2) has left the group while rank 0 waits for it in a test"
	if _, err := w.Step(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// With one thread (GOMAXPROCS=1), the peer may be waiting for a call that a goroutine of this process
// has yet to make. So a waiting rank must yield to other goroutines.
func TestWaitingLetsStartedCallsRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := segment(t, BoardBytes(2))
	m := Join(Membership{Segment: s, Board: BoardAt(s, 0, 2), PIDs: []int{1, 2}, World: []int{0, 1}, Timeout: time.Minute})
	var ran atomic.Bool
	go ran.Store(true)
	w := m.NewWait(1, "a test")
	for range nearPace.spins + 10 { // the scheduler may pick the waiting goroutine once more
		if limit, err := w.Step(); limit != 0 || err != nil {
			t.Fatalf("gave up at once: %v, %v", limit, err)
		}
	}
	if !ran.Load() {
		t.Error("it did not run")
	}
}
