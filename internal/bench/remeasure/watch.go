package remeasure

import (
	"errors"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/kernbench/kernbench/internal/host/hostinfo"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Watch sees what goes on on this host while something is measured. A nil one sees
// nothing.
type Watch struct {
	of   Subject
	name string

	mu     sync.Mutex
	claim  *hostinfo.Measuring  // nil while another kernbench holds it
	taken  *hostinfo.TakenError // which
	closed bool
}

// Subject is what the run is like.
type Subject struct {
	// Local: all that it starts are descendants of this process, so that the rest is other
	// people's.
	Local bool
	// Simulated: nothing else can disturb it.
	Simulated bool
}

// NewWatch claims the host for measuring under a name.
func NewWatch(name string, of Subject) *Watch {
	w := &Watch{of: of, name: name}
	w.crowd(0)
	return w
}

// Close gives the claim back.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.claim != nil {
		w.claim.Close()
	}
}

// Crowd says that another kernbench is measuring on this host, or "".
func (w *Watch) Crowd() string {
	if w == nil {
		return ""
	}
	text, _ := w.crowd(len(w.callers()))
	return text
}

func (w *Watch) callers() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claim == nil {
		return nil
	}
	return w.claim.Others()
}

// crowd says who else is here: the holder of the claim, or who has asked for it and still
// is, or has come since the first so many and gone again.
func (w *Watch) crowd(before int) (text string, callers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claim == nil && !w.closed {
		w.settle()
	}
	if w.taken != nil {
		return w.taken.Error(), 0
	}
	if w.claim == nil {
		return "", 0 // the host cannot be claimed; nobody else can either
	}
	others := w.claim.Others()
	for i, pid := range slices.Backward(others) {
		if i >= before || pid == 0 || unix.Kill(pid, 0) == nil || unix.Kill(pid, 0) == unix.EPERM {
			return (&hostinfo.TakenError{PID: pid}).Error(), len(others)
		}
	}
	return "", len(others)
}

// settle claims the host, or finds out who has done so.
func (w *Watch) settle() {
	if w.taken != nil && w.taken.Gone != nil {
		select {
		case <-w.taken.Gone:
		default:
			return // is still here
		}
	}
	w.taken = nil
	claim, err := hostinfo.Claim(w.name)
	if !errors.As(err, &w.taken) {
		w.claim = claim
		return
	}
	if gone := w.taken.Gone; gone != nil {
		// Who comes first claims the host, and the others call there at once, whatever they are doing: else two
		// could measure side by side and not know.
		go func() {
			<-gone
			w.crowd(0)
		}()
	}
}

// Look is the state of the host when a measurement starts.
type Look struct {
	watch   *Watch
	load    hostinfo.Load
	own     uint64
	known   bool // own
	crowd   string
	callers int
}

// Start looks at the host before a measurement.
func (w *Watch) Start() *Look {
	if w == nil {
		return nil
	}
	l := &Look{watch: w}
	if !w.of.Simulated {
		l.crowd, l.callers = w.crowd(len(w.callers()))
	}
	if w.of.Local && !w.of.Simulated {
		l.own, _, l.known = hostinfo.TreeTicks(hostinfo.Root(), os.Getpid())
	}
	l.load, _ = hostinfo.Snapshot(hostinfo.Root()) // without /proc it stays 0
	return l
}

// End looks again, and says what went on since.
func (l *Look) End() *journal.Load {
	if l == nil {
		return nil
	}
	after, _ := hostinfo.Snapshot(hostinfo.Root())
	u := hostinfo.Between(l.load, after)
	load := &journal.Load{Before: l.load.Load1, After: after.Load1, Busy: u.Busy, Steal: u.Steal, Crowd: l.crowd}
	if l.known {
		if own, processes, ok := hostinfo.TreeTicks(hostinfo.Root(), os.Getpid()); ok {
			share := hostinfo.Foreign(l.load, after, own-min(own, l.own), processes)
			load.Foreign = &share
		}
	}
	if load.Crowd == "" && !l.watch.of.Simulated {
		load.Crowd, _ = l.watch.crowd(l.callers)
	}
	return load
}
