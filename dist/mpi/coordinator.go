package mpi

import (
	"hash/fnv"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/comm/shm"
)

// coordinator is how the ranks of a group make sure that they make the same calls,
// and tell each other when they cannot. Its errors are those of package dist.
type coordinator interface {
	// agree returns once all ranks are known to make this call: it tells the others of it,
	// which waits for nobody, and hears what they make.
	agree(l *label) error
	tell(l *label) error
	hear(l *label) error
	// watch is for a rank that waits for a message: it tells whether the group
	// has failed, or the peer is gone. A peer that is gone may have left a
	// message, so it is not yet a failure.
	watch(peer int, doing string) (gone *shm.Failure, err error)
	// Fail ends the group, unless that has happened, and gives the reason.
	Fail(f shm.Failure) error
	Failed() bool
	Close()
}

// label is what ranks must agree on about a call.
type label struct {
	here *shm.Label
	text string
	sig  int64 // of the text; not negative, so that its opposite exists
}

func newLabel(text string) *label {
	h := fnv.New64a()
	h.Write([]byte(text))
	return &label{shm.NewLabel(text), text, int64(h.Sum64() >> 1)}
}

// meeting is who meets.
type meeting struct {
	id      string
	secret  string
	rank    int
	timeout time.Duration
	hosts   []uint64 // by rank
	world   []int    // the ranks' numbers there
}

// locate finds out where the ranks of a communicator are, which all ask.
func (m *meeting) locate(p *process, c comm, size int) (err error) {
	if m.hosts, err = p.gather(c, p.hosts[p.rank], size); err != nil {
		return err
	}
	numbers, err := p.gather(c, uint64(p.rank), size)
	m.world = lists.Map(numbers, func(n uint64) int { return int(n) })
	return err
}

func (m meeting) oneHost() bool { return len(slices.Compact(slices.Clone(m.hosts))) == 1 }

// backoff is one wait by polling: spinning, then yielding, then sleeping in
// between.
type backoff struct {
	looks int
	began time.Time
}

const (
	spinLooks  = 100                   // some tens of microseconds, the usual spread of arrival
	yieldLooks = 2000                  // looks that offer the core
	pollPause  = 50 * time.Microsecond // between later ones
	watchEvery = 32                    // looks between two at the group itself
)

// pause comes between two looks and tells how long the wait has been, which
// only a long one is asked for.
func (p *backoff) pause() (waited time.Duration) {
	p.looks++
	switch {
	case p.looks < spinLooks:
		return 0
	case p.looks < spinLooks+yieldLooks:
		shm.Yield()
	default:
		time.Sleep(pollPause)
	}
	if p.began.IsZero() {
		p.began = time.Now()
	}
	return time.Since(p.began)
}
