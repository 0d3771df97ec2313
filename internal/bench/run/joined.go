package run

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/kernbench/kernbench/internal/bench/plan"
	"github.com/kernbench/kernbench/internal/host/jobenv"
	"github.com/kernbench/kernbench/internal/process/launch"
	"github.com/kernbench/kernbench/internal/process/rankhost"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Joined is a job of another launcher that this process leads as rank 0. The hosts of its ranks
// start workers and programs.
type Joined struct {
	Leader   *rankhost.Leader
	Launcher jobenv.Launcher
	Size     int
	// Native means that the backend joins the launcher's own job through the launcher's variables.
	// Every rank can do that only once, so there can be only one launch.
	Native bool
}

// launched is a running launch, either on this host or at the rank hosts of a job.
type launched interface {
	Events() <-chan launch.Event
	Stop(launch.StopRequest)
	Ending() bool
	Wait() (launch.Outcome, error)
}

// processSpec holds what the processes of a launch have in common.
type processSpec struct {
	logs          string // folder of the log files
	argv          []string
	dir           string            // working directory; "" for the current one
	extra         map[string]string // variables besides the planned ones
	files         []*os.File        // files that the processes have as descriptors 3, 4, ...
	watch         []string          // variables whose values the processes report
	stopOnFailure bool              // the first failing process ends the others
	passOn        []syscall.Signal  // signals to forward to the processes
}

// joined reports whether the group's processes are the ranks of a joined job.
func (r *runner) joined(g *plan.Group) bool {
	return r.opts.Joined != nil && g.Ranks > 0 && r.plan.Processes(g) == r.opts.Joined.Size
}

// start launches a group's processes: on this host, or at the rank hosts of a job, which exists or which a launcher
// starts for this launch.
func (s *runSlot) start(ctx context.Context, g *plan.Group, p processSpec) (launched, error) {
	spec, err := s.processes(g, p)
	if err != nil {
		return nil, err
	}
	var l launched
	switch {
	case s.joined(g):
		l, err = s.opts.Joined.Leader.Launch(ctx, spec)
	case s.guarded(g):
		l, err = s.startGuarded(ctx, g, p, spec)
	default:
		l, err = s.agent.Launch(ctx, spec)
	}
	if err != nil {
		return nil, err // and not an interface that holds a nil pointer
	}
	return l, nil
}

// guarded reports whether the group's processes are the ranks of a launcher, each under a guard.
func (r *runner) guarded(g *plan.Group) bool { return r.opts.Launcher != nil && g.Ranks > 0 }

// jobError is the reason why a run cannot continue: a joined job has lost a rank, or inputs have
// changed. The remaining tasks get no rows, so that --resume can run them.
type jobError struct{ reason string }

func (e *jobError) Error() string { return e.reason }

// checkJob returns an error if the rest of a group cannot run in a joined job, because a rank is
// lost or because the ranks would have to join the launcher's job a second time.
func (s *runSlot) checkJob(b *backlog) error {
	job := s.opts.Joined
	if job == nil {
		return nil
	}
	if lost := job.Leader.Lost(); lost != nil {
		return &jobError{lost.Error()}
	}
	if job.Native && s.native == b.group {
		return &jobError{fmt.Sprintf("ranks started by %s cannot be replaced", job.Launcher)}
	}
	return nil
}

// skipSecondJoin records the tasks of a group as skipped if its ranks would have to join the launcher's
// job a second time, and reports whether it did.
func (s *runSlot) skipSecondJoin(b *backlog) (bool, error) {
	job := s.opts.Joined
	if job == nil || !job.Native || s.native == nil || s.native == b.group || b.group.Part.Command != nil {
		return false, nil
	}
	for _, a := range b.take(b.left()) {
		row := s.row(a.task)
		row.Status = journal.Skipped
		row.Reason = journal.Textf("needs respawn: backend %s joins the job of %s once, with one environment; "+
			"for the others, start kernbench on its own with --launcher %s", s.plan.Backend, job.Launcher, job.Launcher)
		if _, err := s.finishAttempt(a, row); err != nil {
			return true, err
		}
	}
	return true, nil
}

// lost returns the lost rank host, or nil if there is none or the group does not use any.
func (r *runner) lost(g *plan.Group) *rankhost.LostError {
	if !r.joined(g) {
		return nil
	}
	return r.opts.Joined.Leader.Lost()
}

// lostRank returns the failure for a launch that ended because a rank host was lost, or nil.
func (w *workerGroup) lostRank() *failure {
	if lost := w.slot.lost(w.group); lost != nil {
		return w.lossFailure(lost)
	}
	return nil
}

// In a joined job, an interrupt often comes from a launcher that kills this process one second later.
// Both limits together must be shorter than that.
const (
	interruptLimit = 500 * time.Millisecond // for finding the cause of an interrupt
	endingLimit    = 300 * time.Millisecond // for running processes to end
)

// partOfInterrupt reports whether the end of a process is part of the end of the whole job. A batch
// system signals all processes of a job, and they react in any order.
func (r *runner) partOfInterrupt(ctx context.Context, g *plan.Group, e launch.Event) bool {
	x, exit := e.(launch.Exit)
	if !r.joined(g) || e != nil && !exit || exit && !x.Stopped && !isEndSignal(x.Signal) {
		return false
	}
	select {
	case <-ctx.Done():
		return true
	case <-time.After(interruptLimit):
		return false
	}
}

// isEndSignal reports whether a signal asks a process to end.
func isEndSignal(sig syscall.Signal) bool {
	return sig == syscall.SIGTERM || sig == syscall.SIGINT || sig == syscall.SIGHUP
}

// awaitEnd waits until the launch has ended or the limit is over, and reports whether it has ended. A
// limit of 0 means no limit. If the whole job is being ended, awaitEnd waits at most endingLimit: the
// rank hosts kill their processes when this process is gone. The outcome of the launch is ignored,
// because the row already has a reason or needs none.
func (w *workerGroup) awaitEnd(limit time.Duration) (ended bool) {
	if limit == 0 && !w.ending() {
		w.launch.Wait()
		return true
	}
	if w.ending() {
		limit = endingLimit
	}
	end := make(chan struct{})
	go func() { w.launch.Wait(); close(end) }()
	select {
	case <-end:
		return true
	case <-time.After(limit):
		return false
	}
}

// interruptCause looks for a failure that caused an interrupt in a joined job. A launcher that sees a
// rank die ends all others, including this process. Since the loss may be reported last, the interrupt
// has no such cause only after every rank host has reported the end of its process. It then returns nil.
func (w *workerGroup) interruptCause() *failure {
	if !w.slot.joined(w.group) {
		return nil
	}
	limit := time.After(interruptLimit)
	stopped := false // the interrupt has ended a process
	for {
		select {
		case e := <-w.events:
			x, is := e.(launch.Exit)
			stopped = stopped || is && x.Stopped
			switch {
			case stopped && e == nil:
				return w.lostRank()
			case is && (x.Stopped || isEndSignal(x.Signal)):
				stopped = true
				if f := w.lostRank(); f != nil {
					return f
				}
			default:
				if f := w.processEvent(e); f != nil || e == nil {
					return f
				}
			}
		case e := <-w.hub.Events():
			w.updateRank(e)
		case <-limit:
			return w.lostRank()
		}
	}
}
