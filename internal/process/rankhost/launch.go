package rankhost

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/process/launch"
)

// Launch is a running launch: a process at the host of every rank. It is to
// the caller what a launch on one host is.
type Launch struct {
	leader *Leader
	spec   Spec
	events chan launch.Event
	begun  chan error // how the start went; one value

	// The coordinator's own, until done is closed.
	id      int
	stopped bool
	started int
	open    []bool // by rank: neither done, failed nor lost
	left    int    // of these
	exits   []*launch.Exit
	logs    [][2]*os.File
	dropped [][2]int64
	outcome launch.Outcome
	err     error
	done    chan struct{}
}

func newLaunch(l *Leader, spec Spec) (*Launch, error) {
	n := len(spec.Procs)
	// Room for every Started and Exit: those who tell of them never wait.
	r := &Launch{leader: l, spec: spec, events: make(chan launch.Event, 2*n), begun: make(chan error, 1),
		open: make([]bool, n), left: n,
		exits: make([]*launch.Exit, n), logs: make([][2]*os.File, n), dropped: make([][2]int64, n), done: make(chan struct{})}
	for rank, p := range spec.Procs {
		r.open[rank] = true
		for i, path := range []string{p.Stdout, p.Stderr} {
			if path == "" {
				continue
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
			if err != nil {
				r.closeLogs()
				return nil, fmt.Errorf("opening a log: %w", err)
			}
			r.logs[rank][i] = f
		}
	}
	return r, nil
}

func (r *Launch) closeLogs() {
	for _, pair := range r.logs {
		for _, f := range pair {
			if f != nil {
				f.Close()
			}
		}
	}
}

// Events gives what happens, in order for each rank. It is closed at the end of
// the launch, and need not be read.
func (r *Launch) Events() <-chan launch.Event { return r.events }

// Stop ends the launch everywhere, see [launch.Launch]. It does not wait, and
// only the first call counts.
func (r *Launch) Stop(s launch.StopRequest) {
	r.leader.host.Do(func(time.Duration) []action { return r.stop(s) })
}

func (r *Launch) stop(s launch.StopRequest) []action {
	if r.stopped || r.left == 0 {
		return nil
	}
	s.ID = r.id
	r.stopped, r.outcome.Reason = true, s.Reason
	return r.leader.core.toAll(message{Stop: &s})
}

// Wait returns when the launch has ended and nothing of it is left at any rank host
// that can be reached. The error is a [LostError] when one cannot.
func (r *Launch) Wait() (launch.Outcome, error) {
	<-r.done
	return r.outcome, r.err
}

// Ending reports whether a rank is lost: what the others suffer from then on follows from that.
func (r *Launch) Ending() bool { return r.leader.Lost() != nil }

// hear takes what a rank says of its process.
func (r *Launch) hear(rank int, m message) []action {
	switch {
	case !r.open[rank]: // its part is over, and nobody waits for more
	case m.Output != nil:
		r.log(rank, m.Output)
	case m.Started != nil:
		r.events <- *m.Started
		if r.started++; r.started == len(r.spec.Procs) {
			r.begin(nil)
		}
	case m.Exited != nil:
		r.exits[rank] = m.Exited
		r.events <- *m.Exited
		if r.spec.StopOnFailure && m.Exited.Failed() {
			return r.stop(launch.StopRequest{Reason: m.Exited.String()})
		}
	case m.Done != nil:
		var orders []action
		if m.Done.Reason != "" { // unless all were told to, it was ended there: its agent was, or its host stood still
			orders = r.stop(launch.StopRequest{Reason: fmt.Sprintf("rank %d: %s", rank, m.Done.Reason)})
		}
		r.finish(rank, m.Done, nil)
		return orders
	case m.Failed != "":
		return r.fail(rank, fmt.Errorf("rank %d: %s", rank, m.Failed))
	}
	return nil
}

func (r *Launch) begin(err error) {
	select {
	case r.begun <- err:
	default:
	}
}

// log keeps what a process has written; what cannot be kept is counted.
func (r *Launch) log(rank int, o *output) {
	i := 0
	if o.Err {
		i = 1
	}
	if f := r.logs[rank][i]; f != nil {
		n, err := f.Write(o.Data)
		if err == nil {
			return
		}
		r.dropped[rank][i] += int64(len(o.Data) - n)
	}
}

// fail is the end of a rank's part that it has not told itself, and soon that
// of the others.
func (r *Launch) fail(rank int, err error) []action {
	orders := r.stop(launch.StopRequest{Reason: err.Error()})
	r.finish(rank, nil, err)
	return orders
}

// finish closes a rank's part; the last one closes the launch.
func (r *Launch) finish(rank int, outcome *launch.Outcome, err error) {
	if !r.open[rank] {
		return
	}
	r.open[rank] = false
	if r.err == nil {
		r.err = err
	}
	if outcome != nil {
		r.outcome.Leftovers += outcome.Leftovers
		r.outcome.Wall = max(r.outcome.Wall, outcome.Wall)
		for _, x := range outcome.Exits {
			x.Stdout.Dropped += r.dropped[rank][0]
			x.Stderr.Dropped += r.dropped[rank][1]
			r.exits[rank] = &x // now with its streams
		}
		if len(outcome.Survivors) > 0 && r.err == nil {
			r.err = fmt.Errorf("rank %d: processes %v could not be killed", rank, outcome.Survivors)
		}
	}
	if r.left--; r.left > 0 {
		return
	}
	for _, x := range r.exits {
		if x != nil {
			r.outcome.Exits = append(r.outcome.Exits, *x)
		}
	}
	r.closeLogs()
	r.leader.core.launch = nil
	r.begin(r.err)
	close(r.events)
	close(r.done)
}
