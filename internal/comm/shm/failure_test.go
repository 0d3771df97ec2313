package shm

import (
	"testing"
	"time"
)

// A notice must not be read before it is fully written, not even by a rank that tries to post its own
// at the same moment.
func TestNoticeIsReadOnceWritten(t *testing.T) {
	n := new(Notice)
	n.claimed.Store(1) // as Post does: claim first, write later
	if f := n.Read(); f != nil {
		t.Errorf("read %+v before it was written", f)
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		n.rank = 1
		n.length = uint32(copy(n.text[:], "disk full"))
		n.written.Store(1)
	}()
	if f := n.Post(Failure{Rank: 2, Text: "also"}); f.Rank != 1 || f.Text != "disk full" {
		t.Errorf("got %+v, want what rank 1 left", f)
	}
}

// A rank that has claimed the notice may die before it writes it. Readers must not wait for it
// forever.
func TestNoticeOfTheDead(t *testing.T) {
	n := new(Notice)
	n.claimed.Store(1)
	if f := n.Post(Failure{Rank: 2, Text: "gone"}); f.Rank != 2 || n.Read() != nil {
		t.Errorf("got %+v and %+v", f, n.Read())
	}
}
